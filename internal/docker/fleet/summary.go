package fleet

import (
	"regexp"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
)

// stateAndHealthOf returns the state and health of a container in a list.
func stateAndHealthOf(l *container.Summary) stateAndHealth {
	w := stateAndHealth{state: l.State}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil && l.State == container.StateRunning {
		w.health = found[1]
	}
	return w
}

// StatusOfSummary converts a container in a list. The status has no start time, and a health state only if the container is
// running.
func StatusOfSummary(l *container.Summary, r *Rules) Status {
	state := &container.State{Status: l.State, Running: l.State == container.StateRunning, Paused: l.State == container.StatePaused}
	if health := stateAndHealthOf(l).health; health != "" {
		// A list has no failing streak. It shows unhealthy only after a failed check.
		state.Health = &container.Health{Status: health, FailingStreak: 1}
	}
	c := &container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{ID: l.ID, State: state},
		Config:            &container.Config{Labels: l.Labels, Image: l.Image},
	}
	c.Name = "/" + OwnName(l.Names)
	if l.Created > 0 {
		c.Created = time.Unix(l.Created, 0).UTC().Format(time.RFC3339Nano)
	}
	state.ExitCode = unknownExitCode
	if found := summaryExit.FindStringSubmatch(l.Status); found != nil {
		if code, err := strconv.Atoi(found[1]); err == nil {
			state.ExitCode = code
		}
	}
	return statusOf(c, r)
}

// summaryHealth matches the health of a container in a list, such as "Up 2 hours (unhealthy)".
var summaryHealth = regexp.MustCompile(`\((?:health: )?(healthy|unhealthy|starting)\)`)

// summaryExit matches the exit code of a container in a list, such as "Exited (137) 2 hours ago".
var summaryExit = regexp.MustCompile(`^Exited \((\d+)\)`)
