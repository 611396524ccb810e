package openmetrics

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/model"
)

// goProgram is the metrics page of a Go program, in the format that a scraper asks for.
func goProgram(t *testing.T, accept string) (page []byte, contentType string) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(promcollectors.NewGoCollector(), promcollectors.NewProcessCollector(promcollectors.ProcessCollectorOpts{}))
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP(w, r)
	return w.Body.Bytes(), w.Header().Get("Content-Type")
}

// values forgets what kind a series is of.
func values(found map[string]series) map[string]string {
	out := map[string]string{}
	for name, s := range found {
		out[name] = s.value
	}
	return out
}

// TestPageOfAGoProgramIsKeptWhole is about a page that has a gauge and a counter of one name.
func TestPageOfAGoProgramIsKeptWhole(t *testing.T) {
	for _, accept := range []string{openMetricsType, textType} {
		page, contentType := goProgram(t, accept)
		p := Read(page, contentType, Options{})
		if len(p.Drops) > 0 || p.Dropped[Clash]+p.Dropped[Limit]+p.Dropped[Malformed] > 0 {
			t.Errorf("%s: got drops %v, want none", contentType, p.Drops)
		}
		kinds, helps := map[string]model.MetricType{}, map[string]string{}
		for _, f := range p.Families {
			kinds[f.Name], helps[f.Name] = f.Type, f.Help
		}
		const gauge, counter = "go_memstats_alloc_bytes", "go_memstats_alloc_bytes_total"
		if kinds[gauge] != model.MetricTypeGauge || kinds[counter] != model.MetricTypeUnknown {
			t.Errorf("%s: got %s %q and %s %q, want a gauge and one unknown", contentType, gauge, kinds[gauge], counter, kinds[counter])
		}
		if helps[gauge] == "" || helps[counter] == "" || helps[gauge] == helps[counter] {
			t.Errorf("%s: got the helps %q and %q, want one each", contentType, helps[gauge], helps[counter])
		}
		om, text := pages(p)
		want := values(parse(t, text, textType))
		if diff := cmp.Diff(want, values(parse(t, om, openMetricsType))); diff != "" {
			t.Errorf("%s: series (-text +openmetrics):\n%s", contentType, diff)
		}
		upstream, _ := parseSeries(t, page, contentType)
		if diff := cmp.Diff(values(upstream), want); diff != "" {
			t.Errorf("%s: series (-upstream +ours):\n%s", contentType, diff)
		}
		checkLegal(t, p)
	}
}
