package health

import (
	"cmp"
	"slices"
	"time"
)

// AlertTargetUnstable is the name of the alert on a target that fails too often, although it is not down.
const AlertTargetUnstable = "TargetUnstable"

// A target is unstable while too many of its readings have failed in both windows, and at least minFailures in the long one. A target
// with a long interval has a longer short window, which always includes the last reading.
const (
	longWindow  = time.Hour
	shortWindow = 5 * time.Minute
	minFailures = 4
)

// failures are the failed readings of a target within longWindow, without the excused ones.
type failures struct {
	// Counts are oldest first, at most one for each bucketLength.
	Counts []count `json:"counts,omitempty"`
	// Streak is the number of failures in a row that no alert covers yet. Warned says that the warning TargetDown covers the current
	// outage.
	Streak uint64 `json:"spell,omitempty"`
	Warned bool   `json:"warned,omitempty"`
	// since is when this process first judged the target, seen the target's counter at the last judgement. excused counts the failures
	// that are excluded.
	// late counts those that were only late: see Condition.Late.
	since               time.Time
	seen, excused, late uint64
}

// count counts the failed readings from At on, while one was due Every so often. No alert covers Failed; only the warning TargetDown
// covers Warned. Open is how many of them belong to the current outage. Throttled says that the server limited this address.
type count struct {
	At        time.Time     `json:"at,omitzero"`
	Every     time.Duration `json:"every"`
	Throttled bool          `json:"throttled,omitempty"`
	Failed    uint64        `json:"failed"`
	Warned    uint64        `json:"warned,omitempty"`
	Open      uint64        `json:"open,omitempty"`
}

// forWarning returns how many failed readings the warning counts.
func (c *count) forWarning() uint64 { return c.Failed }

// forCritical returns how many failed readings the critical alert counts.
func (c *count) forCritical() uint64 { return c.unlessThrottled(c.Failed + c.Warned) }

// ofServer returns how many failed readings the warning counts that are no limit on this address.
func (c *count) ofServer() uint64 { return c.unlessThrottled(c.Failed) }

func (c *count) unlessThrottled(failed uint64) uint64 {
	if c.Throttled { // users may be well
		return 0
	}
	return failed
}

// current returns the counter that includes the failures of the current outage.
func (f *failures) current(c *count) *uint64 {
	if f.Warned {
		return &c.Warned
	}
	return &c.Failed
}

// bucketLength is the time that one count covers.
const bucketLength = time.Minute

// add counts failures of the current outage.
func (f *failures) add(now time.Time, every time.Duration, throttled bool, failed uint64) {
	if failed == 0 {
		return
	}
	i := slices.IndexFunc(f.Counts, func(c count) bool {
		return now.Sub(c.At) < bucketLength && c.Every == every && c.Throttled == throttled
	})
	if i < 0 {
		i = len(f.Counts)
		f.Counts = append(f.Counts, count{At: now, Every: every, Throttled: throttled})
	}
	c := &f.Counts[i]
	*f.current(c) += failed
	c.Open += failed
}

// forgive removes the latest failures that, as has turned out since, were only a delay, which another alert covers.
func (f *failures) forgive(conditions []Condition) {
	if len(conditions) == 0 {
		return
	}
	var late uint64
	for i := range conditions {
		late = max(late, conditions[i].Late)
	}
	if late < f.late { // another process counts
		f.late = 0
	}
	left := late - f.late
	f.late, f.excused = late, f.excused+left
	f.Streak -= min(f.Streak, left)
	for i := range slices.Backward(f.Counts) {
		c := &f.Counts[i]
		n := min(c.Failed, left)
		c.Failed, c.Open, left = c.Failed-n, c.Open-min(c.Open, n), left-n
	}
}

// markWarned makes the failures of the current outage count for the critical alert only.
func (f *failures) markWarned() {
	for i := range f.Counts {
		if c := &f.Counts[i]; !f.Warned {
			c.Failed, c.Warned = c.Failed-min(c.Failed, c.Open), c.Warned+c.Open
		}
	}
	f.Warned = true
}

// excludeOutage removes the failures of the current outage from all counts.
func (f *failures) excludeOutage() {
	for i := range f.Counts {
		c := &f.Counts[i]
		n := f.current(c)
		*n -= min(*n, c.Open)
		c.Open = 0
	}
}

// endOutage ends the current outage; its remaining failures still count.
func (f *failures) endOutage() {
	for i := range f.Counts {
		f.Counts[i].Open = 0
	}
	f.Streak, f.Warned = 0, false
}

// within returns how many readings failed within the window, and which part of the window they stand for: a failure stands for the
// interval of its schedule. A reading that was not made counts as good. failedOf says how many readings of a count to include.
func (f *failures) within(window time.Duration, failedOf func(*count) uint64, now time.Time) (failed uint64, part float64) {
	var lost time.Duration
	for i := range f.Counts {
		if c := &f.Counts[i]; now.Sub(c.At) < window {
			n := failedOf(c)
			failed += n
			lost += time.Duration(n) * c.Every
		}
	}
	return failed, lost.Seconds() / window.Seconds()
}

// tooMany reports whether enough readings failed within longWindow. part is the part of it that they stand for.
func (f *failures) tooMany(failedOf func(*count) uint64, limit float64, now time.Time) (part float64, holds bool) {
	failed, part := f.within(longWindow, failedOf, now)
	return part, failed >= minFailures && part > limit
}

// maxFlap is the longest outage with only a warning that still counts for the critical TargetUnstable.
const maxFlap = longWindow / 4

// judgeUnstable finds which targets are unstable, and decides on that at once. The verdicts are those on their outages.
func (s *scene) judgeUnstable(verdicts map[Subject]*Verdict) (found findings) {
	rule := s.judge.rule(AlertTargetUnstable)
	for _, t := range s.targets {
		v := verdicts[t.subject]
		s.countFailures(t, v.Excuse)
		v.ExcusedFailures = t.memory.failures.excused
		s.judgeFailures(&found, t, Warning, rule.Warning.Over)
		if !t.WarnOnly && !t.Relay { // the critical alert on a relay is BridgeNotRelaying
			s.judgeFailures(&found, t, Critical, rule.Critical.Over)
		}
	}
	return found
}

// countFailures counts the new failed readings of a target, and excludes those that its excuse or an alert covers.
func (s *scene) countFailures(t *target, excuse Excuse) {
	j, f, outage := s.judge, &t.memory.failures, s.judge.outage(t.subject)
	f.since = cmp.Or(f.since, s.now)
	if t.Failed < f.seen { // the counter was reset
		f.seen = 0
	}
	failed := t.Failed - f.seen
	f.seen = t.Failed
	f.Streak += failed
	f.add(s.now, t.Every, t.Throttled, failed)
	f.forgive(t.Conditions)
	excused := excuse.Holds() || t.Relay && j.coversRelay(t.subject)
	if excused || outage.fires() {
		f.excused += f.Streak
		f.Streak = 0
	} else {
		j.changed = j.changed || failed > 0
	}
	root := j.downtime(excuse.Root)
	warned := root != nil && root.Alerted == Warning // what excuses the target has no more than a warning
	switch {
	case excused && !warned || outage.fires() && (outage.Alerted == Critical || s.now.Sub(outage.Since) > maxFlap):
		f.excludeOutage()
	case excused || outage.fires():
		f.markWarned()
	}
	if t.Up {
		f.endOutage()
	}
	f.Counts = slices.DeleteFunc(f.Counts, func(c count) bool { return s.now.Sub(c.At) >= longWindow })
}

// coversRelay reports whether a problem of a relay check covers its failures, because it is alerted or excused.
func (j *Judge) coversRelay(s Subject) bool {
	for key, known := range j.problems {
		if key.Subject == s && (known.Excuse.Holds() || slices.Contains(relayAlerts, key.Alert) && known.fires()) {
			return true
		}
	}
	return false
}

// judgeFailures adds a problem if more than that part of a target's readings have failed.
func (s *scene) judgeFailures(found *findings, t *target, severity Severity, limit float64) {
	f, failedOf := &t.memory.failures, (*count).forWarning
	if severity == Critical {
		failedOf = (*count).forCritical
	}
	over := func(window time.Duration) bool {
		_, part := f.within(window, failedOf, s.now)
		return part > limit
	}
	key := t.key(AlertTargetUnstable, "", severity)
	part, holds := f.tooMany(failedOf, limit, s.now)
	holds = holds && over(max(shortWindow, t.Every*5/4))
	watched := s.now.Sub(f.since)
	switch {
	case !t.Read:
		holds = s.judge.problems[key] != nil
	case s.judge.outage(t.subject).fires() && !t.Up || t.Every == 0:
		return // TargetDown covers it, or there is no schedule
	case !holds && watched < longWindow && (watched < shortWindow || over(watched)):
		return // too little data to say that the target is stable
	}
	p := found.conclude(s, t, &check{
		key:     key,
		holds:   holds,
		unknown: !t.Read,
		since:   s.now,
	})
	if p == nil {
		return
	}
	_, server := f.tooMany((*count).ofServer, limit, s.now)
	p.Throttled = severity == Warning && !server
	s.decideOn(p)
	found.values = append(found.values, Value{Subject: t.subject, Alert: AlertTargetUnstable, Number: part})
}
