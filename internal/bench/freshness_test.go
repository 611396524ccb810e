package bench

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	toolkit "github.com/prometheus/exporter-toolkit/web"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/app"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// freshness is how old the data of targets are when Prometheus scrapes them: before is without regard to when it comes, after
// is once its rhythm is known. Ages are in seconds, polls the readings of all targets in the same time.
type freshness struct {
	Targets      int     `json:"targets"`
	Interval     float64 `json:"interval_seconds"`
	Hours        float64 `json:"hours"`
	MedianBefore float64 `json:"median_before_seconds"`
	P99Before    float64 `json:"p99_before_seconds"`
	MedianAfter  float64 `json:"median_after_seconds"`
	P99After     float64 `json:"p99_after_seconds"`
	PollsBefore  int     `json:"polls_before"`
	PollsAfter   int     `json:"polls_after"`
}

const (
	// freshInterval is the time between two readings of a target, and between two scrapes, as it is shipped.
	freshInterval = 30 * time.Second
	// freshTargets is how many targets there are, freshTakes how long a reading of one takes, each a little longer
	// than the one before.
	freshTargets = 6
	freshTakes   = 10 * time.Millisecond
)

var freshHours = flag.Int("freshness.hours", 1, "how many hours of scrapes are simulated")

// simulateFreshness has two pollers asked at the same moments, of which one is told. Time is that of a bubble: whole
// hours pass in seconds, the learning at their beginning is part of them, and nothing depends on the machine.
func simulateFreshness(t *testing.T, during time.Duration) freshness {
	t.Helper()
	f := freshness{Targets: freshTargets, Interval: freshInterval.Seconds(), Hours: during.Hours()}
	var ages [2][]float64
	var polls [2]int
	for i, told := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) { ages[i], polls[i] = simulateScrapes(t, during, told) })
	}
	f.MedianBefore, f.P99Before, f.PollsBefore = quantileOf(ages[0], 0.5), quantileOf(ages[0], 0.99), polls[0]
	f.MedianAfter, f.P99After, f.PollsAfter = quantileOf(ages[1], 0.5), quantileOf(ages[1], 0.99), polls[1]
	return f
}

// simulateScrapes returns how old each target's data were at each scrape, and how many readings were made.
func simulateScrapes(t *testing.T, during time.Duration, told bool) (ages []float64, polls int) {
	t.Helper()
	var targets []poll.Target
	for i := range freshTargets {
		takes := time.Duration(i+1) * freshTakes
		targets = append(targets, poll.Target{
			Name: fmt.Sprintf("target_%d", i), Schedule: cron.Every(freshInterval), Timeout: 10 * time.Second,
			Collector: sleeper(takes),
		})
	}
	poller, err := poll.New(targets, prometheus.NewRegistry(), slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); poller.Run(ctx) }()
	// Where in the interval Prometheus comes is a matter of its own hash.
	scrapes := time.NewTicker(freshInterval)
	defer scrapes.Stop()
	first := time.NewTimer(freshInterval / 3)
	defer first.Stop()
	<-first.C
	scrapes.Reset(freshInterval)
	for {
		select {
		case <-ctx.Done():
			<-ended
			for _, s := range poller.Snapshot().Statuses {
				polls += int(s.Attempts) //nolint:gosec // a few thousand
			}
			return ages, polls
		case now := <-scrapes.C:
			if told {
				poller.Scraped("prometheus", now)
			}
			for _, s := range poller.Snapshot().Statuses {
				ages = append(ages, now.Sub(s.LastSuccess).Seconds())
			}
		}
	}
}

// sleeper is a collector that finds nothing, after that time.
type sleeper time.Duration

// Collect implements collectors.Collector.
func (s sleeper) Collect(ctx context.Context, _ *collectors.Batch) error {
	timer := time.NewTimer(time.Duration(s))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// quantileOf is the value below which that share of the values lies; 0 of none.
func quantileOf(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(share*float64(len(sorted)-1))]
}

// TestDataAreFresherAtTheSameNumberOfReadings holds what the page of figures claims. With -freshness.hours=24 it prints those
// of a whole day.
func TestDataAreFresherAtTheSameNumberOfReadings(t *testing.T) {
	f := simulateFreshness(t, time.Duration(*freshHours)*time.Hour)
	t.Logf("median age %.2f s before, %.2f s after; p99 %.2f s before, %.2f s after; %d readings before, %d after",
		f.MedianBefore, f.MedianAfter, f.P99Before, f.P99After, f.PollsBefore, f.PollsAfter)
	if f.MedianBefore < 8 || f.MedianBefore > 22 {
		t.Errorf("median age before = %.2f s, want about half an interval", f.MedianBefore)
	}
	if f.MedianAfter >= 2 {
		t.Errorf("median age after = %.2f s, want under 2 s", f.MedianAfter)
	}
	// Each target's readings come late by one interval in all, while they find their place.
	if f.PollsAfter > f.PollsBefore+freshTargets || f.PollsAfter < f.PollsBefore-2*freshTargets {
		t.Errorf("readings after = %d, before = %d, want as many", f.PollsAfter, f.PollsBefore)
	}
}

// BenchmarkFreshness scrapes a whole exporter before the simulated stack, over loopback and at short intervals. It takes a
// minute, and tells the ages that a scraper found which the exporter knows, and those that one found which it does not.
func BenchmarkFreshness(b *testing.B) {
	const (
		interval = 3 * time.Second
		learning = 8 // scrapes
		counted  = 8
	)
	for _, c := range []struct {
		name   string
		header http.Header
	}{
		{"spread", http.Header{}},
		{"locked", http.Header{"X-Prometheus-Scrape-Timeout-Seconds": {"1"}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			url := startExporter(b, interval)
			var ages []float64
			var polls float64
			for b.Loop() {
				ages, polls = nil, 0
				scrapes := time.NewTicker(interval)
				begun := 0.0
				for n := range learning + counted {
					now := <-scrapes.C
					page := getPage(b, url, c.header)
					attempts := sum(valuesOf(b, page, "chatstack_probe_attempts_total{"))
					if n < learning {
						begun = attempts
						continue
					}
					polls = attempts - begun
					for _, last := range valuesOf(b, page, "chatstack_probe_last_success_timestamp_seconds{") {
						ages = append(ages, float64(now.UnixMilli())/1000-last)
					}
				}
				scrapes.Stop()
			}
			b.ReportMetric(quantileOf(ages, 0.5), "median-age-s")
			b.ReportMetric(quantileOf(ages, 0.99), "p99-age-s")
			b.ReportMetric(polls, "readings")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// startExporter runs an exporter before a simulated stack until the benchmark ends, and returns the address of its page.
func startExporter(b *testing.B, interval time.Duration) string {
	b.Helper()
	stack, err := simstack.Start(simstack.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := stack.Close(); err != nil {
			b.Error(err)
		}
	})
	env := stack.Environ()
	address, none := []string{"127.0.0.1:0"}, ""
	a, err := app.New(app.Options{
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Web:    &toolkit.FlagConfig{WebListenAddresses: &address, WebConfigFile: &none},
		Log:    slog.New(slog.DiscardHandler),
	}.WithPace(interval, 2*time.Second))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	return "http://" + a.Addresses()[0].String() + "/metrics"
}

func getPage(b *testing.B, url string, header http.Header) []byte {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Header = header.Clone()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		b.Fatal(err)
	}
	return page
}

// valuesOf are the values of the lines of a page that begin so.
func valuesOf(b *testing.B, page []byte, prefix string) (values []float64) {
	b.Helper()
	for line := range bytes.Lines(page) {
		if !bytes.HasPrefix(line, []byte(prefix)) {
			continue
		}
		fields := strings.Fields(string(line))
		v, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			b.Fatal(err)
		}
		values = append(values, v)
	}
	return values
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}
