package openmetrics

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// ownFamilies stand for those of the exporter itself, which come first on every page.
func ownFamilies() []exposition.Family {
	own := func(name string, kind model.MetricType, lines string) exposition.Family {
		return exposition.Family{
			Name:        name,
			Type:        kind,
			Help:        "Our own \"help\".",
			Series:      bytes.Count([]byte(lines), []byte("\n")),
			Text:        []byte(lines),
			OpenMetrics: []byte(lines),
		}
	}
	return []exposition.Family{
		own("chatstack_probe_success", model.MetricTypeGauge, "chatstack_probe_success{target=\"own\"} 1\n"),
		own("process_cpu_seconds", model.MetricTypeCounter, "process_cpu_seconds_total 1\n"),
		own("go_gc_duration_seconds", model.MetricTypeSummary,
			"go_gc_duration_seconds{quantile=\"0.5\"} 1\ngo_gc_duration_seconds_sum 1\ngo_gc_duration_seconds_count 1\n"),
	}
}

// bodies are a page in both formats, as scrapers get it.
func bodies(p *exposition.Page) (openMetrics, text []byte) {
	return p.Negotiate(http.Header{"Accept": {openMetricsType}}).Bytes, p.Negotiate(http.Header{}).Bytes
}

// checkRoundTrip proves that Prometheus' parsers take the whole of a page, both formats with the same series, and that
// a page which is read and written again is the same.
func checkRoundTrip(t *testing.T, page *exposition.Page) {
	t.Helper()
	om, text := bodies(page)
	inOpenMetrics, inText := parse(t, om, openMetricsType), parse(t, text, textType)
	dropCreated(inOpenMetrics)
	for labels, s := range inText {
		if other, ok := inOpenMetrics[labels]; !ok || other.value != s.value {
			t.Errorf("series %s: got %v in OpenMetrics, want %v as in text", labels, other, s)
		}
	}
	if len(inText) != page.Series || len(inOpenMetrics) != page.Series {
		t.Errorf("series: got %d in text and %d in OpenMetrics, want %d", len(inText), len(inOpenMetrics), page.Series)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	if _, err := parser.TextToMetricFamilies(bytes.NewReader(text)); err != nil {
		t.Errorf("expfmt refuses the text page: %v\n%s", err, text)
	}
	read := Read(om, openMetricsType, Options{})
	if len(read.Drops) > 0 || read.Series != page.Series || !read.Complete {
		t.Errorf("reading the page: got %d series, complete %t, drops %v; want %d, true, none",
			read.Series, read.Complete, read.Drops, page.Series)
	}
	again, clashes := exposition.Compose(read.Families)
	if len(clashes) > 0 {
		t.Fatalf("compose again: clashes %v", clashes)
	}
	omAgain, textAgain := bodies(again)
	if !bytes.Equal(om, omAgain) || !bytes.Equal(text, textAgain) {
		t.Errorf("the page changes when it is read and written again (-first +again):\n%s%s",
			cmp.Diff(string(om), string(omAgain)), cmp.Diff(string(text), string(textAgain)))
	}
}

// FuzzRoundTrip puts two upstreams' pages on one page with our own families, in either order, one page after the other. Whatever comes, the
// page is legal as a whole, and reading it and writing it again keeps everything.
func FuzzRoundTrip(f *testing.F) {
	files, err := filepath.Glob("testdata/hostile/*.*")
	if err != nil {
		f.Fatal(err)
	}
	last := []byte("# TYPE x histogram\nx_bucket{le=\"+Inf\"} 1\nx_count 1\nx_sum 1\n# TYPE y gauge\ny 1\n# EOF\n")
	for _, file := range files {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		body, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(last, body, uint8(3))
		last = body
	}
	f.Add([]byte("x_count 1\ny_total 2\nz_created 3\nchatstack_probe_success 0\ngo_gc_duration_seconds_sum 1"),
		[]byte("# TYPE x summary\nx_sum 1\n# TYPE y gauge\ny 1\n# TYPE z counter\nz_total 1\n# EOF\n"), uint8(2))
	f.Fuzz(func(t *testing.T, first, second []byte, how uint8) {
		contentType := func(bit uint8) string {
			if how&bit != 0 {
				return openMetricsType
			}
			return textType
		}
		one := Read(first, contentType(1), Options{Labels: []exposition.Label{{Name: "target", Value: "one"}}})
		two := Read(second, contentType(2), Options{Labels: []exposition.Label{{Name: "target", Value: "two"}}})
		own := ownFamilies()
		for _, sources := range [][][]exposition.Family{{own, one.Families, two.Families}, {own, two.Families, one.Families}} {
			page, clashes := exposition.Compose(sources...)
			left := page.Series
			for _, c := range clashes {
				left += c.Series
			}
			for _, families := range sources {
				for i := range families {
					left -= families[i].Series
				}
			}
			if left != 0 {
				t.Errorf("%d series are neither on the page nor among the clashes %v", -left, clashes)
			}
			checkRoundTrip(t, page)
		}
	})
}
