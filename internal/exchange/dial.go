package exchange

import (
	"context"
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

// WithDialer returns a context in which connect makes all connections, for tests with a network of their own.
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

// Dial makes every connection. It sends no keep-alives, because connections end with the probe.
func Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return DialWithin(ctx, 0, network, address)
}

// DialWithin is Dial with a timeout; 0 is none.
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
	case !config.SameHost(r.Host, host):
		r = Route{}
	case r.Address.IsValid():
		host = r.Address.String()
	}
	conn, err := connect(ctx, network+r.suffix(), net.JoinHostPort(config.ASCIIHost(host), port)) // name servers know only A-labels
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
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip"+Route{Version: version}.suffix(), config.ASCIIHost(host))
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
