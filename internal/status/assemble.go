package status

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// report makes the report from an input.
func (m *memory) report(in Input, now time.Time) *Report {
	r := &Report{
		Edition:       Edition{Made: now, Time: in.Snapshot.Time},
		Maintenance:   orEmpty(in.Maintenance),
		NotConfigured: orEmpty(in.Unconfigured),
		LeftToFirst:   in.LeftToFirst,
		Unsaved:       in.Unsaved,
		PageTitle:     in.Title,
		Services:      make([]Service, 0, len(in.Snapshot.Statuses)),
	}
	if in.ReloadError != nil {
		r.ConfigError = in.ReloadError.Error()
	}
	if in.Alive != nil {
		r.Stale = in.Alive.Error()
	}
	targets := in.Snapshot.Statuses
	m.forgetServices(targets)
	all := m.readFleet(targets)
	j := m.describeAll(&in, all, targets)
	r.Problems = j.problems
	r.Containers, r.ContainersLeftOut = m.reportContainers(&in, all, j, targets, now)
	for i := range targets {
		r.Services = append(r.Services, m.reportService(&in, &targets[i], all, j, now))
	}
	slices.SortStableFunc(r.Services, func(a, b Service) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), lossRank(a.Row.Rank, a.Level)-lossRank(b.Row.Rank, b.Level),
			cmp.Compare(a.Name, b.Name))
	})
	r.Thresholds = thresholds(&in, r.Containers, all, j, targets)
	if r.Stale != "" {
		r.stall()
	}
	m.setVerdict(r, now)
	r.Transitions = slices.Clone(orEmpty(m.transitions.list))
	r.TransitionsLeftOut = m.transitions.dropped
	m.forget(now)
	return r
}

// forgetServices forgets targets that are gone.
func (m *memory) forgetServices(targets []poll.Status) {
	present := make(map[string]bool, len(targets))
	for i := range targets {
		present[targets[i].Target] = true
	}
	maps.DeleteFunc(m.services, func(name string, _ *pastService) bool { return !present[name] })
}

// setVerdict sets the report's overall level and summary.
func (m *memory) setVerdict(r *Report, now time.Time) {
	worst := OK
	if len(r.Services) == 0 {
		worst = Unknown
	}
	for _, s := range r.Services {
		worst = max(worst, s.Level)
	}
	for _, c := range r.Containers {
		worst = max(worst, c.Level)
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
