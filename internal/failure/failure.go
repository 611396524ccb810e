// Package failure names why a reading failed: a closed set of reasons, errors with hints, and how any error becomes a reason.
package failure

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Reason is why a reading failed: one word of a closed set, so that it can be a label.
type Reason string

// The reasons. Explain says what each means to an operator.
const (
	DNS          Reason = "dns"
	Refused      Reason = "refused"
	Closed       Reason = "closed"
	Timeout      Reason = "timeout"
	TLS          Reason = "tls"
	Unauthorized Reason = "unauthorized"
	Forbidden    Reason = "forbidden"
	NotFound     Reason = "not_found"
	HTTPStatus   Reason = "http_status"
	Malformed    Reason = "malformed"
	Mismatch     Reason = "mismatch"
	TooLarge     Reason = "too_large"
	Throttled    Reason = "throttled"
	RPCError     Reason = "rpc_error"
	Panic        Reason = "panic"
	Internal     Reason = "internal"
)

// Reasons lists all of them in a fixed order.
var Reasons = []Reason{
	DNS, Refused, Closed, Timeout, TLS, Unauthorized, Forbidden, NotFound, HTTPStatus, Malformed, Mismatch, TooLarge,
	Throttled, RPCError, Panic, Internal,
}

// explanations tell people what a reason means and what to do. README.md prints the same table.
var explanations = map[Reason]string{
	DNS:          "the host name does not resolve: the service's container is stopped, or the name is wrong",
	Refused:      "nothing listens there: the service is stopped, still starting, or the port or socket path is wrong",
	Closed:       "the connection was closed or reset before the answer was whole: the service crashed or restarts",
	Timeout:      "no whole answer within the deadline: the service hangs, is overloaded, or a firewall drops packets",
	TLS:          "the TLS handshake failed: a certificate that is expired, for another name or by an unknown authority, or no TLS on that port",
	Unauthorized: "401, the credentials are missing or wrong",
	Forbidden:    "403, or no permission for the socket: this address or user is not allowed",
	NotFound:     "404, the path or the module behind it does not exist there",
	HTTPStatus:   "an HTTP status that is no success" + readLog,
	Malformed:    "the answer is not what the protocol says: something else may listen there",
	Mismatch:     "the answer is well formed, but not the right one",
	TooLarge:     "the answer is larger than the configured limit",
	Throttled:    "the server refuses this address because it connects too often",
	RPCError:     "the server understood the call and answered with an error",
	Panic:        "a fault of this exporter: its log has the stack, please report it",
	Internal:     "a fault of this exporter or of its configuration: read its log",
}

// readLog is general advice. AdviceOf replaces it by WhereToLook, which is more specific.
const readLog = ": read the service's log"

// Explain returns what a reason means and what to do about it.
func Explain(r Reason) string { return explanations[r] }

// Error is why a reading failed.
type Error struct {
	Reason Reason
	// Hint says what to do in this very case. When empty, Explain's text is the default.
	Hint string
	// Guess says what to do if the target has never answered, since its address may be wrong. It may be empty.
	Guess string
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an Error with a known reason, formatted like fmt.Errorf.
func Errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// WithHint sets what to do about e, and returns e.
func (e *Error) WithHint(hint string) *Error {
	e.Hint = hint
	return e
}

// HintOf returns what to do about an error: its own hint, or what its reason means in general.
func HintOf(err error) string {
	if known, ok := errors.AsType[*Error](err); ok && known.Hint != "" {
		return known.Hint
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "this exporter is out of file descriptors: raise its limit (ulimit -n, LimitNOFILE=, ulimits: in compose)"
	}
	return Explain(ReasonOf(err))
}

// AdviceOf returns what to do about a failed reading of a target: its hint, or what the reason means and where to look.
// Container may be empty. Target is empty when no debug page shows it.
func AdviceOf(err error, target, container string) string {
	hint := HintOf(err)
	if reason := ReasonOf(err); hint == Explain(reason) {
		return strings.TrimSuffix(hint, readLog) + WhereToLook(reason, target, container)
	}
	return hint
}

// GuessOf returns what to do if the target has never answered, or "".
func GuessOf(err error) string {
	if known, ok := errors.AsType[*Error](err); ok && known.Hint == "" {
		return known.Guess
	}
	return ""
}

// WhereToLook returns where to look next, worded to follow Explain's text; "" when the fault is the exporter's own.
// Container may be empty. Target is empty when no debug page shows it.
func WhereToLook(r Reason, target, container string) string {
	switch {
	case r == Panic, r == Internal:
		return ""
	case container != "":
		return "; read the log of its container: docker logs --tail 50 " + container
	case target == "":
		return "; read the service's own log"
	}
	return "; read the service's own log; what was asked and what came back is at /debug/targets/" + target
}

// ReasonOf classifies an error. An Error knows its reason; errors of net, crypto/tls and net/http are recognized by type.
// The first match counts, so a lookup that times out is DNS. Running out of file descriptors is always Internal.
func ReasonOf(err error) Reason {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return Internal
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Reason
	}
	if HasType[*net.DNSError](err) {
		return DNS
	}
	if isTLS(err) {
		return TLS
	}
	if netErr, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || (ok && netErr.Timeout()) {
		return Timeout
	}
	for _, row := range []struct {
		cause  error
		reason Reason
	}{
		{syscall.ECONNREFUSED, Refused},
		{syscall.ENOENT, Refused},       // no such socket
		{syscall.ENOTDIR, Refused},      // a file stands where the socket's directory should
		{syscall.EHOSTUNREACH, Refused}, // the container's address is gone
		{syscall.ENETUNREACH, Refused},
		{syscall.EACCES, Forbidden},
		{syscall.EPERM, Forbidden},
		{syscall.ECONNRESET, Closed},
		{syscall.ECONNABORTED, Closed},
		{syscall.EPIPE, Closed},
		{io.EOF, Closed},
		{io.ErrUnexpectedEOF, Closed},
		{net.ErrClosed, Closed},
		{syscall.ETIMEDOUT, Timeout},
	} {
		if errors.Is(err, row.cause) {
			return row.reason
		}
	}
	// net/http has no types for these.
	for _, row := range []struct {
		text   string
		reason Reason
	}{
		{"server closed idle connection", Closed},
		{"server sent GOAWAY", Closed},
		{"server response headers exceeded", TooLarge},
		{"malformed HTTP", Malformed},
		{"header line too long", Malformed}, // of a chunk
		{"failed to parse Location header", Malformed},
		{"malformed MIME", Malformed},
		{"malformed chunked", Malformed},
		{"chunk", Malformed},
		{"transport connection broken", Malformed},
		{"gzip: ", Malformed},
		{"flate: ", Malformed},
	} {
		if strings.Contains(err.Error(), row.text) {
			return row.reason
		}
	}
	return Internal
}

func isTLS(err error) bool {
	return HasType[*tls.CertificateVerificationError](err) || HasType[tls.RecordHeaderError](err) || HasType[tls.AlertError](err) ||
		HasType[x509.UnknownAuthorityError](err) || HasType[x509.HostnameError](err) || HasType[x509.CertificateInvalidError](err) ||
		errors.Is(err, config.ErrFingerprint) || errors.Is(err, http.ErrSchemeMismatch) ||
		strings.Contains(err.Error(), "tls: ")
}

// HasType reports whether err is or wraps an E.
func HasType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// ReasonOfStatus classifies an HTTP status outside 2xx.
func ReasonOfStatus(status int) Reason {
	switch status {
	case http.StatusUnauthorized:
		return Unauthorized
	case http.StatusForbidden:
		return Forbidden
	case http.StatusNotFound:
		return NotFound
	default:
		return HTTPStatus
	}
}
