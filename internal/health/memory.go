package health

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// Memory is what outlives the process, so that after a restart nothing resolves and no clock starts again.
type Memory struct {
	Saved    time.Time       `json:"saved"`
	Problems []SavedProblem  `json:"problems,omitempty"`
	Restarts []SavedRestarts `json:"restarts,omitempty"`
	// Targets are those that were seen up.
	Targets []string `json:"targets,omitempty"`
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

// record is what is remembered of a problem while it lasts.
type record struct {
	Since time.Time `json:"since"`
	// AtLeast says that it may have begun earlier.
	AtLeast bool `json:"at_least,omitempty"`
	// Told says that it has passed its threshold without an excuse. From then on nothing excuses it.
	Told bool `json:"told,omitempty"`
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
}

// restart is a number of restarts that were seen at one moment.
type restart struct {
	At    time.Time `json:"at"`
	Times uint64    `json:"times"`
}

// Changed reports whether there is something new to save since Memory was called last.
func (j *Judge) Changed() bool { return j.changed }

// Memory returns what is to be saved.
func (j *Judge) Memory(now time.Time) Memory {
	j.changed = false
	m := Memory{Saved: now, Targets: slices.Sorted(maps.Keys(j.well))}
	for key, known := range j.problems {
		m.Problems = append(m.Problems, SavedProblem{key.Subject, key.alert, key.of, key.severity, *known})
	}
	for s, known := range j.restarts {
		m.Restarts = append(m.Restarts, SavedRestarts{s, *known})
	}
	slices.SortFunc(m.Problems, func(a, b SavedProblem) int {
		return cmp.Or(compareSubjects(a.Subject, b.Subject), strings.Compare(a.Alert, b.Alert), strings.Compare(a.Of, b.Of))
	})
	slices.SortFunc(m.Restarts, func(a, b SavedRestarts) int { return compareSubjects(a.Subject, b.Subject) })
	return m
}

// Resume takes over what a former process has saved; call it before the first judgement. Times that have not come yet, by a
// clock that was set back, are now.
func (j *Judge) Resume(m *Memory, now time.Time) {
	past := func(t time.Time) time.Time { return now.Add(-max(now.Sub(t), 0)) }
	j.resumed = past(m.Saved)
	for _, p := range m.Problems {
		p.Since = past(p.Since)
		j.problems[problemKey{p.Subject, p.Alert, p.Of, p.Severity}] = &p.record
		switch {
		case p.Host != "":
			j.unread[p.Host] = true
		case p.Severity > Pending:
			j.awaited[p.Name] = true
		}
	}
	for _, r := range m.Restarts {
		for i := range r.Recent {
			r.Recent[i].At = past(r.Recent[i].At)
		}
		j.restarts[r.Subject] = &r.restarts
		j.unread[r.Host] = true
	}
	for _, name := range m.Targets {
		j.well[name] = true
	}
}
