//go:build realservers

package realstack

import (
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Relay stands between a client and an engine's socket.
type Relay struct {
	// Host is where it listens, as DOCKER_HOST has it.
	Host string

	engine  string
	mu      sync.Mutex
	open    map[net.Conn]bool
	refuses bool
	done    sync.WaitGroup
}

// StartRelay starts a relay to an engine, which ends with the test.
func StartRelay(tb testing.TB, host string) *Relay {
	tb.Helper()
	socket := filepath.Join(newProcess(tb, "relay", false).dir, "docker.sock") // the path of TempDir may be too long for a socket
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(fmt.Errorf("start a relay: %w", err))
	}
	r := &Relay{
		Host:   "unix://" + socket,
		engine: strings.TrimPrefix(host, "unix://"),
		open:   map[net.Conn]bool{},
	}
	r.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			r.done.Go(func() { r.serve(c) })
		}
	})
	tb.Cleanup(func() {
		l.Close() //nolint:errcheck,gosec // the test is over
		r.Cut()
		r.done.Wait()
	})
	return r
}

func (r *Relay) serve(c net.Conn) {
	defer c.Close()                       //nolint:errcheck // either end may have closed
	up, err := net.Dial("unix", r.engine) //nolint:noctx // ends with Cut
	if err != nil {
		return // the engine is not there
	}
	defer up.Close() //nolint:errcheck // either end may have closed
	if !r.keep(c, up) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{c, up}, {up, c}} {
		both.Go(func() {
			io.Copy(way[0], way[1]) //nolint:errcheck // either end may close
			way[0].Close()          //nolint:errcheck,gosec // and then both are
			way[1].Close()          //nolint:errcheck,gosec // the same
		})
	}
	both.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.open, c)
	delete(r.open, up)
}

// keep reports whether the two connections may stay open.
func (r *Relay) keep(c, up net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.refuses {
		r.open[c], r.open[up] = true, true
	}
	return !r.refuses
}

// Cut closes every connection that is open.
func (r *Relay) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.open {
		c.Close() //nolint:errcheck,gosec // that is what is wanted
	}
}

// Refuse closes every connection, and all new ones until Serve.
func (r *Relay) Refuse() { r.refuse(true); r.Cut() }

// Serve ends Refuse.
func (r *Relay) Serve() { r.refuse(false) }

func (r *Relay) refuse(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuses = on
}
