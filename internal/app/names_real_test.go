//go:build realservers

package app

import (
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealLookupsFail checks targets whose names a real dnsmasq does not resolve, for one reason each.
func TestRealLookupsFail(t *testing.T) {
	exporter := realstack.BuildExporter(t)
	n := realstack.NewNamespace(t,
		"address=/gone.test/",            // NXDOMAIN
		"server=/silent.test/192.0.2.66", // its server does not answer
	) // it asks nobody about other names, and answers REFUSED
	for host, want := range map[string]string{
		"silent.test": "the name server does not answer: ",
		"other.test":  "the name server answers with an error such as SERVFAIL: ",
		"gone.test":   "the host name does not resolve: ",
	} {
		config := strings.ReplaceAll(`
poll: {interval: 2s, timeout: 2s}
targets:
  - {kind: tls, name: a, address: "HOST:443"}
  - {kind: tcp, name: b, address: "HOST:443"}
  - {kind: irc_tls, name: c, address: "HOST:6697", timeout: 2s}
  - {kind: http, name: d, url: "https://HOST/"}
  - {kind: xmpp_c2s, name: e, address: "HOST:5222", domain: chat.test}
`, "HOST", host)
		if got := n.Check(exporter, "", config); strings.Count(got, "what to do: "+want) != 5 {
			t.Errorf("%s: want 5 times %q:\n%s", host, want, got)
		}
	}
}

// startSite starts an nginx that sets a cookie at the first visit, and redirects to itself with the port and in capitals.
const startSite = `
cat > nginx.conf <<'END'
daemon off; pid nginx.pid; error_log stderr; events {}
http {
	access_log off;
	server {
		listen 192.0.2.1:80;
		location / { add_header Set-Cookie seen=1; if ($cookie_seen = "") { return 302 http://CHAT.test:80$request_uri; } return 200 welcome; }
		location = /challenge { add_header cf-mitigated challenge always; return 403; }
	}
}
END
nginx -p . -c $PWD/nginx.conf -e stderr &
echo 'modules: {http_2xx: {prober: http}}' > blackbox.yml
prometheus-blackbox-exporter --config.file=blackbox.yml --web.listen-address=127.0.0.1:9115 &
until curl -so /dev/null http://192.0.2.1/ && curl -so /dev/null http://127.0.0.1:9115/; do sleep 0.1; done
`

// TestRealFirstVisit visits a site as a browser does, which a real blackbox_exporter finds up too.
func TestRealFirstVisit(t *testing.T) {
	n := realstack.NewNamespace(t, "address=/chat.test/192.0.2.1")
	got := n.Check(realstack.BuildExporter(t), startSite+"curl -s '127.0.0.1:9115/probe?target=http://chat.test/'", `
targets:
  - {kind: http, name: site, url: "http://chat.test/", expect_body: welcome}
  - {kind: http, name: challenge, url: "http://chat.test/challenge"}
`)
	for _, want := range []string{"probe_success 1", "site       up", "challenges the visitor", "exempt the exporter's address from its challenges"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}
