package exchange

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestNameServersAreAskedForALabels has names as people write them; a final dot keeps its meaning to the resolver.
func TestNameServersAreAskedForALabels(t *testing.T) {
	for address, want := range map[string]string{
		"müller.test:5222": "xn--mller-kva.test:5222", "MÜLLER.test.:1": "xn--mller-kva.test.:1", "chat_irc_1:6697": "chat_irc_1:6697",
		"Chat.test.:443": "Chat.test.:443", "[2001:db8::1%eth0]:1": "[2001:db8::1%eth0]:1",
	} {
		var got string
		ctx := WithDialer(t.Context(), func(_ context.Context, _, address string) (net.Conn, error) {
			got = address
			return nil, errors.New("no network")
		})
		if _, err := Dial(ctx, config.Connection{}, "tcp", address); err == nil || got != want {
			t.Errorf("%s: dials %s, want %s", address, got, want)
		}
	}
}

// dialed returns the network and address that a dial by a route leads to.
func dialed(t *testing.T, r Route, address string) (network, to string) {
	t.Helper()
	ctx := WithDialer(WithRoute(t.Context(), r), func(_ context.Context, n, a string) (net.Conn, error) {
		network, to = n, a
		return nil, errors.New("no network")
	})
	if _, err := Dial(ctx, config.Connection{}, "tcp", address); err == nil {
		t.Error("a connection without a network")
	}
	return network, to
}

func TestRouteLeadsToItsHostAlone(t *testing.T) {
	one := netip.MustParseAddr("2001:db8::1")
	for _, tt := range []struct {
		route           Route
		address         string
		wantNet, wantTo string
	}{
		{
			Route{},
			"chat.test:1",
			"tcp",
			"chat.test:1",
		},
		{
			Route{Host: "chat.test", Version: 6},
			"chat.test:1",
			"tcp6",
			"chat.test:1",
		},
		{
			Route{Host: "chat.test", Version: 4},
			"CHAT.test.:1",
			"tcp4",
			"CHAT.test.:1",
		},
		{
			Route{Host: "chat.test", Version: 4},
			"proxy.test:1",
			"tcp",
			"proxy.test:1",
		},
		{
			Route{Host: "müller.test", Address: one},
			"xn--mller-kva.test:1",
			"tcp",
			"[2001:db8::1]:1",
		},
		{
			Route{Host: "chat.test", Address: one},
			"proxy.test:1",
			"tcp",
			"proxy.test:1",
		},
	} {
		if network, to := dialed(t, tt.route, tt.address); network != tt.wantNet || to != tt.wantTo {
			t.Errorf("%+v: %s: got %s %s, want %s %s", tt.route, tt.address, network, to, tt.wantNet, tt.wantTo)
		}
	}
}

// TestNameWithoutTheWantedFamilyIsNoWrongName: the name server knows the name, and an address of the other version.
func TestNameWithoutTheWantedFamilyIsNoWrongName(t *testing.T) {
	exchangetest.NameServer(t, map[string]exchangetest.Name{
		"four.test": {Addresses: []string{"127.0.0.1"}}, "six.test": {Addresses: []string{"2001:db8::1"}}, "mail.test": {},
	})
	for _, tt := range []struct {
		host    string
		version int
		want    string
	}{
		{"four.test", 6, "the host name has no IPv6 address: "},
		{"six.test", 4, "the host name has no IPv4 address: "},
		{"127.0.0.1", 6, "the host name has no IPv6 address: "},
		{"::1", 4, "the host name has no IPv4 address: "},
		{"mail.test", 6, "the host name does not resolve: "},
		{"gone.test", 4, "the host name does not resolve: "},
	} {
		_, err := Dial(WithRoute(t.Context(), Route{Host: tt.host, Version: tt.version}), config.Connection{},
			"tcp", net.JoinHostPort(tt.host, "1"))
		wantReason(t, err, failure.DNS)
		if got := failure.HintOf(err); !strings.HasPrefix(got, tt.want) {
			t.Errorf("IPv%d of %s: %v: hint %q, want %q", tt.version, tt.host, err, got, tt.want)
		}
		if _, err := LookUp(t.Context(), tt.host, tt.version); err == nil || !strings.HasPrefix(failure.HintOf(err), tt.want) {
			t.Errorf("look up IPv%d of %s: got %v, want hint %q", tt.version, tt.host, err, tt.want)
		}
	}
	if found, err := LookUp(t.Context(), "four.test", 4); err != nil ||
		!slices.Equal(found, []netip.Addr{netip.MustParseAddr("127.0.0.1")}) {
		t.Errorf("got %v, error %v, want the address", found, err)
	}
}

// TestMachineWithoutIPv6IsTheExporters: nothing is wrong with the service.
func TestMachineWithoutIPv6IsTheExporters(t *testing.T) {
	for _, cause := range []error{syscall.ENETUNREACH, syscall.EADDRNOTAVAIL} {
		for address, want := range map[string]bool{"2001:db8::1": true, "192.0.2.1": false} {
			err := &net.OpError{
				Op:   "dial",
				Net:  "tcp",
				Addr: &net.TCPAddr{IP: net.ParseIP(address), Port: 1},
				Err:  cause,
			}
			if got := failure.HintOf(err); strings.Contains(got, "give it IPv6") != want || failure.ReasonOf(err) != failure.Refused {
				t.Errorf("%v: reason %s, hint %q, want advice about IPv6: %t", err, failure.ReasonOf(err), got, want)
			}
		}
	}
}

// TestAddressThatCostsUsersSecondsIsNoted has the events of connections in the order in which package net reports them.
func TestAddressThatCostsUsersSecondsIsNoted(t *testing.T) {
	const six, four = "[2001:db8::66]:443", "192.0.2.1:443"
	start := func(a string) func(*httptrace.ClientTrace) {
		return func(c *httptrace.ClientTrace) { c.ConnectStart("tcp", a) }
	}
	done := func(a string, err error) func(*httptrace.ClientTrace) {
		return func(c *httptrace.ClientTrace) { c.ConnectDone("tcp", a, err) }
	}
	answered := "of 2 addresses, 192.0.2.1 answered"
	dead := func(why string) string {
		return "the IPv6 address 2001:db8::66 does not work (" + why + "): clients that try it first lose time before they reach 192.0.2.1"
	}
	for name, tt := range map[string]struct {
		events []func(*httptrace.ClientTrace)
		want   []string
	}{
		"the first answers": {[]func(*httptrace.ClientTrace){start(four), done(four, nil)}, []string{answered}},
		"the first is silent": {
			[]func(*httptrace.ClientTrace){start(six), start(four), done(four, nil), done(six, context.Canceled)},
			[]string{answered, dead("no answer")},
		},
		"the first refuses": {
			[]func(*httptrace.ClientTrace){start(six), done(six, syscall.ECONNREFUSED), start(four), done(four, nil)},
			[]string{answered, dead("connection refused")},
		},
		"this machine has no IPv6": {
			[]func(*httptrace.ClientTrace){start(six), done(six, syscall.ENETUNREACH), start(four), done(four, nil)},
			[]string{answered},
		},
		"the second comes too late": {
			[]func(*httptrace.ClientTrace){start(four), start(six), done(four, nil), done(six, context.Canceled)},
			[]string{answered},
		},
		"none answers": {
			[]func(*httptrace.ClientTrace){start(six), done(six, syscall.ECONNREFUSED), start(four), done(four, syscall.ECONNREFUSED)},
			nil,
		},
	} {
		r := &Record{}
		ctx, timing := r.Begin(t.Context(), "connect")
		trace := httptrace.ContextClientTrace(ctx)
		trace.DNSDone(httptrace.DNSDoneInfo{Addrs: make([]net.IPAddr, 2)})
		for _, event := range tt.events {
			event(trace)
		}
		timing.End("end", nil)
		if !slices.Equal(r.Notes, tt.want) {
			t.Errorf("%s: got %q, want %q", name, r.Notes, tt.want)
		}
		if want := four; tt.want != nil && r.Exchanges[0].Address != want {
			t.Errorf("%s: address %q, want %q", name, r.Exchanges[0].Address, want)
		}
	}
}

// TestAnswerOfTheOnlyAddressIsNoNote: there is nothing to tell apart.
func TestAnswerOfTheOnlyAddressIsNoNote(t *testing.T) {
	exchangetest.NameServer(t, map[string]exchangetest.Name{"chat.test": {Addresses: []string{"127.0.0.1"}}})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	r := &Record{}
	h := &HTTP{Settings: config.HTTP{URL: strings.Replace(server.URL, "127.0.0.1", "chat.test", 1)}, Limit: 1}
	if _, err := h.Get(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Exchanges[0].Address, server.Listener.Addr().String(); got != want || len(r.Notes) > 0 {
		t.Errorf("address %q and notes %q, want %q and none", got, r.Notes, want)
	}
}

func TestPROXYHeaderNamesBothEnds(t *testing.T) {
	tcp := func(address string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	const signature = "\r\n\r\n\x00\r\nQUIT\n"
	for _, tt := range []struct {
		version  string
		from, to net.Addr
		want     string
	}{
		{
			config.ProxyV1,
			tcp("192.0.2.1:40000"),
			tcp("198.51.100.2:443"),
			"PROXY TCP4 192.0.2.1 198.51.100.2 40000 443\r\n",
		},
		{
			config.ProxyV1,
			tcp("[2001:db8::1]:40000"),
			tcp("[2001:db8::2]:443"),
			"PROXY TCP6 2001:db8::1 2001:db8::2 40000 443\r\n",
		},
		{
			config.ProxyV1,
			tcp("[::ffff:192.0.2.1]:1"),
			tcp("[::ffff:198.51.100.2]:2"),
			"PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\n",
		},
		{
			config.ProxyV1,
			&net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "eth0"},
			&net.TCPAddr{IP: net.ParseIP("fe80::2"), Port: 2, Zone: "eth0"},
			"PROXY TCP6 fe80::1 fe80::2 1 2\r\n",
		},
		{
			config.ProxyV1,
			&net.UnixAddr{Name: "@"},
			&net.UnixAddr{Name: "/run/s"},
			"PROXY UNKNOWN\r\n",
		},
		{
			config.ProxyV2,
			tcp("192.0.2.1:258"),
			tcp("198.51.100.2:443"),
			signature + "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb",
		},
		{
			config.ProxyV2,
			tcp("[2001:db8::1]:258"),
			tcp("[2001:db8::2]:443"),
			signature + "\x21\x21\x00\x24" +
				"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x01\x02\x01\xbb",
		},
		{
			config.ProxyV2,
			&net.UnixAddr{Name: "@"},
			&net.UnixAddr{Name: "/run/s"},
			signature + "\x20\x00\x00\x00",
		},
	} {
		if got := string(proxyHeader(tt.version, tt.from, tt.to)); got != tt.want {
			t.Errorf("%s from %s to %s: got %q, want %q", tt.version, tt.from, tt.to, got, tt.want)
		}
	}
}
