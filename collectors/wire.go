package collectors

import (
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

// wire sees what becomes of the connections of one exchange, since net/http's errors tell it only in part: a header that
// breaks off in the middle of a line reads as malformed, and a name server that does not answer as a deadline.
type wire struct {
	// unresolved is true while a lookup is under way, and after one without a result.
	unresolved atomic.Bool
	// ended tells that the other side closed or reset the newest connection while it was read.
	ended atomic.Bool
	// secure tells that TLS was begun on the newest connection.
	secure atomic.Bool
	// silent tells that the newest connection stands and nothing was read from it, alert that a TLS alert came first.
	silent, alert atomic.Bool
	// key is where the address is configured; "" is url.
	key string
	// plain is what to do where the port speaks plain HTTP; "" is to write another scheme.
	plain string
}

type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// watched is dial, seen by w.
func (w *wire) watched(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			DNSStart: func(httptrace.DNSStartInfo) { w.unresolved.Store(true) },
			DNSDone:  func(i httptrace.DNSDoneInfo) { w.unresolved.Store(i.Err != nil) },
		}), network, address)
		if err != nil {
			return nil, err
		}
		w.ended.Store(false) // that of a redirect was another server's
		w.secure.Store(false)
		w.alert.Store(false)
		w.silent.Store(conn.RemoteAddr().Network() == "tcp")
		return &watchedConn{conn, w}, nil
	}
}

// during is dial, given up when ctx is done: net/http goes on dialling after its request, in case another one has a use for
// the connection, so that a host which drops packets would hold goroutines and descriptors for minutes.
func during(ctx context.Context, dial dialFunc) dialFunc {
	return func(detached context.Context, network, address string) (net.Conn, error) {
		dialling, cancel := context.WithCancel(detached)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		return dial(dialling, network, address)
	}
}

// reason gives an error the reason that its text hides.
func (w *wire) reason(err error) error {
	if failure.HasType[*failure.Error](err) {
		return err
	}
	switch reason := failure.ReasonOf(err); {
	case reason == failure.Timeout && w.unresolved.Load():
		return failure.Errorf(failure.DNS, "look up the host name: %w", err).WithHint("the name server does not answer: look at the network of this exporter, or of its container")
	case reason == failure.Malformed && w.metTLS():
		return w.wantsTLS()
	case errors.Is(err, http.ErrSchemeMismatch) || answersHTTP.MatchString(plainAnswer(err)):
		return failure.Errorf(failure.TLS, "%w", err).WithHint("this port speaks plain HTTP: " + w.toPlain() + ", or name the port that speaks TLS")
	case plainAnswer(err) != "":
		return failure.Errorf(failure.TLS, "%w", err).WithHint("this port speaks neither TLS nor HTTP: correct the port in the " + w.where())
	case (reason == failure.Timeout || reason == failure.Closed) && w.silent.Load():
		return &failure.Error{Reason: reason, Err: err, Guess: w.otherScheme()}
	case reason == failure.Malformed && w.ended.Load():
		return failure.Errorf(failure.Closed, "the answer breaks off: %w", err)
	// In TLS 1.3 a server refuses a client after the handshake is over for that. net/http closes the connection of itself
	// then, and if it has not yet sent the request by that time, this is all it says.
	case reason == failure.Closed && errors.Is(err, net.ErrClosed) && w.secure.Load() && !w.ended.Load():
		return failure.Errorf(failure.TLS, "%w: %w", errRefusedAfter, err)
	default:
		return err
	}
}

// otherScheme is what may be wrong where a server says nothing at all, as most do that get plain HTTP on a port for TLS.
func (w *wire) otherScheme() string {
	other, mend := "TLS", "write https:// in the "+w.where()
	if w.secure.Load() {
		other, mend = "plain HTTP", w.toPlain()
	}
	return fmt.Sprintf("nothing came back: the port may speak %s, then %s; or the service hangs or restarts", other, mend)
}

// toPlain is what to do where the port speaks plain HTTP.
func (w *wire) toPlain() string { return cmp.Or(w.plain, "write http:// in the "+w.where()) }

// metTLS reports whether plain HTTP was answered in TLS.
func (w *wire) metTLS() bool { return w.alert.Load() && !w.secure.Load() }

// answersHTTP matches how a server of HTTP begins, or a page of one that gives it without a header.
var answersHTTP = regexp.MustCompile(`(?i)^(HTTP/|<!doc|<html|<head)`)

// plainAnswer is how a server begins that answers a handshake of TLS without TLS, or "".
func plainAnswer(err error) string {
	if plain, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return string(plain.RecordHeader[:])
	}
	return ""
}

// where names the key that holds the address.
func (w *wire) where() string { return cmp.Or(w.key, "url") }

// wantsTLS is the failure of plain HTTP on a port for TLS.
func (w *wire) wantsTLS() *failure.Error {
	return failure.Errorf(failure.TLS, "the port expects TLS and got plain HTTP").WithHint("this port speaks TLS: write https:// in the " + w.where())
}

// refusesPlain finds what servers of TLS answer to plain HTTP with status 400: nginx, Go and Docker, Apache, Tomcat.
var refusesPlain = regexp.MustCompile(`(?i)HTTP request (was sent )?to (an )?HTTPS|speaking plain HTTP to an SSL|requires TLS`)

// isForTLS reports whether an answer means that plain HTTP came to a port for TLS.
func isForTLS(status int, text []byte) bool {
	return status == http.StatusBadRequest && refusesPlain.Match(text)
}

// errRefusedAfter is what a server of TLS 1.3 does that wants another client certificate, or one at all.
var errRefusedAfter = errors.New("the server refused after the handshake, before the request was sent")

// clientAlert are the alerts about a client's certificate; without one, TLS 1.2 says no more than that the handshake failed.
var clientAlert = regexp.MustCompile(`certificate|access denied|handshake failure`)

// clientRefused reports whether a server of TLS has refused this client's certificate, or its having none.
func clientRefused(err error) bool {
	if errors.Is(err, errRefusedAfter) {
		return true
	}
	// The type of an alert that was received is not exported.
	alert, ok := errors.AsType[*net.OpError](err)
	return ok && alert.Op == "remote error" && clientAlert.MatchString(alert.Err.Error())
}

type watchedConn struct {
	net.Conn
	wire *wire
}

// handshakeRecord is the first byte that a client of TLS sends, and one that no method of HTTP begins with.
const handshakeRecord = 22

func (c *watchedConn) Write(b []byte) (int, error) {
	if len(b) > 0 && b[0] == handshakeRecord {
		c.wire.secure.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.wire.silent.Swap(false) {
		c.wire.alert.Store(b[0] == tlsAlert)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		c.wire.ended.Store(true)
	}
	return n, err
}
