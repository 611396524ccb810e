//go:build realservers

package drill

import (
	"fmt"
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
			"placeholder for a credential",
			settings + targets + "  - {kind: http, name: panel, url: " + sim.Environ()["DOCS_SEARCH_URL"] +
				"/api/search, token: change_me}\n",
			is(1, "chatstack_placeholder_credential", "target", "panel"),
			[]notice{{"PlaceholderCredential", "warning", of("target", "panel")}},
		},
		{
			"threshold changed and rules not deployed",
			strings.Replace(settings, "  poll_stalled: {after: 25s}", "  poll_stalled: {after: 26s}", 1) + targets,
			func(p page) bool {
				return above(0, "chatstack_rules_info")(p) && !above(0, "chatstack_rules_info", "checksum", checksum)(p)
			},
			[]notice{{"RulesOutOfDate", "warning", of()}},
		},
		{
			"configuration file broken",
			settings + targets + "nonsense: 1\n",
			is(0, "chatstack_config_last_reload_successful"),
			[]notice{{"ConfigReloadFailed", "warning", s.scraped()}},
		},
	} {
		s.try(fault{
			name:   f.name,
			shown:  f.shown,
			want:   f.want,
			cause:  func() { s.exporter.Reconfigure(f.config) },
			repair: func() { s.exporter.Reconfigure(settings + targets) },
		})
	}
}

// drillStalled is about an exporter that stands still. Before it is a proxy that keeps the last
// page: without that, a process that stands still cannot be told from one that is gone. The page's clock stands still with it.
func (r *rig) drillStalled(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	s := &site{
		rig:      r,
		t:        t,
		env:      "stalled",
		patience: usualPatience,
	}
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
			return below(float64(time.Now().Add(-15*time.Second).Unix()), "chatstack_exporter_time_seconds")(p)
		},
		want: []notice{{"PollStalled", "critical", s.scraped()}},
	})
}

// drillScrapes is about how Prometheus scrapes an exporter, and about an environment that it knows no longer.
func (r *rig) drillScrapes(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	s := r.open(t, "scrapes", "  - {kind: docs_search, url: "+sim.Environ()["DOCS_SEARCH_URL"]+"}\n", nil)
	// What Prometheus has of the exporter differs, and the page does not.
	up := func(labels string) func(page) bool {
		return func(page) bool { return !s.none(fmt.Sprintf("up{env=%q,%s}", s.env, labels)) }
	}
	s.try(fault{
		name:   "an environment is gone from discovery",
		want:   []notice{{"ExporterDown", "critical", of()}},
		shown:  func(page) bool { return s.none(fmt.Sprintf("up{env=%q}", s.env)) },
		cause:  func() { s.operators.forget(s.exporter.Addr) },
		repair: func() { s.operators.watch(s.exporter.Addr, s.env) },
	})
	s.try(fault{
		name:   "honor_labels is off, and the scrape adds a label of ours",
		shown:  up(`host="node-7"`),
		cause:  func() { s.operators.dishonor(s.exporter.Addr, true) },
		repair: func() { s.operators.dishonor(s.exporter.Addr, false) },
		want: []notice{{
			"HonorLabelsOff",
			"warning",
			of("instance", s.exporter.Addr, "job", "chatstack_exporter", "host", "node-7", "exported_host", "ours",
				"container", "ours", "endpoint", "ours", "name", "ours", "role", "ours", "target", "ours"),
		}},
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
