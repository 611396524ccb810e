package exchange

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// DialFunc connects, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

type (
	dialerKey struct{}
	routeKey  struct{}
)

// WithDialer returns a context in which connect makes all connections, such as those over a socket.
func WithDialer(ctx context.Context, connect DialFunc) context.Context {
	return context.WithValue(ctx, dialerKey{}, connect)
}

// Route says to which of a host's addresses connections go. The zero value leaves it to the net package, which tries one after the other.
type Route struct {
	// Host is the host that the route is for. Connections to others, such as a proxy, are not affected.
	Host string
	// Version is that of IP, 4 or 6; 0 is both.
	Version int
	// Address is the only address, if it is valid.
	Address netip.Addr
}

// WithRoute returns a context in which connections take a route.
func WithRoute(ctx context.Context, r Route) context.Context {
	return context.WithValue(ctx, routeKey{}, r)
}

// Dial makes every connection of a target, and sends the PROXY header if there is to be one. It sends no keep-alives, because
// connections end with the probe.
func Dial(ctx context.Context, c config.Connection, network, address string) (net.Conn, error) {
	conn, err := DialWithin(ctx, 0, network, address)
	if err != nil || c.ProxyProtocol == "" {
		return conn, err
	}
	if _, err := conn.Write(proxyHeader(c.ProxyProtocol, conn.LocalAddr(), conn.RemoteAddr())); err != nil {
		conn.Close() //nolint:errcheck,gosec // the error is that of the write
		return nil, fmt.Errorf("send the PROXY header: %w", err)
	}
	return conn, nil
}

// DialWithin is Dial with a timeout, 0 for none, and without a PROXY header.
func DialWithin(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	connect := (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext
	if given, ok := ctx.Value(dialerKey{}).(DialFunc); ok {
		connect = given
	}
	host, port, err := net.SplitHostPort(address)
	if network == "unix" || err != nil {
		return connect(ctx, network, address)
	}
	r, _ := ctx.Value(routeKey{}).(Route)
	switch {
	case !SameHost(r.Host, host):
		r = Route{}
	case r.Address.IsValid():
		host = r.Address.String()
	}
	conn, err := connect(ctx, network+r.suffix(), net.JoinHostPort(ASCIIHost(host), port)) // name servers know only A-labels
	if err != nil {
		return nil, otherFamily(ctx, host, r.Version, err)
	}
	return conn, nil
}

// suffix is what the net package adds to the name of a network.
func (r Route) suffix() string {
	if r.Version == 0 {
		return ""
	}
	return strconv.Itoa(r.Version)
}

// LookUp returns the addresses of a host of this IP version, 4 or 6; 0 is both. They are sorted, since name servers change their order.
func LookUp(ctx context.Context, host string, version int) ([]netip.Addr, error) {
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+Route{Version: version}.suffix(), ASCIIHost(host))
	if err != nil {
		return nil, otherFamily(ctx, host, version, err)
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortFunc(found, netip.Addr.Compare)
	return slices.Compact(found), nil
}

// otherFamily explains a lookup without a result if the host has addresses, but none of the wanted version.
func otherFamily(ctx context.Context, host string, version int, err error) error {
	if version == 0 || !failure.IsUnknownName(err) {
		return err
	}
	if others, otherErr := LookUp(ctx, host, 0); otherErr == nil && len(others) > 0 {
		return failure.NoAddress(host, version, others[0])
	}
	return err
}

// proxyHeader is what a proxy sends first, so that the server knows its client: here the exporter itself. Without addresses it says
// that there is none to know. The format is that of https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt.
func proxyHeader(version string, from, to net.Addr) []byte {
	source, known := addrPort(from)
	target, alsoKnown := addrPort(to)
	known = known && alsoKnown
	if version == config.ProxyV1 {
		switch {
		case !known:
			return []byte("PROXY UNKNOWN\r\n")
		case source.Addr().Is4():
			return fmt.Appendf(nil, "PROXY TCP4 %s %s %d %d\r\n", source.Addr(), target.Addr(), source.Port(), target.Port())
		}
		return fmt.Appendf(nil, "PROXY TCP6 %s %s %d %d\r\n", source.Addr(), target.Addr(), source.Port(), target.Port())
	}
	const signature, local, proxied, tcp4, tcp6 = "\r\n\r\n\x00\r\nQUIT\n", 0x20, 0x21, 0x11, 0x21
	if !known {
		return append([]byte(signature), local, 0, 0, 0)
	}
	addresses := append(source.Addr().AsSlice(), target.Addr().AsSlice()...)
	addresses = binary.BigEndian.AppendUint16(addresses, source.Port())
	addresses = binary.BigEndian.AppendUint16(addresses, target.Port())
	family := byte(tcp6)
	if source.Addr().Is4() {
		family = tcp4
	}
	header := binary.BigEndian.AppendUint16(append([]byte(signature), proxied, family), uint16(len(addresses))) //nolint:gosec // 36 at most
	return append(header, addresses...)
}

// addrPort returns the address of a TCP connection's end without its zone, which no header has room for.
func addrPort(a net.Addr) (netip.AddrPort, bool) {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}, false
	}
	end := tcp.AddrPort()
	return netip.AddrPortFrom(end.Addr().Unmap().WithZone(""), end.Port()), end.IsValid()
}

// WithHeader adds to the failure of a conversation that the PROXY header, or that there is none, may be why: if the server closed the
// connection before its first word, or did not understand a header that was sent. It returns other errors unchanged.
func WithHeader(err error, heard *Heard, c config.Connection) error {
	if err == nil {
		return nil
	}
	reason, sent := failure.ReasonOf(err), c.ProxyProtocol != ""
	unheard := reason == failure.Closed && !heard.Answered()
	switch {
	case sent && (unheard || reason == failure.TLS || reason == failure.Malformed || reason == failure.Mismatch):
		return failure.OrElse(err, "if the server expects no PROXY header, remove proxy_protocol")
	case unheard && !sent:
		return failure.OrElse(err, "if the server expects a PROXY header, as servers behind a load balancer may, set proxy_protocol")
	}
	return err
}
