package collectors

import (
	"bufio"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// TestPortOfAnotherProtocolIsNamed has each check of a chat port connect to the ports that people take for it.
func TestPortOfAnotherProtocolIsNamed(t *testing.T) {
	t.Parallel()
	stack := simstacktest.Start(t, simstack.Options{})
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	root := exchangetest.Certificate{Name: "root", Authority: true}.Make(t)
	shown := exchangetest.Chain(exchangetest.Certificate{By: root, Names: []string{"127.0.0.1"}}.Make(t))
	trust := config.TLS{CAFile: exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), root)}
	ofStack := config.TLS{CAFile: stack.CAFile()}
	plain := strings.TrimPrefix(web.URL, "http://")
	for name, c := range map[string]struct {
		probe  Collector
		want   failure.Reason
		speaks string // in the message
		hint   string
	}{
		"xmpp_c2s at a direct TLS port": {
			c2sProbe(t, directTLS(t, shown), trust),
			failure.TLS,
			"speaks TLS at once",
			"5222",
		},
		"xmpp_c2s at the IRC clients' port": {
			c2sProbe(t, stack.IRCAddress(), ofStack),
			failure.TLS,
			"",
			"5222",
		},
		"xmpp_c2s at an HTTPS port": {
			c2sProbe(t, overHTTPS(t), trust),
			failure.TLS,
			"speaks HTTP over TLS",
			"5281",
		},
		"xmpp_c2s at an HTTP port": {
			c2sProbe(t, plain, trust),
			failure.Malformed,
			"speaks HTTP",
			"5280",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timeout := 10 * time.Second
			if strings.HasPrefix(name, "xmpp_c2s at the IRC") || name == "xmpp_c2s at an HTTP port" {
				c.probe.(*tlsEndpoint).server.Silence = time.Millisecond
				timeout = time.Second // silence ends only the identification: the exporter waits for the rest
			}
			_, err := read(t, c.probe, timeout)
			wantReason(t, err, c.want)
			if err != nil && (!strings.Contains(err.Error(), c.speaks) || !strings.Contains(failure.HintOf(err), c.hint)) {
				t.Errorf("%q, hint %q: want %q and %q", err, failure.HintOf(err), c.speaks, c.hint)
			}
		})
	}
}

// overHTTPS is the address of a web server.
func overHTTPS(t *testing.T) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// directTLS is a server as Prosody's port 5223 is: it resets whoever does not begin with TLS, and says nothing to requests.
func directTLS(t *testing.T, shown tls.Certificate) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // ends with the test
	if err != nil {
		t.Fatal(err)
	}
	return exchangetest.ServeEach(t, l, func(c net.Conn) {
		ahead := bufio.NewReader(c)
		if first, err := ahead.Peek(1); err != nil || first[0] != 0x16 {
			exchangetest.Reset(c)
			return
		}
		secure := tls.Server(aheadOf{c, ahead}, &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12})
		secure.Read(make([]byte, 512)) //nolint:errcheck,gosec // whatever it is
		exchangetest.Say(streamStart)(secure)
	})
}

// aheadOf is a connection of which something was read ahead.
type aheadOf struct {
	net.Conn
	r *bufio.Reader
}

func (a aheadOf) Read(b []byte) (int, error) { return a.r.Read(b) }
