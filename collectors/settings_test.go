package collectors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange/exchangetest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestSettingsOfATargetAreChecked has one target in each configuration: what is at the limit is taken, what is beyond it is
// told with the key.
func TestSettingsOfATargetAreChecked(t *testing.T) {
	for _, tt := range []struct {
		target string
		want   string // a part of the only fault; "" for none
	}{
		{"kind: tcp, address: 'irc:1'", ""},
		{"kind: tcp, address: 'irc:65535'", ""},
		{"kind: tcp, address: 'irc:65536'", "address: is \"irc:65536\""},
		{"kind: tcp, address: 'irc:0'", "address: is \"irc:0\""},
		{"kind: tcp, address: 'irc:ircs'", "address: is \"irc:ircs\""},
		{"kind: tcp, address: ':6667'", "address: is \":6667\""},
		{"kind: tcp, address: irc", "address: is \"irc\""},
		{"kind: tcp, address: '[::1]:6667'", ""},
		{"kind: irc_tls, address: 'ircs://irc.test:6697'", "must be host:port without a scheme; write irc.test:6697"},
		{"kind: irc_tls, address: 'ircs://irc.test/#chat'", "must be host:port without a scheme; write irc.test:6697"},
		{"kind: xmpp_c2s, domain: a, address: 'xmpp://user:ses/ame@chat.test'", "<secret>@chat.test\", must be host:port without a scheme; write chat.test:5222"},
		{"kind: tls, address: 'tls://[::1]:6697/'", "must be host:port without a scheme; write [::1]:6697"},
		{"kind: tcp, address: 'https://irc.test'", "must be host:port without a scheme; write irc.test:PORT"},
		{"kind: tls, address: 'ircs://'", "must be host:port without a scheme; write host:port"},
		{"kind: tls, address: 'irc:6697'", ""},
		{"kind: tls, address: 'irc:65535'", ""},
		{"kind: tls, address: 'irc:65536'", "address: is \"irc:65536\""},
		{"kind: tls, address: 'irc:ircs'", "address: is \"irc:ircs\""},
		{"kind: tls, address: 'irc:0'", "address: is \"irc:0\""},
		{"kind: tls, address: ':6697'", "address: is \":6697\""},
		{"kind: tls, address: 'xmpp:5222', starttls: xmpp-client, domain: chat.example.org", ""},
		{"kind: tls, address: 'xmpp:5222', starttls: xmpp-client", "domain: must be set with starttls"},
		{"kind: tls, address: 'xmpp:5222', starttls: smtp", "starttls: is \"smtp\""},
		{"kind: tls, certificate_file: /, starttls: xmpp-server, domain: chat.example.org", "starttls: is set without an address"},
		{"kind: http, url: 'http://x/', method: HEAD, expect_status: [204, 3xx]", ""},
		{"kind: http, url: 'http://x/', method: POST", "method: is \"POST\""},
		{"kind: http, url: 'http://x/', expect_status: []", "expect_status: is empty"},
		{"kind: http, url: 'http://x/', expect_status: [2xx, 99]", "expect_status: holds \"99\""},
		{"kind: http, url: 'http://x/', expect_body: ok, refuse_body: error", ""},
		{"kind: http, url: 'http://x/', refuse_body: '('", "refuse_body: "},
		{"kind: http, url: 'http://x/', method: HEAD, refuse_body: error", "refuse_body: is set beside method HEAD"},
		{"kind: http, url: 'http://x/', user: 'a:b', password: c", "user: holds a colon"},
		{"kind: openmetrics, url: 'http://x/metrics', prefix: own_", ""},
		{"kind: openmetrics, url: 'x:1'", "url: "},
		{"kind: xmpp_metrics, url: 'x:1'", "url: "},
		{"kind: xmpp_rest, url: 'x:1'", "url: "},
		// A rename that is at fault is in nobody's way.
		{"kind: xmpp_metrics, url: 'http://x/metrics', rename: {1a: b, c: b}", "rename.1a: is no name"},
		{"kind: xmpp_metrics, url: 'http://x/metrics', rename: {a: 1b, a_total: c}", "rename.a: is \"1b\""},
		{"kind: xmpp_metrics, url: 'http://x/metrics', rename: {a: chatstack_b, a_total: c}", "rename.a: is \"chatstack_b\""},
		{"kind: plant_store, url: 'http://x', id_max: 9007199254740991", ""},
		{"kind: plant_store, url: 'http://x', id_max: 9007199254740992", "id_max: the range"},
		{"kind: openmetrics, url: 'http://x/metrics', user: 'a:b', password: c", "user: holds a colon"},
	} {
		file := filepath.Join(t.TempDir(), "exporter.yaml")
		if err := os.WriteFile(file, []byte("targets:\n  - {name: it, "+tt.target+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := config.Load(config.Source{File: file, Kinds: ConfigKinds(), Lookup: func(string) (string, bool) { return "", false }})
		switch {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v, want no fault", tt.target, err)
		case tt.want != "" && err == nil:
			t.Errorf("%s: no fault, want %q", tt.target, tt.want)
		case tt.want != "" && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want %q alone", tt.target, err, tt.want)
		}
	}
}

func TestKindIsFoundByItsNameAlone(t *testing.T) {
	for _, want := range Kinds {
		if got, ok := KindOf(want.Name); !ok || got.Name != want.Name {
			t.Errorf("%s: got %q, found: %t", want.Name, got.Name, ok)
		}
	}
	if got, ok := KindOf("carrier_pigeon"); ok {
		t.Errorf("found %q for a kind that there is not", got.Name)
	}
	k, _ := KindOf("tcp")
	if _, err := k.New(newVolumeSettings(), Deps{}); err == nil || failure.ReasonOf(err) != failure.Internal {
		t.Errorf("settings of another kind: got %v, want %s", err, failure.Internal)
	}
}

// loadTargets loads a configuration of these targets alone, with these variables.
func loadTargets(targets string, env map[string]string) (*config.Config, error) {
	return config.Load(config.Source{
		File: "exporter.yaml", Content: []byte("targets:\n" + targets), Kinds: ConfigKinds(),
		Lookup: func(name string) (string, bool) { value, ok := env[name]; return value, ok },
	})
}

func TestTwoStatusPagesCannotBeToldApart(t *testing.T) {
	_, err := loadTargets("  - {kind: xmpp_status, name: a, url: 'http://a/status'}\n  - {kind: xmpp_status, name: b, url: 'http://b/status'}\n", nil)
	if err == nil || !strings.Contains(err.Error(), "the metrics of two could not be told apart; let a second exporter watch it") {
		t.Errorf("got %v, want that there can be only one", err)
	}
}

func TestAuthorityOfTheProxyComesFromItsVariable(t *testing.T) {
	root := exchangetest.Write(t, filepath.Join(t.TempDir(), "ca.pem"), exchangetest.Certificate{Name: "root", Authority: true}.Make(t))
	cfg, err := loadTargets("  - {kind: xmpp_proxy, url: 'https://x'}\n", map[string]string{"XMPP_PROXY_CA_FILE": root})
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := cfg.Targets[0].(*XMPPProxy); !ok || s.CAFile != root {
		t.Errorf("got %+v, want ca_file %s", cfg.Targets[0], root)
	}
}

func TestGuessedAddressIsWarnedOf(t *testing.T) {
	s := &XMPPC2S{Address: "xmpp:5222"}
	if w := s.Warnings(); len(w) != 0 {
		t.Errorf("an address that was written: got %q", w)
	}
	s.guessed = true
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "xmpp:5222 is guessed") {
		t.Errorf("a guessed address: got %q, want one warning of it", w)
	}
}

func TestHostOutsideOfTheNetworkIsWarnedOf(t *testing.T) {
	for cidr, want := range map[string]int{"": 0, "x": 0, "0.0.0.0/0, ::/0": 0, "192.0.2.0/31": 1} {
		if w := (&XMPPMetrics{CIDR: cidr}).Warnings(); len(w) != want {
			t.Errorf("network %q: got %q, want %d", cidr, w, want)
		}
	}
}
