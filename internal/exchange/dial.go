package exchange

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// DialFunc connects, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

type dialerKey struct{}

// WithDialer returns a context in which connect makes all connections, for tests with a network of their own.
func WithDialer(ctx context.Context, connect DialFunc) context.Context {
	return context.WithValue(ctx, dialerKey{}, connect)
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
	if connect, ok := ctx.Value(dialerKey{}).(DialFunc); ok {
		return connect(ctx, network, address)
	}
	return (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext(ctx, network, address)
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
