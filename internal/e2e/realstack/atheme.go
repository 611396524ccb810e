//go:build realservers

package realstack

import (
	"context"
	"net/http"
	"testing"
)

// AthemeOptions say what is particular about an Atheme.
type AthemeOptions struct {
	// Port is a port of 127.0.0.1; 0 picks a free one.
	Port int
}

// Atheme is IRC services without an IRC server to link to, which their HTTP side does not show.
type Atheme struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartAtheme starts IRC services.
func StartAtheme(tb testing.TB, o AthemeOptions) *Atheme {
	tb.Helper()
	program := binary(tb, "atheme-services", "atheme-services")
	o.Port = port(tb, o.Port)
	a := &Atheme{Process: newProcess(tb, "atheme", true), Addr: address(o.Port)}
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
	}{a.dir, o.Port})
	a.Start()
	return a
}

// URL is the services' HTTP side, with a slash at its end.
func (a *Atheme) URL() string { return "http://" + a.Addr + "/" }
