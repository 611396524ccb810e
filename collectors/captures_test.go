package collectors

import (
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// captureTrailer is what the tool that made the captures wrote below them.
var captureTrailer = regexp.MustCompile(`\n\[curl [^\]]*\]\n?$`)

// replay serves what a real server once answered, with the line ends of the wire, and then closes; or stays silent
// where the server did.
func replay(t *testing.T, capture string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "captures", capture+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	silent := bytes.Contains(raw, []byte("exit=28"))
	raw = captureTrailer.ReplaceAll(raw, nil)
	head, body, _ := strings.Cut(strings.ReplaceAll(string(raw), "\r\n", "\n"), "\n\n")
	answer := strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n" + body
	if !strings.HasPrefix(head, "HTTP/") {
		answer = ""
	}
	// The captures' own line ends may have changed the length of a body.
	answer = regexp.MustCompile(`(?i)Content-Length: \d+\r\n`).ReplaceAllString(answer, "")
	answer = strings.Replace(answer, "Connection: Keep-Alive", "Connection: close", 1)
	return exchangetest.RawServer(t, "tcp", func(c net.Conn) {
		io.WriteString(c, answer) //nolint:errcheck // the client may be gone
		if silent {
			exchangetest.Hold(c)
		}
	})
}

// TestCapturesOfRealServers holds every collector to what the real servers answered, well and ill.
func TestCapturesOfRealServers(t *testing.T) {
	t.Parallel()
	proxy := func(url string) (Collector, error) {
		s := newXMPPProxySettings()
		s.URL = url + "/health"
		return newXMPPProxy(s, deps(&memory{}))
	}
	services := func(url string) (Collector, error) {
		s := newIRCServicesSettings()
		s.URL = url + "/"
		return newIRCServices(s, deps(&memory{}))
	}
	status := func(url string) (Collector, error) {
		s := newXMPPStatusSettings()
		s.URL = url + "/status"
		return newXMPPStatus(s, deps(&memory{}))
	}
	rpc := func(url string) (Collector, error) {
		s := newIRCRPCSettings()
		s.URL, s.User, s.Password = url+"/api", "exporter", config.NewSecret("good")
		return newIRCRPC(s, deps(&memory{}))
	}
	for _, c := range []struct {
		kind    string
		make    func(url string) (Collector, error)
		capture string
		want    failure.Reason // "" is up
	}{
		{"irc_services", services, "atheme_linked_GET_root", ""},
		{"irc_services", services, "atheme_nouplink_GET_root", ""},
		{"irc_services", services, "atheme_nouplink_GET_jsonrpc", ""},
		{"irc_services", services, "atheme_nouplink_POST_jsonrpc_wrong_ctype", ""},
		{"irc_services", services, "nginx_status_upstream_down_502", failure.HTTPStatus},
		{"irc_services", services, "prosody012_hung_SIGSTOP", failure.Timeout},
		{"xmpp_proxy", proxy, "nginx_health_http1_by_ip", ""},
		{"xmpp_proxy", proxy, "nginx_health_plain_http_to_tls_port", failure.TLS},
		{"xmpp_proxy", proxy, "nginx_health_slash_goes_to_prosody", failure.NotFound},
		{"xmpp_proxy", proxy, "nginx_status_upstream_down_502", failure.HTTPStatus},
		{"xmpp_status", status, "prosody012_status", ""},
		{"xmpp_status", status, "prosody13_status", ""},
		{"xmpp_status", status, "prosody012_404", failure.NotFound},
		{"xmpp_status", status, "prosody012_metrics_403_ip_not_allowed", failure.Forbidden},
		{"xmpp_status", status, "nginx_status_upstream_down_502", failure.HTTPStatus},
		{"xmpp_status", status, "prosody012_hung_SIGSTOP", failure.Timeout},
		{"irc_rpc", rpc, "unreal3users_GET_api_noauth", failure.Unauthorized},
		{"irc_rpc", rpc, "unreal3users_wrong_password", failure.Unauthorized},
		{"irc_rpc", rpc, "unreal3users_ip_not_matching", failure.Unauthorized},
		{"irc_rpc", rpc, "unreal3users_no_auth", failure.Unauthorized},
		{"irc_rpc", rpc, "unreal3users_POST_other_path", failure.NotFound},
		{"irc_rpc", rpc, "unreal3users_empty_body", failure.Timeout},
		{"irc_rpc", rpc, "unreal3users_malformed", failure.RPCError},
		{"irc_rpc", rpc, "unreal3users_no_id", failure.RPCError},
		{"irc_rpc", rpc, "unreal3users_unknown_method", failure.RPCError},
		{"irc_rpc", rpc, "unreal3users_ro_forbidden", failure.RPCError},
		{"irc_rpc", rpc, "unreal3users_plain_http_to_tls", failure.Timeout},
	} {
		t.Run(c.kind+"/"+c.capture, func(t *testing.T) {
			collector, err := c.make("http://" + replay(t, c.capture))
			if err != nil {
				t.Fatal(err)
			}
			timeout := 10 * time.Second
			if c.want == failure.Timeout {
				timeout = 200 * time.Millisecond
			}
			b, err := read(t, collector, timeout)
			name := "captures/" + c.kind + "/" + c.capture
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				goldenPage(t, name, b)
				return
			}
			wantReason(t, err, c.want)
			goldenFailure(t, name, b, err)
		})
	}
}
