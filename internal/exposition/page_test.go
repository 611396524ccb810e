package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// gathered are families of every kind that client_golang makes.
func gathered(t *testing.T) []Family {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plants_total", Help: "Plants \"planted\"\nso far, \\o/."},
		[]string{"kind"})
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "soil_temperature_seconds", Help: "A unit."})
	histogram := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "growth_bytes", Help: "Growth.", Buckets: []float64{1, 2}})
	summary := prometheus.NewSummary(prometheus.SummaryOpts{Name: "rain", Help: "Rain.", Objectives: map[float64]float64{0.5: 0.1}})
	r.MustRegister(counter, gauge, histogram, summary)
	counter.WithLabelValues("a\"b\\c\nd").Add(3)
	gauge.Set(math.Inf(1))
	histogram.Observe(1.5)
	summary.Observe(2)
	mfs, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	families, err := FromGathered(mfs)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func compose(t *testing.T, sources ...[]Family) *Page {
	t.Helper()
	p, clashes := Compose(sources...)
	if len(clashes) > 0 {
		t.Fatalf("clashes: %v", clashes)
	}
	return p
}

// seriesOf are the series that a parser of Prometheus finds, `_created` aside.
func seriesOf(t *testing.T, p textparse.Parser) []string {
	t.Helper()
	var series []string
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			slices.Sort(series)
			return series
		}
		if err != nil {
			t.Fatalf("the page does not parse: %v", err)
		}
		if entry != textparse.EntrySeries {
			continue
		}
		var l labels.Labels
		p.Labels(&l)
		if !strings.HasSuffix(l.Get(model.MetricNameLabel), "_created") {
			series = append(series, l.String())
		}
	}
}

func TestBothFormatsNameTheSameSeries(t *testing.T) {
	p := compose(t, gathered(t))
	om := p.Negotiate(http.Header{"Accept": {"application/openmetrics-text; version=1.0.0"}})
	text := p.Negotiate(http.Header{})
	st := labels.NewSymbolTable()
	inOpenMetrics := seriesOf(t, textparse.NewOpenMetricsParser(om.Bytes, st))
	inText := seriesOf(t, textparse.NewPromParser(text.Bytes, st, false))
	if !slices.Equal(inOpenMetrics, inText) {
		t.Errorf("openmetrics: %v\ntext: %v", inOpenMetrics, inText)
	}
	if p.Series != len(inText) {
		t.Errorf("counted %d series, the page has %d", p.Series, len(inText))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text.Bytes))
	if err != nil {
		t.Fatal(err)
	}
	if got := families["plants_total"].GetHelp(); got != "Plants \"planted\"\nso far, \\o/." {
		t.Errorf("help is now %q", got)
	}
	if !bytes.Contains(om.Bytes, []byte("# UNIT soil_temperature_seconds seconds\n")) {
		t.Error("the unit is lost")
	}
}

func TestNegotiation(t *testing.T) {
	p := compose(t, gathered(t))
	const prom3 = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," +
		"application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4," +
		"text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,text/plain;version=0.0.4;q=0.2,/;q=0.1"
	for name, c := range map[string]struct{ accept, encoding, wantType, wantEncoding string }{
		"nothing": {
			"",
			"",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
		"a browser": {
			"text/html,application/xhtml+xml,*/*;q=0.8",
			"gzip, deflate, br",
			"text/plain; version=0.0.4; charset=utf-8",
			"gzip",
		},
		"prometheus 2": {
			"application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
			"gzip",
			"application/openmetrics-text; version=1.0.0; charset=utf-8",
			"gzip",
		},
		"prometheus 3": {
			prom3,
			"gzip",
			"application/openmetrics-text; version=1.0.0; charset=utf-8",
			"gzip",
		},
		"protobuf only": {
			"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
			"",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
		"old openmetrics": {
			"application/openmetrics-text;version=0.0.1",
			"",
			"application/openmetrics-text; version=0.0.1; charset=utf-8",
			"",
		},
		"text preferred": {
			"application/openmetrics-text;version=1.0.0;q=0.1,text/plain;version=0.0.4;q=0.9",
			"",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
		"prometheus, zstd": {
			prom3,
			"zstd,gzip",
			"application/openmetrics-text; version=1.0.0; charset=utf-8",
			"zstd",
		},
		"today's browser": {
			"text/html,*/*;q=0.8",
			"gzip, deflate, br, zstd",
			"text/plain; version=0.0.4; charset=utf-8",
			"zstd",
		},
		"gzip before zstd": {
			"",
			"zstd;q=0.5, gzip",
			"text/plain; version=0.0.4; charset=utf-8",
			"gzip",
		},
		"zstd refused": {
			"",
			"zstd;q=0, *",
			"text/plain; version=0.0.4; charset=utf-8",
			"gzip",
		},
		"zstd by other names": {
			"",
			"dcz-zstd, x-zstd, *",
			"text/plain; version=0.0.4; charset=utf-8",
			"gzip",
		},
		"gzip refused": {
			"",
			"gzip;q=0, *",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
		"refused oddly": {
			"",
			"gzip; level=1 ;Q = 0",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
		"everything but": {
			"",
			"identity;q=0.5, *;q=0.1",
			"text/plain; version=0.0.4; charset=utf-8",
			"gzip",
		},
		"weight is no weight": {
			"",
			"gzip;q=much",
			"text/plain; version=0.0.4; charset=utf-8",
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h := http.Header{"Accept": {c.accept}, "Accept-Encoding": {c.encoding}}
			got := p.Negotiate(h)
			if again := p.Negotiate(h); again.ContentType != got.ContentType || again.ContentEncoding != got.ContentEncoding ||
				!bytes.Equal(again.Bytes, got.Bytes) {
				t.Errorf("asked again: got %q, %q; want %q, %q",
					again.ContentType, again.ContentEncoding, got.ContentType, got.ContentEncoding)
			}
			if got.ContentType != c.wantType || got.ContentEncoding != c.wantEncoding {
				t.Errorf("got %q, %q; want %q, %q", got.ContentType, got.ContentEncoding, c.wantType, c.wantEncoding)
			}
			body := unpack(t, got.ContentEncoding, got.Bytes)
			if isOM := bytes.HasSuffix(body, []byte("# EOF\n")); isOM != strings.Contains(c.wantType, "openmetrics") {
				t.Errorf("the body is not of its type:\n%s", body)
			}
		})
	}
}

// TestRequestsAreRememberedWithinBounds asks in more ways than are remembered, and at once.
func TestRequestsAreRememberedWithinBounds(t *testing.T) {
	var choices Choices
	var group sync.WaitGroup
	for i := range 4 * maxChoices {
		group.Go(func() {
			weight := fmt.Sprintf("0.%d", i+1)
			for _, h := range []http.Header{
				{"Accept": {"application/openmetrics-text;q=" + weight}, "Accept-Encoding": {""}},
				{"Accept": {"text/plain;q=" + weight}, "Accept-Encoding": {"gzip;q=" + weight}},
			} {
				if got, want := choices.Of(h), Choose(h); got != want {
					t.Errorf("%v: got %v, want %v", h, got, want)
				}
			}
		})
	}
	group.Wait()
	kept := choices.known.Load()
	if n := len(*kept); n == 0 || n > maxChoices {
		t.Errorf("remembered %d requests, want at most %d", n, maxChoices)
	}
	choices.Of(http.Header{"Accept": {strings.Repeat("x", maxAsked+1)}, "Accept-Encoding": {"gzip"}})
	if choices.known.Load() != kept {
		t.Error("a header that is too long is remembered")
	}
}

func TestFamiliesOfOneNameBecomeOne(t *testing.T) {
	own := Family{
		Name:        "up",
		Type:        model.MetricTypeGauge,
		Help:        "First.",
		Series:      1,
		Text:        []byte("up{a=\"1\"} 1\n"),
		OpenMetrics: []byte("up{a=\"1\"} 1\n"),
	}
	other := Family{
		Name:        "up",
		Type:        model.MetricTypeGauge,
		Help:        "Second.",
		Series:      1,
		Text:        []byte("up{a=\"2\"} 1\n"),
		OpenMetrics: []byte("up{a=\"2\"} 1\n"),
	}
	p := compose(t, []Family{own}, []Family{other})
	want := "# HELP up First.\n# TYPE up gauge\nup{a=\"1\"} 1\nup{a=\"2\"} 1\n"
	if got := string(p.Negotiate(http.Header{}).Bytes); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCounterWithoutTotalIsAnError(t *testing.T) {
	r := prometheus.NewRegistry()
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "plants", Help: "Plants."})
	r.MustRegister(c)
	mfs, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := FromGathered(mfs); err == nil || !strings.Contains(err.Error(), "_total") {
		t.Errorf("got %v, want an error that names the rule", err)
	}
}

// TestLastLinesAreThoseOfTheirPage adds lines to pages in every encoding: what comes out is the page with those lines before its end.
func TestLastLinesAreThoseOfTheirPage(t *testing.T) {
	late := Family{
		Name: Late,
		Type: model.MetricTypeGauge,
		Unit: "seconds",
		Help: "The time.",
	}
	foreign := Family{
		Name:        Late,
		Type:        model.MetricTypeGauge,
		Series:      1,
		Text:        []byte(Late + "{target=\"b\"} 1\n"),
		OpenMetrics: []byte(Late + "{target=\"b\"} 1\n"),
	}
	const line = Late + " 1700000000.123\n"
	for name, p := range map[string]*Page{
		"alone": compose(t, []Family{late}), "others": compose(t, append(gathered(t), late)),
		"a foreign one": compose(t, append(gathered(t), late), []Family{foreign}),
	} {
		for _, accept := range []string{"", "application/openmetrics-text;version=1.0.0"} {
			whole := string(p.Negotiate(http.Header{"Accept": {accept}}).Bytes)
			want := strings.TrimSuffix(whole, end) + line
			if accept != "" {
				want += end
			}
			if again := strings.LastIndex(want, "# TYPE"); !strings.HasPrefix(want[again:], "# TYPE "+Late+" ") {
				t.Errorf("%s, %q: the family is not the last one:\n%s", name, accept, want)
			}
			for _, encoding := range []string{"", "gzip", "zstd"} {
				body := p.Negotiate(http.Header{"Accept": {accept}, "Accept-Encoding": {encoding}})
				before := bytes.Clone(body.Bytes)
				kept, last := body.With([]byte(line))
				got := unpack(t, encoding, slices.Concat(kept, last))
				if string(got) != want {
					t.Errorf("%s, %q, %q: got\n%s\nwant\n%s", name, accept, encoding, got, want)
				}
				if !bytes.Equal(before, body.Bytes) {
					t.Errorf("%s, %q, %q: the page has changed", name, accept, encoding)
				}
			}
		}
	}
}
