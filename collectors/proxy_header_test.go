package collectors

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// overTCP are a block of each kind that connects over TCP, with ADDRESS for host:port and MORE for more keys.
var overTCP = []string{
	"{kind: tcp, name: it, address: 'ADDRESS', send: x, expect: y, MORE}",
	"{kind: tls, name: it, address: 'ADDRESS', MORE}",
	"{kind: tls, name: it, address: 'ADDRESS', starttls: xmpp-server, domain: chat.test, MORE}",
	"{kind: xmpp_c2s, address: 'ADDRESS', domain: chat.test, MORE}",
	"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS', MORE}",
	"{kind: xmpp_login, user: a@chat.test, password: x, address: 'ADDRESS', direct_tls: true, MORE}",
	"{kind: irc_tls, address: 'ADDRESS', MORE}",
	"{kind: irc_login, address: 'ADDRESS', MORE}",
	"{kind: irc_login, address: 'ADDRESS', plain: true, MORE}",
	"{kind: http, name: it, url: 'http://ADDRESS/', MORE}",
	"{kind: http, name: it, url: 'https://ADDRESS/', MORE}",
	"{kind: irc_rpc, url: 'https://ADDRESS/', user: a, password: x, MORE}",
	"{kind: openmetrics, name: it, url: 'http://ADDRESS/metrics', MORE}",
}

// probeAt makes the collector of a block in which ADDRESS and MORE are replaced.
func probeAt(t *testing.T, block, address, more string) Collector {
	t.Helper()
	cfg, err := loadTargets("- "+strings.NewReplacer("ADDRESS", address, "MORE", more).Replace(block)+"\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := KindOf(cfg.Targets[0].Common().Kind)
	probe, err := kind.New(cfg.Targets[0], deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return probe
}

func TestPROXYHeaderBeginsEveryConnectionOfEachKind(t *testing.T) {
	t.Parallel()
	for _, block := range overTCP {
		for version, want := range map[string]string{
			"v1": "PROXY TCP4 127.0.0.1 127.0.0.1 ",
			"v2": "\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\x7f\x00\x00\x01\x7f\x00\x00\x01",
		} {
			heard := make(chan string, 10)             // the first bytes of each connection, of second tries, too
			l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
			if err != nil {
				t.Fatal(err)
			}
			address := exchangetest.ServeEach(t, l, func(conn net.Conn) {
				first := make([]byte, len(want))
				n, _ := conn.Read(first) // what came counts
				heard <- string(first[:n])
			})
			if _, err := read(t, probeAt(t, block, address, "proxy_protocol: "+version), 10*time.Second); err == nil {
				t.Errorf("%s: up, without a server", block)
			}
			connections := 0
			for ; len(heard) > 0; connections++ {
				if got := <-heard; got != want {
					t.Errorf("%s, %s: a connection begins with %q, want %q", block, version, got, want)
				}
			}
			if connections == 0 {
				t.Errorf("%s, %s: no connection", block, version)
			}
		}
	}
}

// TestServerThatClosesAtOnceMayExpectAPROXYHeader, unless it gets one: then it may expect none.
func TestServerThatClosesAtOnceMayExpectAPROXYHeader(t *testing.T) {
	t.Parallel()
	address := exchangetest.RawServer(t, "tcp", func(net.Conn) {})
	for _, block := range overTCP {
		for more, want := range map[string]string{"": "set proxy_protocol", "proxy_protocol: v1": "remove proxy_protocol"} {
			_, err := read(t, probeAt(t, block, address, more), 10*time.Second)
			wantReason(t, err, failure.Closed)
			advice := failure.AdviceOf(err, "it", "chat-1")
			if !strings.Contains(advice, want) || strings.Count(advice, "proxy_protocol") != 1 {
				t.Errorf("%s, %q: advice %q, want %q in it", block, more, advice, want)
			}
			if guess := failure.GuessOf(err); guess != "" && !strings.Contains(guess, want) {
				t.Errorf("%s, %q: the advice for a new target is %q, want %q in it", block, more, guess, want)
			}
		}
	}
}
