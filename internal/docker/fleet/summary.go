package fleet

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/go-units"
)

// wordsOf are what a list says of a container, to be compared with what is known.
func wordsOf(l *container.Summary) summaryWords {
	w := summaryWords{state: l.State}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil && l.State == container.StateRunning {
		w.health = strings.TrimPrefix(found[1], "health: ")
	}
	return w
}

// Span is two moments by the engine's clock that something happened between; zero where the engine does not tell.
type Span struct{ From, To time.Time }

// Age is how a list's age of a container's present run, or of the end of its last one, compares with what is known.
type Age int

const (
	// ageUntold means that the list tells none, or in words of its own.
	ageUntold Age = iota
	// AgeAgrees means that no other run has begun, or ended, since the container was described.
	AgeAgrees
	// AgeTooCoarse means that another run may have begun so soon after the known one that both are of one age in the list's words.
	AgeTooCoarse
	ageDiffers
)

// ageSlack is by how much the age in a list may be beside the one that is known, for clocks that are set while they run.
const ageSlack = time.Second

// CompareAge compares the age that a list tells of a member's run, unless lists have told it by another clock.
func (c *Member) CompareAge(l *container.Summary, made Span) Age {
	if c.ages.lie {
		return ageUntold
	}
	return c.Status.compareAge(l, made, c.ages.described)
}

// compareAge compares the age that a list tells of a container's run with the one that is known from a description that was
// made then, at the earliest. A list tells it in words, "About an hour", which get coarser as a run gets older: two runs may
// be of the same age in them if the second one began before the first one was as old as the words are coarse. A run that
// the description does not tell of began after it. So an age which agrees proves that there was no other run, if the known
// one was older than that when it was described. All of these are times by the engine's clock.
func (s *Status) compareAge(l *container.Summary, made Span, described time.Time) Age {
	words, exit, told := ageOf(l)
	begun := s.Started
	if l.State == container.StateExited {
		begun = s.Ended
	}
	coarse := coarseness(words)
	if !told || coarse == 0 || begun.IsZero() || made.From.IsZero() || described.IsZero() {
		return ageUntold
	}
	if l.State == container.StateExited && s.Stopped && exit != s.ExitCode {
		return ageDiffers
	}
	least, most := made.From.Sub(begun)-ageSlack, made.To.Sub(begun)+ageSlack
	switch {
	case most < 0:
		return ageUntold // the engine's clock was set back, and counts such an age as none
	case !hasWords(words, least, most):
		return ageDiffers
	case described.Sub(begun) < coarse+most-least:
		return AgeTooCoarse
	}
	return AgeAgrees
}

// hasWords reports whether the engine puts a time between the two into these words.
func hasWords(words string, least, most time.Duration) bool {
	for d := least; d < most; d += time.Second {
		if units.HumanDuration(d) == words {
			return true
		}
	}
	return units.HumanDuration(most) == words
}

// ageOf are the words in which a list tells how long ago a container's run began, or ended with that exit code.
func ageOf(l *container.Summary) (words string, exit int, told bool) {
	switch l.State {
	case container.StateRunning, container.StatePaused:
		words, told = strings.CutPrefix(l.Status, "Up ")
		words, _, _ = strings.Cut(words, " (") // what follows is the health, or that it is paused
		return words, unknownExitCode, told
	case container.StateExited:
		rest, found := strings.CutPrefix(l.Status, "Exited (")
		code, rest, closed := strings.Cut(rest, ") ")
		words, told = strings.CutSuffix(rest, " ago")
		exit, err := strconv.Atoi(code)
		return words, exit, found && closed && told && err == nil
	}
	return "", unknownExitCode, false
}

// coarseness is how much two times may differ that have the same words; 0 for what is no time in words.
func coarseness(words string) time.Duration {
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

// StatusOfSummary reads what a list says of a container. It does not know when the container was started; and of a container in
// any state but running, the list says no health.
func StatusOfSummary(l *container.Summary, r *Rules) Status {
	state := &container.State{Status: l.State, Running: l.State == container.StateRunning, Paused: l.State == container.StatePaused}
	if found := summaryHealth.FindStringSubmatch(l.Status); found != nil {
		status := strings.TrimPrefix(found[1], "health: ")
		// The list has no failing streak. It says unhealthy only of a container that was found so.
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

// summaryHealth is how a list tells the health of a container: in words for people, such as "Up 2 hours (unhealthy)".
var summaryHealth = regexp.MustCompile(`\((healthy|unhealthy|health: starting)\)`)

// summaryExit is how a list tells the exit code, such as "Exited (137) 2 hours ago".
var summaryExit = regexp.MustCompile(`^Exited \((\d+)\)`)
