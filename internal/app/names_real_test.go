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
