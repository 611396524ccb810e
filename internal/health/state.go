package health

import (
	"fmt"
	"slices"
)

// State is how a target or container is.
type State uint8

// The states. A subject is not watched while nothing is known of it.
const (
	Up State = iota
	Degraded
	Down
	Maintenance
	NotWatched
	States // how many there are
)

var stateNames = [States]string{"up", "degraded", "down", "maintenance", "not_watched"}

// String returns the state's name, as in JSON.
func (s State) String() string {
	if s >= States {
		return fmt.Sprintf("State(%d)", uint8(s))
	}
	return stateNames[s]
}

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(text []byte) error {
	i := slices.Index(stateNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("unknown state %q", text)
	}
	*s = State(i)
	return nil
}

// stateOfTarget returns a target's state, and why. It is under maintenance with its container, too. impaired are the alerts on subjects.
func (s *scene) stateOfTarget(t *target, impaired map[Subject]string) (State, string) {
	switch {
	case s.maintained[t.subject], s.containerMaintained(t):
		return Maintenance, ""
	case !t.Read:
		return NotWatched, ""
	case !t.Up:
		return Down, t.Reason
	case impaired[t.subject] != "":
		return Degraded, impaired[t.subject]
	}
	return Up, ""
}

// stateOfContainer returns the state of a container on an engine that was read, and why. One that was stopped on purpose is not watched.
func (s *scene) stateOfContainer(c *Container, impaired map[Subject]string) (State, string) {
	switch {
	case s.underMaintenance(c.Subject()):
		return Maintenance, ""
	case c.State == Missing, c.Down() && !c.partly():
		return Down, c.State
	case c.State != Running:
		return NotWatched, c.State
	case impaired[c.Subject()] != "":
		return Degraded, impaired[c.Subject()]
	}
	return Up, ""
}
