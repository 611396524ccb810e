package collectors

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
)

// helloOf probes a target, whose block has ADDRESS for host:port, and returns the first ClientHello that its server gets.
func helloOf(t *testing.T, target string) *tls.ClientHelloInfo {
	t.Helper()
	hellos := make(chan *tls.ClientHelloInfo, 10)
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	address := exchangetest.ServeEach(t, l, func(conn net.Conn) {
		first := make([]byte, 4096)
		if strings.Contains(target, "starttls") || strings.Contains(target, "xmpp_c2s") {
			n, _ := conn.Read(first) // the stream's header, which the server's resembles
			exchangetest.Say(string(first[:n]) +
				`<stream:features><starttls xmlns='urn:ietf:params:xml:ns:xmpp-tls'/></stream:features>`)(conn)
			conn.Read(first) //nolint:errcheck,gosec // <starttls/>
			exchangetest.Say(`<proceed xmlns='urn:ietf:params:xml:ns:xmpp-tls'/>`)(conn)
		}
		server := tls.Server(conn, &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			select {
			case hellos <- hello:
			default:
			}
			return nil, errors.New("the hello is all that counts")
		}})
		server.HandshakeContext(context.Background()) //nolint:errcheck,gosec // it fails
	})
	if _, err := read(t, probeAt(t, target, address, ""), 10*time.Second); err == nil {
		t.Fatalf("%s: up, without a server", target)
	}
	select {
	case hello := <-hellos:
		return hello
	default:
		t.Fatalf("%s: no ClientHello", target)
		return nil
	}
}

// TestEachKindOffersWhatItsClientsOffer, since a port may be shared by protocols that ALPN alone tells apart.
func TestEachKindOffersWhatItsClientsOffer(t *testing.T) {
	t.Parallel()
	for target, want := range map[string][]string{
		"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS', direct_tls: true}":            {"xmpp-client"},
		"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS', direct_tls: true, alpn: []}":  nil,
		"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS', direct_tls: true, alpn: [q]}": {"q"},
		"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS'} # starttls":                   nil,
		"{kind: xmpp_c2s, address: 'ADDRESS', domain: chat.test}":                                             nil,
		"{kind: irc_tls, address: 'ADDRESS'}":                                                                 nil,
		"{kind: irc_tls, address: 'ADDRESS', alpn: [irc]}":                                                    {"irc"},
		"{kind: irc_login, address: 'ADDRESS'}":                                                               nil,
		"{kind: irc_login, address: 'ADDRESS', alpn: [irc]}":                                                  {"irc"},
		"{kind: tls, name: it, address: 'ADDRESS'}":                                                           nil,
		"{kind: tls, name: it, address: 'ADDRESS', alpn: [xmpp-server]}":                                      {"xmpp-server"},
		"{kind: tls, name: it, address: 'ADDRESS', starttls: xmpp-server, domain: chat.test}":                 nil,
		"{kind: http, name: it, url: 'https://ADDRESS/'}":                                                     {"http/1.1"},
		"{kind: http, name: it, url: 'https://ADDRESS/', alpn: []}":                                           nil,
		"{kind: xmpp_proxy, url: 'https://ADDRESS/health'}":                                                   {"http/1.1"},
		"{kind: irc_rpc, url: 'https://ADDRESS/api', user: a, password: x}":                                   {"http/1.1"},
		"{kind: openmetrics, name: it, url: 'https://ADDRESS/metrics'}":                                       {"http/1.1"},
		"{kind: http, name: it, url: 'http://web.test/', proxy_url: 'https://ADDRESS'}":                       {"http/1.1"},
		"{kind: docker, host: 'tcp://ADDRESS', insecure_skip_verify: true}":                                   {"http/1.1"},
	} {
		hello := helloOf(t, target)
		if got := hello.SupportedProtos; !slices.Equal(got, want) {
			t.Errorf("%s: offers %v, want %v", target, got, want)
		}
		if !slices.Contains(hello.SupportedCurves, tls.X25519MLKEM768) {
			t.Errorf("%s: offers the key exchanges %v, without X25519MLKEM768", target, hello.SupportedCurves)
		}
	}
}
