package app

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

const pairOfTargets = `targets:
  - {kind: xmpp_metrics, url: http://127.0.0.1:1/metrics}
  - {kind: plant_store, url: http://127.0.0.1:1, mode: canary, token: a-token-of-its-own}
  - {kind: xmpp_status, url: http://127.0.0.1:1/status}
`

// TestPairSaysWhatOnlyOneMayDo holds both places that say it: the log at start, and check.
func TestPairSaysWhatOnlyOneMayDo(t *testing.T) {
	const (
		manual = "read the XMPP server's metrics"
		canary = "may run the canary"
		peers  = "peers: [{targets: ['127.0.0.1:1']}]\n"
	)
	both := []string{"plant_store " + canary, "xmpp_metrics " + manual}
	for pair, want := range map[string][]string{
		"pair: ''\n": nil, "pair: first\n": nil, "pair: other\n": both,
		peers: both, "pair: first\n" + peers: nil, "pair: other\n" + peers: both,
	} {
		content := "state_file: " + t.TempDir() + "/state.json\n" + pair + pairOfTargets
		var log bytes.Buffer
		o := options(nil, &log).with(content)
		a, err := New(o)
		must(t, err)
		a.close()
		var logged []string
		for line := range strings.Lines(log.String()) {
			for _, text := range []string{manual, canary} {
				if strings.Contains(line, "target=") && strings.Contains(line, "level=WARN") && strings.Contains(line, text) {
					_, target, _ := strings.Cut(line, "target=")
					logged = append(logged, strings.Fields(target)[0]+" "+text)
				}
			}
		}
		o.Log = slog.New(slog.DiscardHandler)
		results := check(t, o)
		var checked []string
		for _, r := range results {
			for _, text := range []string{manual, canary} {
				if strings.Contains(strings.Join(r.Warnings, "\n"), text) {
					checked = append(checked, r.Name+" "+text)
				}
			}
		}
		for place, got := range map[string][]string{"log": logged, "check": checked} {
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q: %s (-want +got):\n%s", pair, place, diff)
			}
		}
	}
}

// TestCheckTellsOfPeersThatDoTheSame has two exporters with one file: each is told of the other, and neither of itself.
func TestCheckTellsOfPeersThatDoTheSame(t *testing.T) {
	env := only(startStack(t, simstack.Options{}), "PLANT_STORE_", "XMPP_REST_")
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer secret.Close()
	start := func(mode string) string {
		log := &logBuffer{}
		o := options(env, log).with("state_file: " + t.TempDir() + "/state.json\ntargets: [{kind: plant_store, mode: " + mode + "}]\n")
		o.pace = func(string) (every, timeout time.Duration) { return time.Hour, 0 }
		e := startApp(t, o, log)
		e.wait(t, "plant_store up", func(p page) bool { return p.Verdict("plant_store") == "up" })
		e.wait(t, "xmpp_metrics up", func(p page) bool { return p.Verdict("xmpp_metrics") == "up" })
		return strings.TrimPrefix(e.url, "http://")
	}
	first, second, readOnly := start("canary"), start("canary"), start("reject")
	refusing := strings.TrimPrefix(secret.URL, "http://")
	for name, c := range map[string]struct {
		peers []string
		mode  string
		want  []string
	}{
		"itself alone": {[]string{first}, "canary", nil},
		"the same twice": {
			[]string{first, second},
			"canary",
			[]string{"plant_store warning: " + second, "xmpp_metrics warning: " + second},
		},
		"no canary here":  {[]string{first, second}, "reject", []string{"xmpp_metrics warning: " + second}},
		"no canary there": {[]string{first, readOnly}, "canary", []string{"xmpp_metrics warning: " + readOnly}},
		"not known":       {[]string{refusing}, "canary", []string{"plant_store note: " + refusing, "xmpp_metrics note: " + refusing}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, r := range check(t, options(env, io.Discard).
				with("state_file: "+t.TempDir()+"/state.json\npair: first\npeers: [{targets: ['"+
					strings.Join(c.peers, "', '")+"']}]\ntargets: [{kind: plant_store, mode: "+c.mode+"}]\n")) {
				for kind, texts := range map[string][]string{"warning": r.Warnings, "note": r.Notes} {
					for _, text := range texts {
						if _, after, ok := strings.Cut(text, "the peer "); ok {
							got = append(got, r.Name+" "+kind+": "+strings.Fields(after)[0])
						}
					}
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("said of peers (-want +got):\n%s", diff)
			}
		})
	}
}

// TestOnlyTheFirstConnectsToTheIRCServer: two exporters behind one address are throttled. What pair: other leaves out is said
// wherever targets are listed.
func TestOnlyTheFirstConnectsToTheIRCServer(t *testing.T) {
	const target = "targets:\n  - {kind: irc_tls, address: '127.0.0.1:1'}\n"
	for pair, polled := range map[string]bool{"": true, "pair: first\n": true, "pair: other\n": false} {
		var log bytes.Buffer
		o := options(nil, &log).with(pair + target)
		a, err := New(o)
		must(t, err)
		defer a.close()
		var config bytes.Buffer
		must(t, CheckConfig(&config, o))
		page := httptest.NewRecorder()
		a.server.Handler.ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		if got := len(a.Snapshot().Statuses) == 1; got != polled {
			t.Errorf("%q: polled: %t, want %t", pair, got, polled)
		}
		for place, c := range map[string]struct{ text, want string }{
			"check":        {tableOf(t, check(t, o)), "1 left to the first exporter"},
			"check-config": {config.String(), "pair: other leaves 1 target to the first exporter: irc_tls.\n"},
			"log":          {log.String(), "targets=[irc_tls]"},
			"page":         {page.Body.String(), "<li>irc_tls</li>"},
		} {
			if got := strings.Contains(c.text, c.want); got == polled {
				t.Errorf("%q: %s: names it as left to the first: %t\n%s", pair, place, got, c.text)
			}
		}
	}
}

// TestOnlyTheFirstChecksTheBridge: the other of a pair opens no session and has no series of the check. It shows that it leaves the
// check to the first, so that Prometheus can tell when nobody makes it.
func TestOnlyTheFirstChecksTheBridge(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		content := "targets:\n" + relayBlock(stack)
		other := startExporter(t, nil, "pair: other\n"+content)
		time.Sleep(time.Minute)
		p := other.scrape(t)
		for name := range p {
			if strings.HasPrefix(name, "chatstack_relay_") {
				t.Errorf("pair: other has %s", name)
			}
		}
		if got := p["chatstack_target_left_to_first"].GetMetric(); len(got) != 1 || got[0].GetGauge().GetValue() != 1 {
			t.Errorf("left to the first: %v, want the target bridge", got)
		}
		if got := len(stack.Requests("irc_tls")) + len(stack.Requests("xmpp_c2s")); got > 0 {
			t.Errorf("pair: other sent %d lines to the servers", got)
		}
		first := startExporter(t, nil, "pair: first\n"+content)
		p = first.wait(t, "the bridge is checked", func(p page) bool { return len(p["chatstack_relay_success"].GetMetric()) == 2 })
		if p["chatstack_target_left_to_first"] != nil {
			t.Error("the first leaves something to itself")
		}
		if len(stack.Requests("irc_tls")) == 0 || len(stack.Requests("xmpp_c2s")) == 0 {
			t.Error("the servers do not remember what clients say")
		}
		if irc, xmpp := stack.RelayMessages(); irc == 0 || xmpp == 0 {
			t.Errorf("the first sent %d messages on IRC and %d on XMPP", irc, xmpp)
		}
	})
}

// TestExportersWithPeersSayWhoConnectsToTheIRCServer has a file that may be on every one of them.
func TestExportersWithPeersSayWhoConnectsToTheIRCServer(t *testing.T) {
	o := options(nil, io.Discard).with("peers: [{targets: ['127.0.0.1:1']}]\ntargets:\n  - {kind: irc_tls, address: 'irc.test:6697'}\n")
	cfg, err := LoadConfig(o)
	must(t, err)
	if w := Warnings(cfg); len(w) != 1 || w[0].Target != "irc_tls" || !strings.Contains(w[0].Text, "pair: first") {
		t.Errorf("got %v, want a warning that asks which of them connects", w)
	}
}

func TestPeersAreAskedByTheSchemeThatTheyAreScrapedBy(t *testing.T) {
	peer := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := w.Write([]byte(`{"services": [{"kind": "xmpp_metrics"}]}`)); err != nil || r.URL.Path != "/api/v1/status" {
			t.Errorf("asked for %s, %v", r.URL.Path, err)
		}
	}))
	peer.Config.ErrorLog = log.New(io.Discard, "", 0)
	peer.StartTLS()
	defer peer.Close()
	group := config.Peers{Targets: []string{peer.Listener.Addr().String()}}
	if p := askPeers(t.Context(), []config.Peers{group})[0]; p.err == nil || !strings.Contains(p.err.Error(), "__scheme__: https") {
		t.Errorf("by http: got %v, want what to do", p.err)
	}
	group.Labels = map[string]string{"__scheme__": "https"}
	if p := askPeers(t.Context(), []config.Peers{group})[0]; p.err != nil ||
		!slices.ContainsFunc(p.targets, func(p peerTarget) bool { return p.does(statistics(t)) }) {
		t.Errorf("by https: got %v, %v, want its targets", p.targets, p.err)
	}
}

// statistics is the duty of a target with the XMPP server's metrics.
func statistics(t *testing.T) *config.Duty {
	t.Helper()
	kind, _ := collectors.KindOf("xmpp_metrics")
	return kind.Duty
}

// TestPeerElsewhereIsNotTakenForThisExporter names one that does the same and has an address of another machine.
func TestPeerElsewhereIsNotTakenForThisExporter(t *testing.T) {
	same := []peerTarget{{Kind: "xmpp_metrics"}}
	if isLocalAddress(t.Context(), "192.0.2.1:9655") || !isLocalAddress(t.Context(), "127.0.0.1:9655") {
		t.Error("addresses of this machine and of others are not told apart")
	}
	warnings, _ := dutyConflicts(statistics(t),
		[]peer{{address: "192.0.2.1:9655", targets: same}, {address: "127.0.0.1:9655", sameHost: true, targets: same}})
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "the peer 192.0.2.1:9655 reads") {
		t.Errorf("got %q, want a warning of 192.0.2.1:9655 alone", warnings)
	}
}

func TestDiscoveryNamesThePeersOfTheConfigurationInForce(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e, path := startWithFile(t, nil, "", nil)
		discover := func() any {
			t.Helper()
			r := e.get(t, "/api/v1/discovery", http.Header{})
			if got := r.header.Get("Content-Type"); r.status != http.StatusOK || got != "application/json" {
				t.Fatalf("status %d, content type %q: Prometheus takes only 200 and application/json", r.status, got)
			}
			var list any
			must(t, json.Unmarshal(r.body, &list))
			return list
		}
		if diff := cmp.Diff([]any{}, discover()); diff != "" {
			t.Errorf("without peers (-want +got):\n%s", diff)
		}
		rewrite(t, path, "peers:\n  - targets: [a:9655, b:9655]\n    labels: {part: containers}\n  - targets: [c:9655]\n")
		must(t, e.app.Reload(t.Context()))
		want := []any{
			map[string]any{"targets": []any{"a:9655", "b:9655"}, "labels": map[string]any{"part": "containers"}},
			map[string]any{"targets": []any{"c:9655"}},
		}
		if diff := cmp.Diff(want, discover()); diff != "" {
			t.Errorf("after a reload (-want +got):\n%s", diff)
		}
	})
}

func TestRuleManifestHasTheThresholdsOfTheConfiguration(t *testing.T) {
	var log, manifest bytes.Buffer
	o := options(nil, &log).with("alerts: {container_down: {critical: {for: 7m}}}\n")
	must(t, WriteRuleManifest(&manifest, o))
	says(t, "the manifest", manifest.String(), "kind: PrometheusRule\n", " > 420 or ", "- name: chatstack\n",
		"- name: chatstack-availability\n")
}
