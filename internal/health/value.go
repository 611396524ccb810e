package health

import (
	"math"
	"slices"
	"time"
)

// Value is a measured value that an alert compares with its limits.
type Value struct {
	Subject
	// Alert is the name of the alert.
	Alert string
	// Number is bytes of memory, the used part of a volume or of its inodes, failed logins per minute, seconds until a certificate
	// expires, or the failed part of readings.
	Number float64
	// Warning and Critical, for AlertCertificateExpiry, are the limits of that certificate; 0 for alerts with the same for every subject.
	Warning, Critical float64
}

// limit is what a value exceeds.
type limit struct {
	over float64
	// since is when a certificate has reached the limit, or will, and begins when that certificate begins; zero for other values.
	since, begins time.Time
}

// measured are the alerts on measured values of targets.
var measured = []string{AlertVolumeUsage, AlertVolumeInodes, AlertCertificateExpiry, AlertAuthFailureRate}

// judgeMemory adds a problem if a container uses too much memory. Only the XMPP server's container gets a warning.
func (r *round) judgeMemory(c *Container, unknown, first bool) {
	if c.Memory == 0 {
		return
	}
	r.values = append(r.values, Value{Subject: c.subject(), Alert: AlertContainerMemory, Number: c.Memory})
	rule := r.judge.rule(AlertContainerMemory)
	exceed := func(severity Severity, over float64) {
		if c.Memory > over {
			p := r.beginProblem(problemKey{Subject: c.subject(), Alert: AlertContainerMemory, Severity: severity}, r.now, first)
			p.Unknown, p.condition = unknown, &ConditionVerdict{}
		}
	}
	if c.Role == "xmpp" {
		exceed(Warning, rule.Warning.Over)
	}
	exceed(Critical, rule.Critical.Over)
}

// decideOnMemory holds back the alerts on memory of excused containers, as the rules do.
func (r *round) decideOnMemory() {
	for _, p := range r.problems {
		if p.Alert != AlertContainerMemory {
			continue
		}
		v := r.verdicts[p.Subject]
		if e := v.Excuse; e.Holds() {
			p.cause = &cause{Excuse: e}
		}
		if p.Unknown {
			p.freeze(r.judge)
		}
		r.decideOn(p)
		v.MemoryAlerted = v.MemoryAlerted || !p.condition.Excused
		r.verdicts[p.Subject] = v
	}
}

// judgeTargetValue adds a problem if a measured value of a target exceeds its limits.
func (r *round) judgeTargetValue(t *Target, c *seenCondition) {
	unknown := c.saved || !c.at.Equal(r.now)
	v := Value{Subject: TargetSubject(t.Name), Alert: c.Alert, Number: c.Used}
	exceeds := v.Number
	rule := r.judge.rule(c.Alert)
	warning, critical := limit{over: rule.Warning.Over}, limit{over: rule.Critical.Over}
	switch c.Alert {
	case AlertCertificateExpiry:
		var first time.Time
		first, warning, critical = expiryLimits(rule, &c.Condition)
		v.Number, v.Warning, v.Critical = first.Sub(r.now).Seconds(), -warning.over, -critical.over
		exceeds = -v.Number
	case AlertAuthFailureRate:
		v.Number = r.judge.failingLogins(t, c, unknown, r.now)
		exceeds = v.Number
	}
	lost := c.saved || math.IsNaN(exceeds) // keep the problems unchanged
	if !lost {
		r.values = append(r.values, v)
	}
	exceed := func(severity Severity, limit limit) {
		key, verdict := problemKey{
			v.Subject,
			c.Alert,
			c.Of,
			severity,
		}, &ConditionVerdict{
			Target:   t.Name,
			Alert:    c.Alert,
			Of:       c.Of,
			Severity: severity,
		}
		holds := exceeds > limit.over
		if lost {
			holds = r.judge.problems[key] != nil
		}
		if c.Alert == AlertVolumeInodes && (holds || !unknown) { // an outdated "well" says nothing about now
			r.conditions = append(r.conditions, verdict)
		}
		if !holds {
			return
		}
		since, first := r.now, c.first
		if c.Alert == AlertCertificateExpiry {
			first = false
			if limit.since.Before(since) { // else the certificate begins in the future
				since = limit.since
				r.judge.delayProblem(key, limit.begins)
			}
		}
		p := r.beginProblem(key, since, first)
		p.Unknown, p.condition = unknown || lost, verdict
		p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofCondition(t, c.Alert, "", since) })
		if p.Unknown && c.Alert != AlertCertificateExpiry { // its expiry needs no new reading
			p.freeze(r.judge)
		}
		verdict.Lasted = p.Lasted
	}
	exceed(Warning, warning)
	exceed(Critical, critical)
}

// rate is the sum of several counters over time.
type rate struct {
	counts map[string]float64
	total  float64
	points []point
}

// point is the total at a moment.
type point struct {
	at    time.Time
	total float64
}

// failingLogins returns the number of failed logins per minute; NaN unless there are two readings within the window.
func (j *Judge) failingLogins(t *Target, c *seenCondition, unknown bool, now time.Time) float64 {
	known := &j.target(t.Name).logins
	window := j.rule(AlertAuthFailureRate).Window
	if n := len(known.points); !unknown && (n == 0 || t.ReadAt.After(known.points[n-1].at)) {
		known.observe(t.ReadAt, c.Counts)
	}
	known.points = slices.DeleteFunc(known.points, func(p point) bool { return now.Sub(p.at) > window })
	if len(known.points) < 2 {
		return math.NaN()
	}
	first, last := known.points[0], known.points[len(known.points)-1]
	return (last.total - first.total) / last.at.Sub(first.at).Minutes()
}

// observe adds a reading. The first value of a counter does not count. A counter that went down was reset.
func (r *rate) observe(at time.Time, counts map[string]float64) {
	for name, count := range counts {
		switch before, known := r.counts[name]; {
		case known && count >= before:
			r.total += count - before
		case known:
			r.total += count
		}
	}
	r.counts = counts
	r.points = append(r.points, point{at, r.total})
}
