package exchange

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"regexp"
	"sync/atomic"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Wire watches the connections of one exchange, because net/http's errors hide causes: a header that is cut off reads as
// malformed, and a name server that does not answer reads as a deadline.
type Wire struct {
	// lookup is the host name whose lookup is under way, or was without a result; nil after one with a result.
	lookup atomic.Pointer[string]
	// ended is true once the server has closed or reset the newest connection during a read.
	ended atomic.Bool
	// secure is true once the client has begun TLS on the newest connection.
	secure atomic.Bool
	// heard is the newest connection.
	heard atomic.Pointer[Heard]
	// AddressKey is the key that configures the address; "url" by default.
	AddressKey string
	// PlainHint says what to do if the port speaks plain HTTP; by default, to write another scheme.
	PlainHint string
}

// Watch returns dial with its connections watched by w.
func (w *Wire) Watch(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			DNSStart: func(i httptrace.DNSStartInfo) { w.lookup.Store(&i.Host) },
			DNSDone: func(i httptrace.DNSDoneInfo) {
				if i.Err == nil {
					w.lookup.Store(nil)
				}
			},
		}), network, address)
		if err != nil {
			return nil, err
		}
		w.ended.Store(false) // an earlier connection was to another server, before a redirect
		w.secure.Store(false)
		heard := Hear(conn)
		w.heard.Store(heard)
		return &watchedConn{heard, w}, nil
	}
}

// dialUntil returns dial, cancelled by ctx. net/http itself keeps dialling after the request has ended, so a host that drops
// packets would hold goroutines and descriptors for minutes.
func dialUntil(ctx context.Context, dial DialFunc) DialFunc {
	return func(detached context.Context, network, address string) (net.Conn, error) {
		dialling, cancel := context.WithCancel(detached)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		conn, err := dial(dialling, network, address)
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = ctx.Err() // such as a deadline, which net/http may learn only after this
		}
		return conn, err
	}
}

// Explain gives an error of the exchange its real reason, with a hint.
func (w *Wire) Explain(err error) error {
	if failure.HasType[*failure.Error](err) {
		return err
	}
	if heard := w.heard.Load(); heard != nil {
		if refused := heard.Refusal(); refused != nil {
			return refused
		}
	}
	switch reason := failure.ReasonOf(err); {
	case reason == failure.Timeout && w.lookup.Load() != nil:
		return failure.UnansweredLookup(*w.lookup.Load())
	case reason == failure.Malformed && w.MetTLS():
		return w.wantsTLS()
	case errors.Is(err, http.ErrSchemeMismatch) || answersHTTP.MatchString(plainAnswer(err)):
		return failure.Errorf(failure.TLS, "%w", err).
			WithHint("this port speaks plain HTTP: " + w.toPlain() + ", or set the port that speaks TLS")
	case plainAnswer(err) != "":
		return failure.Errorf(failure.TLS, "%w", err).
			WithHint("this port speaks neither TLS nor HTTP: correct the port in the " + w.where())
	case (reason == failure.Timeout || reason == failure.Closed) && w.silent():
		return &failure.Error{Reason: reason, Err: err, Guess: w.otherScheme()}
	case reason == failure.Malformed && w.ended.Load():
		return failure.Errorf(failure.Closed, "the answer ends early: %w", err)
	// In TLS 1.3 a server refuses a client after the client's handshake. If net/http has not sent the request by then, it
	// reports only that it closed the connection.
	case reason == failure.Closed && errors.Is(err, net.ErrClosed) && w.secure.Load() && !w.ended.Load():
		return failure.Errorf(failure.TLS, "%w: %w", errRefusedAfter, err)
	default:
		return err
	}
}

// otherScheme suggests a cause for a silent server: most servers are silent when they get plain HTTP on a TLS port.
func (w *Wire) otherScheme() string {
	other, mend := "TLS", "write https:// in the "+w.where()
	if w.secure.Load() {
		other, mend = "plain HTTP", w.toPlain()
	}
	return fmt.Sprintf("the server sent nothing: if the port speaks %s, %s; otherwise the service hangs or restarts", other, mend)
}

// toPlain says what to do if the port speaks plain HTTP.
func (w *Wire) toPlain() string { return cmp.Or(w.PlainHint, "write http:// in the "+w.where()) }

// silent reports whether the server has sent nothing on the newest connection, if that is over TCP.
func (w *Wire) silent() bool {
	heard := w.heard.Load()
	return heard != nil && len(heard.opening()) == 0 && heard.RemoteAddr().Network() == "tcp"
}

// MetTLS reports whether plain HTTP was answered in TLS.
func (w *Wire) MetTLS() bool {
	heard := w.heard.Load()
	return heard != nil && bytes.HasPrefix(heard.opening(), []byte{tlsAlert}) && !w.secure.Load()
}

// answersHTTP matches the beginning of an HTTP answer, or of an HTML page without a header.
var answersHTTP = regexp.MustCompile(`(?i)^(HTTP/|<!doc|<html|<head)`)

// plainAnswer returns the beginning of a plain answer to a TLS handshake, or "".
func plainAnswer(err error) string {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return string(plain.RecordHeader[:])
	}
	return ""
}

// where names the key that holds the address.
func (w *Wire) where() string { return cmp.Or(w.AddressKey, "url") }

// wantsTLS is the failure of plain HTTP on a port for TLS.
func (w *Wire) wantsTLS() *failure.Error {
	return failure.Errorf(failure.TLS, "the port expects TLS and got plain HTTP").
		WithHint("this port speaks TLS: write https:// in the " + w.where())
}

// refusesPlain matches the answers of TLS servers to plain HTTP, with status 400: nginx, Go and Docker, Apache, Tomcat.
var refusesPlain = regexp.MustCompile(`(?i)HTTP request (was sent )?to (an )?HTTPS|speaking plain HTTP to an SSL|requires TLS`)

// WantsTLS reports whether an answer says that plain HTTP came to a TLS port.
func WantsTLS(status int, text []byte) bool {
	return status == http.StatusBadRequest && refusesPlain.Match(text)
}

// errRefusedAfter is how a TLS 1.3 server refuses a missing or wrong client certificate.
var errRefusedAfter = errors.New("the server refused after the handshake, before the request was sent")

// clientAlert matches the alerts about a client's certificate. If it is missing, TLS 1.2 says only that the handshake failed.
var clientAlert = regexp.MustCompile(`certificate|access denied|handshake failure`)

// RefusesClient reports whether a TLS server has refused this client's certificate, or its lack of one.
func RefusesClient(err error) bool {
	if errors.Is(err, errRefusedAfter) {
		return true
	}
	// The type of an alert that was received is not exported.
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error" && clientAlert.MatchString(alert.Err.Error())
}

type watchedConn struct {
	*Heard
	wire *Wire
}

// handshakeRecord is the first byte that a TLS client sends. No HTTP method begins with it.
const handshakeRecord = 22

func (c *watchedConn) Write(b []byte) (int, error) {
	if len(b) > 0 && b[0] == handshakeRecord {
		c.wire.secure.Store(true)
	}
	return c.Heard.Write(b)
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Heard.Read(b)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		c.wire.ended.Store(true)
	}
	return n, err
}

// PreferContextError returns ctx's error if ctx is done, else err: closing a connection hides why it was closed.
func PreferContextError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}
