package exportertest

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"testing"
)

// Pipes is a listener whose connections are pipes in memory: nothing is buffered, and time can be a test's own.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

// ServePipes has serve run a server over pipes until the test ends.
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

// fromAddress is a connection of a client with that address.
type fromAddress struct {
	net.Conn
	address net.Addr
}

// RemoteAddr implements net.Conn.
func (c fromAddress) RemoteAddr() net.Addr { return c.address }

// Dial connects a client with this address, nil for a Unix socket's, and returns its end.
func (p *Pipes) Dial(from net.Addr) net.Conn {
	client, server := net.Pipe()
	p.conns <- fromAddress{server, cmp.Or(from, p.Addr())}
	return client
}
