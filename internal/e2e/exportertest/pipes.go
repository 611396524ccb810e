package exportertest

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"testing"
)

// Pipes is a listener whose connections are unbuffered pipes in memory, so that it works in simulated time.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

// ServePipes runs serve with a listener of pipes until the test ends.
func ServePipes(tb testing.TB, server *http.Server, serve func(net.Listener) error) *Pipes {
	tb.Helper()
	p := &Pipes{make(chan net.Conn), make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- serve(p) }()
	tb.Cleanup(func() {
		server.Close() //nolint:errcheck,gosec // the pipes are in memory
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			tb.Errorf("serve: %v", err)
		}
	})
	return p
}

// Accept implements net.Listener.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *Pipes) Close() error { close(p.done); return nil }

// Addr implements net.Listener.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// fromAddress is a connection with a chosen client address.
type fromAddress struct {
	net.Conn
	address net.Addr
}

// RemoteAddr implements net.Conn.
func (c fromAddress) RemoteAddr() net.Addr { return c.address }

// Dial connects a client with this address and returns its end. A nil address is that of a Unix socket.
func (p *Pipes) Dial(from net.Addr) net.Conn {
	client, server := net.Pipe()
	p.conns <- fromAddress{server, cmp.Or(from, p.Addr())}
	return client
}
