//go:build realservers

package realstack

import (
	"context"
	"testing"
)

// Front is an nginx that passes connections on as they are.
type Front struct {
	*Process
	// Addr is host:port.
	Addr string
}

// FrontOptions configure a Front.
type FrontOptions struct {
	// Default is the host:port that connections go to.
	Default string
	// ALPN are the servers, host:port, of clients that offer a protocol.
	ALPN map[string]string
	// Proxied requires a PROXY header.
	Proxied bool
}

// StartFront starts an nginx with its stream module.
func StartFront(tb testing.TB, o FrontOptions) *Front {
	tb.Helper()
	program := binary(tb, "nginx", "nginx")
	port := freePort(tb)
	f := &Front{Process: newProcess(tb, "nginx", true), Addr: address(port)}
	f.argv = []string{program, "-c", f.path("front.conf"), "-e", f.path("server.log"), "-p", f.dir}
	f.ready = func(ctx context.Context) error { return accepts(ctx, f.Addr) }
	f.configure("front.conf", struct {
		FrontOptions
		Dir  string
		Port int
	}{o, f.dir, port})
	f.Start()
	return f
}
