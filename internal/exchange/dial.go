package exchange

import (
	"context"
	"net"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// DialFunc connects, as net.Dialer.DialContext does.
type DialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

type dialerKey struct{}

// WithDialer returns a context in which connect makes all connections, for tests with a network of their own.
func WithDialer(ctx context.Context, connect DialFunc) context.Context {
	return context.WithValue(ctx, dialerKey{}, connect)
}

// Dial makes every connection. It sends no keep-alives, because connections end with the probe.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return DialWithin(ctx, 0, network, address)
}

// DialWithin is Dial with a timeout; 0 is none.
func DialWithin(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && network != "unix" {
		address = net.JoinHostPort(config.ASCIIHost(host), port) // name servers know only A-labels
	}
	if connect, ok := ctx.Value(dialerKey{}).(DialFunc); ok {
		return connect(ctx, network, address)
	}
	return (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext(ctx, network, address)
}
