// Package exchange makes one bounded conversation with a server over HTTP, TLS or STARTTLS, and records what is safe to show.
package exchange

import (
	"crypto/sha256"
	"crypto/x509"
	"net/http"
	"net/http/cookiejar"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Record is what people may see of the conversations of one probe.
type Record struct {
	// HTTPStatus is the status of the last HTTP answer, or 0.
	HTTPStatus int
	// Notes give people details of the probe. They never contain a body, a secret or a person's name.
	Notes []string
	// Exchanges are the requests of the probe, in order.
	Exchanges []*Exchange
	// ConnectionsPerHour is how many connections of one address the server may allow in an hour; 0 if no such limit is known.
	ConnectionsPerHour int
	// Product is the IRC server's software, if its banner or capabilities showed it.
	Product Product
	// Certificate describes the server's certificate.
	Certificate Certificate
	// certificateSeen is true once an exchange has seen the server's own certificate.
	certificateSeen bool
	// jar has the cookies that servers set during the probe.
	jar http.CookieJar
}

// cookies returns the jar of the probe, which is a browser's first visit.
func (r *Record) cookies() http.CookieJar {
	if r.jar == nil {
		r.jar, _ = cookiejar.New(nil) // it never fails
	}
	return r.jar
}

// Note adds a line for people.
func (r *Record) Note(line string) { r.Notes = append(r.Notes, line) }

// NoteOnce adds a line for people unless it is there already.
func (r *Record) NoteOnce(line string) {
	if !slices.Contains(r.Notes, line) {
		r.Note(line)
	}
}

// Validity is from when to when a certificate is valid, and its fingerprint.
type Validity struct {
	Begins, Ends time.Time
	Fingerprint  [sha256.Size]byte
}

// validityOf returns the validity of a certificate.
func validityOf(c *x509.Certificate) Validity {
	return Validity{c.NotBefore, c.NotAfter, sha256.Sum256(c.Raw)}
}

// Certificate describes a server's certificate. A zero value or a nil flag means unknown.
type Certificate struct {
	// Leaf is the served certificate, Other the one that the server serves to clients of another algorithm, and Chain the first
	// certificate of the verified chain to expire.
	Leaf, Other, Chain Validity
	// File is the certificate in the server's file.
	File Validity
	// Limits are the target's own limits of the time left.
	Limits config.ExpiryLimits
	// Verified reports whether authority, name and dates pass verification, even if the exporter trusts it for another reason.
	Verified *bool
	// MatchesFile reports whether the server presents the certificate in its file. If not, Stale is the first to expire of those that
	// it presents instead.
	MatchesFile *bool
	Stale       Validity
}

// FirstEnd returns when the first certificate expires that the server presents, or that verifies those; zero if none is known.
func (c *Certificate) FirstEnd() (first time.Time) {
	for _, v := range []Validity{c.Leaf, c.Other, c.Chain} {
		if first.IsZero() || !v.Ends.IsZero() && v.Ends.Before(first) {
			first = v.Ends
		}
	}
	return first
}

// Exchange is one request and its outcome. It has no body, no credentials and no query, so it may be shown.
type Exchange struct {
	// Request is the request, such as "GET http://xmpp:5280/status".
	Request string
	// Address is the IP address and port that accepted the last connection; "" if none did, or over a Unix socket.
	Address string
	// Status is the HTTP status; 0 without an answer, or if the protocol has none.
	Status int
	// Header is the answer's header. Values of fields that may be secret are masked.
	Header http.Header
	// Phases are the durations of the steps, in order.
	Phases []Phase
	// Err is the error; "" for an answer of any status.
	Err string
}

// Phase is one step of an exchange: dns, connect, starttls, tls or first_byte. The last one is failed after an error; else body
// for HTTP, tls or reply for TLS, and end for plain TCP.
type Phase struct {
	Name     string
	Duration time.Duration
}
