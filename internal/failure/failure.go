// Package failure classifies failed probes: a closed set of reasons, errors with hints, and the mapping from any error to a reason.
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
	"time"
)

// Reason is why a probe failed. The set is closed, since reasons are label values.
type Reason string

// The reasons. Explain returns what each means to an operator.
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
	NotDelivered Reason = "not_delivered"
	RPCError     Reason = "rpc_error"
	Panic        Reason = "panic"
	Internal     Reason = "internal"
)

// Reasons lists all reasons in a fixed order.
var Reasons = []Reason{
	DNS, Refused, Closed, Timeout, TLS, Unauthorized, Forbidden, NotFound, HTTPStatus, Malformed, Mismatch, TooLarge,
	Throttled, NotDelivered, RPCError, Panic, Internal,
}

// RefusesUs reports whether the server answers, but not to the exporter, so that its users may be well.
func (r Reason) RefusesUs() bool { return r == Unauthorized || r == Forbidden || r == Throttled }

// IsOwn reports whether the server answers and is itself at fault, so that nothing that it needs explains the failure.
func (r Reason) IsOwn() bool { return r == TLS || r.RefusesUs() }

// explanations say what a reason means and what to do. A test keeps README.md's table equal.
var explanations = map[Reason]string{
	DNS:     unresolved + ": the name is wrong, the service's container is stopped, or the name server does not work",
	Refused: "nothing listens there: the service is stopped, still starting, or the port or socket path is wrong",
	Closed:  "the connection broke before the answer was complete: the service crashed or is restarting",
	Timeout: "no complete answer within the deadline: the service hangs or is overloaded, or a firewall drops packets",
	TLS: "the TLS handshake failed: the certificate has expired, is for another name or is not trusted, " +
		"or the port does not speak TLS",
	Unauthorized: "401, the credentials are missing or wrong",
	Forbidden:    "403, or no permission for the socket: this address or user is not allowed",
	NotFound:     "404, the path does not exist, or the module that serves it is not loaded",
	HTTPStatus:   "an unexpected HTTP status" + readLog,
	Malformed:    "the answer does not follow the protocol: another service may listen there",
	Mismatch:     "the answer is valid, but not the expected one",
	TooLarge:     "the answer is larger than the configured limit",
	Throttled:    "the server limits this address; users may be well",
	NotDelivered: "a message of the relay check was lost or late: the bridge hangs, or drops messages" + readLog,
	RPCError:     "the server answered the call with an error",
	Panic:        "a bug in the exporter: its log has the stack trace, please report it",
	Internal:     "an error of the exporter or its configuration: read the exporter's log",
}

// words say in messages how a target fails. They follow "down:".
var words = map[Reason]string{
	DNS:          "its name does not resolve",
	Refused:      "it refuses connections",
	Closed:       "it breaks off connections",
	Timeout:      "it does not answer",
	TLS:          "its TLS or certificate fails",
	Unauthorized: "it rejects the exporter's credentials",
	Forbidden:    "it denies the exporter access",
	NotFound:     "its page does not exist",
	HTTPStatus:   "it answers with an HTTP error",
	Malformed:    "its answer makes no sense",
	Mismatch:     "its answer is wrong",
	TooLarge:     "its answer is too large",
	Throttled:    "it limits the exporter",
	NotDelivered: "test messages do not arrive",
	RPCError:     "it answers calls with errors",
	Panic:        "its check fails because of a bug in the exporter",
	Internal:     "the exporter cannot check it",
}

// InWords says how a target fails, for headlines.
func InWords(r Reason) string { return words[r] }

// readLog is general advice. AdviceOf replaces it with the more specific WhereToLook.
const readLog = ": read the service's log"

// Explain returns what a reason means and what to do about it.
func Explain(r Reason) string { return explanations[r] }

// Error is why a probe failed.
type Error struct {
	Reason Reason
	// Hint says what to do. Empty: Explain's text applies.
	Hint string
	// Guess is the advice for a target that has never answered, whose address may be wrong. It may be empty.
	Guess string
	// RetryAfter is how long the server asks to wait before the next attempt, 0 if it does not say.
	RetryAfter time.Duration
	// also is another possible cause with its remedy, which advice adds.
	also string
	// unsent says that no credential was sent, so the server counts no failed login.
	unsent bool
	Err    error
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

// OrElse returns err with another possible cause and its remedy, which its advice adds.
func OrElse(err error, cause string) error {
	e := Error{Reason: ReasonOf(err)}
	if known, ok := errors.AsType[*Error](err); ok {
		e = *known
	}
	e.Err, e.also = err, cause
	return &e
}

// withCause adds the other possible cause of err to its advice.
func withCause(advice string, err error) string {
	if known, ok := errors.AsType[*Error](err); ok && known.also != "" {
		return advice + "; " + known.also
	}
	return advice
}

// BeforeLogin records that no credential was sent, and returns e.
func (e *Error) BeforeLogin() *Error {
	e.unsent = true
	return e
}

// RefusesCredential reports whether the server refused a credential that was sent.
func RefusesCredential(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && known.Reason == Unauthorized && !known.unsent
}

// HasHint reports whether the error has a hint of its own.
func HasHint(err error) bool {
	known, ok := errors.AsType[*Error](err)
	return ok && known.Hint != ""
}

// HintOf returns the error's own hint, or else what its cause means, or else its reason's explanation.
func HintOf(err error) string { return hintOf(err, "") }

// hintOf is HintOf for a target in a container, which may be empty.
func hintOf(err error, container string) string {
	if known, ok := errors.AsType[*Error](err); ok && known.Hint != "" {
		return known.Hint
	}
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return "the exporter is out of file descriptors: raise its limit (ulimit -n, LimitNOFILE=, ulimits: in compose)"
	}
	if LacksIPv6(err) {
		return "the address is an IPv6 one, and the exporter's machine or container has no way there: give it IPv6, or set ip_version: " +
			"4 if the name has an IPv4 address too"
	}
	if lookup, ok := errors.AsType[*net.DNSError](err); ok {
		return lookupAdvice(lookup, container)
	}
	return Explain(ReasonOf(err))
}

// AdviceOf returns what to do about a failed probe: the error's hint, or else its reason's explanation and where to look; then another
// possible cause. Container may be empty. Target must be empty if it has no debug page.
func AdviceOf(err error, target, container string) string {
	hint := hintOf(err, container)
	if reason := ReasonOf(err); hint == Explain(reason) {
		hint = strings.TrimSuffix(hint, readLog) + WhereToLook(reason, target, container)
	}
	return withCause(hint, err)
}

// GuessOf returns the advice for a target that has never answered, or "".
func GuessOf(err error) string {
	if known, ok := errors.AsType[*Error](err); ok && known.Hint == "" && known.Guess != "" {
		return withCause(known.Guess, err)
	}
	return ""
}

// WhereToLook returns where to look next, worded to follow Explain's text; "" for errors of the exporter itself.
// Container may be empty. Target must be empty if it has no debug page.
func WhereToLook(r Reason, target, container string) string {
	switch {
	case r == Panic, r == Internal:
		return ""
	case r == DNS && container != "":
		return "; run docker ps --all --filter name=" + container +
			"; if the container runs, correct the name in the target's configuration"
	case r == DNS:
		return "; resolve the name where the exporter runs (getent hosts NAME), and correct it in the target's configuration"
	case container != "":
		return "; read the log of its container: docker logs --tail 50 " + container
	case target == "":
		return "; read the service's log"
	}
	return "; read the service's log; the last probes are at /debug/targets/" + target
}

// ReasonOf classifies an error. An Error carries its reason; errors of net, crypto/tls and net/http are recognized by type.
// The first match wins, so a lookup that times out is DNS. Running out of file descriptors is always Internal.
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
	if netErr, ok := errors.AsType[net.Error](err); errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) ||
		(ok && netErr.Timeout()) {
		return Timeout
	}
	for _, row := range []struct {
		cause  error
		reason Reason
	}{
		{syscall.ECONNREFUSED, Refused},
		{syscall.ENOENT, Refused},       // no such socket
		{syscall.ENOTDIR, Refused},      // a file is where the socket's directory should be
		{syscall.EHOSTUNREACH, Refused}, // the container's address is gone
		{syscall.ENETUNREACH, Refused},
		{syscall.EADDRNOTAVAIL, Refused}, // of a container without IPv6
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
	// net/http has no error types for these.
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

// LacksIPv6 reports whether a connection failed because this machine has no way to an IPv6 address.
func LacksIPv6(err error) bool {
	dialed, ok := errors.AsType[*net.OpError](err)
	if !ok || !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
		return false
	}
	to, ok := dialed.Addr.(*net.TCPAddr)
	return ok && to.IP.To4() == nil
}

// ErrFingerprint means that the server's certificate is not the pinned one.
var ErrFingerprint = errors.New("certificate does not have the configured fingerprint")

func isTLS(err error) bool {
	return HasType[*tls.CertificateVerificationError](err) || HasType[tls.RecordHeaderError](err) || HasType[tls.AlertError](err) ||
		HasType[x509.UnknownAuthorityError](err) || HasType[x509.HostnameError](err) || HasType[x509.CertificateInvalidError](err) ||
		errors.Is(err, ErrFingerprint) || errors.Is(err, http.ErrSchemeMismatch) ||
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
	case http.StatusTooManyRequests:
		return Throttled
	default:
		return HTTPStatus
	}
}

// OfStatus returns the failure of an HTTP answer outside 2xx, formatted like fmt.Errorf.
func OfStatus(status int, header http.Header, format string, args ...any) *Error {
	failed := Errorf(ReasonOfStatus(status), format, args...)
	failed.RetryAfter = RetryAfter(status, header, time.Now())
	return failed
}
