package app

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// memories keeps the judge's memory in the state file, with a value for each thing that is remembered, since a flap must not write what is
// remembered of all others.
type memories struct {
	group  *state.Group
	former *state.Value // all in one, of an earlier build
}

func memoriesIn(f *state.File) memories { return memories{f.Group("judge"), f.Value("problems")} }

// lastUpStep is how exactly the time is kept when a target was last up, since it changes at every probe.
const lastUpStep = 5 * time.Minute

// Put saves a memory without waiting for the disk.
func (k memories) Put(m *health.Memory) error {
	all := map[string]any{"saved": m.Saved}
	of := func(section string, s health.Subject, more ...string) string {
		return strings.Join(append([]string{section, s.Kind, s.Host, s.Name}, more...), "/")
	}
	for i := range m.Problems {
		p := &m.Problems[i]
		all[of("problem", p.Subject, p.Alert, p.Of, p.Severity.String())] = p
	}
	for i := range m.Restarts {
		all[of("restarts", m.Restarts[i].Subject)] = &m.Restarts[i]
	}
	for i := range m.Unavailable {
		all[of("unavailable", m.Unavailable[i].Subject)] = &m.Unavailable[i]
	}
	for i := range m.Failures {
		all["failures/"+m.Failures[i].Target] = &m.Failures[i]
	}
	for target, at := range m.LastUp {
		all["well/"+target] = at.Truncate(lastUpStep)
	}
	for target, home := range m.Homes {
		all["home/"+target] = home
	}
	err := k.group.Put(all)
	k.former.Forget() // after it, in case the end comes in between
	return err
}

// Load returns the memory of the former process.
func (k memories) Load() (m health.Memory, err error) {
	if err := k.former.Load(&m); err != nil || !m.Saved.IsZero() {
		return m, err
	}
	for name, raw := range k.group.Load() {
		section, target, _ := strings.Cut(name, "/")
		switch section {
		case "saved":
			err = json.Unmarshal(raw, &m.Saved)
		case "problem":
			m.Problems, err = more(m.Problems, raw)
		case "restarts":
			m.Restarts, err = more(m.Restarts, raw)
		case "unavailable":
			m.Unavailable, err = more(m.Unavailable, raw)
		case "failures":
			m.Failures, err = more(m.Failures, raw)
		case "well":
			m.LastUp, err = with(m.LastUp, target, raw)
		case "home":
			m.Homes, err = with(m.Homes, target, raw)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// more appends a value to a list.
func more[T any](list []T, raw []byte) ([]T, error) {
	var value T
	err := json.Unmarshal(raw, &value)
	return append(list, value), err
}

// with adds a value to a map.
func with[T any](values map[string]T, key string, raw []byte) (map[string]T, error) {
	if values == nil {
		values = map[string]T{}
	}
	var value T
	err := json.Unmarshal(raw, &value)
	values[key] = value
	return values, err
}
