package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

const (
	// sweepEvery is how often histories are looked through for those that nobody adds to any more.
	sweepEvery = time.Hour
)

// memory is what must be known of the past to tell of the present. It is for one goroutine at a time.
type memory struct {
	families    map[string]*families // by target
	services    map[string]*remembered
	containers  map[place]*pastContainer
	gone        map[place]time.Time // containers that the engine tells of no more, and when it did last
	rates       map[string]*rate    // of failed logins, by target
	holds       holds
	series      map[string]*series
	transitions changes
	level       Level
	since       time.Time
	sweep       time.Time // when to look through series next
}

// remembered is what is known of a service's or container's past.
type remembered struct {
	state string
	since time.Time
	// failures is how many readings had failed when the service was last looked at.
	failures uint64
	// atTheStart says that the state is the one that was found first.
	atTheStart bool
	// impaired says that it answers, and something is wrong all the same.
	impaired bool
	begun    beginnings
}

func newMemory() memory {
	return memory{
		families: map[string]*families{}, services: map[string]*remembered{}, containers: map[place]*pastContainer{}, gone: map[place]time.Time{},
		rates: map[string]*rate{}, holds: holds{}, series: map[string]*series{}, level: -1,
	}
}

// report makes the report of an input.
func (m *memory) report(in Input, now time.Time) *Report {
	r := &Report{
		Edition: Edition{Made: now, Time: in.Snapshot.Time}, Maintenance: in.Maintenance, NotConfigured: orEmpty(in.Unconfigured), LeftToFirst: in.LeftToFirst,
		Services: make([]Service, 0, len(in.Snapshot.Statuses)),
	}
	if r.Maintenance == nil {
		r.Maintenance = orEmpty(r.Maintenance)
	}
	if in.ReloadError != nil {
		r.ConfigError = in.ReloadError.Error()
	}
	if in.Alive != nil {
		r.Stale = in.Alive.Error()
	}
	targets := m.observed(in.Snapshot)
	all := m.fleet(&in, targets)
	r.Containers, r.ContainersLeftOut = m.tellContainers(&in, all, targets, now)
	for i := range targets {
		r.Services = append(r.Services, m.service(&in, &targets[i], all, now))
	}
	slices.SortStableFunc(r.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), a.loss()-b.loss(), cmp.Compare(a.Name, b.Name))
	})
	r.Thresholds = m.thresholds(&in, r, all, targets, now)
	if r.Stale != "" {
		r.outdate()
	}
	m.judge(r, now)
	r.Transitions = slices.Clone(orEmpty(m.transitions.list))
	r.TransitionsLeftOut = m.transitions.left
	m.forget(now)
	return r
}

// observed takes what a snapshot has of each target, and forgets targets that are gone.
func (m *memory) observed(s *poll.Snapshot) []observed {
	targets := make([]observed, len(s.Statuses))
	present := make(map[string]bool, len(targets))
	for i := range s.Statuses {
		present[s.Statuses[i].Target] = true
	}
	gone := func(name string) bool { return !present[name] }
	maps.DeleteFunc(m.families, func(name string, _ *families) bool { return gone(name) })
	maps.DeleteFunc(m.services, func(name string, _ *remembered) bool { return gone(name) })
	maps.DeleteFunc(m.rates, func(name string, _ *rate) bool { return gone(name) })
	for i := range s.Statuses {
		name := s.Statuses[i].Target
		f := m.families[name]
		if f == nil {
			f = &families{}
			m.families[name] = f
		}
		if i < len(s.Families) {
			f.renew(s.Families[i])
		}
		targets[i] = observed{s.Statuses[i], f}
	}
	return targets
}

// judge sets what the report says of the whole.
func (m *memory) judge(r *Report, now time.Time) {
	worst := OK
	if len(r.Services) == 0 {
		worst = Unknown
	}
	for i := range r.Services {
		worst = max(worst, r.Services[i].Level)
	}
	for i := range r.Containers {
		worst = max(worst, r.Containers[i].Level)
	}
	for i := range r.Thresholds {
		if t := &r.Thresholds[i]; t.Level != Unknown { // that nobody measures it is no fault of the stack
			worst = max(worst, t.Level)
		}
	}
	if r.ConfigError != "" {
		worst = max(worst, Warning)
	}
	if r.Stale != "" {
		worst = Critical
	}
	if worst != m.level {
		m.level, m.since = worst, now
	}
	r.Level, r.Since = m.level, m.since
	var began beginning
	if r.Summary, began = summary(r); !began.at.IsZero() {
		r.Since, r.SinceAtLeast = began.at, began.atLeast // the summary and its age stand beside each other
	}
}

// outdate says of everything that it is not known any more, since polling stands still.
func (r *Report) outdate() {
	for i := range r.Services {
		s := &r.Services[i]
		s.Text = "nobody asks any more; before, it was " + s.State
		s.ProblemSince, s.ProblemSinceAtLeast = time.Time{}, false
		s.State, s.Level, s.Hint, s.Values = waiting, Unknown, "", []Value{}
	}
	for i := range r.Containers {
		c := &r.Containers[i]
		c.Text = "nobody asks any more; before, it was " + c.words()
		c.ProblemSince, c.ProblemSinceAtLeast = time.Time{}, false
		c.State, c.Health, c.Level, c.Hint, c.Values = "unknown", "none", Unknown, "", []Value{}
	}
	for i := range r.Thresholds {
		t := &r.Thresholds[i]
		t.Present, t.Distance, t.Pending, t.Since, t.Level, t.Text = nil, nil, false, time.Time{}, Unknown, "nobody measures it any more"
	}
}

// chart notes a value of a history, and returns the name where the history can be had.
func (m *memory) chart(charts []string, name, title, unit string, k keep, now time.Time, v float64) []string {
	s := m.series[name]
	if s == nil {
		if len(m.series) >= maxSeries {
			return charts
		}
		s = newSeries(title, unit, k, now)
		m.series[name] = s
	}
	s.add(now, v)
	return append(charts, name)
}

// forget drops the histories of what has been gone for a day.
func (m *memory) forget(now time.Time) {
	if now.Before(m.sweep) {
		return
	}
	m.sweep = now.Add(sweepEvery)
	m.holds.forget(now)
	maps.DeleteFunc(m.gone, func(_ place, last time.Time) bool { return now.Sub(last) > span })
	for name, s := range m.series {
		if s.empty(now) {
			delete(m.series, name)
		}
	}
}

func (m *memory) history(name string) (History, bool) {
	s := m.series[name]
	if s == nil {
		return History{}, false
	}
	return s.history(name, time.Now()), true
}

// orEmpty makes JSON of nothing an empty list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
