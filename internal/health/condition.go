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
	// Refused, for AlertCertificateExpiry, says that the reading failed because the served certificate has expired.
	Refused bool
	// OwnLimits, for AlertCertificateExpiry, replace the limits of the configuration; zero for none.
	OwnLimits ExpiryLimits
	// Used, for AlertVolumeUsage and AlertVolumeInodes, is the used part of a volume or of its inodes.
	Used float64
	// Counts, for AlertAuthFailureRate, are the failed logins, by series.
	Counts map[string]float64
	// Because is what explains it, in words for people. It may have names that strangers chose.
	Because string
	// Late, for AlertBridgeSlow, is how many readings failed only because messages were late, which have arrived since.
	Late uint64
}

// The names of the alerts on history, which only Prometheus evaluates, and of those on conditions that readings check. Whatever the judge
// does beyond that for an alert stands beside its name in another file.
const (
	AlertSessionsGone = "XMPPSessionsGone"
	AlertUsersGone    = "IRCUsersGone"

	AlertVolumeUsage           = "DataVolumeUsage"
	AlertVolumeInodes          = "DataVolumeInodes"
	AlertAuthFailureRate       = "XMPPAuthFailureRate"
	AlertModuleProblem         = "XMPPModuleProblem"
	AlertModuleMissing         = "XMPPModuleMissing"
	AlertComponentDisconnected = "XMPPComponentDisconnected"
	AlertAuthSourceMissing     = "XMPPAuthSourceMissing"
	AlertServicesUnlinked      = "IRCServicesUnlinked"
	AlertOrphans               = "PlantStoreOrphans"
	AlertSeriesDropped         = "UpstreamSeriesDropped"
	AlertChainInvalid          = "TLSChainInvalid"
	AlertServedNotRenewed      = "TLSServedNotRenewed"
	AlertCacheExhausted        = "IdentityCacheExhausted"
	AlertPlaceholder           = "PlaceholderCredential"
	AlertBridgeSlow            = "BridgeSlow"
	AlertVolumeReadOnly        = "DataVolumeReadOnly"
	AlertBackupOld             = "BackupOld"
)

// seenCondition is a condition and when a reading last checked it. first says that no earlier reading did, unknown that the last one
// could not, saved that it comes from the former process.
type seenCondition struct {
	Condition
	at                    time.Time
	first, unknown, saved bool
}

// slowBridge reports whether an alert says that a bridge is slow.
func (j *Judge) slowBridge(relay Subject) bool { return j.alerted(relay, AlertBridgeSlow, time.Time{}) }

func (c *Condition) same(as seenCondition) bool { return c.Alert == as.Alert && c.Of == as.Of }

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
func (t *targetMemory) resumeCondition(c Condition, now time.Time) {
	if !slices.ContainsFunc(t.conditions, c.same) {
		t.conditions = append(t.conditions, seenCondition{Condition: c, at: now, saved: true})
	}
}

// knownConditions returns the known conditions of a target. What no reading checks stays until one succeeds, or its alert would end because
// nobody looked. A value whose series the rules compare stays for unreadGrace, or a certificate's for as long as in the rules.
func (s *scene) knownConditions(t *target) []seenCondition {
	now := s.now
	var list []seenCondition
	if t.Read {
		for _, c := range t.Conditions {
			list = append(list, seenCondition{Condition: c, at: now, first: !slices.ContainsFunc(t.memory.conditions, c.same)})
		}
	}
	fresh := list
	for _, old := range t.memory.conditions {
		// The parts of other targets can vanish, but a relay always has both ways, and a check may test only one.
		checked := slices.ContainsFunc(fresh, func(c seenCondition) bool { return c.Alert == old.Alert && (c.Of == old.Of || !t.Relay) })
		grace, rule := unreadGrace, s.judge.rule(old.Alert)
		if rule.expires() {
			grace = s.judge.rules.SlowLookback
		}
		old.first, old.unknown = false, true
		if !checked && (!t.Read || !t.Up) && (!rule.OwnSeries || now.Sub(old.at) <= grace) {
			list = append(list, old)
		}
	}
	t.memory.conditions = list
	return list
}

// judgeConditions finds which conditions of targets hold.
func (s *scene) judgeConditions() (found findings) {
	for _, t := range s.targets {
		for _, c := range s.knownConditions(t) {
			if s.judge.rule(c.Alert).Measured {
				s.judgeValue(&found, t, &c)
			} else {
				s.judgeCondition(&found, t, &c)
			}
		}
	}
	return found
}

func (s *scene) judgeCondition(found *findings, t *target, c *seenCondition) {
	rule := s.judge.rule(c.Alert)
	c.Holds = c.Holds || slices.ContainsFunc(c.Modules, func(name string) bool { return !slices.Contains(rule.Ignore, name) })
	conclude := func(severity Severity, holds bool) {
		p := found.conclude(s, t, &check{
			key:     t.key(c.Alert, c.Of, severity),
			holds:   holds,
			unknown: c.unknown,
			since:   s.now,
			atLeast: c.first,
		})
		if p != nil {
			p.Because = c.Because
			if c.unknown && !c.saved {
				p.LastKnown = c.at
			}
		}
	}
	switch {
	case rule.Critical.Under != 0:
		conclude(Warning, c.Holds)
		if !t.WarnOnly {
			conclude(Critical, s.expiresUnrenewed(t, c))
		}
	case rule.Pages && !t.WarnOnly:
		conclude(Critical, c.Holds)
	default:
		conclude(Warning, c.Holds)
	}
}

// check is what a reading of a target, or the judge, found out about a condition. A new problem began at since, or earlier with atLeast.
type check struct {
	key problemKey
	// unknown says that this is the last known state.
	holds, unknown bool
	since          time.Time
	atLeast        bool
}

// conclude adds a problem if the condition holds, and returns it; else nil.
func (f *findings) conclude(s *scene, t *target, c *check) *candidate {
	if !c.holds {
		if !c.unknown { // an outdated "well" says nothing about now
			f.well = append(f.well, c.key)
		}
		return nil
	}
	p := f.begin(s, c.key, c.since, c.atLeast)
	p.Unknown = c.unknown
	p.explain(s.now, func(since time.Time) cause { return s.ofCondition(t, c.key, since) })
	if !p.cause.Holds() && p.record.Excuse.Holds() && s.judge.rule(p.Alert).BeginsAnew {
		p.record.Since, p.Since, p.Lasted = s.now, s.now, minDuration
	}
	if p.Unknown && !s.judge.rule(p.Alert).expires() { // its expiry needs no new reading
		p.freeze(s.judge)
	}
	return p
}

// conditions returns the verdicts on the conditions that were checked, sorted by alert, target and part. The alerts on most measured
// values need none: their rules compare the values.
func (f *findings) conditions(j *Judge) []ConditionVerdict {
	list := make([]ConditionVerdict, 0, len(f.well)+len(f.problems))
	add := func(key problemKey, lasted time.Duration, excused bool) {
		if key.Severity == Pending || j.rule(key.Alert).OwnSeries {
			return
		}
		list = append(list, ConditionVerdict{
			Target:   key.Name,
			Alert:    key.Alert,
			Of:       key.Of,
			Severity: key.Severity,
			Lasted:   lasted,
			Excused:  excused,
		})
	}
	for _, key := range f.well {
		add(key, 0, false)
	}
	for _, p := range f.problems {
		if p.Subject == ExporterSubject && p.AtLeast && p.Severity == Pending {
			continue // its duration is unknown
		}
		add(p.key, p.Lasted, p.Excuse.Holds())
	}
	slices.SortFunc(list, func(a, b ConditionVerdict) int {
		return cmp.Or(strings.Compare(a.Alert, b.Alert), strings.Compare(a.Target, b.Target), strings.Compare(a.Of, b.Of),
			cmp.Compare(a.Severity, b.Severity))
	})
	return list
}
