package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// memory is what a report needs to know of the past. It is not safe for concurrent use.
type memory struct {
	services    map[string]*pastService
	containers  map[health.Subject]*pastContainer
	series      map[string]*series
	transitions transitions
	level       Level
	since       time.Time
}

func newMemory() memory {
	return memory{
		services:   map[string]*pastService{},
		containers: map[health.Subject]*pastContainer{},
		series:     map[string]*series{},
		level:      -1,
		transitions: transitions{
			states: map[health.Subject]health.State{},
			fresh:  map[health.Subject][]health.Event{},
		},
	}
}

// rowOf returns the row of a kind; an empty one for an unknown kind.
func rowOf(kind string) config.Row {
	k, _ := collectors.KindOf(kind)
	return k.Row
}

// roleOf returns the row of a role; an empty one for an unknown role.
func roleOf(name string) config.Role {
	for _, r := range collectors.Roles {
		if r.Name == name {
			return r
		}
	}
	return config.Role{}
}

// chart adds a value to the history of a subject's number and shows it, unless maxSeries is reached. A history without a title is called by
// its name.
func (m *memory) chart(j *judged, of health.Subject, shown *Shown, h History, v float64) {
	h.Title, h.Keeps = of.Name+": "+cmp.Or(h.Title, h.Name), cmp.Or(h.Keeps, mean)
	h.Name = health.Key(of).String() + "/" + h.Name
	s := m.series[h.Name]
	if s == nil {
		if len(m.series) >= maxSeries {
			return
		}
		s = newSeries(h, j.now)
		m.series[h.Name] = s
	}
	s.of = h // a reload may change its limits
	s.add(j.now, v)
	shown.Charts = append(shown.Charts, h.Name)
}

// report makes the report from an input.
func (m *memory) report(in *Input, now time.Time) *Report {
	j := m.judge(in, now)
	r := &Report{
		Edition:  Edition{Made: now, Time: in.Snapshot.Time},
		Notices:  in.Notices,
		Problems: j.problems,
		Services: make([]Service, 0, len(in.Snapshot.Statuses)),
	}
	if given := in.Snapshot.Judgement; given != nil {
		r.HeldBack = given.HeldBack
	}
	r.Maintenance, r.NotConfigured = orEmpty(r.Maintenance), orEmpty(r.NotConfigured)
	r.Containers, r.ContainersLeftOut = m.reportContainers(j)
	for i := range in.Snapshot.Statuses {
		r.Services = append(r.Services, m.reportService(j, &in.Snapshot.Statuses[i]))
	}
	maps.DeleteFunc(m.services, func(_ string, s *pastService) bool { return !s.seen.Equal(now) })
	slices.SortStableFunc(r.Services, func(a, b Service) int {
		return cmp.Or(a.compare(a.Row.Rank, &b.Shown, b.Row.Rank), cmp.Compare(a.Name, b.Name))
	})
	r.Thresholds = m.thresholds(j)
	if r.Stale != "" {
		r.stall()
	}
	m.setVerdict(r, j)
	clear(m.transitions.fresh) // the rest is of what is not there any more
	r.Transitions, r.TransitionsLeftOut = slices.Clone(orEmpty(m.transitions.list)), m.transitions.dropped
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.isEmpty(now) })
	return r
}

// setVerdict sets the report's overall level and summary.
func (m *memory) setVerdict(r *Report, j *judged) {
	_, worst := j.problemsOf(health.ExporterSubject)
	if len(r.Services) == 0 {
		worst = max(worst, Unknown)
	} else {
		worst = max(worst, r.Services[0].Level) // the worst is first
	}
	if len(r.Containers) > 0 {
		worst = max(worst, r.Containers[0].Level)
	}
	if r.ConfigError != "" {
		worst = max(worst, Warning)
	}
	if r.Stale != "" {
		worst = Critical
	}
	if worst != m.level {
		m.level, m.since = worst, j.now
	}
	r.Level, r.Since = m.level, m.since
	r.Summarize()
}

// orEmpty makes a nil list an empty list in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
