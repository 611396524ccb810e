package exchange

import (
	"context"
	"net"
	"time"
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
	if connect, ok := ctx.Value(dialerKey{}).(DialFunc); ok {
		return connect(ctx, network, address)
	}
	return (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext(ctx, network, address)
}
