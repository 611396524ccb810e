package collectors

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// atAddress is a collector whose result depends on the address that it reaches.
type atAddress func(ctx context.Context, ip netip.Addr, b *Batch) error

func (c atAddress) Collect(ctx context.Context, b *Batch) error {
	var reached string
	//nolint:errcheck // it only shows where it leads
	exchange.Dial(exchange.WithDialer(ctx, func(_ context.Context, _, address string) (net.Conn, error) {
		reached = address
		return nil, errors.New("no network")
	}), config.Connection{}, "tcp", "chat.test:443")
	at, err := netip.ParseAddrPort(reached)
	if err != nil {
		return err
	}
	b.Exchanges = append(b.Exchanges, &exchange.Exchange{Request: "to " + at.Addr().String()})
	return c(ctx, at.Addr(), b)
}

// collectAll probes each address of a name with a result for each, nil for up.
func collectAll(t *testing.T, version int, results map[string]error) (*Batch, error) {
	t.Helper()
	var addresses []string
	for a := range results {
		addresses = append(addresses, a)
	}
	exchangetest.NameServer(t, map[string]exchangetest.Name{"chat.test": {Addresses: addresses}})
	b := &Batch{Target: "web"}
	return b, Addresses{
		Host:    "chat.test",
		Version: version,
		All:     true,
	}.Collect(t.Context(), atAddress(func(_ context.Context, ip netip.Addr, b *Batch) error {
		b.Note("asked " + ip.String())
		return results[ip.String()]
	}), b)
}

// addressLines returns the lines of the page about addresses.
func addressLines(t *testing.T, b *Batch, err error) []string {
	t.Helper()
	return regexp.MustCompile(`(?m)^chatstack_target_address_up.*$`).FindAllString(string(pageOf(t, b, err == nil)), -1)
}

func TestTargetIsUpIfOneAddressWorks(t *testing.T) {
	refused := failure.Errorf(failure.Refused, "refused")
	up := func(address string, is int) string {
		return fmt.Sprintf(`chatstack_target_address_up{address=%q,target="web"} %d`, address, is)
	}
	for name, tt := range map[string]struct {
		results  map[string]error
		version  int
		want     failure.Reason
		impaired []string
		notes    []string
		lines    []string
	}{
		"all work": {
			results: map[string]error{"192.0.2.1": nil, "2001:db8::1": nil},
			notes:   []string{"asked 192.0.2.1"},
			lines:   []string{up("192.0.2.1", 1), up("2001:db8::1", 1)},
		},
		"one does not": {
			results:  map[string]error{"192.0.2.1": refused, "192.0.2.2": nil},
			impaired: []string{"192.0.2.1 does not work (refused)"},
			notes:    []string{"asked 192.0.2.2", "192.0.2.1: refused"},
			lines:    []string{up("192.0.2.1", 0), up("192.0.2.2", 1)},
		},
		"none works": {
			results:  map[string]error{"192.0.2.1": refused, "192.0.2.2": failure.Errorf(failure.Timeout, "silent")},
			want:     failure.Refused,
			impaired: []string{"192.0.2.2 does not work (timeout)"},
			notes:    []string{"asked 192.0.2.1", "192.0.2.2: silent"},
			lines:    []string{up("192.0.2.1", 0), up("192.0.2.2", 0)},
		},
		"of one version": {
			results: map[string]error{"192.0.2.1": refused, "2001:db8::1": nil},
			version: 6,
			notes:   []string{"asked 2001:db8::1"},
			lines:   []string{up("2001:db8::1", 1)},
		},
		"of none of them": {results: map[string]error{"192.0.2.1": nil}, version: 6, want: failure.DNS},
	} {
		b, err := collectAll(t, tt.version, tt.results)
		if tt.want != "" {
			wantReason(t, err, tt.want)
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(b.Impairments, tt.impaired) || !slices.Equal(b.Notes, tt.notes) {
			t.Errorf("%s: impaired %q, notes %q; want %q and %q", name, b.Impairments, b.Notes, tt.impaired, tt.notes)
		}
		if got := addressLines(t, b, err); !slices.Equal(got, tt.lines) {
			t.Errorf("%s: lines %q, want %q", name, got, tt.lines)
		}
		if got := len(b.Exchanges); got != len(tt.lines) {
			t.Errorf("%s: %d exchanges, want one with each address", name, got)
		}
	}
}

func TestNoMoreThanEightAddressesAreProbed(t *testing.T) {
	results := map[string]error{}
	for i := range 10 {
		results[fmt.Sprintf("192.0.2.%d", i)] = nil
	}
	b, err := collectAll(t, 0, results)
	if got := addressLines(t, b, err); err != nil || len(got) != maxAddresses ||
		!strings.Contains(b.Notes[len(b.Notes)-1], "has 10 addresses, of which the first 8") {
		t.Errorf("error %v, %d lines, notes %q", err, len(got), b.Notes)
	}
}

// TestCertificateThatExpiresFirstCounts, whichever address serves it.
func TestCertificateThatExpiresFirstCounts(t *testing.T) {
	soon, late := time.Unix(1000, 0), time.Unix(2000, 0)
	exchangetest.NameServer(t, map[string]exchangetest.Name{"chat.test": {Addresses: []string{"192.0.2.1", "192.0.2.2", "192.0.2.3"}}})
	ends := map[string]time.Time{"192.0.2.1": late, "192.0.2.2": soon, "192.0.2.3": late}
	b := &Batch{}
	err := Addresses{Host: "chat.test", All: true}.Collect(t.Context(), atAddress(func(_ context.Context, ip netip.Addr, b *Batch) error {
		b.Certificate.Leaf = exchange.Validity{Ends: ends[ip.String()]}
		return nil
	}), b)
	if err != nil || !b.Certificate.Leaf.Ends.Equal(soon) {
		t.Errorf("error %v, certificate until %v, want %v", err, b.Certificate.Leaf.Ends, soon)
	}
}

// TestSilentAddressLeavesTimeForTheOthers: addresses share the deadline, and the last has what is left.
func TestSilentAddressLeavesTimeForTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		begun := time.Now()
		var took []time.Duration
		silent := atAddress(func(ctx context.Context, _ netip.Addr, _ *Batch) error {
			<-ctx.Done()
			took = append(took, time.Since(begun))
			return ctx.Err()
		})
		for left := 3; left > 0; left-- {
			err := collectAt(ctx, silent, &Batch{}, exchange.Route{Host: "chat.test", Address: netip.MustParseAddr("192.0.2.1")}, left)
			wantReason(t, err, failure.Timeout)
		}
		if want := []time.Duration{3 * time.Second, 6 * time.Second, 9 * time.Second}; !slices.Equal(took, want) {
			t.Errorf("gave up after %v, want %v", took, want)
		}
	})
}

// TestVersionOfIPHolds has a target ask for the version that its name lacks; without it, the name works.
func TestVersionOfIPHolds(t *testing.T) {
	exchangetest.NameServer(t, map[string]exchangetest.Name{"chat.test": {Addresses: []string{"127.0.0.1"}}})
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	port := exchangetest.ServeEach(t, l, func(net.Conn) {})[len("127.0.0.1:"):]
	c := targetOf(t, `{kind: tcp, address: "chat.test:`+port+`"}`)
	for version, want := range map[int]string{0: "", 4: "", 6: "the host name has no IPv6 address"} {
		err := Addresses{Host: "chat.test", Version: version}.Collect(t.Context(), c, &Batch{})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(failure.HintOf(err), want) {
			t.Errorf("IPv%d: got %v, want %q", version, err, want)
		}
	}
}
