//go:build realservers

package app

import (
	"regexp"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// startDemanding starts servers that demand a client certificate, each in its way, and one that asks for it and does without.
const startDemanding = `
cat > prosody.cfg.lua <<END
run_as_root = true
data_path = "$PWD"
interfaces = { "192.0.2.1" }
modules_enabled = { "saslauth"; "tls" }
modules_disabled = { "s2s" }
c2s_direct_tls_ports = { 5223 }
ssl = { key = "$PWD/key.pem"; certificate = "$PWD/certificate.pem"; cafile = "$PWD/ca.pem";
	verify = { "peer", "fail_if_no_peer_cert" }; verifyext = { } }
VirtualHost "chat.test"
END
prosody --root -F --config prosody.cfg.lua > prosody.log &
openssl s_server -quiet -accept 192.0.2.1:6697 -cert certificate.pem -key key.pem -CAfile ca.pem \
	-Verify 1 -verify_return_error < /dev/null > /dev/null 2>&1 &
cat > nginx.conf <<'END'
daemon off; pid nginx.pid; error_log stderr; events {}
http {
	access_log off; ssl_certificate certificate.pem; ssl_certificate_key key.pem; ssl_client_certificate ca.pem;
	server { listen 192.0.2.1:443 ssl; ssl_verify_client on; return 200 welcome; }
	server { listen 192.0.2.1:444 ssl; ssl_verify_client optional; return 200 welcome; }
}
END
nginx -p . -c $PWD/nginx.conf -e stderr &
for port in 5222 6697 443; do until [ -n "$(ss -Hltn sport = $port)" ]; do sleep 0.1; done; done
`

// TestRealServersDemandAClientCertificate checks ports of real servers without a certificate and with one.
func TestRealServersDemandAClientCertificate(t *testing.T) {
	n := realstack.NewNamespace(t, "address=/chat.test/192.0.2.1")
	authority := realstack.NewAuthority(t)
	for name, of := range map[string]string{"": "chat.test", "client-": "exporter.test"} {
		certificate, key := authority.Issue(of)
		n.File(name+"certificate.pem", string(certificate))
		n.File(name+"key.pem", string(key))
	}
	n.File("ca.pem", string(authority.Certificate()))
	got := n.Check(realstack.BuildExporter(t), startDemanding, `
targets:
  - {kind: xmpp_c2s, name: c2s, address: "chat.test:5222", domain: chat.test, ca_file: ca.pem}
  - {kind: tls, name: starttls, address: "chat.test:5222", starttls: xmpp-client, domain: chat.test, ca_file: ca.pem}
  - {kind: tls, name: openssl, address: "chat.test:6697", ca_file: ca.pem}
  - {kind: tls, name: nginx, address: "chat.test:443", ca_file: ca.pem}
  - {kind: tls, name: optional, address: "chat.test:444", ca_file: ca.pem}
  - {kind: http, name: web, url: "https://chat.test/", ca_file: ca.pem}
  - {kind: xmpp_c2s, name: c2s-with, address: "chat.test:5222", domain: chat.test, ca_file: ca.pem, cert_file: client-certificate.pem, key_file: client-key.pem}
  - {kind: tls, name: openssl-with, address: "chat.test:6697", ca_file: ca.pem, cert_file: client-certificate.pem, key_file: client-key.pem}
  - {kind: http, name: web-with, url: "https://chat.test/", ca_file: ca.pem, cert_file: client-certificate.pem, key_file: client-key.pem}
`)
	const demanded = "what to do: the server requires a client certificate: set cert_file and key_file"
	for name, want := range map[string]string{
		"c2s": demanded, "starttls": demanded, "openssl": demanded, "web": demanded,
		"nginx":    "", // which refuses requests, and kind tls makes none
		"optional": "", "c2s-with": "", "openssl-with": "", "web-with": "",
	} {
		part := regexp.MustCompile(`(?m)^` + name + ` .*\n(?: .*\n)*`).FindString(got)
		if up := regexp.MustCompile(`^\S+ +up `).MatchString(part); up != (want == "") || !strings.Contains(part, want) {
			t.Errorf("%s: up is %t, want %t and %q in:\n%s", name, up, want == "", want, part)
		}
	}
}
