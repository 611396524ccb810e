package fleet

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"
)

// stateAndHealthOf returns the state and health of a container in a list.
func stateAndHealthOf(l *container.Summary) stateAndHealth {
	w := stateAndHealth{state: l.State}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil && l.State == container.StateRunning {
		w.health = strings.TrimPrefix(found[1], "health: ")
	}
	return w
}

// Span is the earliest and the latest time of an event by the engine's clock; zero if unknown.
type Span struct{ From, To time.Time }

// Age is the result of comparing the age of a run in a list with the container's description. The age counts from the start of
// the current run, or from the end of the last one.
type Age int

const (
	// ageUnknown means that the list has no age, or one in an unknown format.
	ageUnknown Age = iota
	// AgeAgrees means that no other run has begun or ended since the description.
	AgeAgrees
	// AgeTooCoarse means that the ages agree, but a second run soon after the described one would have the same age in the list.
	AgeTooCoarse
	ageDiffers
)

// ageSlack is how much the two ages may differ and still agree, because clocks are adjusted while they run.
const ageSlack = time.Second

// CompareAge compares the age of a member's run in a list with the last description. It returns ageUnknown if lists use another
// clock than descriptions.
func (c *Member) CompareAge(l *container.Summary, made Span) Age {
	if c.listAges.unreliable {
		return ageUnknown
	}
	return c.Status.compareAge(l, made, c.listAges.describedAt)
}

// compareAge compares the age of a run in a list with a description that was made at described or later. All times are by the
// engine's clock.
//
// A list has the age in words, such as "About an hour", which get less precise as a run gets older. Two runs have the same age in
// words only if they began within that precision of each other. A run that the description does not show began after it. So if
// the ages agree, and the described run was already older than the precision, there was no other run.
func (s *Status) compareAge(l *container.Summary, made Span, described time.Time) Age {
	words, exit, ok := parseAge(l)
	begun := s.Started
	if l.State == container.StateExited {
		begun = s.Ended
	}
	precision := precisionOf(words)
	if !ok || precision == 0 || begun.IsZero() || made.From.IsZero() || described.IsZero() {
		return ageUnknown
	}
	if l.State == container.StateExited && s.Stopped && exit != s.ExitCode {
		return ageDiffers
	}
	least, most := made.From.Sub(begun)-ageSlack, made.To.Sub(begun)+ageSlack
	switch {
	case most < 0:
		return ageUnknown // the engine's clock was set back
	case !rendersAs(words, least, most):
		return ageDiffers
	case described.Sub(begun) < precision+most-least:
		return AgeTooCoarse
	}
	return AgeAgrees
}

// rendersAs reports whether the engine describes any duration between least and most in these words.
func rendersAs(words string, least, most time.Duration) bool {
	for d := least; d < most; d += time.Second {
		if units.HumanDuration(d) == words {
			return true
		}
	}
	return units.HumanDuration(most) == words
}

// parseAge returns the words in which a list says how long ago a container's run began, or ended with that exit code.
func parseAge(l *container.Summary) (words string, exit int, ok bool) {
	switch l.State {
	case container.StateRunning, container.StatePaused:
		words, ok = strings.CutPrefix(l.Status, "Up ")
		words, _, _ = strings.Cut(words, " (") // followed by the health, or by "Paused"
		return words, unknownExitCode, ok
	case container.StateExited:
		code, opened := strings.CutPrefix(l.Status, "Exited (")
		code, words, closed := strings.Cut(code, ") ")
		words, ok = strings.CutSuffix(words, " ago")
		exit, err := strconv.Atoi(code)
		return words, exit, opened && closed && ok && err == nil
	}
	return "", unknownExitCode, false
}

// precisionOf returns how much two durations with the same words may differ; 0 if the words are not a duration.
func precisionOf(words string) time.Duration {
	const day = 24 * time.Hour
	unit := strings.TrimSuffix(words[strings.LastIndexByte(words, ' ')+1:], "s")
	switch unit {
	case "second":
		return time.Second
	case "minute":
		return time.Minute
	case "hour":
		return time.Hour
	case "day":
		return day
	case "week":
		return 7 * day
	case "month":
		return 30 * day
	case "year":
		return 365 * day
	}
	return 0
}

// StatusOfSummary converts a container in a list. The status has no start time, and a health state only if the container is
// running.
func StatusOfSummary(l *container.Summary, r *Rules) Status {
	state := &container.State{Status: l.State, Running: l.State == container.StateRunning, Paused: l.State == container.StatePaused}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil {
		status := strings.TrimPrefix(found[1], "health: ")
		// A list has no failing streak. It shows unhealthy only after a failed check.
		state.Health = &container.Health{Status: status, FailingStreak: 1}
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
var summaryHealth = regexp.MustCompile(`\((healthy|unhealthy|health: starting)\)`)

// summaryExit matches the exit code of a container in a list, such as "Exited (137) 2 hours ago".
var summaryExit = regexp.MustCompile(`^Exited \((\d+)\)`)
