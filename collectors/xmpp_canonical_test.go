package collectors

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

// documentedFamilies are the families that the stack's documentation promises.
var documentedFamilies = []string{
	"xmpp_c2s_connections_total", "xmpp_s2s_connections_total", "xmpp_c2s_auth_success_total", "xmpp_c2s_auth_failure_total",
	"xmpp_messages_sent_total", "xmpp_messages_received_total", "xmpp_presence_sent_total", "xmpp_presence_received_total",
	"xmpp_storage_operations_total", "xmpp_storage_errors_total", "xmpp_http_requests_total", "xmpp_http_request_duration_seconds",
	"xmpp_memory_usage_bytes", "xmpp_cpu_usage_seconds_total",
}

func TestEveryDocumentedFamilyHasARow(t *testing.T) {
	var names []string
	for _, f := range canonicalFamilies {
		names = append(names, f.name)
		if counts := strings.HasSuffix(f.name, "_total"); counts != (f.kind == model.MetricTypeCounter) {
			t.Errorf("%s is a %s", f.name, f.kind)
		}
		if f.unit != "" && !strings.HasSuffix(f.fullName(), "_"+f.unit) {
			t.Errorf("%s does not end in its unit %s", f.name, f.unit)
		}
		if len(f.sources) == 0 || f.help == "" {
			t.Errorf("%s has no source or no help", f.name)
		}
		for _, s := range f.sources {
			for _, p := range s.parts {
				if summed := f.kind != model.MetricTypeCounter || p.kind == model.MetricTypeCounter || p.count; !summed {
					t.Errorf("%s is a counter, but its source %s is a %s", f.name, p.family, p.kind)
				}
				if strings.Contains(p.family, "module_status") || strings.Contains(p.family, "cpu_clock") {
					t.Errorf("%s rests on %s, which is not to be trusted", f.name, p.family)
				}
			}
		}
	}
	for _, want := range documentedFamilies {
		if !slices.Contains(names, want) {
			t.Errorf("%s has no row", want)
		}
	}
}

// readPage reads a page of OpenMetrics as the XMPP server's.
func readPage(t *testing.T, page string, change func(*XMPPMetrics)) *Batch {
	t.Helper()
	s := newXMPPMetricsSettings()
	s.Name, s.URL = "xmpp_metrics", metricsPage(t, page)+"/metrics"
	if change != nil {
		change(s)
	}
	c := newProbe(t, newXMPPMetrics, s)
	b := readUp(t, c)
	b.Target = s.Name
	return b
}

// canonicalSeries are the canonical series of a batch, as text.
func canonicalSeries(b *Batch) []string {
	var series []string
	for _, f := range b.Foreign(true) {
		if slices.ContainsFunc(canonicalFamilies, func(c canonicalFamily) bool { return c.name == f.TextName() }) {
			series = append(series, strings.Split(strings.TrimSuffix(string(f.Text), "\n"), "\n")...)
		}
	}
	return series
}

// availableFamilies are those that a batch says have a source.
func availableFamilies(t *testing.T, b *Batch) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(string(ownText(t, b))) {
		if rest, ok := strings.CutPrefix(line, `chatstack_xmpp_family_available{family="`); ok && strings.HasSuffix(line, "} 1\n") {
			names = append(names, rest[:strings.Index(rest, `"`)])
		}
	}
	return names
}

// TestCutPageChangesNoSource reads pages of which the source of the last whole one has been cut off.
func TestCutPageChangesNoSource(t *testing.T) {
	const (
		ours    = "# TYPE prosody_mod_measure_chatstack__%s counter\nprosody_mod_measure_chatstack__%[1]s_total{host=\"a.test\"} 500\n"
		process = "# TYPE process_cpu_seconds counter\nprocess_cpu_seconds_total 1.5\n"
		already = "# TYPE xmpp_messages_sent counter\nxmpp_messages_sent_total{host=\"a.test\"} 400\n"
		stanzas = "# TYPE prosody_mod_measure_stanza_counts__sent counter\n" +
			"prosody_mod_measure_stanza_counts__sent_total{session_type=\"c2s\",stanza_kind=\"message\"} 7\n"
	)
	cpu, failures := fmt.Sprintf(ours, "cpu_usage_seconds"), fmt.Sprintf(ours, "c2s_auth_failure")
	const ourCPU, ourFailures = `xmpp_cpu_usage_seconds_total 500`, `xmpp_c2s_auth_failure_total{host="a.test"} 500`
	var page atomic.Value
	s := newXMPPMetricsSettings()
	e := startLogEngine(t, false)
	s.Name, s.Log.Container, s.Log.DockerHost = "xmpp_metrics", "xmpp", e.host
	s.URL = answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", prosodyType)
		io.WriteString(w, page.Load().(string)) //nolint:errcheck,forcetypeassert // a test's server
	}) + "/metrics"
	c := newProbe(t, newXMPPMetrics, s)
	for i, step := range []struct {
		page, want, log string
	}{
		{process, "xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"}, // nothing is known before the first whole page
		{process + stanzas + "# EOF\n", "xmpp_messages_sent_total 7 xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"},
		{
			process + cpu + failures + already + stanzas + "# EOF\n",
			"xmpp_messages_sent_total{host=\"a.test\"} 400 " + ourFailures + " " + ourCPU,
			"",
		},
		{process + stanzas, "", ""},
		{process + failures, ourFailures, ""},
		{process + stanzas + "# EOF\n", "xmpp_messages_sent_total 7 xmpp_cpu_usage_seconds_total 1.5", authFailures + " 0"},
		{process + cpu, ourCPU, authFailures + " 0"}, // a better source does not wait
	} {
		page.Store(step.page)
		b := readUp(t, c)
		b.Target = s.Name
		if got := strings.Join(canonicalSeries(b), " "); got != step.want {
			t.Errorf("step %d: got %s, want %s", i, got, step.want)
		}
		if got := strings.Join(ownSeries(t, b, authFailures), " "); got != step.log {
			t.Errorf("step %d: got %q from the log, want %q; notes %q", i, got, step.log, b.Notes)
		}
	}
}

// wantReadable holds that Prometheus' own parsers read all of a batch's families, in both formats alike.
func wantReadable(t *testing.T, b *Batch) {
	t.Helper()
	page, clashes := exposition.Compose(b.Foreign(true))
	if len(clashes) > 0 {
		t.Fatalf("clashes: %v", clashes)
	}
	for format, p := range map[string]textparse.Parser{
		"openmetrics": textparse.NewOpenMetricsParser(page.Negotiate(http.Header{"Accept": {metricsAccept}}).Bytes,
			labels.NewSymbolTable()),
		"text": textparse.NewPromParser(page.Negotiate(http.Header{}).Bytes, labels.NewSymbolTable(), false),
	} {
		series := 0
		for {
			entry, err := p.Next()
			if err == io.EOF { //nolint:errorlint // textparse hands it out bare
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			var set labels.Labels
			if entry == textparse.EntrySeries {
				if p.Labels(&set); !strings.HasSuffix(set.Get(model.MetricNameLabel), exposition.Created.Suffix()) {
					series++
				}
			}
		}
		if series != page.Series {
			t.Errorf("%s: %d series, want %d", format, series, page.Series)
		}
	}
}

func TestCanonicalFamiliesKeepWhatOpenMetricsHasBeside(t *testing.T) {
	b := readPage(t, "# TYPE prosody_mod_measure_chatstack__http_request_duration_seconds histogram\n"+
		"# UNIT prosody_mod_measure_chatstack__http_request_duration_seconds seconds\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_bucket{le=\"1\"} 1 # {trace=\"x\"} 0.5\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_bucket{le=\"+Inf\"} 2\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_count 2\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_sum 3\n"+
		"prosody_mod_measure_chatstack__http_request_duration_seconds_created 4\n# EOF\n", nil)
	families := b.Foreign(true)
	got := families[len(families)-1]
	want := `xmpp_http_request_duration_seconds_bucket{le="1"} 1 # {trace="x"} 0.5
xmpp_http_request_duration_seconds_bucket{le="+Inf"} 2
xmpp_http_request_duration_seconds_sum 3
xmpp_http_request_duration_seconds_count 2
xmpp_http_request_duration_seconds_created 4
`
	if string(got.OpenMetrics) != want || got.Unit != "seconds" || got.Type != model.MetricTypeHistogram || got.Series != 4 {
		t.Errorf("got %+v\n%s\nwant\n%s", got, got.OpenMetrics, want)
	}
	wantReadable(t, b)
}

const (
	tableBegin = "<!-- canonical families: written by make generate -->\n"
	tableEnd   = "<!-- end of canonical families -->\n"
)

func TestMetricsDocumentHasTheCanonicalFamilies(t *testing.T) {
	path := filepath.Join("..", "METRICS.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := bytes.Cut(readme, []byte(tableBegin))
	table, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !begun || !ended {
		t.Fatalf("%s lacks the lines\n%s%s", path, tableBegin, tableEnd)
	}
	want := canonicalTable()
	if *update && string(table) != want {
		renewed := slices.Concat(before, []byte(tableBegin), []byte(want), []byte(tableEnd), after)
		if err := os.WriteFile(path, renewed, 0o600); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(table), "\n")); diff != "" {
		t.Errorf("%s is out of date; run make generate (-want +got):\n%s", path, diff)
	}
}

// canonicalTable is the table of METRICS.md.
func canonicalTable() string {
	var b strings.Builder
	b.WriteString("| family | type | labels | made of, the first that has a sample | beside that |\n|---|---|---|---|---|\n")
	for _, f := range canonicalFamilies {
		var sources []string
		for i, s := range f.sources {
			var parts []string
			for _, p := range s.parts {
				parts = append(parts, partText(p))
			}
			sources = append(sources, fmt.Sprintf("%d. %s (%s)", i+1, strings.Join(parts, " and "), s.enable))
		}
		labels := "none"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, labels, strings.Join(sources, "; "), f.remark)
	}
	b.WriteString("| `" + moduleStatusFamily +
		"` | gauge | `host`, `module` | 1. `GET /status` (the target `xmpp_status`); without that target, a page that calls it so | 0 " +
		"ok, 1 info, 2 warn, 3 error; `prosody_module_status` is not a source: it falls back to 0 at every change |\n")
	return b.String()
}

func partText(p canonicalPart) string {
	name := p.family
	if p.count {
		name += "_count"
	} else if p.kind == model.MetricTypeCounter {
		name += "_total"
	}
	var only []string
	for _, l := range p.only {
		only = append(only, fmt.Sprintf("%s=%q", l.Name, l.Value))
	}
	if len(only) > 0 {
		name += "{" + strings.Join(only, ",") + "}"
	}
	return "`" + name + "`"
}

func TestValueThatSpoilsASumIsNotToldAsOne(t *testing.T) {
	counter, gauge := canonicalFamily{kind: model.MetricTypeCounter}, canonicalFamily{kind: model.MetricTypeGauge}
	histogram := canonicalFamily{kind: model.MetricTypeHistogram}
	for _, tt := range []struct {
		family *canonicalFamily
		value  float64
		want   bool
	}{
		{&counter, 1, true},
		{&counter, 0, true},
		{&counter, -1, false},
		{&counter, math.NaN(), false},
		{&gauge, -1, true},
		{&gauge, math.Inf(1), false},
		{&histogram, math.NaN(), true},
	} {
		if got := tt.family.admits(tt.value); got != tt.want {
			t.Errorf("%g of a %s counts: got %t, want %t", tt.value, tt.family.kind, got, tt.want)
		}
	}
}

// BenchmarkCanonicalFamilies makes the families of a page with many others.
func BenchmarkCanonicalFamilies(b *testing.B) {
	for _, c := range []struct {
		n    int
		name string
	}{{10, "prosody_mod_simulated__load"}, {20_000, "prosody_mod_simulated__load"}, {20_000, "xmpp_load"}} {
		families := make([]exposition.Family, c.n, c.n+1)
		for i := range families {
			families[i] = exposition.Family{
				Name:   fmt.Sprint(c.name, i),
				Type:   model.MetricTypeGauge,
				Series: 1,
				Text:   []byte("x 1\n"),
			}
		}
		text := []byte("prosody_mod_c2s__connections{host=\"a.test\",type=\"c2s\",ip_family=\"ipv4\"} 3\n")
		families = append(families, exposition.Family{
			Name:        "prosody_mod_c2s__connections",
			Type:        model.MetricTypeGauge,
			Series:      1,
			Text:        text,
			OpenMetrics: text,
		})
		page := &openmetrics.Page{Families: families}
		for _, f := range families {
			page.Names = append(page.Names, f.Name)
		}
		b.Run(fmt.Sprintf("name=%s/families=%d", c.name, c.n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if r := readCanonical(page, true, nil); len(r.families) != 1 {
					b.Fatal(r)
				}
			}
		})
	}
}
