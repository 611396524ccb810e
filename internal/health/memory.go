package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Memory is saved across restarts of the exporter, so that a restart resolves no alert and resets no duration.
type Memory struct {
	Saved    time.Time       `json:"saved"`
	Problems []SavedProblem  `json:"problems,omitempty"`
	Restarts []SavedRestarts `json:"restarts,omitempty"`
	// Unavailable are current and recent outages of containers and engines.
	Unavailable []SavedSpan `json:"unavailable,omitempty"`
	// Failures are recently failed readings.
	Failures []SavedFailures `json:"failures,omitempty"`
	// LastUp is when targets were last up, by target.
	LastUp map[string]time.Time `json:"well,omitempty"`
	// Homes are where the containers of targets were last seen, by target.
	Homes map[string]home `json:"homes,omitempty"`
}

// SavedProblem is a problem that had not ended.
type SavedProblem struct {
	Subject
	Alert    string   `json:"alert"`
	Of       string   `json:"of,omitempty"`
	Severity Severity `json:"severity,omitempty"`
	record
}

// SavedRestarts are the restarts and kills of a container.
type SavedRestarts struct {
	Subject
	restarts
}

// SavedSpan is the outage of a container or engine.
type SavedSpan struct {
	Subject
	span
}

// lately reports whether the outage lasts, or ended at most ago before now.
func (s *span) lately(now time.Time, ago time.Duration) bool {
	return s.Ended.IsZero() || now.Sub(s.Ended) <= ago
}

// span is the outage of a container that was unavailable, or of an engine that could not be read.
type span struct {
	Began time.Time `json:"began"`
	// Ended is zero while it lasts. Down is when the container or engine was last seen down; zero if it never was, as while it starts.
	Ended time.Time `json:"ended,omitzero"`
	Down  time.Time `json:"down,omitzero"`
	// Alerted says that an alert fired because of it, so that it may hold back other alerts for longer.
	Alerted bool `json:"told,omitempty"`
}

// record is what is remembered of a problem while it lasts.
type record struct {
	Since time.Time `json:"since"`
	// AtLeast says that it may have begun earlier.
	AtLeast bool `json:"at_least,omitempty"`
	// Alerted is the highest severity that it reached without an excuse. From then on nothing excuses it.
	Alerted Severity `json:"told,omitempty"`
	// Excuse is its excuse at the last judgement.
	Excuse Excuse `json:"excuse,omitzero"`
	// Removed says that somebody removed the missing container.
	Removed bool `json:"removed,omitempty"`
	// Throttled says that a target's outage is a limit on this address. Broken is when such an outage turned into a real one, zero if it
	// never did.
	Throttled bool      `json:"throttled,omitempty"`
	Broken    time.Time `json:"broken,omitzero"`
}

// realSince is when an outage began that is not a limit on this address.
func (r *record) realSince() time.Time {
	if r.Broken.IsZero() {
		return r.Since
	}
	return r.Broken
}

// noteThrottled records whether a target's outage is a limit on this address. Such an outage is no longer critical.
func (r *record) noteThrottled(throttled bool, now time.Time) {
	switch {
	case throttled:
		r.Throttled, r.Broken, r.Alerted = true, time.Time{}, min(r.Alerted, Warning)
	case r.Throttled:
		r.Throttled, r.Broken = false, now
	}
}

// restarts are the restarts and kills of one container.
type restarts struct {
	// Count is the container's restart counter at the last reading. Known is false before the first reading.
	Count uint64 `json:"count"`
	Known bool   `json:"known"`
	// Recent are the unexcused restarts within the window of the alert, oldest first.
	Recent []eventCount `json:"recent,omitempty"`
	// Kills is the container's counter of out-of-memory kills at the last reading. Killed are the kills within the window of the alert
	// that did not end the container.
	Kills  uint64       `json:"kills,omitempty"`
	Killed []eventCount `json:"killed,omitempty"`
	// ended is when the container was last seen stopped or restarted.
	ended time.Time
	// gone is when the container vanished, zero while it exists; last is its last known state.
	gone time.Time
	last *Container
}

// eventCount is a number of restarts or kills that one reading found.
type eventCount struct {
	At    time.Time `json:"at"`
	Times uint64    `json:"times"`
}

// saveEvery is how often to save unchanged memory, which tells the next process roughly when this one ended.
const saveEvery = 5 * time.Minute

// Changed reports whether the memory must be saved: it has changed since the last call of Memory, or that call was saveEvery ago.
func (j *Judge) Changed() bool { return j.changed || j.now.Sub(j.lastSave) > saveEvery }

// noticeStep marks the memory as changed after a step of the wall clock, since all saved times are by that clock.
func (j *Judge) noticeStep(now time.Time) {
	j.changed = j.changed || j.drift(now) > time.Second
	j.now = now
}

// drift is how far the wall clock has gone from the one by which times were saved.
func (j *Judge) drift(now time.Time) time.Duration {
	if j.clock.IsZero() {
		return 0
	}
	return (now.Round(0).Sub(j.clock.Round(0)) - now.Sub(j.clock)).Abs()
}

// tolerableDrift is how wrong saved times may be, so that those that stay are the same each time.
const tolerableDrift = 100 * time.Millisecond

// Memory returns the memory to save, with all times by the wall clock.
func (j *Judge) Memory(now time.Time) Memory {
	if j.clock.IsZero() || j.drift(now) > tolerableDrift {
		j.clock = now
	}
	j.changed, j.lastSave = false, now
	wall := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return j.clock.Round(0).Add(t.Sub(j.clock))
	}
	m := Memory{Saved: wall(now), LastUp: make(map[string]time.Time, len(j.lastUp)), Homes: maps.Clone(j.homes)}
	for name, at := range j.lastUp {
		m.LastUp[name] = wall(at)
	}
	for key, known := range j.problems {
		saved := SavedProblem{
			key.Subject,
			key.alert,
			key.of,
			key.severity,
			*known,
		}
		saved.Since, saved.Broken = wall(saved.Since), wall(saved.Broken)
		m.Problems = append(m.Problems, saved)
	}
	for s, known := range j.restarts {
		saved := SavedRestarts{s, *known}
		for _, list := range []*[]eventCount{&saved.Recent, &saved.Killed} {
			*list = slices.Clone(*list)
			for i := range *list {
				(*list)[i].At = wall((*list)[i].At)
			}
		}
		m.Restarts = append(m.Restarts, saved)
	}
	for s, known := range j.unavailable {
		m.Unavailable = append(m.Unavailable, SavedSpan{
			s,
			span{
				wall(known.Began),
				wall(known.Ended),
				wall(known.Down),
				known.Alerted,
			},
		})
	}
	m.Failures = j.savedFailures(wall)
	slices.SortFunc(m.Problems, func(a, b SavedProblem) int {
		return cmp.Or(compareSubjects(a.Subject, b.Subject), strings.Compare(a.Alert, b.Alert), strings.Compare(a.Of, b.Of),
			cmp.Compare(a.Severity, b.Severity))
	})
	slices.SortFunc(m.Restarts, func(a, b SavedRestarts) int { return compareSubjects(a.Subject, b.Subject) })
	slices.SortFunc(m.Unavailable, func(a, b SavedSpan) int { return compareSubjects(a.Subject, b.Subject) })
	return m
}

// Resume loads the memory of a former process; call it before the first judgement. It replaces times in the future, as after the clock was
// set back, by now.
func (j *Judge) Resume(m *Memory, now time.Time) {
	past := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Add(-max(now.Sub(t), 0))
	}
	j.saved, j.resumed = past(m.Saved), now
	for _, p := range m.Problems {
		p.Since, p.Broken = past(p.Since), past(p.Broken)
		j.problems[problemKey{
			p.Subject,
			p.Alert,
			p.Of,
			p.Severity,
		}] = &p.record
		if p.Kind == KindTarget && p.Severity > Pending && p.Alert != AlertTargetUnstable {
			j.resumeCondition(p.Name, Condition{Alert: p.Alert, Of: p.Of, Holds: true}, now)
		}
	}
	for _, r := range m.Restarts {
		for _, list := range [][]eventCount{r.Recent, r.Killed} {
			for i := range list {
				list[i].At = past(list[i].At)
			}
		}
		j.restarts[r.Subject] = &r.restarts
		j.unread[r.Host] = true
	}
	for _, s := range m.Unavailable {
		s.Began, s.Ended, s.Down = past(s.Began), past(s.Ended), past(s.Down)
		j.unavailable[s.Subject] = &s.span
	}
	j.resumeFailures(m.Failures, past)
	for name, at := range m.LastUp {
		j.lastUp[name] = past(at)
	}
	maps.Copy(j.homes, m.Homes)
}
