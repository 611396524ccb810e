//go:build realservers

package app

import (
	"regexp"
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
	for _, want := range []string{
		"probe_success 1", "site       up", "challenges the visitor", "exempt the exporter's address from its challenges",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
}

// startUnicode starts a Prosody with two virtual hosts in Unicode, of which only grün.test is configured for HTTP as its clients ask.
const startUnicode = `
cat > prosody.cfg.lua <<END
run_as_root = true
data_path = "$PWD"
interfaces = { "192.0.2.1" }
http_interfaces = { "192.0.2.1" }
http_ports = { 5280 }
https_ports = { }
authentication = "internal_hashed"
modules_enabled = { "roster"; "saslauth"; "tls"; "disco"; "http"; "http_openmetrics" }
modules_disabled = { "s2s" }
ssl = { key = "$PWD/key.pem"; certificate = "$PWD/certificate.pem" }
VirtualHost "müller.test"
VirtualHost "grün.test"
	http_host = "xn--grn-ioa.test"
END
prosodyctl --root --config prosody.cfg.lua register alice müller.test secret-alice
prosody --root -F --config prosody.cfg.lua > prosody.log &
until curl -so /dev/null http://192.0.2.1:5280/; do sleep 0.1; done
`

// TestRealUnicodeNames asks a real Prosody for hosts whose names are not ASCII: their certificate and DNS have A-labels, XMPP has Unicode.
func TestRealUnicodeNames(t *testing.T) {
	n := realstack.NewNamespace(t, "address=/xn--mller-kva.test/192.0.2.1", "address=/xn--grn-ioa.test/192.0.2.1")
	authority := realstack.NewAuthority(t)
	certificate, key := authority.Issue("xn--mller-kva.test")
	n.File("certificate.pem", string(certificate))
	n.File("key.pem", string(key))
	got := n.Check(realstack.BuildExporter(t), startUnicode, strings.ReplaceAll(`
targets:
  - {kind: xmpp_c2s, name: c2s, address: "müller.test:5222", domain: müller.test, ca_file: CA}
  - {kind: xmpp_c2s, name: upper, address: "MÜLLER.test.:5222", domain: müller.test, server_name: Müller.test, ca_file: CA}
  - {kind: xmpp_login, name: login, user: alice@müller.test, password: secret-alice, ca_file: CA}
  - {kind: tls, name: starttls, address: "xn--mller-kva.test:5222", starttls: xmpp-client, domain: müller.test, ca_file: CA}
  - {kind: tcp, name: tcp, address: "müller.test:5222"}
  - {kind: http, name: unknown, url: "http://müller.test:5280/"}
  - {kind: xmpp_rest, name: rest, url: "http://xn--mller-kva.test:5280/"}
  - {kind: http, name: known, url: "http://grün.test:5280/metrics", expect_status: [2xx, 403]}
`, "CA", n.File("ca.pem", string(authority.Certificate()))))
	for _, name := range []string{"c2s", "upper", "login", "starttls", "tcp", "known"} {
		if !regexp.MustCompile(`(?m)^` + name + ` +up `).MatchString(got) {
			t.Errorf("%s is not up", name)
		}
	}
	if strings.Count(got, `set http_host = "xn--mller-kva.test" in its VirtualHost`) != 2 {
		t.Error("unknown and rest lack the advice")
	}
	if t.Failed() {
		t.Log(got)
	}
}

// startBoth starts an nginx at an address of each version.
const startBoth = `
cat > nginx.conf <<'END'
daemon off; pid nginx.pid; error_log stderr; events {}
http { access_log off; server { listen 192.0.2.1:80; listen [2001:db8::1]:80; return 200 welcome; } }
END
nginx -p . -c $PWD/nginx.conf -e stderr &
until curl -so /dev/null http://192.0.2.1/; do sleep 0.1; done
`

// TestRealAddresses has names in a real dnsmasq whose addresses work, are lost, or refuse.
func TestRealAddresses(t *testing.T) {
	n := realstack.NewNamespace(t,
		"address=/both.test/192.0.2.1", "address=/both.test/2001:db8::1",
		"address=/lost.test/192.0.2.1", "address=/lost.test/2001:db8::66",
		"address=/refused.test/192.0.2.1", "address=/refused.test/2001:db8::2",
		"address=/four.test/192.0.2.1", "local=/four.test/",
	)
	got := n.Check(realstack.BuildExporter(t), startBoth, `
poll: {interval: 5s, timeout: 4s}
targets:
  - {kind: http, name: both, url: "http://both.test/", addresses: all}
  - {kind: http, name: lost, url: "http://lost.test/"}
  - {kind: tcp, name: refused, address: "refused.test:80"}
  - {kind: http, name: degraded, url: "http://lost.test/", addresses: all}
  - {kind: http, name: four, url: "http://lost.test/", ip_version: 4}
  - {kind: tcp, name: six, address: "refused.test:80", ip_version: 6}
  - {kind: http, name: only, url: "http://four.test/", ip_version: 6}
`)
	for name, wants := range map[string][]string{
		"both":     {"up"},
		"lost":     {"up", "note: of 2 addresses, 192.0.2.1 answered", "note: the IPv6 address 2001:db8::66 does not work (no answer)"},
		"refused":  {"up", "note: the IPv6 address 2001:db8::2 does not work (connection refused)"},
		"degraded": {"up", "partly working: 2001:db8::66 does not work (timeout)"},
		"four":     {"up"},
		"six":      {"DOWN", "connection refused"},
		"only":     {"DOWN", "what to do: the host name has no IPv6 address"},
	} {
		part := regexp.MustCompile(`(?m)^` + name + ` .*\n(?: .*\n)*`).FindString(got)
		for _, want := range wants {
			if !strings.Contains(part, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}
