//go:build realservers

package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// parsed is a page as Prometheus' own parser reads it.
type parsed struct {
	// samples are the values, by name and labels.
	samples  map[string]float64
	metadata map[string]metadata
	// created are the series of the samples that tell when another one began. Text has none.
	created []string
}

// metadata is what is declared of a family. The names of its fields are those of Prometheus' API.
type metadata struct{ Type, Help, Unit string }

// textFormat and openMetricsFormat are the Accept headers of a page's two formats.
const (
	textFormat        = "text/plain"
	openMetricsFormat = "application/openmetrics-text; version=1.0.0"
)

// parse asks for the page in one format and reads all of it. That the parser finds a fault, or a sample twice, fails the
// test.
func (e *exporter) parse(t *testing.T, accept string) parsed {
	t.Helper()
	r := e.get(t, "/metrics", http.Header{"Accept": {accept}})
	if got := r.header.Get("Content-Type"); !strings.HasPrefix(got, accept) {
		t.Fatalf("content type = %q, want %q", got, accept)
	}
	parser, err := textparse.New(r.body, r.header.Get("Content-Type"), labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		t.Fatalf("read page: %v", err)
	}
	page := parsed{samples: map[string]float64{}, metadata: map[string]metadata{}}
	kind := model.MetricTypeUnknown
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			return page
		}
		if err != nil {
			t.Fatalf("read page: %v\n%s", err, r.body)
		}
		switch entry {
		case textparse.EntryType:
			var name []byte
			name, kind = parser.Type()
			page.declare(string(name), func(m *metadata) { m.Type = string(kind) })
		case textparse.EntryHelp:
			name, help := parser.Help()
			page.declare(string(name), func(m *metadata) { m.Help = string(help) })
		case textparse.EntryUnit:
			name, unit := parser.Unit()
			page.declare(string(name), func(m *metadata) { m.Unit = string(unit) })
		case textparse.EntrySeries:
			_, timestamp, value := parser.Series()
			var l labels.Labels
			parser.Labels(&l)
			series := seriesName(l.Map())
			if _, twice := page.samples[series]; twice || timestamp != nil {
				t.Errorf("%s: on the page before = %v, timestamp = %v, want neither", series, twice, timestamp)
			}
			page.samples[series] = value
			if kind != model.MetricTypeGauge && strings.HasSuffix(l.Get(model.MetricNameLabel), "_created") {
				page.created = append(page.created, series)
			}
		default:
			t.Fatalf("the page holds something else than families and samples: entry %d", entry)
		}
	}
}

func (p *parsed) declare(family string, set func(*metadata)) {
	m := p.metadata[family]
	set(&m)
	p.metadata[family] = m
}

// seriesName writes name and labels in one way, whatever their order. A label without a value is none.
func seriesName(l map[string]string) string {
	l = maps.Clone(l)
	maps.DeleteFunc(l, func(_, value string) bool { return value == "" })
	return labels.FromMap(l).String()
}

// server is a Prometheus that scrapes an exporter under the job "exporter".
type server struct{ *realstack.Program }

// ownSeries are those that Prometheus makes itself of each scrape.
var ownSeries = []string{
	"up", "scrape_duration_seconds", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling", "scrape_series_added",
}

func startPrometheus(t *testing.T, e *exporter, interval, timeout string) *server {
	t.Helper()
	return &server{realstack.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: %s, scrape_timeout: %s}
scrape_configs:
  - job_name: exporter
    honor_labels: true
    static_configs:
      - targets: [%q]
`, interval, timeout, strings.TrimPrefix(e.url, "http://")), nil)}
}

// api reads the data of one answer of the server's API.
func (s *server) api(t *testing.T, path string, query url.Values, data any) {
	t.Helper()
	must(t, s.API(t.Context(), path, query, data))
}

// query evaluates an expression now. The labels of the target are left out.
func (s *server) query(t *testing.T, expression string) map[string]float64 {
	t.Helper()
	var data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
		}
	}
	s.api(t, "/api/v1/query", url.Values{"query": {expression}}, &data)
	samples := map[string]float64{}
	for _, r := range data.Result {
		delete(r.Metric, "job")
		delete(r.Metric, "instance")
		value, err := strconv.ParseFloat(fmt.Sprint(r.Value[1]), 64)
		if err != nil {
			t.Fatalf("query %s: %v", expression, err)
		}
		for _, bound := range []string{"le", "quantile"} {
			if value, ok := r.Metric[bound]; ok {
				r.Metric[bound] = canonical(t, value)
			}
		}
		series := seriesName(r.Metric)
		if _, twice := samples[series]; twice {
			t.Errorf("query %s: %s twice", expression, series)
		}
		samples[series] = value
	}
	return samples
}

// canonical writes a bound as the parser does, and Prometheus from version 3 on: 1 is 1.0.
func canonical(t *testing.T, bound string) string {
	t.Helper()
	v, err := strconv.ParseFloat(bound, 64)
	must(t, err)
	if s := strconv.FormatFloat(v, 'g', -1, 64); strings.ContainsAny(s, ".eIN") {
		return s
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// scalar evaluates an expression whose result is one sample, or none, which counts as 0.
func (s *server) scalar(t *testing.T, expression string) float64 {
	t.Helper()
	for _, value := range s.query(t, expression) {
		return value
	}
	return 0
}

// untilNil tries until there is no fault any more, or fails the test with the last one.
func untilNil(t *testing.T, try func() error) {
	t.Helper()
	var err error
	if !exportertest.Eventually(time.Minute, 100*time.Millisecond, func() bool { err = try(); return err == nil }) {
		t.Error(err)
	}
}

func TestRealPrometheusIngestsEverySample(t *testing.T) {
	for _, upstream := range []int{0, 20_000} {
		t.Run(fmt.Sprintf("%d more upstream series", upstream), func(t *testing.T) {
			stack := startStack(t, simstack.Options{UpstreamSeries: upstream})
			// To read so many series takes long where others want the processor too, and the race detector looks on.
			e := startPatiently(t, stack.Environ(), canaryMode, 20*time.Second)
			e.wait(t, "every target up", allUp)
			every := "1s"
			if upstream > 0 {
				every = "5s" // for the same reason
			}
			s := startPrometheus(t, e, every, every)
			untilNil(t, func() error {
				if n := s.scalar(t, `count_over_time(up{job="exporter"}[1m])`); n < 3 {
					return fmt.Errorf("%v scrapes", n)
				}
				return nil
			})
			// A scrape and a look at the page are not the same moment: what moves in between is right the next time.
			untilNil(t, func() error { return s.hasAll(t, e, upstream) })
			if up := s.scalar(t, `min_over_time(up{job="exporter"}[1m])`); up != 1 {
				t.Error("a scrape failed")
			}
			s.complainsOfNothing(t)
		})
	}
}

// hasAll returns nil if the server has exactly the samples and the families that the exporter's page has.
func (s *server) hasAll(t *testing.T, e *exporter, upstream int) error {
	t.Helper()
	before := e.parse(t, openMetricsFormat)
	got := s.query(t, `{job="exporter"}`)
	count := s.scalar(t, `count({job="exporter"})`)
	want := e.parse(t, openMetricsFormat)
	var faults []error
	if len(want.samples) < upstream {
		faults = append(faults, fmt.Errorf("only %d samples on the page", len(want.samples)))
	}
	if int(count) != len(want.samples)+len(ownSeries) {
		faults = append(faults, fmt.Errorf("count of series = %v, want %d and %d of its own", count, len(want.samples), len(ownSeries)))
	}
	for _, name := range ownSeries {
		series := seriesName(map[string]string{model.MetricNameLabel: name})
		value, ok := got[series]
		delete(got, series)
		switch {
		case !ok:
			faults = append(faults, fmt.Errorf("no %s", name))
		case strings.HasPrefix(name, "scrape_samples_") && int(value) != len(want.samples):
			faults = append(faults, fmt.Errorf("%s = %v, want %d", name, value, len(want.samples)))
		}
	}
	names := func(samples map[string]float64) []string { return slices.Sorted(maps.Keys(samples)) }
	if diff := cmp.Diff(names(want.samples), names(got)); diff != "" {
		faults = append(faults, fmt.Errorf("series (-page +prometheus):\n%s", diff))
	}
	for series, value := range want.samples {
		if was, ok := before.samples[series]; ok && was == value && got[series] != value &&
			strings.HasPrefix(series, `{__name__="prosody_`) {
			faults = append(faults, fmt.Errorf("%s = %v, want %v as on the page", series, got[series], value))
		}
	}
	var families []struct {
		Metric string
		metadata
	}
	s.api(t, "/api/v1/targets/metadata", url.Values{"match_target": {`{job="exporter"}`}}, &families)
	known := map[string]metadata{}
	for _, f := range families {
		known[f.Metric] = f.metadata
	}
	if diff := cmp.Diff(want.metadata, known); diff != "" {
		faults = append(faults, fmt.Errorf("families (-page +prometheus):\n%s", diff))
	}
	return errors.Join(faults...)
}

// complainsOfNothing looks at what the server says of its scrapes.
func (s *server) complainsOfNothing(t *testing.T) {
	t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(fetch(t, s.URL()+"/metrics")))
	if err != nil {
		t.Fatalf("read the metrics of prometheus: %v", err)
	}
	for _, name := range []string{
		"prometheus_target_scrapes_sample_duplicate_timestamp_total", "prometheus_target_scrapes_sample_out_of_order_total",
		"prometheus_target_scrapes_sample_out_of_bounds_total", "prometheus_target_scrapes_exceeded_sample_limit_total",
		"prometheus_target_scrapes_exceeded_body_size_limit_total", "prometheus_target_scrapes_exemplar_out_of_order_total",
		"prometheus_target_scrapes_cache_flush_forced_total",
	} {
		if m := families[name].GetMetric(); len(m) != 1 || m[0].GetCounter().GetValue() != 0 {
			t.Errorf("%s = %v, want 0", name, m)
		}
	}
	for line := range strings.Lines(s.Log()) {
		lower := strings.ToLower(line)
		for _, complaint := range []string{
			"duplicate sample", "out of order", "out-of-order", "error on ingesting", "append failed", "scrape failed", "same timestamp",
		} {
			if strings.Contains(lower, complaint) {
				t.Errorf("prometheus says: %s", line)
			}
		}
	}
}

// TestRealServersPageIsClean has the page with the families of a real XMPP server on it judged by those who read it.
// One target is down, so that what is only said then is there too.
func TestRealServersPageIsClean(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil {
		t.Fatal("promtool is not installed: apt-get install --no-install-recommends prometheus")
	}
	prosody := startBusyProsody(t)
	stack := startStack(t, simstack.Options{})
	must(t, stack.Switch("irc_services", "stopped", true))
	env := stack.Environ()
	env["XMPP_REST_URL"] = prosody.URL()
	delete(env, "XMPP_REST_TOKEN")
	e := startSlowly(t, env, canaryMode)
	e.wait(t, "every target up but one", func(p page) bool {
		return !slices.ContainsFunc(withoutREST, func(target string) bool {
			return p.Verdict(target) != map[bool]string{true: "refused", false: "up"}[target == "irc_services"]
		})
	})
	t.Run("promtool", func(t *testing.T) {
		own := ownLines(e.get(t, "/metrics", http.Header{}).body)
		says(t, "the page", string(own), "\nchatstack_container_health{", "\nchatstack_probe_failing{", "\nchatstack_upstream_series{",
			"\nprocess_cpu_seconds_total ", "\ngo_goroutines ")
		check := exec.CommandContext(t.Context(), promtool, "check", "metrics")
		check.Stdin = bytes.NewReader(own)
		if output, err := check.CombinedOutput(); err != nil || len(output) > 0 {
			t.Errorf("promtool check metrics: %v\n%s", err, output)
		}
	})
	t.Run("formats", func(t *testing.T) {
		untilNil(t, func() error {
			om, text := e.parse(t, openMetricsFormat), e.parse(t, textFormat)
			if len(om.created) == 0 || len(text.created) > 0 {
				return fmt.Errorf("%d samples of creation in OpenMetrics and %d in text, want some and none",
					len(om.created), len(text.created))
			}
			for _, series := range om.created {
				delete(om.samples, series)
			}
			if _, ok := om.samples[openStream]; !ok {
				return fmt.Errorf("no %s", openStream)
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(om.samples)), slices.Sorted(maps.Keys(text.samples))); diff != "" {
				return fmt.Errorf("series (-openmetrics +text):\n%s", diff)
			}
			return nil
		})
	})
}

// openStream is a series of an XMPP server that a client has spoken to.
const openStream = `{__name__="prosody_mod_c2s__connections", host="chat.test", ip_family="ipv4", type="c2s_unauthed"}`

// startBusyProsody starts an XMPP server with modules that count, and a client that has opened a stream.
func startBusyProsody(t *testing.T) *realstack.Prosody {
	t.Helper()
	p := realstack.StartProsody(t,
		realstack.ProsodyOptions{Modules: []string{"bosh", "csi_simple", "mam", "measure_active_users", "smacks"}})
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", p.ClientAddr)
	must(t, err)
	t.Cleanup(func() { conn.Close() }) //nolint:errcheck,gosec // a test's connection
	_, err = fmt.Fprintf(conn,
		"<?xml version='1.0'?><stream:stream to='%s' version='1.0' xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams'>",
		realstack.XMPPDomain)
	must(t, err)
	return p
}

// ownLines are the lines of a text page that are about the exporter's own families.
func ownLines(page []byte) []byte {
	var own bytes.Buffer
	for line := range bytes.Lines(page) {
		name := line
		if comment, ok := bytes.CutPrefix(line, []byte("# ")); ok {
			_, name, _ = bytes.Cut(comment, []byte(" "))
		}
		for _, prefix := range []string{"chatstack_", "go_", "process_"} {
			if bytes.HasPrefix(name, []byte(prefix)) {
				own.Write(line)
			}
		}
	}
	return own.Bytes()
}
