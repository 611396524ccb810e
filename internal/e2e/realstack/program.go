//go:build realservers

package realstack

import (
	"context"
	"testing"
)

// Program is any other server, which listens on one address.
type Program struct {
	*Process
	// Addr is host:port.
	Addr string
}

// StartProgram starts a server by the command line that argv returns, and returns when it answers a GET of path with status
// 200. Environ are further variables, NAME=VALUE.
func StartProgram(tb testing.TB, name, path string, environ []string, argv func(p *Program) []string) *Program {
	tb.Helper()
	p := &Program{Process: newProcess(tb, name, false), Addr: address(port(tb, 0))}
	p.environ = environ
	p.argv = argv(p)
	p.ready = func(ctx context.Context) error { return succeeds(ctx, "http://"+p.Addr+path) }
	p.Start()
	return p
}

// File writes a file into the program's directory and returns its path.
func (p *Program) File(name, content string) string {
	p.tb.Helper()
	p.write(name, []byte(content))
	return p.path(name)
}
