package collectors

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var addressUpDesc = readDesc("chatstack_target_address_up",
	"1 if the last probe of this address of the target's host name succeeded. Only with addresses: all, for up to 8 addresses.",
	"target", "address")

// maxAddresses is how many addresses of a name are probed.
const maxAddresses = 8

// Addresses says which addresses of its host name a target is probed at.
type Addresses struct {
	// Host is the host of the target's URL or address.
	Host string
	// Version is that of IP, 4 or 6; 0 is both.
	Version int
	// All probes each of them, one after the other.
	All bool
}

// AddressesOf returns the addresses that a target's settings ask for.
func AddressesOf(s config.Settings) Addresses {
	t := s.Common()
	return Addresses{Host: s.HostName(), Version: t.IPVersion, All: t.Addresses == config.AllAddresses}
}

// Collect probes a target once, as Collector.Collect does, or once at each address. Then the target is up if one of them works; the
// others are impairments. The results are those of the first address that works, but the certificate is the first to expire of all, of
// those that do not work too: an expired one is why.
func (a Addresses) Collect(ctx context.Context, c Collector, b *Batch) error {
	if !a.All {
		return c.Collect(exchange.WithRoute(ctx, exchange.Route{Host: a.Host, Version: a.Version}), b)
	}
	found, err := exchange.LookUp(ctx, a.Host, a.Version)
	if err != nil {
		return fmt.Errorf("look up %s: %w", a.Host, err)
	}
	probed := found[:min(len(found), maxAddresses)]
	results, errs := make([]*Batch, len(probed)), make([]error, len(probed))
	for i, address := range probed {
		results[i] = &Batch{Target: b.Target}
		errs[i] = collectAt(ctx, c, results[i], exchange.Route{Host: a.Host, Address: address}, len(probed)-i)
	}
	err = b.merge(probed, results, errs)
	if len(found) > maxAddresses {
		b.Note(fmt.Sprintf("the host name has %d addresses, of which the first %d are probed", len(found), maxAddresses))
	}
	return err
}

// collectAt probes one address, the first of several that share the time until ctx's deadline.
func collectAt(ctx context.Context, c Collector, b *Batch, r exchange.Route, several int) error {
	ctx, cancel := share(ctx, 1/float64(several))
	defer cancel()
	return c.Collect(exchange.WithRoute(ctx, r), b)
}

// merge fills b, which is empty, with the results of a probe at each address.
func (b *Batch) merge(addresses []netip.Addr, results []*Batch, errs []error) error {
	best := max(0, slices.Index(errs, nil))
	var exchanges []*exchange.Exchange
	for _, r := range results {
		exchanges = append(exchanges, r.Exchanges...)
	}
	*b = *results[best]
	b.Exchanges = exchanges
	for i, address := range addresses {
		err := errs[i]
		if i != best && failure.LacksIPv6(err) { // of this machine, which says nothing about the address
			b.Note(fmt.Sprintf(
				"%s cannot be probed, since the exporter's machine or container has no way there: give it IPv6, or set ip_version: 4",
				address))
			continue
		}
		b.Kept.Gauge(addressUpDesc, boolValue(err == nil), b.Target, address.String())
		if i != best && err != nil {
			b.Note(fmt.Sprintf("%s: %s", address, failure.OneLine(err.Error())))
			b.Impair(fmt.Sprintf("%s does not work (%s)", address, failure.ReasonOf(err)))
		}
		end, first := results[i].Certificate.FirstEnd(), b.Certificate.FirstEnd()
		if first.IsZero() || !end.IsZero() && end.Before(first) {
			b.Certificate = results[i].Certificate
		}
	}
	if errs[best] != nil {
		return fmt.Errorf("at %s: %w", addresses[best], errs[best])
	}
	return nil
}
