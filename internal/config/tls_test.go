package config_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

func TestXMPPClientPortOfTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		content, address, domain string // no address: not configured
		env                      map[string]string
	}{
		"nothing":           {env: map[string]string{}},
		"no domain":         {env: map[string]string{"XMPP_REST_URL": "http://xmpp:5280"}},
		"domain alone":      {env: map[string]string{"XMPP_DOMAIN": "chat.test"}},
		"domain":            {env: map[string]string{"XMPP_REST_URL": "http://xmpp:5280/rest", "XMPP_DOMAIN": "chat.test"}, address: "xmpp:5222", domain: "chat.test"},
		"address of six":    {env: map[string]string{"XMPP_REST_URL": "http://[::1]:5280", "XMPP_DOMAIN": "chat.test"}, address: "[::1]:5222", domain: "chat.test"},
		"user":              {env: map[string]string{"XMPP_REST_URL": "http://xmpp", "XMPP_REST_USERNAME": "admin@chat.test/rest"}, address: "xmpp:5222", domain: "chat.test"},
		"domain over user":  {env: map[string]string{"XMPP_REST_URL": "http://xmpp", "XMPP_REST_USERNAME": "admin@a.test", "XMPP_DOMAIN": "b.test"}, address: "xmpp:5222", domain: "b.test"},
		"user without host": {env: map[string]string{"XMPP_REST_URL": "http://xmpp", "XMPP_REST_USERNAME": "admin"}},
		"file alone":        {content: "    address: file:5299\n    domain: file.test\n", address: "file:5299", domain: "file.test"},
		"file's address over a derived one": {
			content: "    address: file:5299\n    domain: file.test\n",
			env:     map[string]string{"XMPP_REST_URL": "http://xmpp:5280", "XMPP_DOMAIN": "env.test"}, address: "file:5299", domain: "env.test",
		},
		"file's domain over a user's": {
			content: "    domain: file.test\n",
			env:     map[string]string{"XMPP_REST_URL": "http://xmpp:5280", "XMPP_REST_USERNAME": "admin@env.test"}, address: "xmpp:5222", domain: "file.test",
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := ""
			if c.content != "" {
				content = "targets:\n  - kind: xmpp_c2s\n" + c.content
			}
			cfg, err := load(t, content, c.env)
			if err != nil {
				t.Fatal(err)
			}
			if c.address == "" {
				for _, s := range cfg.Targets {
					if s.Common().Kind == "xmpp_c2s" {
						t.Errorf("configured: %+v", s)
					}
				}
				return
			}
			if s := find[*collectors.XMPPC2S](t, cfg, "xmpp_c2s"); s.Address != c.address || s.Domain != c.domain {
				t.Errorf("got %s for %s, want %s for %s", s.Address, s.Domain, c.address, c.domain)
			}
		})
	}
}

func TestTrustOfTLSPortsFromTheEnvironment(t *testing.T) {
	pin := strings.Repeat("ab", 32)
	cfg, err := load(t, "targets:\n  - kind: irc_tls\n    address: irc\n  - kind: xmpp_c2s\n    address: xmpp\n    domain: chat.test\n",
		map[string]string{"IRC_TLS_FINGERPRINT": pin, "XMPP_C2S_FINGERPRINT": strings.ToUpper(pin), "IRC_RPC_URL": "https://irc:8600/api"})
	if err != nil {
		t.Fatal(err)
	}
	irc, xmpp := find[*collectors.IRCTLS](t, cfg, "irc_tls"), find[*collectors.XMPPC2S](t, cfg, "xmpp_c2s")
	if irc.PinnedSHA256() == nil || xmpp.PinnedSHA256() == nil {
		t.Errorf("got %q and %q", irc.Fingerprint, xmpp.Fingerprint)
	}
	// The JSON-RPC's host would be a guess.
	cfg, err = load(t, "", map[string]string{"IRC_RPC_URL": "https://irc:8600/api", "IRC_TLS_FINGERPRINT": pin})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(cfg.Targets); n != 1 {
		t.Errorf("%d targets, want irc_rpc alone", n)
	}
}

// TestSharedVariablesDoNotForbidSeveralTargets has two virtual hosts watched beside the stack's own variables, which
// other kinds read as well.
func TestSharedVariablesDoNotForbidSeveralTargets(t *testing.T) {
	const file = `targets:
  - kind: xmpp_c2s
    name: a
    address: a:5222
    domain: a.test
  - kind: xmpp_c2s
    name: b
    address: b:5222
    domain: b.test
`
	env := map[string]string{"XMPP_REST_URL": "http://xmpp:5280", "XMPP_REST_USERNAME": "admin@chat.test", "XMPP_DOMAIN": "chat.test"}
	cfg, err := load(t, file, env)
	if err != nil {
		t.Fatal(err)
	}
	if a := find[*collectors.XMPPC2S](t, cfg, "a"); a.Domain != "a.test" || a.Address != "a:5222" {
		t.Errorf("got %s at %s", a.Domain, a.Address)
	}
	env["XMPP_C2S_CA_FILE"] = "/ca.pem"
	if _, err := load(t, file, env); err == nil || !strings.Contains(err.Error(), "XMPP_C2S_CA_FILE: is set, but none of the targets") {
		t.Errorf("got %v, want a variable that speaks of nobody named", err)
	}
	one, _, _ := strings.Cut(file, "  - kind: xmpp_c2s\n    name: b")
	delete(env, "XMPP_C2S_CA_FILE")
	if cfg, err = load(t, one, env); err != nil {
		t.Fatal(err)
	}
	if a := find[*collectors.XMPPC2S](t, cfg, "a"); a.Domain != "a.test" {
		t.Errorf("the stack's domain %s was given to a server of another name", a.Domain)
	}
}

func TestNetworkThatMayReadTheMetricsPage(t *testing.T) {
	for cidr, warned := range map[string]bool{"127.0.0.0/8": false, "10.255.0.0/16, 127.0.0.1": false, "240.0.0.0/8": true, "": false} {
		for _, content := range []string{"", "targets:\n  - kind: xmpp_metrics\n    openmetrics_cidr: " + strconv.Quote(cidr) + "\n"} {
			env := map[string]string{"XMPP_REST_URL": "http://xmpp:5280"}
			if content == "" {
				env["XMPP_OPENMETRICS_CIDR"] = cidr
			}
			cfg, err := load(t, content, env)
			if err != nil {
				t.Fatal(err)
			}
			warnings := strings.Join(find[*collectors.XMPPMetrics](t, cfg, "xmpp_metrics").Warnings(), "\n")
			if strings.Contains(warnings, "XMPP_OPENMETRICS_CIDR") != warned {
				t.Errorf("%q, file %q: warnings %q", cidr, content, warnings)
			}
		}
	}
	if _, err := load(t, "", map[string]string{"XMPP_REST_URL": "http://xmpp:5280", "XMPP_OPENMETRICS_CIDR": "172.16/12"}); err == nil ||
		!strings.Contains(err.Error(), "XMPP_OPENMETRICS_CIDR") {
		t.Errorf("got %v, want the variable named", err)
	}
}
