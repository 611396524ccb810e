// Package exchange makes one bounded conversation with a server, over HTTP, TLS or STARTTLS, and records what can be shown of it.
package exchange

import (
	"net/http"
	"slices"
	"time"
)

// Record is what the conversations of one reading leave to be shown.
type Record struct {
	// HTTPStatus is the status of the last HTTP answer; 0 without one.
	HTTPStatus int
	// Notes tell a person more about the reading. They never contain a body, a secret or a person's name.
	Notes []string
	// Exchanges are the requests of the reading, in their order.
	Exchanges []*Exchange
	// Certificate is what is known of the server's certificate.
	Certificate Certificate
	// certificateSeen is true once an exchange has seen the server's own certificate.
	certificateSeen bool
}

// Note adds a line for people.
func (r *Record) Note(line string) { r.Notes = append(r.Notes, line) }

// NoteOnce adds a line for people unless it is there already.
func (r *Record) NoteOnce(line string) {
	if !slices.Contains(r.Notes, line) {
		r.Note(line)
	}
}

// Certificate is what a reading knows of a server's certificate. A zero time or a nil flag means unknown.
type Certificate struct {
	// Leaf is when the certificate that the server shows ends, Chain when the first of the chain that verifies ends.
	Leaf, Chain time.Time
	// File is when the certificate in the server's file ends.
	File time.Time
	// Verified reports whether authority, name and date verify, whatever the connection was trusted for.
	Verified *bool
	// MatchesFile reports whether the server shows the certificate in its file.
	MatchesFile *bool
}

// Exchange is one request and its outcome. It has no body, no credentials and no query, so it may be shown.
type Exchange struct {
	// Request is what was asked, such as "GET http://xmpp:5280/status".
	Request string
	// Status is the HTTP status; 0 where none came, or where the protocol has none.
	Status int
	// Header is the answer's header, with the values of all but harmless fields masked.
	Header http.Header
	// Phases are how long each step took, in their order.
	Phases []Phase
	// Err is how the exchange failed; "" for an answer of any status.
	Err string
}

// Phase is one step of an exchange: dns, connect, tls, first_byte, body.
type Phase struct {
	Name     string
	Duration time.Duration
}
