// Package bench measures what matters to those who run the exporter: what a scrape costs, and what a poll costs.
// Compare numbers within one run only.
package bench

import (
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

// metricsAccept is what Prometheus accepts.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

var discardLog = slog.New(slog.DiscardHandler)

// seriesCollector makes n series in families of a hundred, as a busy upstream has them.
type seriesCollector []*prometheus.Desc

func newSeriesCollector(n int) (c seriesCollector) {
	for i := range n / 100 {
		c = append(c, prometheus.NewDesc(fmt.Sprintf("chatstack_bench_family_%d", i), "Series, for a benchmark.", []string{"host", "number"}, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c seriesCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c seriesCollector) Collect(ch chan<- prometheus.Metric) {
	for i, d := range c {
		for n := range 100 {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(i*n)+0.5, "chat.example.org", fmt.Sprint(n))
		}
	}
}

// source is a poller as the metrics page wants it; nothing else is asked.
type source struct {
	web.Source
	poller *poll.Poller
}

func (s source) Snapshot() *poll.Snapshot { return s.poller.Snapshot() }

// servePage serves n series the way of ours, from the page that is kept, and of promhttp, which encodes them for each scrape.
func servePage(n int) (ours, theirs http.Handler, poller *poll.Poller, err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(newSeriesCollector(n))
	poller, err = poll.New(nil, registry, discardLog, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	return web.New(source{poller: poller}, web.Options{}), promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}), poller, nil
}

// discard is a response that nobody reads.
type discard struct {
	header http.Header
	bytes  int
}

func (d *discard) Header() http.Header { return d.header }
func (d *discard) WriteHeader(int)     {}
func (d *discard) Write(p []byte) (int, error) {
	d.bytes += len(p)
	return len(p), nil
}

// BenchmarkScrape is one GET /metrics without the network, of ours and of promhttp.
func BenchmarkScrape(b *testing.B) {
	for _, n := range sizes {
		ours, theirs, _, err := servePage(n)
		if err != nil {
			b.Fatal(err)
		}
		for _, encoding := range []string{"identity", "gzip"} {
			for name, handler := range map[string]http.Handler{"kept": ours, "promhttp": theirs} {
				b.Run(fmt.Sprintf("series=%d/%s/%s", n, encoding, name), func(b *testing.B) {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil)
					if err != nil {
						b.Fatal(err)
					}
					req.Header = http.Header{"Accept": {metricsAccept}, "Accept-Encoding": {encoding}}
					w := &discard{header: http.Header{}}
					b.ReportAllocs()
					for b.Loop() {
						clear(w.header)
						w.bytes = 0
						handler.ServeHTTP(w, req)
					}
					b.ReportMetric(float64(w.bytes), "page-B")
				})
			}
		}
	}
}

// BenchmarkPublish is what a change costs: the page composed, encoded and compressed anew.
func BenchmarkPublish(b *testing.B) {
	for _, n := range sizes {
		b.Run(fmt.Sprintf("series=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, _, err := servePage(n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// targetsOf builds the targets of a configuration.
func targetsOf(tb testing.TB, content string, env map[string]string) (targets []poll.Target) {
	tb.Helper()
	cfg, err := config.Load(config.Source{
		File: "exporter.yaml", Content: []byte(content), Kinds: collectors.ConfigKinds(),
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		tb.Fatal(err)
	}
	file, _, err := state.Open("")
	if err != nil {
		tb.Fatal(err)
	}
	for _, settings := range cfg.Targets {
		kind, _ := collectors.KindOf(settings.Common().Kind)
		c, err := kind.New(settings, collectors.Deps{Limits: cfg.Limits, Log: discardLog, State: file.Value(kind.Name)})
		if err != nil {
			tb.Fatal(err)
		}
		targets = append(targets, poll.Target{
			Name: settings.Common().Name, Kind: kind.Name, Collector: c, Schedule: cron.Every(usualInterval), Timeout: time.Minute,
		})
	}
	return targets
}

// stackConfig names the one port that the environment does not: a simulated server has not the port of a real one.
func stackConfig(stack *simstack.Stack) string {
	return fmt.Sprintf("targets:\n  - kind: xmpp_c2s\n    address: %s\n", stack.XMPPClientAddress())
}

// BenchmarkPoll is one reading of each kind of target against the simulated stack, whose own work in the same process
// is part of the number.
func BenchmarkPoll(b *testing.B) {
	stack := simstacktest.Start(b, simstack.Options{})
	for _, target := range targetsOf(b, stackConfig(stack), stack.Environ()) {
		b.Run(target.Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := target.Collector.Collect(b.Context(), &collectors.Batch{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
