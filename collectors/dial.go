package collectors

import (
	"context"
	"net"
	"time"
)

type dialerKey struct{}

// WithDialer has all that is asked under the context connect by the function, as tests with a network of their own need.
func WithDialer(ctx context.Context, connect dialFunc) context.Context {
	return context.WithValue(ctx, dialerKey{}, connect)
}

// dial makes every connection of a collector. It sends no keep-alives: connections end with the reading.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialWithin(ctx, 0, network, address)
}

// dialWithin gives up after the timeout, if it is not 0.
func dialWithin(ctx context.Context, timeout time.Duration, network, address string) (net.Conn, error) {
	if connect, ok := ctx.Value(dialerKey{}).(dialFunc); ok {
		return connect(ctx, network, address)
	}
	return (&net.Dialer{Timeout: timeout, KeepAlive: -1}).DialContext(ctx, network, address)
}
