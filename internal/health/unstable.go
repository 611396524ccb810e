package health

import (
	"slices"
	"strings"
	"time"
)

// AlertTargetUnstable is the name of the alert on a target that fails too often, although it is not down.
const AlertTargetUnstable = "TargetUnstable"

// A target is unstable while too many of its readings have failed in both windows, and at least so many in the longer one. The
// short window is longer for a target that is read more rarely: it always has the last reading in it.
const (
	longWindow     = time.Hour
	shortWindow    = 5 * time.Minute
	fewestFailures = 4
)

// failures are the failed readings of a target within longWindow, without those that are told or excused otherwise.
type failures struct {
	// Counts are oldest first, one for each bucketLength with failures at most.
	Counts []count `json:"counts"`
	// Spell is how many readings have failed in a row until now, and are reported nowhere yet. Warned says that the warning that the
	// target is down reports this outage.
	Spell  uint64 `json:"spell,omitempty"`
	Warned bool   `json:"warned,omitempty"`
	// Every is the time between two readings; failures of another schedule are no part of this one's.
	Every time.Duration `json:"every,omitempty"`
	// since is when this process looked first, seen the target's own counter when it looked last. excused are the failures that count
	// no more.
	since         time.Time
	seen, excused uint64
}

// count is how many readings failed from At on: those that are reported nowhere, and those that only the warning that the target is
// down reports. Open is how many of them belong to the outage that lasts.
type count struct {
	At     time.Time `json:"at"`
	Failed uint64    `json:"failed"`
	Warned uint64    `json:"warned,omitempty"`
	Open   uint64    `json:"open,omitempty"`
}

// lasting are the failures that the outage that lasts is among.
func (f *failures) lasting(c *count) *uint64 {
	if f.Warned {
		return &c.Warned
	}
	return &c.Failed
}

// bucketLength is how long failures are counted together.
const bucketLength = time.Minute

// SavedFailures are those of a target.
type SavedFailures struct {
	Target string `json:"target"`
	failures
}

// add counts failures of the outage that lasts.
func (f *failures) add(now time.Time, failed uint64) {
	if failed == 0 {
		return
	}
	if n := len(f.Counts); n == 0 || now.Sub(f.Counts[n-1].At) >= bucketLength {
		f.Counts = append(f.Counts, count{At: now})
	}
	last := &f.Counts[len(f.Counts)-1]
	*f.lasting(last) += failed
	last.Open += failed
}

// warn leaves the failures of the outage that lasts to the critical alert alone.
func (f *failures) warn() {
	for i := range f.Counts {
		if c := &f.Counts[i]; !f.Warned {
			c.Failed, c.Warned = c.Failed-min(c.Failed, c.Open), c.Warned+c.Open
		}
	}
	f.Warned = true
}

// takeOut has the failures of the outage that lasts count no more.
func (f *failures) takeOut() {
	for i := range f.Counts {
		c := &f.Counts[i]
		n := f.lasting(c)
		*n -= min(*n, c.Open)
		c.Open = 0
	}
}

// endOutage has the failures that are left of the outage stay.
func (f *failures) endOutage() {
	for i := range f.Counts {
		f.Counts[i].Open = 0
	}
	f.Spell, f.Warned = 0, false
}

// dropOld forgets what is out of all windows.
func (f *failures) dropOld(now time.Time) {
	f.Counts = slices.DeleteFunc(f.Counts, func(c count) bool { return now.Sub(c.At) >= longWindow })
}

// within is how many readings failed within the window, as the alert of that severity counts them.
func (f *failures) within(window time.Duration, severity Severity, now time.Time) (failed uint64) {
	for _, c := range f.Counts {
		if now.Sub(c.At) >= window {
			continue
		}
		if failed += c.Failed; severity == Critical {
			failed += c.Warned
		}
	}
	return failed
}

// failedPart is the part of the readings that the schedule has in the window that failed. What nobody saw counts as good.
func (f *failures) failedPart(t *Target, window time.Duration, severity Severity, now time.Time) float64 {
	return float64(f.within(window, severity, now)) * t.Every.Seconds() / window.Seconds()
}

// longestFlap is how long an outage may be of which only the warning was told, and that still counts for the critical alert.
const longestFlap = longWindow / 4

// countFailures takes over which readings of a target have failed. down is the problem that it is down, nil if it is not.
func (r *round) countFailures(t *Target, down *record) *failures {
	j := r.judge
	f := j.failures[t.Name]
	if f == nil {
		f = &failures{}
		j.failures[t.Name] = f
	}
	if f.since.IsZero() {
		f.since = r.now
	}
	if f.Every != t.Every {
		f.Counts, f.Every = nil, t.Every
		f.endOutage()
	}
	if t.Failed < f.seen { // the counter has begun anew
		f.seen = 0
	}
	failed := t.Failed - f.seen
	f.seen = t.Failed
	f.Spell += failed
	f.add(r.now, failed)
	excused, told := r.verdicts[TargetSubject(t.Name)].Excuse.Holds(), down != nil && down.Told > Pending
	if excused || told {
		f.excused += f.Spell
		f.Spell = 0
	} else {
		j.changed = j.changed || failed > 0
	}
	switch {
	case excused && !r.onlyWarned(t) || told && (down.Told == Critical || r.now.Sub(down.Since) > longestFlap):
		f.takeOut()
	case excused || told:
		f.warn()
	}
	if t.Up {
		f.endOutage()
	}
	f.dropOld(r.now)
	return f
}

// onlyWarned reports whether what excuses the target is a container of which only the warning was told.
func (r *round) onlyWarned(t *Target) bool {
	known := r.judge.problems[problemKey{Subject: r.verdicts[TargetSubject(t.Name)].Excuse.Root, alert: AlertContainerDown}]
	return known != nil && known.Told == Warning
}

// judgeFailures finds whether a target is unstable. TargetDown is decided before.
func (r *round) judgeFailures(t *Target) {
	j, s := r.judge, TargetSubject(t.Name)
	known := j.problems[problemKey{Subject: s, alert: AlertTargetDown}]
	f := r.countFailures(t, known)
	verdict := r.verdicts[s]
	verdict.ExcusedFailures = f.excused
	r.verdicts[s] = verdict
	limits := &j.alerts.TargetUnstable
	down := known != nil && known.Told > Pending && !t.Up
	r.judgeUnstable(t, f, down, Warning, limits.Warning.Over)
	if !t.WarnOnly {
		r.judgeUnstable(t, f, down, Critical, limits.Critical.Over)
	}
}

// judgeUnstable finds whether more percent of the readings of a target have failed.
func (r *round) judgeUnstable(t *Target, f *failures, down bool, severity Severity, percent int64) {
	limit := float64(percent) / 100
	over := func(window time.Duration) bool { return f.failedPart(t, window, severity, r.now) > limit }
	key := problemKey{TargetSubject(t.Name), AlertTargetUnstable, "", severity}
	holds := f.within(longWindow, severity, r.now) >= fewestFailures && over(longWindow) && over(max(shortWindow, t.Every*5/4))
	watched := r.now.Sub(f.since)
	switch {
	case !t.Read:
		if r.judge.problems[key] == nil {
			return
		}
	case down || t.Every == 0:
		return // another alert tells of it, or there is no schedule
	case !holds && watched < longWindow && (watched < shortWindow || over(watched)):
		return // one that has not watched for long enough has no opinion
	}
	v := &ConditionVerdict{Target: t.Name, Alert: AlertTargetUnstable, Severity: severity}
	r.conditions = append(r.conditions, v)
	if t.Read && !holds {
		return
	}
	p := r.begin(key, r.now, false)
	p.Unknown, p.condition = !t.Read, v
	p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofCondition(t, AlertTargetUnstable, since) })
	if p.Unknown {
		p.freeze(r.judge)
	}
	r.decideOn(p)
	v.Lasted = p.Lasted
	r.values = append(r.values, Value{key.Subject, AlertTargetUnstable, f.failedPart(t, longWindow, severity, r.now)})
}

// savedFailures are what is saved of failed readings, with the times made fit for that.
func (j *Judge) savedFailures(wall func(time.Time) time.Time) []SavedFailures {
	var list []SavedFailures
	for name, f := range j.failures {
		if len(f.Counts) == 0 {
			continue
		}
		saved := SavedFailures{name, failures{Counts: slices.Clone(f.Counts), Spell: f.Spell, Warned: f.Warned, Every: f.Every}}
		for i := range saved.Counts {
			saved.Counts[i].At = wall(saved.Counts[i].At)
		}
		list = append(list, saved)
	}
	slices.SortFunc(list, func(a, b SavedFailures) int { return strings.Compare(a.Target, b.Target) })
	return list
}

// resumeFailures takes over what was saved.
func (j *Judge) resumeFailures(list []SavedFailures, past func(time.Time) time.Time) {
	for i := range list {
		f := &list[i].failures
		for k := range f.Counts {
			f.Counts[k].At = past(f.Counts[k].At)
		}
		j.failures[list[i].Target] = f
	}
}
