// Package bench measures what matters to those who run the exporter: what a scrape costs, and what a poll costs.
// Compare numbers within one run only.
package bench

import (
	"context"
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
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/web"
)

var sizes = []int{300, 10_000, 100_000}

// metricsAccept is what Prometheus accepts.
const metricsAccept = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"

// seriesCollector makes n series in families of a hundred, as a busy upstream has them.
type seriesCollector struct{ descs []*prometheus.Desc }

func newSeriesCollector(n int) *seriesCollector {
	c := &seriesCollector{}
	for i := range n / 100 {
		c.descs = append(c.descs, prometheus.NewDesc(fmt.Sprintf("chatstack_bench_family_%d", i), "Series, for a benchmark.", []string{"host", "number"}, nil))
	}
	return c
}

// Describe implements prometheus.Collector.
func (c *seriesCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *seriesCollector) Collect(ch chan<- prometheus.Metric) {
	for i, d := range c.descs {
		for n := range 100 {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(i*n)+0.5, "chat.example.org", fmt.Sprint(n))
		}
	}
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

// source is a poller as the metrics page wants it; nothing else is asked.
type source struct {
	web.Source
	poller *poll.Poller
}

func (s source) Snapshot() *poll.Snapshot { return s.poller.Snapshot() }

// BenchmarkScrape is one GET /metrics of the page that is kept, and the same series through promhttp, which gathers and
// encodes them for each scrape. The network is left out of both.
func BenchmarkScrape(b *testing.B) {
	for _, n := range sizes {
		registry := prometheus.NewRegistry()
		registry.MustRegister(newSeriesCollector(n))
		poller, err := poll.New(nil, registry, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			b.Fatal(err)
		}
		handlers := []struct {
			name    string
			handler http.Handler
		}{
			{"kept", web.New(source{poller: poller}, web.Options{})},
			{"promhttp", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})},
		}
		for _, encoding := range []string{"identity", "gzip"} {
			for _, h := range handlers {
				b.Run(fmt.Sprintf("series=%d/%s/%s", n, encoding, h.name), func(b *testing.B) {
					req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", nil)
					if err != nil {
						b.Fatal(err)
					}
					req.Header.Set("Accept", "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5")
					req.Header.Set("Accept-Encoding", encoding)
					w := &discard{header: http.Header{}}
					b.ReportAllocs()
					for b.Loop() {
						clear(w.header)
						w.bytes = 0
						h.handler.ServeHTTP(w, req)
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
			registry := prometheus.NewRegistry()
			registry.MustRegister(newSeriesCollector(n))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := poll.New(nil, registry, slog.New(slog.DiscardHandler), nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPoll is one reading of each kind of target against the simulated stack, whose own work in the same process
// is part of the number.
func BenchmarkPoll(b *testing.B) {
	stack, err := simstack.Start(simstack.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := stack.Close(); err != nil {
			b.Error(err)
		}
	}()
	env := stack.Environ()
	// The simulated server has not the port that a real one has.
	content := fmt.Appendf(nil, "targets:\n  - kind: xmpp_c2s\n    address: %s\n", stack.XMPPClientAddress())
	cfg, err := config.Load(config.Source{
		File: "exporter.yaml", Content: content, Kinds: collectors.ConfigKinds(),
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		b.Fatal(err)
	}
	file, _, err := state.Open("")
	if err != nil {
		b.Fatal(err)
	}
	for _, settings := range cfg.Targets {
		kind, _ := collectors.KindOf(settings.Common().Kind)
		collector, err := kind.New(settings, collectors.Deps{Limits: cfg.Limits, Log: slog.New(slog.DiscardHandler), State: file.Value(kind.Name)})
		if err != nil {
			b.Fatal(err)
		}
		b.Run(settings.Common().Name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := collector.Collect(b.Context(), &collectors.Batch{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			readAll(b, cfg, file)
		}
	})
}

// readAll lets a poller read every target once, publish what they said, and stop.
func readAll(b *testing.B, cfg *config.Config, file *state.File) {
	b.Helper()
	var targets []poll.Target
	for _, settings := range cfg.Targets {
		kind, _ := collectors.KindOf(settings.Common().Kind)
		collector, err := kind.New(settings, collectors.Deps{Limits: cfg.Limits, Log: slog.New(slog.DiscardHandler), State: file.Value(kind.Name)})
		if err != nil {
			b.Fatal(err)
		}
		targets = append(targets, poll.Target{
			Name: settings.Common().Name, Kind: kind.Name, Collector: collector,
			Schedule: cron.Every(time.Hour), Timeout: 10 * time.Second,
		})
	}
	poller, err := poll.New(targets, prometheus.NewRegistry(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); poller.Run(ctx) }()
	for !poller.Ready() {
		select {
		case <-time.After(time.Millisecond):
		case <-b.Context().Done():
			b.Fatal(b.Context().Err())
		}
	}
	cancel()
	<-ended
}
