package health

import (
	"crypto/sha256"
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
