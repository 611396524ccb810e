package collectors

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
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// Reason says why a reading failed: one word of a closed set, so that it can be a label.
type Reason string

// The reasons. What each means to an operator stands in Explain.
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

// Reasons are all of them, in the order of the contract.
var Reasons = []Reason{
	DNS, Refused, Closed, Timeout, TLS, Unauthorized, Forbidden, NotFound, HTTPStatus, Malformed, Mismatch, TooLarge,
	Throttled, RPCError, Panic, Internal,
}

// reasonKinds are the kinds of targets that can fail for a reason; a reason that is not here can be every kind's.
var reasonKinds = map[Reason][]string{Throttled: {"irc_tls", "tls"}}

// ReasonsOf returns the reasons for which a target of a kind can fail, in the order of Reasons.
func ReasonsOf(kind string) []Reason {
	return slices.DeleteFunc(slices.Clone(Reasons), func(r Reason) bool {
		kinds, limited := reasonKinds[r]
		return limited && !slices.Contains(kinds, kind)
	})
}

// explanations are what the reasons mean and what to do, for people. README.md prints the same table.
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

// readLog is advice that LookOn gives better.
const readLog = ": read the service's log"

// Explain says what a reason means and what to do about it.
func Explain(r Reason) string { return explanations[r] }

// Error is why a reading failed.
type Error struct {
	Reason Reason
	// Hint, where set, says what to do in this very case; Explain's text serves where it is empty.
	Hint string
	// Guess, where set, says what to do if the target has never answered, since its address may be wrong then.
	Guess string
	Err   error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Failf makes an Error of a known reason. It wraps what %w names.
func Failf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Err: fmt.Errorf(format, args...)}
}

// WithHint returns e with what to do about it.
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

// TodoOf returns what to do about a failed reading of a target: HintOf, and where that is only what the reason means in
// general, where to look on. Container is the target's, or empty; target is empty where no page shows it.
func TodoOf(err error, target, container string) string {
	hint := HintOf(err)
	if reason := ReasonOf(err); hint == Explain(reason) {
		return strings.TrimSuffix(hint, readLog) + LookOn(reason, target, container)
	}
	return hint
}

// GuessOf returns what to do about an error of a target that has never answered, or "".
func GuessOf(err error) string {
	if known, ok := errors.AsType[*Error](err); ok && known.Hint == "" {
		return known.Guess
	}
	return ""
}

// LookOn says where to look on when a failure itself does not tell what to do, in words that follow what its reason means;
// nothing where the exporter's own fault is meant. Without a target, no page of the exporter shows more.
func LookOn(r Reason, target, container string) string {
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

// ReasonOf classifies an error. An Error knows its reason; what net, crypto/tls and net/http say is read off its type.
// The first row that matches counts, so a lookup that times out is dns. That there are no descriptors is ours to mend,
// whatever they were wanted for; see HintOf.
func ReasonOf(err error) Reason {
	if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) {
		return Internal
	}
	if known, ok := errors.AsType[*Error](err); ok {
		return known.Reason
	}
	if is[*net.DNSError](err) {
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
		{badLocation, Malformed},
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
	return is[*tls.CertificateVerificationError](err) || is[tls.RecordHeaderError](err) || is[tls.AlertError](err) ||
		is[x509.UnknownAuthorityError](err) || is[x509.HostnameError](err) || is[x509.CertificateInvalidError](err) ||
		errors.Is(err, config.ErrFingerprint) || errors.Is(err, http.ErrSchemeMismatch) ||
		strings.Contains(err.Error(), "tls: ")
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// statusReason classifies an HTTP status that is no success.
func statusReason(status int) Reason {
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

// count is a number of things in words: 1 byte, 2 bytes.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// maxForeignText bounds what is repeated of an error text that somebody else wrote. The poller cuts it further, once the
// target's secrets are masked: a cut before that could leave half a secret.
const maxForeignText = 64 << 10

// foreignText makes text from elsewhere fit to be part of a message.
func foreignText(s string) string { return Printable(s, maxForeignText) }

// Printable makes text of others fit to be shown, on one line: what cannot be printed becomes a space, such as control
// characters, spaces of no width and what turns the direction of writing; what is not UTF-8 becomes U+FFFD; and what is
// longer than limit characters is cut.
func Printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "…"
	}
	return s
}
