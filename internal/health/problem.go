package health

import "time"

// candidate is a problem whose severity or excuse is not decided yet.
type candidate struct {
	Problem
	key      problemKey
	record   *record
	before   record        // at the last judgement
	cause    cause         // zero if nothing explains it
	verdict  *Verdict      // nil if it is not about availability
	frozen   bool          // its severity and excuse stay unchanged
	warnOnly bool          // it is a warning at most
	spared   bool          // it flaps, and something explains the present outage: it gets no worse
	calm     time.Duration // for how long no outage has had an alert, if it flaps and its subject is up
	ahead    thresholds
	// refused says that the expiry of the certificate fails the readings, waits that another target may be the first that serves it.
	refused, waits bool
}

// minDuration is the least duration of a problem, since 0 means that there is none.
const minDuration = time.Millisecond

// begin adds a problem. A new problem began at since, or earlier with atLeast; a known one keeps its own beginning.
func (f *findings) begin(s *scene, key problemKey, since time.Time, atLeast bool) *candidate {
	known := s.judge.problems[key]
	if known == nil {
		known = &record{Since: since, AtLeast: atLeast}
		s.judge.problems[key], s.judge.changed = known, true
	}
	p := &candidate{
		key:    key,
		record: known,
		before: *known,
		ahead:  thresholds{never, never},
		Problem: Problem{
			Subject: key.Subject,
			Alert:   key.Alert,
			Of:      key.Of,
			Since:   known.Since,
			AtLeast: known.AtLeast,
			Lasted:  max(s.now.Sub(known.Since), minDuration),
			Was:     known.Was,
		},
	}
	p.countOutages(s)
	f.problems = append(f.problems, p)
	return p
}

// explain finds the cause of the problem by the time that it began, or its present outage. A cause that began too late for that is only
// named, in Also.
func (p *candidate) explain(now time.Time, causeOf func(since time.Time) cause) {
	c := causeOf(laterOf(p.Since, p.record.Again))
	if p.cause = c; !c.Excuse.Holds() {
		c = causeOf(now)
	}
	if !c.ended {
		p.Also = c.Cause
	}
}

// freeze keeps the severity and the excuse of a problem, since without a new reading a problem must not get worse.
func (p *candidate) freeze(j *Judge) {
	p.frozen, p.Severity, p.Excuse = true, p.record.Alerted, p.record.Excuse
	if p.warnOnly {
		p.Severity = min(p.Severity, Warning)
	}
	if !p.Excuse.Holds() {
		p.Lasted = min(p.Lasted, j.limits(p).maxDuration(p.Severity))
	}
}

// thresholds are how long a problem lasts before it becomes a warning, and before it becomes critical.
type thresholds struct{ warning, critical time.Duration }

// never is longer than anything lasts.
const never = time.Duration(1<<63 - 1)

// limits are the thresholds of the alert on a problem.
func (j *Judge) limits(p *candidate) thresholds {
	rule := j.rule(p.Alert)
	t := thresholds{rule.Warning.Hold, rule.Critical.Hold}
	if p.AtLeast && IsOutage(p.Alert) && !p.OnEngine() {
		t.warning = t.critical // its duration is unknown until then
	}
	t.critical += p.record.realSince().Sub(p.record.Since)
	t.warning, t.critical = t.warning-p.record.early(), t.critical-p.record.early()
	if r := p.record; r.Flaps {
		t.warning = 0
		switch {
		case r.Alerted == Critical:
			t.critical = 0
		case p.spared, !r.Calm.IsZero():
			t.critical = never
		}
	}
	switch {
	case p.warnOnly, p.record.Removed:
		t.critical = never
	case rule.Pages && p.key.Severity == Pending:
		t.warning = never
	}
	switch p.key.Severity {
	case Pending: // of a problem that may have either
	case Warning:
		t.critical = never
	case Critical:
		t.warning = never
	}
	return t
}

func (t thresholds) severity(lasted time.Duration) Severity {
	switch {
	case lasted > t.critical:
		return Critical
	case lasted > t.warning:
		return Warning
	}
	return Pending
}

// maxDuration is the longest duration of a problem that is at most this severe.
func (t thresholds) maxDuration(s Severity) time.Duration {
	if s == Pending {
		return min(t.warning, t.critical)
	}
	if s == Warning {
		return t.critical
	}
	return never
}

// decide sets the severities and excuses of the problems, but of those of memory. Unexplained ones come first, since they may be causes.
// The excuse of a verdict holds back all its alerts: it has none unless all its problems have.
func (s *scene) decide(problems []*candidate) {
	for _, explained := range []bool{false, true} {
		for _, p := range problems {
			if p.cause.Holds() == explained && !p.onMemory() {
				s.decideOn(p)
			}
		}
	}
	unexcused := map[*Verdict]bool{}
	for _, p := range problems {
		unexcused[p.verdict] = unexcused[p.verdict] || !p.Excuse.Holds()
	}
	for _, p := range problems {
		switch v := p.verdict; {
		case v == nil || !p.Excuse.Holds():
		case unexcused[v]:
			held := *p
			held.Lasted = min(p.Lasted, s.judge.limits(p).maxDuration(Pending))
			v.set(&held, s.judge)
		default:
			v.Excuse = p.Excuse
		}
	}
}

func (s *scene) decideOn(p *candidate) {
	j := s.judge
	switch {
	case p.frozen, p.waits:
	case p.cause.Holds() && p.record.Alerted == Pending && s.mayHoldBack(&p.cause, p.Lasted):
		p.Excuse = p.cause.Excuse
		p.ahead.critical = j.containerDue()
	default:
		if p.record.Flaps && p.cause.Holds() && s.mayHoldBack(&p.cause, s.now.Sub(p.record.realSince())) {
			p.spared = true
			p.verdict.set(p, j)
		}
		p.ahead = j.limits(p)
		p.Severity = p.ahead.severity(p.Lasted)
		p.record.Alerted = max(p.record.Alerted, p.Severity)
		if p.record.fires() && !p.before.fires() {
			s.beginFlapping(p)
		}
	}
	p.record.Excuse = p.Excuse
	j.changed = j.changed || *p.record != p.before
	if span := j.unavailable[p.Subject]; span != nil && p.Severity > Pending {
		span.Alerted = true
	}
}

// mayHoldBack reports whether a cause still holds back a problem of that duration. Maintenance always does. Any other cause must have
// an alert of its own by the time that the alert on it is due.
func (s *scene) mayHoldBack(c *cause, lasted time.Duration) bool {
	j := s.judge
	if c.Reason == ReasonMaintenance || lasted <= j.containerDue() {
		return true
	}
	if known := j.unavailable[c.Root]; known != nil {
		engine := c.Root.Kind == KindTarget
		if known.Alerted && s.now.Sub(known.Down) <= j.rules.Lookback ||
			engine && s.now.Sub(known.Began) <= j.targetDue() {
			return true
		}
	}
	return j.outage(c.Root).fires() || j.certificateTold(c.Root) ||
		j.relayAlerted(c.Root, s.now.Add(-lasted)) || j.restartsTooOften(c.Root)
}

// excuseMaintained excuses all subjects under maintenance, even those without a problem. An alert that already fires is not excused.
func (s *scene) excuseMaintained(problems []*candidate, verdicts map[Subject]*Verdict) {
	alerted := map[Subject]bool{}
	for _, p := range problems {
		if p.record.fires() && (p.verdict != nil || p.onMemory()) {
			alerted[p.Subject] = true
		}
	}
	for subject, v := range verdicts {
		if !alerted[subject] && !v.Excuse.Holds() && s.underMaintenance(subject) {
			v.Excuse = Excuse{Reason: ReasonMaintenance}
		}
	}
}
