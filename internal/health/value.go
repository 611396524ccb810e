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

// AlertContainerMemory is the name of the alert on a container's memory.
const AlertContainerMemory = "ContainerMemory"

func (p *candidate) onMemory() bool { return p.Alert == AlertContainerMemory }

// judgeMemory adds a problem if a container uses too much memory. Only the XMPP server's container gets a warning. While nobody knows, a
// problem of the same run stays.
func (s *scene) judgeMemory(found *findings, c *Container, unknown, first bool) {
	if s.now.Sub(s.judge.engines[c.Host].read) > unreadGrace {
		return
	}
	missed := s.missesMemory(c)
	if c.HasMemory {
		found.values = append(found.values, Value{Subject: c.Subject(), Alert: AlertContainerMemory, Number: c.Memory})
	}
	rule := s.judge.rule(AlertContainerMemory)
	exceed := func(severity Severity, over float64) {
		key := problemKey{Subject: c.Subject(), Alert: AlertContainerMemory, Severity: severity}
		known := s.judge.problems[key]
		if c.Memory > over || missed && known != nil && !known.Since.Before(c.Started) {
			found.begin(s, key, s.now, first).Unknown = unknown || missed
		}
	}
	if c.Role == "xmpp" {
		exceed(Warning, rule.Warning.Over)
	}
	exceed(Critical, rule.Critical.Over)
}

// missesMemory reports whether it is unknown what a running container uses, and was known a short while ago. That is so for a moment after
// a restart of the exporter, and after each failed reading of the engine, since the engine is asked for it after everything else.
func (s *scene) missesMemory(c *Container) bool {
	known := s.judge.restarts[c.Subject()]
	if c.HasMemory {
		known.measured = s.judge.engines[c.Host].read
		return false
	}
	missed := min(s.now.Sub(known.measured), s.now.Sub(s.judge.resumed))
	return (c.State == Running || c.State == Paused) && missed <= unreadGrace
}

// decideOnMemory holds back the alerts on memory of excused containers, as the rules do.
func (s *scene) decideOnMemory(problems []*candidate, verdicts map[Subject]*Verdict) {
	for _, p := range problems {
		if !p.onMemory() {
			continue
		}
		v := verdicts[p.Subject]
		p.cause.Excuse = v.Excuse
		if p.Unknown {
			p.freeze(s.judge)
		}
		s.decideOn(p)
		v.MemoryAlerted = v.MemoryAlerted || !p.Excuse.Holds()
	}
}

// judgeValue adds a problem if a measured value of a target exceeds its limits.
func (s *scene) judgeValue(found *findings, t *target, c *seenCondition) {
	rule := s.judge.rule(c.Alert)
	v := Value{Subject: t.subject, Alert: c.Alert, Number: c.Used}
	exceeds := v.Number
	warning, critical := limit{over: rule.Warning.Over, since: s.now}, limit{over: rule.Critical.Over, since: s.now}
	switch {
	case rule.expires():
		var first time.Time
		first, warning, critical = expiryLimits(rule, &c.Condition)
		v.Number, v.Warning, v.Critical = first.Sub(s.now).Seconds(), -warning.over, -critical.over
		exceeds = -v.Number
	case rule.Window != 0: // it is a rate
		v.Number = s.failingLogins(t, c)
		exceeds = v.Number
	}
	lost := c.saved || math.IsNaN(exceeds) // keep the problems unchanged
	if !lost {
		found.values = append(found.values, v)
	}
	exceed := func(severity Severity, limit limit) {
		key := t.key(c.Alert, c.Of, severity)
		known := s.judge.problems[key]
		check := check{
			key:     key,
			holds:   exceeds > limit.over,
			unknown: c.unknown || lost,
			since:   s.now,
			atLeast: c.first && !rule.expires(),
		}
		if lost {
			check.holds = known != nil
		}
		if limit.since.Before(s.now) { // else the certificate begins in the future
			check.since = limit.since
			if known != nil && known.Since.Before(limit.begins) { // it may be of an earlier certificate
				known.Since, s.judge.changed = limit.begins, true
			}
		}
		if p := found.conclude(s, t, &check); p != nil && rule.expires() {
			if !c.saved {
				p.record.Certificate = firstToExpire(c.Certificates).id()
			}
			p.refused = c.Refused && !c.unknown
		}
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
func (s *scene) failingLogins(t *target, c *seenCondition) float64 {
	known := &t.memory.logins
	window := s.judge.rule(c.Alert).Window
	if n := len(known.points); !c.unknown && (n == 0 || t.ReadAt.After(known.points[n-1].at)) {
		known.observe(t.ReadAt, c.Counts)
	}
	known.points = slices.DeleteFunc(known.points, func(p point) bool { return s.now.Sub(p.at) > window })
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
