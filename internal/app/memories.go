package app

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
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

// roughly is how exactly times are kept that change all the time: when a target was last up, and when memory was saved. The past says
// exactly when the process ended.
const roughly = 5 * time.Minute

// Put saves a memory without waiting for the disk.
func (k memories) Put(m *health.Memory) error {
	all := map[string]any{"saved": m.Saved.Truncate(roughly)}
	of := func(section string, s health.Subject) string {
		return strings.Join([]string{section, s.Kind, s.Host, s.Name}, "/")
	}
	for _, p := range m.Problems {
		all[problemName(&p)] = p.Record() // without what the name says, since a flap writes it
	}
	for _, r := range m.Restarts {
		all[of("restarts", r.Subject)] = r
	}
	for _, s := range m.Unavailable {
		all[of("unavailable", s.Subject)] = s
	}
	for _, o := range m.Outages {
		all[of("outages", o.Subject)] = o
	}
	for _, f := range m.Failures {
		for _, c := range f.Counts { // each for itself, as only the newest changes
			name := "failed/" + f.Target + "/" + strconv.FormatInt(c.At.UnixMilli(), 10)
			c.At = time.Time{}
			all[name] = c
		}
		name := "failures/" + f.Target
		f.Target, f.Counts = "", nil
		all[name] = f
	}
	for target, at := range m.LastUp {
		all["well/"+target] = at.Truncate(roughly)
	}
	for target, home := range m.Homes {
		all["home/"+target] = home
	}
	for target, place := range m.Places {
		all["place/"+target] = place
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
	group := k.group.Load()
	for name, raw := range group {
		section, target, _ := strings.Cut(name, "/")
		switch section {
		case "saved":
			err = json.Unmarshal(raw, &m.Saved)
		case "problem":
			if m.Problems, err = more(m.Problems, raw); err == nil {
				err = identify(&m.Problems[len(m.Problems)-1], target)
			}
		case "restarts":
			m.Restarts, err = more(m.Restarts, raw)
		case "unavailable":
			m.Unavailable, err = more(m.Unavailable, raw)
		case "outages":
			m.Outages, err = more(m.Outages, raw)
		case "failures":
			m.Failures, err = more(m.Failures, raw)
			m.Failures[len(m.Failures)-1].Target = target
		case "well":
			m.LastUp, err = with(m.LastUp, target, raw)
		case "home":
			m.Homes, err = with(m.Homes, target, raw)
		case "place":
			m.Places, err = with(m.Places, target, raw)
		}
		if err != nil {
			return m, err
		}
	}
	return m, loadCounts(&m, group)
}

// problemName is the name of the value of a problem.
func problemName(p *health.SavedProblem) string {
	parts := []string{p.Kind, p.Host, p.Name, p.Alert, p.Of, p.Severity.String()}
	for i, part := range parts {
		parts[i] = url.PathEscape(part)
	}
	return "problem/" + strings.Join(parts, "/")
}

// identify sets what the rest of such a name says.
func identify(p *health.SavedProblem, name string) error {
	parts := strings.Split(name, "/")
	if len(parts) != 6 {
		return fmt.Errorf("%q names no problem", name)
	}
	for i, part := range parts {
		var err error
		if parts[i], err = url.PathUnescape(part); err != nil {
			return err
		}
	}
	p.Subject, p.Alert, p.Of = health.Subject{Kind: parts[0], Host: parts[1], Name: parts[2]}, parts[3], parts[4]
	return p.Severity.UnmarshalText([]byte(parts[5]))
}

// loadCounts adds the counts to the failures, the oldest first.
func loadCounts(m *health.Memory, group map[string]json.RawMessage) (err error) {
	for _, name := range slices.Sorted(maps.Keys(group)) {
		rest, ours := strings.CutPrefix(name, "failed/")
		cut := strings.LastIndexByte(rest, '/')
		i := slices.IndexFunc(m.Failures, func(f health.SavedFailures) bool { return ours && cut >= 0 && f.Target == rest[:cut] })
		if i < 0 {
			continue
		}
		f := &m.Failures[i]
		if f.Counts, err = more(f.Counts, group[name]); err != nil {
			return err
		}
		milli, err := strconv.ParseInt(rest[cut+1:], 10, 64)
		if err != nil {
			return err
		}
		f.Counts[len(f.Counts)-1].At = time.UnixMilli(milli)
	}
	return nil
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
