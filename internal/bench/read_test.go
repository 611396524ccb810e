package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/openmetrics"
)

const openMetricsType = "application/openmetrics-text; version=1.0.0; charset=utf-8"

// upstreamPage is a page of n series or a few more in the mix that servers have: gauges, counters and histograms. offset is
// added to the values.
func upstreamPage(n, offset int) []byte {
	var b bytes.Buffer
	for family, series := 0, 0; series < n; family++ {
		name, typ := fmt.Sprintf("prosody_mod_%d__things", family), []string{"gauge", "counter", "histogram"}[family%3]
		suffix := map[string]string{"counter": "_total"}[typ]
		fmt.Fprintf(&b, "# HELP %[1]s Things of module %[2]d.\n# TYPE %[1]s %[3]s\n", name, family, typ)
		begun := b.Len()
		for i := range 5 {
			if typ != "histogram" {
				for j := range 4 {
					fmt.Fprintf(&b, "%s%s{host=\"host-%d.chat.test\",kind=\"message\",ip_family=\"ipv%d\"} %d\n",
						name, suffix, i, j, i*family+offset)
				}
				continue
			}
			for _, le := range []string{"0.001", "0.01", "0.1", "1.0", "10.0", "+Inf"} {
				fmt.Fprintf(&b, "%s_bucket{host=\"host-%d.chat.test\",le=\"%s\"} %d\n", name, i, le, i*7+offset)
			}
			fmt.Fprintf(&b, "%[1]s_sum{host=\"host-%[2]d.chat.test\"} %[3]d.123456\n%[1]s_count{host=\"host-%[2]d.chat.test\"} %[3]d\n",
				name, i, i*7+offset)
		}
		series += bytes.Count(b.Bytes()[begun:], []byte("\n"))
	}
	b.WriteString("# EOF\n")
	return b.Bytes()
}

// BenchmarkRead is what a reading of a metrics page costs, and making a page of it.
func BenchmarkRead(b *testing.B) {
	read := func(page []byte) *openmetrics.Page {
		return openmetrics.Read(page, openMetricsType, openmetrics.Options{})
	}
	for _, n := range sizes {
		text := upstreamPage(n, 0)
		page := read(text)
		if len(page.Drops) > 0 {
			b.Fatal(page.Drops)
		}
		small := func(value int) []exposition.Family {
			line := fmt.Appendf(nil, "chatstack_probe_success{target=\"small\"} %d\n", value)
			return []exposition.Family{{
				Name:        "chatstack_probe_success",
				Type:        model.MetricTypeGauge,
				Series:      1,
				Text:        line,
				OpenMetrics: line,
			}}
		}
		for _, c := range []struct {
			name string
			do   func(turn int) error
		}{
			{"read", func(int) error { read(text); return nil }},
			{"read, 20 forms of secrets", func(int) error {
				openmetrics.Read(text, openMetricsType, openmetrics.Options{HoldsSecret: holdsOneOf(20)})
				return nil
			}},
			{"compose gzip", func(turn int) error { return compose("gzip", small(turn), page.Families) }},
			{"compose zstd", func(turn int) error { return compose("zstd", small(turn), page.Families) }},
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

func compose(encoding string, sources ...[]exposition.Family) error {
	page, clashes := exposition.Compose(sources...)
	if len(clashes) > 0 {
		return fmt.Errorf("clashes: %v", clashes)
	}
	page.Negotiate(http.Header{"Accept": {openMetricsType}, "Accept-Encoding": {encoding}})
	return nil
}

// holdsOneOf looks for n made-up secrets, as config.SecretFinder does.
func holdsOneOf(n int) func([]byte) bool {
	forms := make([][]byte, n)
	for i := range forms {
		forms[i] = fmt.Appendf(nil, "%chost-secret-%d", 'a'+i, i)
	}
	return func(text []byte) bool {
		return slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(text, form) })
	}
}
