package status

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// report makes the report from an input.
func (m *memory) report(in *Input, now time.Time) *Report {
	j := m.judge(in, now)
	targets := in.Snapshot.Statuses
	r := &Report{
		Edition:  Edition{Made: now, Time: in.Snapshot.Time},
		Notices:  in.Notices,
		Problems: j.problems,
		Services: make([]Service, 0, len(targets)),
	}
	r.Maintenance, r.NotConfigured = orEmpty(r.Maintenance), orEmpty(r.NotConfigured)
	r.Containers, r.ContainersLeftOut = m.reportContainers(j)
	for i := range targets {
		r.Services = append(r.Services, m.reportService(j, &targets[i]))
	}
	maps.DeleteFunc(m.services, func(_ string, s *pastService) bool { return !s.seen.Equal(now) })
	slices.SortStableFunc(r.Services, func(a, b Service) int {
		return cmp.Or(a.compare(a.Row.Rank, &b.Shown, b.Row.Rank), cmp.Compare(a.Name, b.Name))
	})
	r.Thresholds = m.thresholds(j)
	if r.Stale != "" {
		r.stall()
	}
	m.setVerdict(r, now)
	r.Transitions = slices.Clone(orEmpty(m.transitions.list))
	r.TransitionsLeftOut = m.transitions.dropped
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.empty(now) })
	return r
}

// setVerdict sets the report's overall level and summary.
func (m *memory) setVerdict(r *Report, now time.Time) {
	worst := Unknown
	if len(r.Services) > 0 {
		worst = r.Services[0].Level // the worst is first
	}
	if len(r.Containers) > 0 {
		worst = max(worst, r.Containers[0].Level)
	}
	for _, t := range r.Thresholds {
		if t.Level != Unknown { // an unmeasured threshold is not a problem of the stack
			worst = max(worst, t.Level)
		}
	}
	for i := range r.Problems {
		if p := &r.Problems[i]; p.ExporterWide() {
			worst = max(worst, p.Level())
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
	r.Summarize()
}

// orEmpty makes a nil list an empty list in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
