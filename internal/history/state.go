package history

import (
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// State is how a service or container is.
type State uint8

// The states. A subject is not watched while nothing is known of it.
const (
	Up State = iota
	Degraded
	Down
	Maintenance
	NotWatched
	states
)

var stateNames = [states]string{"up", "degraded", "down", "maintenance", "not_watched"}

// String returns the state's name, as in JSON.
func (s State) String() string {
	if s >= states {
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

// rules decide on states, from the facts and the judgement of one moment.
type rules struct {
	facts      *health.Facts
	judgement  *health.Judgement
	maintained map[health.Subject]bool
	// impaired are the subjects with an alert.
	impaired map[health.Subject]bool
}

func (r *rules) reset(f *health.Facts, j *health.Judgement) {
	if r.maintained == nil {
		r.maintained, r.impaired = map[health.Subject]bool{}, map[health.Subject]bool{}
	}
	r.facts, r.judgement = f, j
	clear(r.maintained)
	clear(r.impaired)
	for _, s := range f.Maintenance {
		r.maintained[s] = true
	}
	for i := range j.Problems {
		if p := &j.Problems[i]; p.Severity >= health.Warning {
			r.impaired[p.Subject] = true
		}
	}
}

// ofTarget returns a target's state. It is under maintenance with its container, too.
func (r *rules) ofTarget(t *health.Target, s health.Subject) State {
	server := r.judgement.Servers[t.Name].Container
	switch {
	case r.maintained[s], server != "" && r.maintained[health.ContainerSubject("", server)]:
		return Maintenance
	case !t.Read:
		return NotWatched
	case !t.Up:
		return Down
	case r.impaired[s]:
		return Degraded
	}
	return Up
}

// ofContainer returns the state of a container on an engine that was read. A container that was stopped on purpose is not watched.
func (r *rules) ofContainer(c *health.Container, s health.Subject) State {
	switch {
	case r.maintained[health.ContainerSubject("", c.Name)]:
		return Maintenance
	case c.State == health.Missing, c.Down():
		return Down
	case c.State != health.Running:
		return NotWatched
	case r.impaired[s]:
		return Degraded
	}
	return Up
}

// noticed returns when the exporter noticed a target's state: when the reading ended that changed its verdict, else now.
func (known *subject) noticed(t *health.Target, now time.Time) time.Time {
	if t.Read && (!known.read || known.readUp != t.Up) {
		return t.ReadAt
	}
	return now
}
