package health

import (
	"cmp"
	"crypto/sha256"
	"time"
)

// shared is a certificate that several targets may serve, and how soon it expires.
type shared struct {
	fingerprint [sha256.Size]byte
	severity    Severity
}

// shareCertificates makes one problem of each certificate that expires: that of the first target that serves it explains those of the others,
// and outages because it has expired. A target under maintenance is not the first.
func (s *scene) shareCertificates(problems []*candidate) {
	first, expired := map[shared]*candidate{}, map[Subject]*candidate{}
	for _, p := range problems {
		if p.certificate == (shared{}).fingerprint {
			continue
		}
		if p.key.Severity == Critical {
			expired[p.Subject] = p
		}
		key := shared{p.certificate, p.key.Severity}
		if known := first[key]; !p.cause.Holds() && (known == nil || p.compareTold(known) < 0) {
			first[key] = p
		}
	}
	for _, p := range problems {
		leader := first[shared{p.certificate, p.key.Severity}]
		if leader != nil && leader != p && !p.cause.Holds() {
			p.cause = ofCertificate(leader)
		}
	}
	for _, p := range problems {
		own := expired[p.Subject]
		if own == nil || p.Alert != AlertTargetDown || p.cause.Holds() || !s.isRefused(p, own.refused) {
			continue
		}
		if leader := first[shared{own.certificate, Critical}]; leader != nil {
			p.cause = ofCertificate(leader)
		}
	}
}

// compareTold orders problems of one certificate: first what was told, then the oldest, then by name, so that a pair agrees.
func (p *candidate) compareTold(o *candidate) int {
	return cmp.Or(cmp.Compare(o.record.Alerted, p.record.Alerted), p.Since.Compare(o.Since), compareSubjects(p.Subject, o.Subject))
}

// ofCertificate returns the expiry of a certificate as a cause.
func ofCertificate(leader *candidate) cause {
	return cause{Excuse: Excuse{ReasonCertificate, leader.Name, leader.Subject}, since: leader.Since}
}

// isRefused reports whether an outage is one because of an expired certificate. Another reason must last for as long as a warning waits.
func (s *scene) isRefused(p *candidate, now bool) bool {
	r := p.record
	switch {
	case now:
		r.Otherwise = time.Time{}
		return true
	case r.Excuse.Reason != ReasonCertificate:
		return false
	case r.Otherwise.IsZero():
		r.Otherwise = s.now
	}
	return s.now.Sub(r.Otherwise) <= s.judge.rule(AlertTargetDown).Warning.Hold
}
