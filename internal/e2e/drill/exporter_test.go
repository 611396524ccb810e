//go:build realservers

package drill

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// drillSettings is about an exporter whose configuration is not what it should be.
func (r *rig) drillSettings(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	targets := "  - {kind: docs_search, url: " + sim.Environ()["DOCS_SEARCH_URL"] + "}\n"
	s := r.open(t, "settings", targets, nil)
	checksum := regexp.MustCompile(`checksum!="(\w+)"`).FindStringSubmatch(s.exporter.Rules())[1]
	for _, f := range []struct {
		name, config string
		shown        func(page) bool
		want         []notice
	}{
		{
			"placeholder for a credential", settings + targets + "  - {kind: http, name: panel, url: " + sim.Environ()["DOCS_SEARCH_URL"] + "/api/search, token: change_me}\n",
			is(1, "chatstack_placeholder_credential", "target", "panel"),
			[]notice{{"PlaceholderCredential", "warning", of("target", "panel")}},
		},
		{
			"threshold changed and rules not deployed", strings.Replace(settings, "  poll_stalled: {after: 25s}", "  poll_stalled: {after: 26s}", 1) + targets,
			func(p page) bool {
				return above(0, "chatstack_rules_info")(p) && !above(0, "chatstack_rules_info", "checksum", checksum)(p)
			},
			[]notice{{"RulesOutOfDate", "warning", of()}},
		},
		{
			"configuration file broken", settings + targets + "nonsense: 1\n",
			is(0, "chatstack_config_last_reload_successful"),
			[]notice{{"ConfigReloadFailed", "warning", of()}},
		},
	} {
		s.try(fault{
			name: f.name, shown: f.shown, want: f.want,
			cause:  func() { s.exporter.Reconfigure(f.config) },
			repair: func() { s.exporter.Reconfigure(settings + targets) },
		})
	}
}

// drillStalled is about an exporter that stands still. Before it is a proxy that keeps the last
// page: without that, a process that stands still cannot be told from one that is gone.
func (r *rig) drillStalled(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	s := &site{rig: r, t: t, env: "stalled", patience: usualPatience}
	s.exporter = realstack.StartExporter(t, r.program, settings+"  - {kind: docs_search, url: "+sim.Environ()["DOCS_SEARCH_URL"]+"}\n", nil)
	cache := &cache{from: s.exporter.URL()}
	server := httptest.NewServer(cache)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.scrape(strings.TrimPrefix(server.URL, "http://"))
	s.try(fault{
		name:   "exporter stands still behind a proxy that keeps pages",
		cause:  func() { cache.keep(true); s.exporter.Hang() },
		repair: func() { s.exporter.Resume(); cache.keep(false) },
		shown: func(p page) bool {
			return below(float64(time.Now().Add(-45*time.Second).Unix()), "chatstack_poll_last_completed_timestamp_seconds")(p)
		},
		want: []notice{{"PollStalled", "critical", of()}},
	})
}

// cache is a proxy that may go on with the last page that it got.
type cache struct {
	from string

	mu   sync.Mutex
	kept bool
	last []byte
}

func (c *cache) keep(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.kept = on
}

// ServeHTTP implements http.Handler.
func (c *cache) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.kept {
		body, err := fetch(r.Context(), c.from+"/metrics")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		c.last = body
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4")
	w.Write(c.last) //nolint:errcheck // it asks again
}
