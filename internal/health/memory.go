package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Memory is what outlives the process, so that after a restart nothing resolves and no clock starts again.
type Memory struct {
	Saved    time.Time       `json:"saved"`
	Problems []SavedProblem  `json:"problems,omitempty"`
	Restarts []SavedRestarts `json:"restarts,omitempty"`
	// Unavailable are containers that cannot serve and engines that cannot be read, or could not lately.
	Unavailable []SavedSpan `json:"unavailable,omitempty"`
	// Failures are readings that failed lately.
	Failures []SavedFailures `json:"failures,omitempty"`
	// Well is when targets were seen up last.
	Well map[string]time.Time `json:"well,omitempty"`
	// Homes are where the containers of targets were seen last, by target.
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

// SavedRestarts are the restarts of a container.
type SavedRestarts struct {
	Subject
	restarts
}

// SavedSpan is a time when a container was not available.
type SavedSpan struct {
	Subject
	span
}

// lately reports whether it lasts, or ended not longer ago than that.
func (s *span) lately(now time.Time, ago time.Duration) bool {
	return s.Ended.IsZero() || now.Sub(s.Ended) <= ago
}

// span is a time when a container was not available, or an engine could not be read.
type span struct {
	Began time.Time `json:"began"`
	// Ended is zero while it lasts. Down is when the container was seen last not to run although it should, or the engine down; zero
	// if never.
	Ended time.Time `json:"ended,omitzero"`
	Down  time.Time `json:"down,omitzero"`
	// Told says that an alert has told of it, so that it may hold back others.
	Told bool `json:"told,omitempty"`
}

// record is what is remembered of a problem while it lasts.
type record struct {
	Since time.Time `json:"since"`
	// AtLeast says that it may have begun earlier.
	AtLeast bool `json:"at_least,omitempty"`
	// Told is the threshold that it has passed without an excuse. From then on nothing excuses it.
	Told Severity `json:"told,omitempty"`
	// Excuse is the one that it had last.
	Excuse Excuse `json:"excuse,omitzero"`
	// Removed says of a missing container that somebody has removed it.
	Removed bool `json:"removed,omitempty"`
}

// restarts are those of one container.
type restarts struct {
	// Count is the container's counter when it was looked at last, Known once it was.
	Count uint64 `json:"count"`
	Known bool   `json:"known"`
	// Recent are those within the window of the alert that nothing excuses, oldest first.
	Recent []restart `json:"recent,omitempty"`
	// Kills is the counter of processes that the kernel killed when it was looked at last, and Killed those kills within the window of
	// the alert that did not end the container.
	Kills  uint64    `json:"kills,omitempty"`
	Killed []restart `json:"killed,omitempty"`
	// ended is when the container was seen last not to run, or to have been started anew.
	ended time.Time
	// gone is when the container vanished, zero while it is there; last is what was known of it then.
	gone time.Time
	last *Container
}

// restart is a number of restarts, or of kills, that were seen at one moment.
type restart struct {
	At    time.Time `json:"at"`
	Times uint64    `json:"times"`
}

// saveEvery is how long the memory stays as it was saved, so that the next process knows about when this one ended.
const saveEvery = 5 * time.Minute

// Changed reports whether there is something new to save since Memory was called last.
func (j *Judge) Changed() bool { return j.changed || j.now.Sub(j.kept) > saveEvery }

// noticeStep has everything saved again after a step of the wall clock, which is all that the next process has to go by.
func (j *Judge) noticeStep(now time.Time) {
	step := now.Round(0).Sub(j.now.Round(0)) - now.Sub(j.now)
	j.changed = j.changed || step.Abs() > time.Second
	j.now = now
}

// Memory returns what is to be saved, with all times by the wall clock of now.
func (j *Judge) Memory(now time.Time) Memory {
	j.changed, j.kept = false, now
	wall := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Round(0).Add(-now.Sub(t))
	}
	m := Memory{Saved: wall(now), Well: make(map[string]time.Time, len(j.well)), Homes: maps.Clone(j.homes)}
	for name, at := range j.well {
		m.Well[name] = wall(at)
	}
	for key, known := range j.problems {
		saved := SavedProblem{key.Subject, key.alert, key.of, key.severity, *known}
		saved.Since = wall(saved.Since)
		m.Problems = append(m.Problems, saved)
	}
	for s, known := range j.restarts {
		saved := SavedRestarts{s, *known}
		for _, list := range []*[]restart{&saved.Recent, &saved.Killed} {
			*list = slices.Clone(*list)
			for i := range *list {
				(*list)[i].At = wall((*list)[i].At)
			}
		}
		m.Restarts = append(m.Restarts, saved)
	}
	for s, known := range j.unavailable {
		m.Unavailable = append(m.Unavailable, SavedSpan{s, span{wall(known.Began), wall(known.Ended), wall(known.Down), known.Told}})
	}
	m.Failures = j.savedFailures(wall)
	slices.SortFunc(m.Problems, func(a, b SavedProblem) int {
		return cmp.Or(compareSubjects(a.Subject, b.Subject), strings.Compare(a.Alert, b.Alert), strings.Compare(a.Of, b.Of), cmp.Compare(a.Severity, b.Severity))
	})
	slices.SortFunc(m.Restarts, func(a, b SavedRestarts) int { return compareSubjects(a.Subject, b.Subject) })
	slices.SortFunc(m.Unavailable, func(a, b SavedSpan) int { return compareSubjects(a.Subject, b.Subject) })
	return m
}

// Resume takes over what a former process has saved; call it before the first judgement. Times that have not come yet, by a
// clock that was set back, are now.
func (j *Judge) Resume(m *Memory, now time.Time) {
	past := func(t time.Time) time.Time {
		if t.IsZero() {
			return t
		}
		return now.Add(-max(now.Sub(t), 0))
	}
	j.saved, j.resumed = past(m.Saved), now
	for _, p := range m.Problems {
		p.Since = past(p.Since)
		j.problems[problemKey{p.Subject, p.Alert, p.Of, p.Severity}] = &p.record
		if p.Kind == config.MaintenanceTarget && p.Severity > Pending && p.Alert != AlertTargetUnstable {
			j.expectCondition(p.Name, Condition{Alert: p.Alert, Of: p.Of, Holds: true}, now)
		}
	}
	for _, r := range m.Restarts {
		for _, list := range [][]restart{r.Recent, r.Killed} {
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
	for name, at := range m.Well {
		j.well[name] = past(at)
	}
	maps.Copy(j.homes, m.Homes)
}
