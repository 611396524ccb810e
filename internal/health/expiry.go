package health

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"
)

// AlertCertificateExpiry is the name of the alert on certificates that expire.
const AlertCertificateExpiry = "TLSCertificateExpiry"

// valueAlerts are the alerts on the target's values: on its certificate, unless its kind has others.
func (t *Target) valueAlerts() []string {
	if t.ValueAlerts == nil {
		return []string{AlertCertificateExpiry}
	}
	return t.ValueAlerts
}

// Validity is from when to when a certificate is valid. Begins is zero if unknown, and so is Fingerprint, its SHA-256.
type Validity struct {
	Begins, Ends time.Time
	Fingerprint  [sha256.Size]byte
}

// id identifies the certificate, "" if its fingerprint is unknown.
func (v Validity) id() string {
	if v.Fingerprint == (Validity{}).Fingerprint {
		return ""
	}
	return hex.EncodeToString(v.Fingerprint[:])
}

// ExpiryLimits are how little time a certificate may have left.
type ExpiryLimits struct{ Warning, Critical time.Duration }

// livesBriefly reports whether a certificate lives no longer than the warning's limit, so that it would always be under it.
func (v Validity) livesBriefly(rule *Rule) bool {
	return v.Ends.Sub(v.Begins) <= rule.Warning.Under
}

// limits returns how little time a certificate may have left. One that lives briefly is judged by its share of life.
func (v Validity) limits(rule *Rule) (warning, critical time.Duration) {
	if v.livesBriefly(rule) {
		life := v.Ends.Sub(v.Begins)
		return life / 3, min(life/6, rule.Critical.Under)
	}
	return rule.Warning.Under, rule.Critical.Under
}

// expiryLimits returns when the first certificate of a target expires, and the limits of the time until then. They are negative, so
// that less time exceeds them. Certificates may have different limits: these are of the one that reaches its limit first.
func expiryLimits(rule *Rule, c *Condition) (first time.Time, warning, critical limit) {
	first = firstToExpire(c.Certificates).Ends
	for _, v := range c.Certificates {
		under, critically := v.limits(rule)
		if own := c.OwnLimits; own != (ExpiryLimits{}) {
			under, critically = own.Warning, own.Critical
		}
		warning.reachBy(v, under, first)
		critical.reachBy(v, critically, first)
	}
	return first, warning, critical
}

// firstToExpire returns the certificate that expires first; the zero one if there is none.
func firstToExpire(list []Validity) (first Validity) {
	for _, v := range list {
		if first.Ends.IsZero() || v.Ends.Before(first.Ends) {
			first = v
		}
	}
	return first
}

// reachBy makes l the limit of a certificate if that reaches its own earlier than others do. No problem begins before its certificate.
func (l *limit) reachBy(v Validity, under time.Duration, first time.Time) {
	at := v.Ends.Add(-under)
	over := at.Sub(first).Seconds()
	if !l.since.IsZero() && over >= l.over {
		return
	}
	l.over, l.since, l.begins = over, at, v.Begins
	if at.Before(v.Begins) {
		l.since = v.Begins
	}
}

// expiresUnrenewed reports whether a certificate that should have been replaced has hardly any time left, or had in the former process.
func (s *scene) expiresUnrenewed(t *target, c *seenCondition) bool {
	if c.saved {
		return s.judge.problems[t.key(c.Alert, c.Of, Critical)] != nil
	}
	return c.Holds && slices.ContainsFunc(c.Certificates, func(v Validity) bool {
		under, expiry := s.judge.rule(c.Alert).Critical.Under, s.judge.rule(AlertCertificateExpiry)
		if v.livesBriefly(expiry) {
			_, critical := v.limits(expiry)
			under = min(under, critical)
		}
		return v.Ends.Sub(s.now) < under
	})
}

// shared is a certificate that several targets may serve, and how soon it expires.
type shared struct {
	certificate string
	severity    Severity
}

// shareCertificates makes one problem of each certificate that expires: that of the first target that serves it explains those of the
// others, and outages because it has expired. A target under maintenance is not the first, unless its alert fires already.
func (s *scene) shareCertificates(found *findings) {
	first, expired := map[shared]*candidate{}, map[Subject]*candidate{}
	for _, p := range found.problems {
		if p.record.Certificate == "" {
			continue
		}
		if s.judge.certificateTold(p.Subject) {
			p.cause = cause{}
		}
		if p.key.Severity == Critical {
			expired[p.Subject] = p
		}
		key := shared{p.record.Certificate, p.key.Severity}
		if known := first[key]; !p.cause.Holds() && (known == nil || p.compareTold(known) < 0) {
			first[key] = p
		}
	}
	left := s.awaitReadings()
	for _, p := range found.problems {
		leader := first[shared{p.record.Certificate, p.key.Severity}]
		switch {
		case leader == nil || p.cause.Holds() || p.record.fires():
		case leader != p:
			p.cause = ofCertificate(leader)
		case left >= 0:
			p.waits = true
			found.recheck = append(found.recheck, left)
		}
	}
	for _, p := range found.problems {
		own := expired[p.Subject]
		if p.verdict == nil || p.cause.Holds() || !s.isRefused(p, own) {
			continue
		}
		if leader := first[shared{own.record.Certificate, Critical}]; leader != nil {
			p.cause = ofCertificate(leader)
		}
	}
}

// awaitReadings returns how long after a start the first of the targets that serve a certificate is still unknown, since some have not been
// read: an exporter that has just started must choose the same as the other of its pair. It is negative once that is known.
func (s *scene) awaitReadings() time.Duration {
	if !slices.ContainsFunc(s.targets, func(t *target) bool { return !t.Read && t.memory.lastUp.IsZero() }) {
		return -1
	}
	return s.judge.containerDue() - s.now.Sub(s.judge.started)
}

// compareTold orders problems of one certificate: first what was told, then the oldest, then by name, so that a pair agrees.
func (p *candidate) compareTold(o *candidate) int {
	return cmp.Or(cmp.Compare(o.record.Alerted, p.record.Alerted), p.Since.Compare(o.Since), compareSubjects(p.Subject, o.Subject))
}

// ofCertificate returns the expiry of a certificate as a cause.
func ofCertificate(leader *candidate) cause {
	return cause{Excuse: Excuse{ReasonCertificate, leader.Name, leader.Subject}, since: leader.Since}
}

// isRefused reports whether an outage is one because of the target's expired certificate, if any. Another reason must last for as long as
// a warning waits, unless the certificate is renewed. Then it is another outage, since it began.
func (s *scene) isRefused(p, own *candidate) bool {
	r := p.record
	switch {
	case own != nil && own.refused:
		r.Otherwise = time.Time{}
		return true
	case r.Excuse.Reason != ReasonCertificate:
		return false
	case p.frozen:
		return own != nil
	case r.Otherwise.IsZero():
		r.Otherwise = s.now
	}
	if own != nil && s.now.Sub(r.Otherwise) <= s.judge.targetWarned() {
		return true
	}
	r.Since, r.AtLeast = r.Otherwise, false
	p.Since, p.AtLeast, p.Lasted = r.Since, false, max(s.now.Sub(r.Since), minDuration)
	p.verdict.set(p, s.judge)
	return false
}

// sharedCertificates returns the alerts on certificates that are held back in every severity because those of other targets fire.
func (s *scene) sharedCertificates(problems []*candidate) (list []HeldBack) {
	told := map[Subject]bool{}
	for _, p := range problems {
		if p.Alert == AlertCertificateExpiry && p.Excuse.Reason != ReasonCertificate && !p.waits {
			told[p.Subject] = true
		}
	}
	for _, p := range problems {
		if p.Alert == AlertCertificateExpiry && !told[p.Subject] {
			told[p.Subject] = true
			list = append(list, HeldBack{
				Alert:   p.Alert,
				Subject: p.Subject,
				In:      s.judge.rule(p.Alert).ExcusedIn,
				Excuse:  p.Excuse,
			})
		}
	}
	return list
}

// certificateTold reports whether the alert on a target's certificate fires.
func (j *Judge) certificateTold(target Subject) bool {
	return j.alerted(target, AlertCertificateExpiry, time.Time{})
}
