package collectors

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"sync/atomic"
	"syscall"
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
	if is[*Error](err) {
		return err
	}
	switch reason := ReasonOf(err); {
	case reason == Timeout && w.unresolved.Load():
		return Failf(DNS, "look up the host name: %w", err).WithHint("the name server does not answer: look at the network of this exporter, or of its container")
	case reason == Malformed && w.ended.Load():
		return Failf(Closed, "the answer breaks off: %w", err)
	// In TLS 1.3 a server refuses a client after the handshake is over for that. net/http closes the connection of itself
	// then, and if it has not yet sent the request by that time, this is all it says.
	case reason == Closed && errors.Is(err, net.ErrClosed) && w.secure.Load() && !w.ended.Load():
		return Failf(TLS, "the server refused after the handshake, before the request was sent: %w", err)
	default:
		return err
	}
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
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		c.wire.ended.Store(true)
	}
	return n, err
}
