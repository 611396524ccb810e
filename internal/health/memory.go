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
	// Outages are those that ended recently.
	Outages []SavedOutages `json:"outages,omitempty"`
	// LastUp is when targets were last up, by target.
	LastUp map[string]time.Time `json:"well,omitempty"`
	// Places are what targets are about, by target.
	Places map[string]string `json:"places,omitempty"`
	// Homes are where the containers of targets were last seen, by target.
	Homes map[string]home `json:"homes,omitempty"`
}

// SavedProblem is a problem that had not ended.
type SavedProblem struct {
	problemKey
	record
}

// Record returns what is remembered of the problem apart from which one it is.
func (p *SavedProblem) Record() any { return p.record }

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

// SavedFailures are the failed readings of a target.
type SavedFailures struct {
	Target string `json:"target,omitempty"`
	failures
}

// SavedOutages are the outages of a target or container that ended recently.
type SavedOutages struct {
	Subject
	Ended []pastOutage `json:"ended"`
}

// problemKey identifies a problem. Only conditions have Of and Severity.
type problemKey struct {
	Subject
	Alert    string   `json:"alert"`
	Of       string   `json:"of,omitempty"`
	Severity Severity `json:"severity,omitempty"`
}

func compareKeys(a, b problemKey) int {
	return cmp.Or(compareSubjects(a.Subject, b.Subject), strings.Compare(a.Alert, b.Alert), strings.Compare(a.Of, b.Of),
		cmp.Compare(a.Severity, b.Severity))
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

// targetMemory is what is remembered of a target: when it was last up, zero if it never was, and where its container was last seen.
type targetMemory struct {
	conditions []seenCondition
	logins     rate
	failures   failures
	slow       slowness
	lastUp     time.Time
	home       home
	place      string
	// read and up are the verdict of the last reading, which ended at readAt.
	read, up bool
	readAt   time.Time
}

// target returns the memory of that target, which is empty for a new one.
func (j *Judge) target(name string) *targetMemory {
	known := j.targets[name]
	if known == nil {
		known = &targetMemory{}
		j.targets[name] = known
	}
	return known
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
	// Removed says that somebody removed the missing container, Elsewhere that it may run on another node of a swarm.
	Removed   bool `json:"removed,omitempty"`
	Elsewhere bool `json:"elsewhere,omitempty"`
	// Throttled says that a target's outage is a limit on this address, Partly that some instances of a workload still run. Broken is when
	// such an outage turned into a real one, zero if it never did.
	Throttled bool      `json:"throttled,omitempty"`
	Partly    bool      `json:"partly,omitempty"`
	Broken    time.Time `json:"broken,omitzero"`
	// Fault is since when the target itself is at fault, whatever else is wrong, and FaultReason why; zero if it is not.
	Fault       time.Time `json:"fault,omitzero"`
	FaultReason string    `json:"fault_reason,omitempty"`
	// Certificate is the fingerprint of the one that expires, "" for other problems and if it is unknown.
	Certificate string `json:"certificate,omitempty"`
	// Otherwise is since when a target fails for another reason than its expired certificate; zero if it does not.
	Otherwise time.Time `json:"otherwise,omitzero"`
	// Loss is that of the engine that no longer excuses a target's outage, which began with it.
	Loss loss `json:"loss,omitzero"`
	flap
	// Was is the former name of the subject, "" if it has had no other since the problem began.
	Was string `json:"was,omitempty"`
}

// loss is when an engine was lost, and its target.
type loss struct {
	Engine string    `json:"engine"`
	Began  time.Time `json:"began"`
}

// fires reports whether the alert on the problem fires, or has. There may be no problem.
func (r *record) fires() bool { return r != nil && r.Alerted > Pending }

// realSince is when the present outage began that is real: no limit on this address, and no instance runs.
func (r *record) realSince() time.Time { return laterOf(cmp.Or(r.Broken, r.Since), r.Again) }

// alertsSince is since when the alert on the problem counts: not later than the engine was lost with which the problem began.
func (r *record) alertsSince() time.Time {
	if began := r.Loss.Began; !began.IsZero() && began.Before(r.Since) {
		return began
	}
	return r.Since
}

// early is how long before the problem that was.
func (r *record) early() time.Duration { return r.Since.Sub(r.alertsSince()) }

// noteThrottled records whether a target's outage is a limit on this address.
func (r *record) noteThrottled(throttled bool, now time.Time) {
	r.noteMild(&r.Throttled, throttled, now)
}

// noteFault records whether the target itself is at fault, and why.
func (r *record) noteFault(is bool, reason string, now time.Time) {
	switch {
	case !is:
		r.Fault, r.FaultReason = time.Time{}, ""
	case r.Fault.IsZero():
		r.Fault, r.FaultReason = now, reason
	default:
		r.FaultReason = reason
	}
}

// notePartly records whether some instances of a workload run. When they ended is at.
func (r *record) notePartly(partly bool, at time.Time) { r.noteMild(&r.Partly, partly, at) }

// noteMild records whether an outage is one that is a warning at most, or has been real since then.
func (r *record) noteMild(known *bool, is bool, since time.Time) {
	switch {
	case is:
		*known, r.Broken, r.Alerted = true, time.Time{}, min(r.Alerted, Warning)
	case *known:
		*known, r.Broken = false, since
	}
}

// restarts are the restarts and kills of one container.
type restarts struct {
	// Count is the container's restart counter at the last reading. Known is false before the first reading.
	Count uint64 `json:"count"`
	Known bool   `json:"known"`
	// Recent are the unexcused restarts within the window of the alert, oldest first.
	Recent events `json:"recent,omitempty"`
	// Kills is the container's counter of out-of-memory kills at the last reading. Killed are the kills within the window of the alert
	// that did not end the container.
	Kills  uint64 `json:"kills,omitempty"`
	Killed events `json:"killed,omitempty"`
	// Was are the names of containers whose memory has moved to this one of a workload.
	Was []string `json:"was,omitempty"`
	// Workload and Members are the container's, so that maintenance by those names is known before the engine is read.
	Workload string   `json:"workload,omitempty"`
	Members  []string `json:"members,omitempty"`
	unwell
	// measured is when its memory was last known.
	measured time.Time
	// ended is when the container was last seen stopped or restarted, restarted how often it has restarted since the reading before.
	ended     time.Time
	restarted uint64
	// awaited is the reading of the engine that knew of a start and not that the container runs; zero otherwise.
	awaited time.Time
	// gone is when the container vanished, zero while it exists; last is its last known state.
	gone time.Time
	last *Container
}

// saveEvery is how often to save unchanged memory, which tells the next process roughly when this one ended.
const saveEvery = 5 * time.Minute

// Changed reports whether the memory must be saved: it has changed since the last call of Memory, or that call was saveEvery ago.
func (j *Judge) Changed() bool { return j.changed || j.clock.now.Sub(j.lastSave) > saveEvery }

// Memory returns the memory to save, with all times by the wall clock.
func (j *Judge) Memory(now time.Time) Memory {
	j.changed, j.lastSave = false, now
	m := Memory{
		Saved:  now,
		LastUp: map[string]time.Time{},
		Homes:  map[string]home{},
		Places: map[string]string{},
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.problems), compareKeys) {
		m.Problems = append(m.Problems, SavedProblem{key, *j.problems[key]})
	}
	for _, s := range slices.SortedFunc(maps.Keys(j.restarts), compareSubjects) {
		saved := SavedRestarts{s, *j.restarts[s]}
		saved.Recent, saved.Killed, saved.Spells = slices.Clone(saved.Recent), slices.Clone(saved.Killed), slices.Clone(saved.Spells)
		saved.Was = slices.Clone(saved.Was)
		m.Restarts = append(m.Restarts, saved)
	}
	for _, s := range slices.SortedFunc(maps.Keys(j.unavailable), compareSubjects) {
		m.Unavailable = append(m.Unavailable, SavedSpan{s, *j.unavailable[s]})
	}
	for _, s := range slices.SortedFunc(maps.Keys(j.past), compareSubjects) {
		m.Outages = append(m.Outages, SavedOutages{s, slices.Clone(j.past[s])})
	}
	for _, name := range slices.Sorted(maps.Keys(j.targets)) {
		known := j.targets[name]
		if !known.lastUp.IsZero() {
			m.LastUp[name] = known.lastUp
		}
		if known.place != "" {
			m.Places[name] = known.place
		}
		if known.home != (home{}) {
			m.Homes[name] = known.home
		}
		if saved := (SavedFailures{name, known.failures}); len(saved.Counts) > 0 {
			saved.Counts = slices.Clone(saved.Counts)
			m.Failures = append(m.Failures, saved)
		}
	}
	m.changeTimes(j.clock.Wall)
	return m
}

// Resume loads the memory of a former process; call it before the first judgement. counted is until when it has counted time, ended when it
// recorded its last round, both 0 if it has recorded none. lasting are the problems that it had reported and that were not over.
func (j *Judge) Resume(m *Memory, counted, ended Milli, lasting []Event, now time.Time) {
	saved := Milli(m.Saved.UnixMilli())
	j.clock.Resume(counted, cmp.Or(ended, saved))
	m.changeTimes(movedFrom(max(ended, saved).Time(), now))
	j.saved, j.resumed = m.Saved, now
	for _, e := range lasting {
		j.told[toldKey{e.Of, e.Alert, e.Part}] = &told{Event: e}
	}
	for _, p := range m.Problems {
		j.problems[p.problemKey] = &p.record
		if p.Kind == KindTarget && p.Severity > Pending && !j.rule(p.Alert).Own {
			j.target(p.Name).resumeCondition(Condition{Alert: p.Alert, Of: p.Of, Holds: true}, now)
		}
	}
	for _, r := range m.Restarts {
		j.restarts[r.Subject], j.unread[r.Host] = &r.restarts, true
	}
	for _, s := range m.Unavailable {
		j.unavailable[s.Subject] = &s.span
	}
	for _, o := range m.Outages {
		j.past[o.Subject] = o.Ended
	}
	for _, f := range m.Failures {
		j.target(f.Target).failures = f.failures
	}
	for name, at := range m.LastUp {
		j.target(name).lastUp = at
	}
	for name, place := range m.Places {
		j.target(name).place = place
	}
	for name, known := range m.Homes {
		j.target(name).home = known
	}
}

// changeTimes replaces every known time by what change makes of it.
func (m *Memory) changeTimes(change func(time.Time) time.Time) {
	set := func(times ...*time.Time) {
		for _, t := range times {
			if !t.IsZero() {
				*t = change(*t)
			}
		}
	}
	set(&m.Saved)
	for i := range m.Problems {
		p := &m.Problems[i]
		set(&p.Since, &p.Broken, &p.Fault, &p.Otherwise, &p.Loss.Began, &p.Again, &p.Calm)
	}
	for i := range m.Restarts {
		r := &m.Restarts[i]
		set(&r.Covered, &r.Excused)
		for _, list := range []events{r.Recent, r.Killed} {
			for i := range list {
				set(&list[i].At)
			}
		}
		for i := range r.Spells {
			set(&r.Spells[i].Began, &r.Spells[i].Until)
		}
	}
	for i := range m.Unavailable {
		s := &m.Unavailable[i]
		set(&s.Began, &s.Ended, &s.Down)
	}
	for _, o := range m.Outages {
		for i := range o.Ended {
			set(&o.Ended[i].Began, &o.Ended[i].Ended)
		}
	}
	for _, f := range m.Failures {
		for i := range f.Counts {
			set(&f.Counts[i].At)
		}
	}
	for name, at := range m.LastUp {
		m.LastUp[name] = change(at)
	}
}
