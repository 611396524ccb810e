package app

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// TestPeersAreAskedOnlyByAPairThatNotifies with their password, which is shown nowhere, and the log says when one does not answer.
func TestPeersAreAskedOnlyByAPairThatNotifies(t *testing.T) {
	var asked, fails, wrong atomic.Int64
	account := startExporter(t, nil, "pair: first\n").get(t, "/api/v1/notifications", http.Header{}).body
	relay := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "prometheus" || password != "s3cr3t-pair" || r.URL.Path != "/api/v1/notifications" {
			wrong.Add(1)
		}
		asked.Add(1)
		if fails.Load() > 0 {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if _, err := w.Write(account); err != nil {
			t.Error(err)
		}
	}))
	defer relay.Close()
	password := filepath.Join(t.TempDir(), "password")
	rewrite(t, password, "s3cr3t-pair\n")
	peers := fmt.Sprintf("poll: {interval: 1s}\npeers:\n  - {targets: [%q], user: prometheus, password_file: %q}\n",
		relay.Listener.Addr(), password)
	receivers := fmt.Sprintf("notify:\n  - {name: phone, url: %q, hours: \"\"}\n", receiverURL(relay))
	e, path := startWithFile(t, nil, peers+"pair: other\n", func(o *Options) { o.Timeout = 0 })
	e.wait(t, "a page", func(p page) bool { return len(p) > 0 })
	for _, content := range []string{peers + receivers, peers + "pair: other\n"} {
		rewrite(t, path, content)
		must(t, e.app.Reload(t.Context()))
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("without notify or without pair, the peer was asked %d times", n)
	}
	rewrite(t, path, peers+receivers+"pair: other\n")
	must(t, e.app.Reload(t.Context()))
	await := func(what string, done func() bool) {
		t.Helper()
		if !exportertest.Eventually(patience, between(t), done) {
			t.Errorf("never: %s\n%s", what, e.log)
		}
	}
	says(t, "the log", e.log.String(), "asks its peers at each poll")
	var printed strings.Builder
	withoutTimeout := options(nil, &logBuffer{})
	withoutTimeout.Timeout = 0
	must(t, CheckConfig(&printed, withoutTimeout.with(peers+receivers+"pair: other\n")))
	says(t, "check-config", printed.String(), "A running exporter asks its peers at each poll", relay.Listener.Addr().String())
	await("three questions", func() bool { return asked.Load() >= 3 })
	fails.Store(1)
	await("a warning", func() bool { return strings.Contains(e.log.String(), "a peer does not answer") })
	says(t, "the log", e.log.String(), "set user and password of the peers")
	fails.Store(0)
	await("an answer", func() bool { return strings.Contains(e.log.String(), "a peer answers again") })
	if wrong.Load() > 0 || strings.Contains(e.log.String(), "s3cr3t") {
		t.Errorf("%d wrong questions, or the log has the password:\n%s", wrong.Load(), e.log)
	}
	for _, path := range append(e.pages(t), "/metrics", "/api/v1/notifications", "/api/v1/discovery") {
		if r := e.get(t, path, http.Header{}); r.status != http.StatusOK || bytes.Contains(r.body, []byte("s3cr3t")) {
			t.Errorf("%s: status %d, or a secret", path, r.status)
		}
	}
}

// TestCheckAsksPeersWithTheirPassword and says what to do without one.
func TestCheckAsksPeersWithTheirPassword(t *testing.T) {
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "s3cr3t-pair" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if _, err := w.Write([]byte(`{"services": [{"kind": "xmpp_metrics"}]}`)); err != nil {
			t.Error(err)
		}
	}))
	defer peer.Close()
	for credentials, want := range map[string]string{
		"": "set user and password",
		", user: prometheus, password: s3cr3t-pair":        "",
		", user: prometheus, password: another-password":   "set user and password",
		", ca_file: /nowhere/ca.pem":                       "ca_file",
		", user: prometheus":                               "belongs to user",
		", password: s3cr3t-pair":                          "belongs to user",
		", user: prometheus, password_file: /nowhere/file": "/nowhere/file",
	} {
		said := ""
		cfg, err := LoadConfig(options(nil, &logBuffer{}).with(
			fmt.Sprintf("pair: first\npeers:\n  - {targets: [%q]%s}\n", peer.Listener.Addr(), credentials)))
		if err == nil {
			p := askPeers(t.Context(), cfg.Peers)[0]
			if err = p.err; err == nil && len(p.targets) != 1 {
				t.Errorf("%q: %+v", credentials, p.targets)
			}
		}
		if err != nil {
			said = err.Error()
		}
		if want == "" && said != "" || !strings.Contains(said, want) || strings.Contains(said, "s3cr3t") {
			t.Errorf("%q: got %q, want %q", credentials, said, want)
		}
	}
}
