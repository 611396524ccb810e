package collectors

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	promcollectors "github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

func readOpenMetrics(t *testing.T, url string, change func(*OpenMetrics)) (*Batch, error) {
	t.Helper()
	s := &OpenMetrics{}
	s.Name, s.URL = "bridge", url
	if change != nil {
		change(s)
	}
	c := newProbe(t, newOpenMetrics, s)
	b, err := read(t, c, 10*time.Second)
	b.Target = s.Name
	return b, err
}

// TestGoProgramLosesNothing takes over a page that has a gauge and a counter of one name.
func TestGoProgramLosesNothing(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(promcollectors.NewGoCollector())
	for format, openMetrics := range map[string]bool{"text": false, "OpenMetrics": true} {
		url := answering(t, promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: openMetrics}).ServeHTTP)
		for name, c := range map[string]struct {
			change func(*OpenMetrics)
			want   []string
		}{
			"plain": {nil, []string{"go_memstats_alloc_bytes gauge", "go_memstats_alloc_bytes_total unknown"}},
			"prefixed": {
				func(s *OpenMetrics) { s.Prefix = "bridge_" },
				[]string{"bridge_go_memstats_alloc_bytes gauge", "bridge_go_memstats_alloc_bytes_total unknown"},
			},
			"gauge renamed": {
				func(s *OpenMetrics) { s.Rename = map[string]string{"go_memstats_alloc_bytes": "go_heap_alloc_bytes"} },
				[]string{"go_heap_alloc_bytes gauge", "go_memstats_alloc_bytes_total unknown"},
			},
			"counter renamed": {
				func(s *OpenMetrics) {
					s.Rename = map[string]string{"go_memstats_alloc_bytes_total": "go_heap_alloc_bytes_total"}
				},
				[]string{"go_memstats_alloc_bytes gauge", "go_heap_alloc_bytes_total unknown"},
			},
			"counter alone": {
				func(s *OpenMetrics) { s.Allow = []string{"go_memstats_alloc_bytes_total"} },
				[]string{"go_memstats_alloc_bytes counter"},
			},
		} {
			b, err := readOpenMetrics(t, url, c.change)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range b.Foreign(true) {
				if strings.Contains(f.Name, "_alloc_bytes") && !strings.Contains(f.Name, "go_memstats_heap_") {
					got = append(got, f.Name+" "+string(f.Type))
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s, %s: families (-want +got):\n%s", format, name, diff)
			}
			if own := string(ownText(t, b)); len(b.Notes) > 0 || strings.Count(own, "chatstack_upstream_dropped_series{") != 4 ||
				strings.Count(own, `,target="bridge"} 0`+"\n") != 4 {
				t.Errorf("%s, %s: notes %q, drops:\n%s\nwant none", format, name, b.Notes, own)
			}
			wantReadable(t, b)
		}
	}
}

// TestWhatIsAddedToLinesCountsAsThePage has a page that is within the limit by itself, and not with a long prefix or name.
func TestWhatIsAddedToLinesCountsAsThePage(t *testing.T) {
	var page strings.Builder
	page.WriteString("# TYPE relayed counter\n")
	for i := range 1000 {
		fmt.Fprintf(&page, "relayed_total{n=\"%d\"} 1 # {trace=\"%d\"} 1\n", i, i)
	}
	page.WriteString("# EOF\n")
	url := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
		io.WriteString(w, page.String()) //nolint:errcheck // a test's server
	})
	long := strings.Repeat("x", 60)
	for name, c := range map[string]struct {
		prefix, target string
		refused        bool
	}{
		"short":         {"b_", "bridge", false},
		"a long prefix": {long + long, "bridge", true},
		"a long name":   {"", long, true},
	} {
		s := &OpenMetrics{}
		s.Name, s.URL, s.Prefix = c.target, url, c.prefix
		d := deps(&memory{})
		d.Limits.Series, d.Limits.MetricsBody = 2000, config.Bytes(2*page.Len())
		if name == "a long name" {
			d.Limits.MetricsBody = config.Bytes(page.Len() + 1000*len(long))
		}
		probe, err := newOpenMetrics(s, d)
		if err != nil {
			t.Fatal(err)
		}
		b, err := read(t, probe, 10*time.Second)
		switch {
		case c.refused && err == nil:
			t.Errorf("%s: up, want it refused", name)
		case c.refused:
			wantReason(t, err, failure.TooLarge)
			if !strings.Contains(failure.HintOf(err), "prefix") || len(b.Foreign(false)) > 0 {
				t.Errorf("%s: hint %q", name, failure.HintOf(err))
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
}
