package app

import (
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// maxConnections limits the connections of all clients even if the process may open many more files, since each takes memory.
const maxConnections = 6000

// maxHeader limits the header of a request in bytes: net/http's default of 1 MB, times the connections of one client, is gigabytes.
const maxHeader = 16 << 10

// maxHTTP2Streams limits the concurrent requests per connection: net/http's default of 250 would multiply a client's share.
const maxHTTP2Streams = 16

// connections closes new connections of a client that already has its share, so that no client can lock out the others.
type connections struct {
	most int // of all clients together; a single one may have half
	log  *slog.Logger

	mu     sync.Mutex
	open   map[netip.Prefix]int
	total  int
	warned time.Time
}

func newConnections(log *slog.Logger) *connections {
	return &connections{most: connectionsFor(web.OpenFiles()), log: log, open: map[netip.Prefix]int{}}
}

// connectionsFor reserves a quarter of the files that the process may open for polls and everything else.
func connectionsFor(files uint64) int { return int(min(maxConnections, files/4*3)) }

// clientOf identifies a client by its address: by the /64 network for IPv6. Clients of a Unix socket are local and not limited.
func clientOf(c net.Conn) (client netip.Prefix, ok bool) {
	address, ok := c.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}, false
	}
	ip := address.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	client, err := ip.Prefix(bits)
	return client, err == nil
}

// stateChanged is the ConnState of an http.Server.
func (c *connections) stateChanged(conn net.Conn, state http.ConnState) {
	client, ok := clientOf(conn)
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		if open, full := c.count(client); full {
			conn.Close() //nolint:errcheck,gosec // its end is reported as another state
			c.warn(client, open)
		}
	case http.StateClosed, http.StateHijacked:
		c.release(client)
	case http.StateActive, http.StateIdle:
	}
}

// count adds a connection of a client and reports whether that is one too many.
func (c *connections) count(client netip.Prefix) (open int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[client]++
	c.total++
	open = c.open[client]
	return open, open > c.most/2 || c.total > c.most
}

func (c *connections) release(client netip.Prefix) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	if c.open[client]--; c.open[client] == 0 {
		delete(c.open, client)
	}
}

// refusalInterval is how often the log reports refused connections.
const refusalInterval = time.Minute

func (c *connections) warn(client netip.Prefix, open int) {
	c.mu.Lock()
	due := time.Since(c.warned) >= refusalInterval
	if due {
		c.warned = time.Now()
	}
	c.mu.Unlock()
	if due {
		c.log.Warn("too many connections, refusing new ones; if they are legitimate, raise the limit of open files",
			"client", client, "open", open, "limit_per_client", c.most/2, "limit", c.most)
	}
}
