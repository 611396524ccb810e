package openmetrics

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// benchPage is a page of n series or a few more in the mix that servers have: gauges, counters and histograms.
func benchPage(n int) (openMetrics, text []byte) {
	var om, tx bytes.Buffer
	for family, left := 0, n; left > 0; family++ {
		name := fmt.Sprintf("prosody_mod_%d__things", family)
		switch family % 3 {
		case 0:
			fmt.Fprintf(&om, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s gauge\n", name, family)
			fmt.Fprintf(&tx, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s gauge\n", name, family)
			for i := range 20 {
				line := fmt.Sprintf("%s{host=\"host-%d.chat.test\",type=\"c2s\",ip_family=\"ipv4\"} %d\n", name, i, i*family)
				om.WriteString(line)
				tx.WriteString(line)
				left--
			}
		case 1:
			fmt.Fprintf(&om, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s counter\n", name, family)
			fmt.Fprintf(&tx, "# HELP %[1]s_total Things of module %[2]d.\n# TYPE %[1]s_total counter\n", name, family)
			for i := range 20 {
				line := fmt.Sprintf("%s_total{host=\"host-%d.chat.test\",kind=\"message\"} %d\n", name, i, i*1000003)
				om.WriteString(line)
				tx.WriteString(line)
				left--
			}
		case 2:
			fmt.Fprintf(&om, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s histogram\n", name, family)
			fmt.Fprintf(&tx, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s histogram\n", name, family)
			for i := range 5 {
				for _, le := range []string{"0.001", "0.01", "0.1", "1.0", "10.0", "+Inf"} {
					line := fmt.Sprintf("%s_bucket{host=\"host-%d.chat.test\",le=\"%s\"} %d\n", name, i, le, i*7)
					om.WriteString(line)
					tx.WriteString(line)
					left--
				}
				line := fmt.Sprintf("%[1]s_sum{host=\"host-%[2]d.chat.test\"} %[2]d.123456\n%[1]s_count{host=\"host-%[2]d.chat.test\"} %[3]d\n", name, i, i*7)
				om.WriteString(line)
				tx.WriteString(line)
				left -= 2
			}
		}
	}
	om.WriteString("# EOF\n")
	return om.Bytes(), tx.Bytes()
}

// BenchmarkRead measures reading a page into families that are written out in both formats, beside the way of expfmt,
// and textparse alone, which writes nothing.
func BenchmarkRead(b *testing.B) {
	for _, n := range []int{300, 10_000, 100_000} {
		om, text := benchPage(n)
		series := Read(text, textType, Options{}).Series
		perSeries := func(b *testing.B, read func()) {
			b.Helper()
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(series), "ns/series")
		}
		mustKeep := func(b *testing.B, page []byte, contentType string, o Options) {
			b.Helper()
			if p := Read(page, contentType, o); p.Series != series {
				b.Fatalf("kept %d series of %d: %v", p.Series, series, p.Drops)
			}
		}
		b.Run(fmt.Sprintf("openmetrics/series=%d", n), func(b *testing.B) {
			perSeries(b, func() { mustKeep(b, om, openMetricsType, Options{}) })
		})
		b.Run(fmt.Sprintf("text/series=%d", n), func(b *testing.B) {
			perSeries(b, func() { mustKeep(b, text, textType, Options{}) })
		})
		b.Run(fmt.Sprintf("labelled/series=%d", n), func(b *testing.B) {
			o := Options{Series: 1 << 20, Labels: []Label{{"target", "bridge"}}, DropLabels: []string{"job", "instance"}}
			perSeries(b, func() { mustKeep(b, om, openMetricsType, o) })
		})
		b.Run(fmt.Sprintf("crlf/series=%d", n), func(b *testing.B) {
			crlf := bytes.ReplaceAll(om, []byte("\n"), []byte("\r\n"))
			perSeries(b, func() { mustKeep(b, crlf, openMetricsType, Options{}) })
		})
		b.Run(fmt.Sprintf("expfmt/series=%d", n), func(b *testing.B) {
			perSeries(b, func() { throughExpfmt(b, text) })
		})
		b.Run(fmt.Sprintf("textparse/series=%d", n), func(b *testing.B) {
			perSeries(b, func() { throughTextparse(b, om) })
		})
	}
}

func throughExpfmt(b *testing.B, page []byte) {
	b.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		b.Fatal(err)
	}
	var om, text bytes.Buffer
	om.Grow(2 * len(page))
	text.Grow(2 * len(page))
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&om, family); err != nil {
			b.Fatal(err)
		}
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			b.Fatal(err)
		}
	}
}

func throughTextparse(b *testing.B, page []byte) {
	b.Helper()
	p := textparse.NewOpenMetricsParser(page, labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			b.Fatal(err)
		}
		if entry == textparse.EntrySeries {
			p.Series()
		}
	}
}
