package bench

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

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

const openMetricsType, textType = "application/openmetrics-text; version=1.0.0; charset=utf-8", "text/plain; version=0.0.4"

// upstreamPage is a page of n series or a few more in the mix that servers have: gauges, counters and histograms. offset is
// added to the values.
func upstreamPage(n, offset int) (openMetrics, text []byte) {
	var om, tx, lines bytes.Buffer
	for family, series := 0, 0; series < n; family++ {
		name, typ := fmt.Sprintf("prosody_mod_%d__things", family), []string{"gauge", "counter", "histogram"}[family%3]
		suffix := map[string]string{"counter": "_total"}[typ]
		fmt.Fprintf(&om, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s %[3]s\n", name, family, typ)
		fmt.Fprintf(&tx, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s %[3]s\n", name+suffix, family, typ)
		begun := lines.Len()
		for i := range 5 {
			if typ != "histogram" {
				for j := range 4 {
					fmt.Fprintf(&lines, "%s%s{host=\"host-%d.chat.test\",kind=\"message\",ip_family=\"ipv%d\"} %d\n", name, suffix, i, j, i*family+offset)
				}
				continue
			}
			for _, le := range []string{"0.001", "0.01", "0.1", "1.0", "10.0", "+Inf"} {
				fmt.Fprintf(&lines, "%s_bucket{host=\"host-%d.chat.test\",le=\"%s\"} %d\n", name, i, le, i*7+offset)
			}
			fmt.Fprintf(&lines, "%[1]s_sum{host=\"host-%[2]d.chat.test\"} %[3]d.123456\n%[1]s_count{host=\"host-%[2]d.chat.test\"} %[3]d\n", name, i, i*7+offset)
		}
		series += bytes.Count(lines.Bytes()[begun:], []byte("\n"))
		om.Write(lines.Bytes()[begun:])
		tx.Write(lines.Bytes()[begun:])
	}
	om.WriteString("# EOF\n")
	return om.Bytes(), tx.Bytes()
}

// BenchmarkRead is what a poll does with a metrics page. read makes families of it in both formats; beside it are expfmt,
// which does the same, and textparse, which writes nothing. compose then makes the page, of which every value has changed,
// or of which one small target's has.
func BenchmarkRead(b *testing.B) {
	for _, n := range sizes {
		om, text := upstreamPage(n, 0)
		changed, _ := upstreamPage(n, 1)
		page := openmetrics.Read(om, openMetricsType, openmetrics.Options{})
		if len(page.Drops) > 0 {
			b.Fatal(page.Drops)
		}
		turns := [][]exposition.Family{page.Families, openmetrics.Read(changed, openMetricsType, openmetrics.Options{}).Families}
		small := func(value int) []exposition.Family {
			line := fmt.Appendf(nil, "chatstack_probe_success{target=\"small\"} %d\n", value)
			return []exposition.Family{{Name: "chatstack_probe_success", Type: model.MetricTypeGauge, Series: 1, Text: line, OpenMetrics: line}}
		}
		var composer exposition.Composer
		for _, c := range []struct {
			name string
			do   func(turn int) error
		}{
			{"read", func(int) error { openmetrics.Read(om, openMetricsType, openmetrics.Options{}); return nil }},
			{"read text", func(int) error { openmetrics.Read(text, textType, openmetrics.Options{}); return nil }},
			{"expfmt", func(int) error { return throughExpfmt(text) }},
			{"textparse", func(int) error { return throughTextparse(om) }},
			{"compose", func(turn int) error { return compose(&composer, turns[turn%2]) }},
			{"compose beside", func(turn int) error { return compose(&composer, small(turn), page.Families) }},
			{"compose anew", func(turn int) error { return compose(new(exposition.Composer), small(turn), page.Families) }},
		} {
			b.Run(fmt.Sprintf("series=%d/%s", n, c.name), func(b *testing.B) {
				b.ReportAllocs()
				for turn := 0; b.Loop(); turn++ {
					if err := c.do(turn); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(page.Series), "ns/series")
			})
		}
	}
}

func compose(c *exposition.Composer, sources ...[]exposition.Family) error {
	_, clashes, err := c.Compose(sources...)
	if len(clashes) > 0 {
		err = fmt.Errorf("clashes: %v", clashes)
	}
	return err
}

// throughExpfmt reads a text page and writes it in both formats.
func throughExpfmt(page []byte) error {
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	var om, text bytes.Buffer
	om.Grow(2 * len(page))
	text.Grow(2 * len(page))
	for _, family := range families {
		_, omErr := expfmt.MetricFamilyToOpenMetrics(&om, family)
		_, textErr := expfmt.MetricFamilyToText(&text, family)
		err = errors.Join(err, omErr, textErr)
	}
	return err
}

func throughTextparse(page []byte) error {
	p := textparse.NewOpenMetricsParser(page, labels.NewSymbolTable())
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if entry == textparse.EntrySeries {
			p.Series()
		}
	}
}
