package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

const (
	openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"
	textType        = "text/plain; version=0.0.4"
)

// upstreamPage is a page of n series or a few more in the mix that servers have: gauges, counters and histograms.
func upstreamPage(n int) (openMetrics, text []byte) {
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

// contender is one way to do something, measured in turn with the others: what else the machine does hits all of them.
type contender struct {
	name string
	do   func()

	times []time.Duration
	bytes uint64
}

// run lets the contender do its work once.
func (c *contender) run() {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	c.do()
	c.times = append(c.times, time.Since(start))
	runtime.ReadMemStats(&after)
	c.bytes += after.TotalAlloc - before.TotalAlloc
}

// quantile is one of the times, which it sorts.
func quantile(times []time.Duration, q float64) time.Duration {
	slices.Sort(times)
	return times[min(int(q*float64(len(times))), len(times)-1)]
}

// BenchmarkRead measures what a poll does with a metrics page. read makes families of it that are written out in both
// formats, as Read does for other people's pages; beside it is what the same takes with expfmt, in both formats and in
// one, and textparse alone, which writes nothing. compose is what comes behind read in a poll of which every value has
// changed: the page in both formats, plain and compressed. Numbers are medians for one series.
func BenchmarkRead(b *testing.B) {
	for _, n := range sizes {
		om, text := upstreamPage(n)
		page := openmetrics.Read(om, openMetricsType, openmetrics.Options{})
		if len(page.Drops) > 0 {
			b.Fatal(page.Drops)
		}
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			var composer exposition.Composer
			turns := [][]exposition.Family{page.Families, otherValues(page.Families)}
			contenders := []*contender{
				{name: "read", do: func() { openmetrics.Read(om, openMetricsType, openmetrics.Options{}) }},
				{name: "readtext", do: func() { openmetrics.Read(text, textType, openmetrics.Options{}) }},
				{name: "expfmt", do: func() { throughExpfmt(b, text, true) }},
				{name: "expfmtone", do: func() { throughExpfmt(b, text, false) }},
				{name: "textparse", do: func() { throughTextparse(b, om) }},
				{name: "compose", do: func() {
					mustCompose(b, &composer, turns[0])
					turns[0], turns[1] = turns[1], turns[0]
				}},
			}
			for b.Loop() {
				for _, c := range contenders {
					c.run()
				}
			}
			b.ReportMetric(0, "ns/op")
			for _, c := range contenders {
				b.ReportMetric(float64(quantile(c.times, 0.5))/float64(page.Series), c.name+"-ns/series")
				b.ReportMetric(float64(c.bytes)/float64(len(c.times))/float64(page.Series), c.name+"-B/series")
			}
			b.ReportMetric(float64(quantile(contenders[2].times, 0.5))/float64(quantile(contenders[0].times, 0.5)), "expfmt/read")
		})
	}
}

// otherValues are the same families, in which every sample has another value.
func otherValues(families []exposition.Family) []exposition.Family {
	other := slices.Clone(families)
	for i := range other {
		f := &other[i]
		f.Text = bytes.ReplaceAll(f.Text, []byte("\n"), []byte("1\n"))
		f.OpenMetrics = f.Text
	}
	return other
}

func mustCompose(b *testing.B, c *exposition.Composer, sources ...[]exposition.Family) {
	b.Helper()
	if _, clashes, err := c.Compose(sources...); err != nil || len(clashes) > 0 {
		b.Fatalf("compose: clashes %v, error %v", clashes, err)
	}
}

// BenchmarkCompose is what a new page costs when a small target has changed beside a large one, with what is kept of the
// page before and without.
func BenchmarkCompose(b *testing.B) {
	for _, n := range sizes {
		om, _ := upstreamPage(n)
		large := openmetrics.Read(om, openMetricsType, openmetrics.Options{}).Families
		small := func(value int) []exposition.Family {
			line := fmt.Appendf(nil, "chatstack_probe_success{target=\"small\"} %d\n", value)
			return []exposition.Family{{Name: "chatstack_probe_success", Type: model.MetricTypeGauge, Series: 1, Text: line, OpenMetrics: line}}
		}
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			var composer exposition.Composer
			mustCompose(b, &composer, small(0), large)
			i := 0
			kept := &contender{name: "kept", do: func() { i++; mustCompose(b, &composer, small(i), large) }}
			anew := &contender{name: "anew", do: func() { mustCompose(b, new(exposition.Composer), small(i), large) }}
			for b.Loop() {
				kept.run()
				anew.run()
			}
			b.ReportMetric(0, "ns/op")
			for _, c := range []*contender{kept, anew} {
				b.ReportMetric(float64(quantile(c.times, 0.5))/1e6, c.name+"-ms")
				b.ReportMetric(float64(c.bytes)/float64(len(c.times)), c.name+"-B")
			}
		})
	}
}

// throughExpfmt reads a text page and writes it as OpenMetrics, and as text too where both is set.
func throughExpfmt(b *testing.B, page []byte, both bool) {
	b.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		b.Fatal(err)
	}
	var om, text bytes.Buffer
	om.Grow(2 * len(page))
	if both {
		text.Grow(2 * len(page))
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToOpenMetrics(&om, family); err != nil {
			b.Fatal(err)
		}
		if !both {
			continue
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
