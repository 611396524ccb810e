package app

import (
	"container/list"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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

const (
	// publicPart is the part of all connections that strangers may have: they must not take those that scrapes need.
	publicPart = 4
	// publicClientPart is the part of these that one client may have, and leastPublicShare the least number of them.
	publicClientPart = 16
	leastPublicShare = 32
)

// connections limits those of a listener, so that no client can lock out the others. A client that has its share gets no more. When all
// are in use, a new one takes the place of the one that has been silent longest.
type connections struct {
	most  int // of all clients together
	share int // of one client
	// trusted returns the networks of proxies that forward many clients. Their connections are not limited, but the requests are that
	// they forward at the same time for one client.
	trusted func() []netip.Prefix
	log     *slog.Logger

	mu     sync.Mutex
	open   map[net.Conn]*list.Element // of *connection
	silent *list.List                 // the one that has been silent longest comes first
	used   map[netip.Prefix]int       // connections and forwarded requests of each client
	warned time.Time
}

// connection is an open one.
type connection struct {
	conn    net.Conn
	client  netip.Prefix
	counted bool // as one of the client's
}

func newConnections(log *slog.Logger, most, share int, trusted func() []netip.Prefix) *connections {
	return &connections{
		most:    most,
		share:   share,
		trusted: trusted,
		log:     log,
		open:    map[net.Conn]*list.Element{},
		silent:  list.New(),
		used:    map[netip.Prefix]int{},
	}
}

// ownConnections are those of the exporter's own listener: one client may have half.
func ownConnections(log *slog.Logger) *connections {
	most := connectionsFor(web.OpenFiles())
	return newConnections(log, most, most/2, func() []netip.Prefix { return nil })
}

// publicConnections are those of the listener for users.
func publicConnections(log *slog.Logger, trusted func() []netip.Prefix) *connections {
	most := connectionsFor(web.OpenFiles()) / publicPart
	return newConnections(log, most, max(most/publicClientPart, leastPublicShare), trusted)
}

// connectionsFor reserves a quarter of the files that the process may open for polls and everything else.
func connectionsFor(files uint64) int { return int(min(maxConnections, files/4*3)) }

// limit makes a server obey the limits.
func (c *connections) limit(s *http.Server) {
	s.ConnState = c.stateChanged
	s.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, peerKey{}, conn.RemoteAddr())
	}
	s.Handler = c.limitForwarded(s.Handler)
}

// peerKey is the key of a connection's peer in the contexts of its requests.
type peerKey struct{}

// addressOf returns the peer's address; not ok for a Unix socket, whose clients are local and not limited.
func addressOf(peer net.Addr) (ip netip.Addr, ok bool) {
	address, ok := peer.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}, false
	}
	ip = address.AddrPort().Addr().Unmap().WithZone("")
	return ip, ip.IsValid()
}

// clientOf identifies a client by its address: by the /64 network for IPv6.
func clientOf(ip netip.Addr) netip.Prefix {
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// trusts reports whether the address is one of the trusted proxies.
func (c *connections) trusts(ip netip.Addr) bool {
	return slices.ContainsFunc(c.trusted(), func(p netip.Prefix) bool { return p.Contains(ip) })
}

// stateChanged is the ConnState of an http.Server.
func (c *connections) stateChanged(conn net.Conn, state http.ConnState) {
	ip, ok := addressOf(conn.RemoteAddr())
	if !ok {
		return
	}
	switch state {
	case http.StateNew:
		c.add(conn, clientOf(ip), !c.trusts(ip))
	case http.StateActive, http.StateIdle:
		c.heard(conn)
	case http.StateClosed, http.StateHijacked:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.forget(conn)
	}
}

// add keeps a new connection, for which the one that has been silent longest must go if all are in use, or closes it if its client has
// its share.
func (c *connections) add(conn net.Conn, client netip.Prefix, counted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if counted && !c.take(client) {
		closeNow(conn)
		return
	}
	if c.silent.Len() >= c.most {
		oldest := c.silent.Front().Value.(*connection) //nolint:forcetypeassert // the list has no other type
		closeNow(oldest.conn)
		c.forget(oldest.conn)
		if c.mayWarn() {
			c.log.Warn("all connections are in use, closing those that were silent longest", "connections", c.most)
		}
	}
	c.open[conn] = c.silent.PushBack(&connection{conn, client, counted})
}

// closeNow closes a connection without TLS's farewell, for which a peer that does not read would keep everybody waiting.
func closeNow(conn net.Conn) {
	if encrypted, ok := conn.(*tls.Conn); ok {
		conn = encrypted.NetConn()
	}
	conn.Close() //nolint:errcheck,gosec // its end is reported as another state
}

// heard notes that a connection began or ended a request.
func (c *connections) heard(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.open[conn]; e != nil {
		c.silent.MoveToBack(e)
	}
}

// forget removes a connection; mu is held.
func (c *connections) forget(conn net.Conn) {
	e := c.open[conn]
	if e == nil {
		return
	}
	delete(c.open, conn)
	if gone := c.silent.Remove(e).(*connection); gone.counted { //nolint:forcetypeassert // the list has no other type
		c.release(gone.client)
	}
}

// take counts one more for a client, and reports whether it is within its share; mu is held.
func (c *connections) take(client netip.Prefix) bool {
	if c.used[client] >= c.share {
		if c.mayWarn() {
			c.log.Warn("too many connections, refusing new ones; if they are legitimate, raise the limit of open files",
				"client", client, "limit_per_client", c.share, "limit", c.most)
		}
		return false
	}
	c.used[client]++
	return true
}

// release undoes take; mu is held.
func (c *connections) release(client netip.Prefix) {
	if c.used[client]--; c.used[client] == 0 {
		delete(c.used, client)
	}
}

// limitForwarded limits the requests that trusted proxies forward for one client at the same time.
func (c *connections) limitForwarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		peer, _ := r.Context().Value(peerKey{}).(net.Addr) // nothing else is stored with this key
		ip, ok := addressOf(peer)
		if !ok || !c.trusts(ip) {
			next.ServeHTTP(w, r)
			return
		}
		client := clientOf(c.forwardedFor(r.Header, ip))
		c.mu.Lock()
		within := c.take(client)
		c.mu.Unlock()
		if !within {
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
		defer func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.release(client)
		}()
		next.ServeHTTP(w, r)
		r.Body.Close() //nolint:errcheck,gosec // a body that does not come is part of the request, which still counts
	})
}

// forwardedFor returns the client for whom a proxy forwards a request: the last address that is not of a trusted proxy, since
// the client can write what is before it. A proxy that does not say counts as the client.
func (c *connections) forwardedFor(h http.Header, proxy netip.Addr) netip.Addr {
	hops := strings.Split(strings.Join(h.Values("X-Forwarded-For"), ","), ",")
	for _, hop := range slices.Backward(hops) {
		ip, ok := parseHop(strings.TrimSpace(hop))
		if !ok {
			return proxy
		}
		if !c.trusts(ip) {
			return ip
		}
	}
	return proxy
}

// parseHop reads an address in X-Forwarded-For; some proxies add a port.
func parseHop(hop string) (netip.Addr, bool) {
	ip, err := netip.ParseAddr(strings.Trim(hop, "[]"))
	if err != nil {
		var withPort netip.AddrPort
		withPort, err = netip.ParseAddrPort(hop)
		ip = withPort.Addr()
	}
	return ip.Unmap().WithZone(""), err == nil
}

// refusalInterval is how often the log reports refused connections.
const refusalInterval = time.Minute

// mayWarn reports whether refusalInterval has passed since it was last true; mu is held.
func (c *connections) mayWarn() bool {
	if time.Since(c.warned) < refusalInterval {
		return false
	}
	c.warned = time.Now()
	return true
}
