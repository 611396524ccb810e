package exchange

import (
	"net"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

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
		{config.ProxyV1, tcp("192.0.2.1:40000"), tcp("198.51.100.2:443"), "PROXY TCP4 192.0.2.1 198.51.100.2 40000 443\r\n"},
		{config.ProxyV1, tcp("[2001:db8::1]:40000"), tcp("[2001:db8::2]:443"), "PROXY TCP6 2001:db8::1 2001:db8::2 40000 443\r\n"},
		{config.ProxyV1, tcp("[::ffff:192.0.2.1]:1"), tcp("[::ffff:198.51.100.2]:2"), "PROXY TCP4 192.0.2.1 198.51.100.2 1 2\r\n"},
		{config.ProxyV1, &net.TCPAddr{IP: net.ParseIP("fe80::1"), Port: 1, Zone: "eth0"}, &net.TCPAddr{IP: net.ParseIP("fe80::2"), Port: 2, Zone: "eth0"}, "PROXY TCP6 fe80::1 fe80::2 1 2\r\n"},
		{config.ProxyV1, &net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "/run/s"}, "PROXY UNKNOWN\r\n"},
		{config.ProxyV2, tcp("192.0.2.1:258"), tcp("198.51.100.2:443"), signature + "\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\x01\x02\x01\xbb"},
		{
			config.ProxyV2, tcp("[2001:db8::1]:258"), tcp("[2001:db8::2]:443"), signature + "\x21\x21\x00\x24" +
				"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x01\x02\x01\xbb",
		},
		{config.ProxyV2, &net.UnixAddr{Name: "@"}, &net.UnixAddr{Name: "/run/s"}, signature + "\x20\x00\x00\x00"},
	} {
		if got := string(proxyHeader(tt.version, tt.from, tt.to)); got != tt.want {
			t.Errorf("%s from %s to %s: got %q, want %q", tt.version, tt.from, tt.to, got, tt.want)
		}
	}
}
