package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Condition is a possible problem of a target, other than an outage, that a reading checks and that has its own alert.
type Condition struct {
	// Alert is the name of the alert.
	Alert string
	// Of is the part of the target that it is about, such as a virtual host; "" for the target itself.
	Of    string
	Holds bool
	// Modules, for AlertModuleProblem, are the failed modules. The condition holds unless all of them are ignored.
	Modules []string
	// Certificates, for AlertCertificateExpiry, are those that must not expire; for AlertServedNotRenewed, the one that is served.
	Certificates []Validity
	// OwnLimits, for AlertCertificateExpiry, replace the limits of the configuration; zero for none.
	OwnLimits ExpiryLimits
	// Used, for AlertVolumeUsage and AlertVolumeInodes, is the used part of a volume or of its inodes.
	Used float64
	// Counts, for AlertAuthFailureRate, are the failed logins, by series.
	Counts map[string]float64
}

// The names of the alerts on conditions.
const (
	AlertModuleProblem         = "XMPPModuleProblem"
	AlertComponentDisconnected = "XMPPComponentDisconnected"
	AlertAuthSourceMissing     = "XMPPAuthSourceMissing"
	AlertServicesUnlinked      = "IRCServicesUnlinked"
	AlertOrphans               = "PlantStoreOrphans"
	AlertSeriesDropped         = "UpstreamSeriesDropped"
	AlertChainInvalid          = "TLSChainInvalid"
	AlertServedNotRenewed      = "TLSServedNotRenewed"
	AlertCacheExhausted        = "IdentityCacheExhausted"
	AlertPlaceholder           = "PlaceholderCredential"
	AlertBridgeNotRelaying     = "BridgeNotRelaying"
	AlertBridgeSlow            = "BridgeSlow"
	AlertRelaySessionDown      = "RelaySessionDown"
	AlertRelayUnwatched        = "RelayUnwatched"
	AlertVolumeReadOnly        = "DataVolumeReadOnly"
	AlertBackupOld             = "BackupOld"
)

// seenCondition is a condition and when a reading last checked it. first says that no earlier reading did, saved that it comes from the
// former process.
type seenCondition struct {
	Condition
	at           time.Time
	first, saved bool
}

// ConditionVerdict is the data behind the metrics of a condition.
type ConditionVerdict struct {
	Target, Alert, Of string
	// Severity is the alert's severity.
	Severity Severity
	// Lasted is how long it has held, 0 while it does not.
	Lasted  time.Duration
	Excused bool
}

// resumeCondition restores a condition that held when the former process ended.
func (j *Judge) resumeCondition(target string, c Condition, now time.Time) {
	if c.Alert == AlertMonitoringGap { // the judge checks it, not a reading
		return
	}
	t := j.target(target)
	if !slices.ContainsFunc(t.conditions, func(known seenCondition) bool { return known.Alert == c.Alert && known.Of == c.Of }) {
		t.conditions = append(t.conditions, seenCondition{Condition: c, at: now, saved: true})
	}
}

// conditionsOf returns the known conditions of a target. After a failed reading, it keeps unchecked conditions for unreadGrace.
func (j *Judge) conditionsOf(t *Target, now time.Time) []seenCondition {
	var list []seenCondition
	known := &j.target(t.Name).conditions
	if t.Read {
		for _, c := range t.Conditions {
			seen := slices.ContainsFunc(*known, func(old seenCondition) bool { return old.Alert == c.Alert && old.Of == c.Of })
			list = append(list, seenCondition{Condition: c, at: now, first: !seen})
		}
	}
	fresh := list
	for _, old := range *known {
		// The parts of other targets can vanish, but a relay always has both ways, and a check may test only one.
		checked := slices.ContainsFunc(fresh, func(c seenCondition) bool { return c.Alert == old.Alert && (c.Of == old.Of || !t.Relay) })
		if old.first = false; !checked && (!t.Read || !t.Up) && now.Sub(old.at) <= unreadGrace {
			list = append(list, old)
		}
	}
	*known = list
	return list
}

// judgeConditions adds a problem for each condition of a target that holds.
func (r *round) judgeConditions(t *Target) {
	j := r.judge
	for _, c := range j.conditionsOf(t, r.now) {
		rule := j.rule(c.Alert)
		c.Holds = c.Holds || slices.ContainsFunc(c.Modules, func(name string) bool { return !slices.Contains(rule.Ignore, name) })
		switch {
		case slices.Contains(measured, c.Alert):
			r.judgeTargetValue(t, &c)
		case c.Alert == AlertServedNotRenewed:
			r.judgeCondition(t, &c, Warning)
			if t.WarnOnly {
				continue
			}
			if c.saved {
				c.Holds = j.problems[problemKey{
					TargetSubject(t.Name),
					c.Alert,
					c.Of,
					Critical,
				}] != nil
			} else {
				c.Holds = c.Holds && slices.ContainsFunc(c.Certificates, r.expiresBeforeRenewal)
			}
			r.judgeCondition(t, &c, Critical)
		case rule.Pages && !t.WarnOnly:
			r.judgeCondition(t, &c, Critical)
		default:
			r.judgeCondition(t, &c, Warning)
		}
	}
}

// judgeCondition adds a problem if the condition holds.
func (r *round) judgeCondition(t *Target, c *seenCondition, severity Severity) {
	unknown := c.saved || !c.at.Equal(r.now)
	if unknown && !c.Holds {
		return // an outdated "well" says nothing about now
	}
	v := &ConditionVerdict{
		Target:   t.Name,
		Alert:    c.Alert,
		Of:       c.Of,
		Severity: severity,
	}
	r.conditions = append(r.conditions, v)
	if !c.Holds {
		return
	}
	p := r.beginProblem(problemKey{
		TargetSubject(t.Name),
		c.Alert,
		c.Of,
		severity,
	}, r.now, c.first)
	p.Unknown, p.condition = unknown, v
	p.explain(r.now, func(since time.Time) (cause, bool) { return r.ofCondition(t, c.Alert, c.Of, since) })
	if p.cause == nil && p.record.Excuse.Holds() && r.judge.rule(c.Alert).BeginsAnew {
		p.record.Since, p.Since, p.Lasted = r.now, r.now, minDuration
	}
	if unknown {
		p.freeze(r.judge)
	}
	v.Lasted = p.Lasted
}

// ofOutage returns the outage of the target as a cause.
func (r *round) ofOutage(t *Target, since time.Time) (cause, bool) {
	known := r.judge.problems[problemKey{Subject: TargetSubject(t.Name), Alert: AlertTargetDown}]
	if known == nil || since.Before(known.Since.Add(-excuseTolerance)) {
		return cause{}, false
	}
	return cause{Excuse: Excuse{ReasonDependency, t.Name, TargetSubject(t.Name)}, since: known.Since}, true
}

// ofOtherTarget returns why that target does not work, as the cause of another target's problem. One that only limits this address works.
func (r *round) ofOtherTarget(t *Target, since time.Time) (cause, bool) {
	if c, ok := r.ofTarget(t, since); ok || t.Throttled {
		return c, ok
	}
	return r.ofOutage(t, since)
}

// ofServices returns why the IRC services do not work.
func (r *round) ofServices(t *Target, since time.Time) (cause, bool) {
	for i := range r.targets {
		if s := &r.targets[i]; s.Role == "irc_services" && (t.WarnOnly || !s.WarnOnly) {
			if c, ok := r.ofOtherTarget(s, since); ok {
				return c, true
			}
		}
	}
	return r.ofRole("irc_services", since)
}

// ofRole returns why no container with that role works. If one of them works, ok is false.
func (x *causes) ofRole(role string, since time.Time) (found cause, ok bool) {
	var containers []*Container
	for _, c := range x.containers {
		if c.Role == role {
			containers = append(containers, c)
		}
	}
	slices.SortFunc(containers, func(a, b *Container) int { return compareSubjects(a.subject(), b.subject()) })
	for _, c := range containers {
		one, explained := cause{Excuse: Excuse{Reason: ReasonMaintenance, Cause: c.Name, Root: c.subject()}}, true
		if !x.underMaintenance(c.subject()) {
			one, explained = x.ofOwnContainer(c, since)
		}
		if !explained {
			return cause{}, false
		}
		if !ok {
			found, ok = one, true
		}
	}
	return found, ok
}

// conditionVerdicts returns the verdicts sorted by alert, target and part.
func (r *round) conditionVerdicts() []ConditionVerdict {
	list := make([]ConditionVerdict, len(r.conditions))
	for i, v := range r.conditions {
		list[i] = *v
	}
	slices.SortFunc(list, func(a, b ConditionVerdict) int {
		return cmp.Or(strings.Compare(a.Alert, b.Alert), strings.Compare(a.Target, b.Target), strings.Compare(a.Of, b.Of),
			cmp.Compare(a.Severity, b.Severity))
	})
	return list
}
