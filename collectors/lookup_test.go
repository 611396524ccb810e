package collectors

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// namedTargets are blocks of kinds that connect in every way there is, to the host HOST.
var namedTargets = map[string]string{
	"HTTP":            `{kind: http, url: "http://HOST/"}`,
	"HTTPS":           `{kind: http, url: "https://HOST/"}`,
	"HTTP proxy":      `{kind: http, url: "http://chat.test/", proxy_url: "http://HOST:3128"}`,
	"HTTPS proxy":     `{kind: http, url: "https://chat.test/", proxy_url: "https://HOST:3128"}`,
	"TCP":             `{kind: tcp, address: "HOST:6697"}`,
	"TLS":             `{kind: tls, address: "HOST:6697"}`,
	"STARTTLS":        `{kind: xmpp_c2s, address: "HOST:5222", domain: chat.test}`,
	"IRC":             `{kind: irc_tls, address: "HOST:6697"}`,
	"IRC login":       `{kind: irc_login, address: "HOST:6697"}`,
	"plain IRC login": `{kind: irc_login, address: "HOST:6667", plain: true}`,
	"XMPP login":      `{kind: xmpp_login, user: a@chat.test, password: secret, address: "HOST:5222"}`,
	"IRC RPC":         `{kind: irc_rpc, url: "https://HOST:8600/api", user: a, password: secret}`,
	"Docker":          `{kind: docker, host: "tcp://HOST:2375"}`,
}

// targetOf makes the collector of one target's block.
func targetOf(t *testing.T, block string) Collector {
	t.Helper()
	cfg, err := config.Load(config.Source{
		File:    "exporter.yaml",
		Content: []byte("targets:\n  - " + block + "\n"),
		Kinds:   ConfigKinds(),
		Lookup:  func(string) (string, bool) { return "", false },
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Targets) != 1 {
		t.Fatalf("%d targets of %s", len(cfg.Targets), block)
	}
	kind, _ := KindOf(cfg.Targets[0].Common().Kind)
	c, err := kind.New(cfg.Targets[0], deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestEveryKindTellsHowALookupFailed: "the name is wrong" is wrong advice while the name server is what fails.
func TestEveryKindTellsHowALookupFailed(t *testing.T) {
	exchangetest.NameServer(t, map[string]exchangetest.Name{"silent.test": {Silent: true}, "fails.test": {Fails: true}, "mail.test": {}})
	for host, want := range map[string]string{
		"silent.test":  "the name server does not answer: ",
		"fails.test":   "the name server answers with an error such as SERVFAIL: ",
		"unknown.test": "the host name does not resolve: ",
		"mail.test":    "the host name does not resolve: ", // it exists, and has no address
	} {
		for name, block := range namedTargets {
			t.Run(name+" of "+host, func(t *testing.T) {
				timeout := 10 * time.Second
				if host == "silent.test" {
					timeout = 50 * time.Millisecond
				}
				_, err := read(t, targetOf(t, strings.ReplaceAll(block, "HOST", host)), timeout)
				wantReason(t, err, failure.DNS)
				if hint := failure.HintOf(err); !strings.HasPrefix(hint, want) {
					t.Errorf("%v: hint %q, want %q", err, hint, want)
				}
			})
		}
	}
}
