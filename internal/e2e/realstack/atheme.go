//go:build realservers

package realstack

import (
	"context"
	"net/http"
	"testing"
)

// Atheme is IRC services without a linked IRC server. Their HTTP side works the same without one.
type Atheme struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartAtheme starts IRC services.
func StartAtheme(tb testing.TB) *Atheme {
	tb.Helper()
	program := binary(tb, "atheme-services", "atheme-services")
	port := freePort(tb)
	a := &Atheme{Process: newProcess(tb, "atheme", true), Addr: address(port)}
	a.argv = []string{
		program, "-n",
		"-c", a.path("atheme.conf"), "-D", a.dir, "-l", a.path("server.log"), "-p", a.path("atheme.pid"),
	}
	a.ready = func(ctx context.Context) error { return answers(ctx, http.DefaultTransport, a.URL()) }
	// Killed services leave their pid file, and refuse to start while it names a process.
	a.ended = func() { a.removeIfThere("atheme.pid") }
	a.mkdir("www")
	a.configure("atheme.conf", struct {
		Dir  string
		Port int
	}{a.dir, port})
	a.Start()
	return a
}

// URL returns the services' HTTP address, with a slash at its end.
func (a *Atheme) URL() string { return "http://" + a.Addr + "/" }
