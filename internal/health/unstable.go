package health

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// AlertTargetUnstable is the name of the alert on a target that fails too often, although it is not down.
const AlertTargetUnstable = "TargetUnstable"

// A target is unstable while too many of its readings have failed in both windows, and at least minFailures in the long one. A target
// with a long interval has a longer short window, which always includes the last reading. The critical alert also begins when a third more
// of the way to all readings failed in a quick window.
const (
	longWindow  = time.Hour
	quickWindow = 12 * time.Minute // at least
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

// share is how many readings failed within a window, and which part of it they stand for. over says that this exceeds a limit.
type share struct {
	failed uint64
	part   float64
	over   bool
}

// shareOf compares a target's failures with the limit of the alert of one severity. The warning takes more than its limit. The critical
// alert takes as many, give or take half a reading, since schedules and windows do not fit exactly.
func (f *failures) shareOf(window time.Duration, severity Severity, limit float64, now time.Time) (is share) {
	if severity == Warning {
		is.failed, is.part = f.within(window, (*count).forWarning, now)
		is.over = is.part > limit
		return is
	}
	is.failed, is.part = f.within(window, (*count).forCritical, now)
	half := is.part / float64(2*max(is.failed, 1))
	is.over = is.part+half >= limit
	return is
}

// enough reports whether the limit is exceeded, by enough failures to say so.
func (s *share) enough() bool { return s.over && s.failed >= minFailures }

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
	j, f := s.judge, &t.memory.failures
	outage, began := j.lastOutage(t.subject, s.now)
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
	case excused && !warned || outage.fires() && (outage.Alerted == Critical || s.now.Sub(began) > maxFlap):
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

// judgeFailures adds a problem if too many of a target's readings have failed.
func (s *scene) judgeFailures(found *findings, t *target, severity Severity, limit float64) {
	f, key := &t.memory.failures, t.key(AlertTargetUnstable, "", severity)
	within := func(window time.Duration, limit float64) share {
		return f.shareOf(window, severity, limit, s.now)
	}
	known := s.judge.problems[key] != nil
	hour, quick := within(longWindow, limit), share{}
	window := min(max(quickWindow, s.judge.targetDue()*12/5), longWindow) // so that it takes more than a single outage without a page
	if severity == Critical && known {
		quick = within(window, limit)
	} else if severity == Critical {
		quick = within(window, limit+(1-limit)/3)
	}
	lately := within(max(shortWindow, t.Every*5/4), limit)
	holds := lately.over && (hour.enough() || quick.enough())
	watched := s.now.Sub(f.since)
	switch {
	case !t.Read:
		holds = known
	case s.coveredByOutage(t, severity, known) || t.Every == 0:
		return // TargetDown covers it, or there is no schedule
	case !holds && watched < longWindow && (watched < shortWindow || within(watched, limit).over):
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
	if severity == Warning {
		failed, part := f.within(longWindow, (*count).ofServer, s.now)
		p.Throttled = failed < minFailures || part <= limit
	}
	if !hour.over && quick.over {
		p.Because = fmt.Sprintf("%.0f %% of those in the last %.0f minutes", 100*quick.part, window.Minutes())
	}
	s.decideOn(p)
	found.values = append(found.values, Value{Subject: t.subject, Alert: AlertTargetUnstable, Number: hour.part})
}

// coveredByOutage reports whether TargetDown says the same, with that severity at least. While a target is down, a problem does not begin
// either.
func (s *scene) coveredByOutage(t *target, severity Severity, known bool) bool {
	outage := s.judge.problems[outageKey(t.subject)]
	return outage.fires() && (outage.Flaps || !t.Up) && (outage.Alerted >= severity || !t.Up && !known)
}
