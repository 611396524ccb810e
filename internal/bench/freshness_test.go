package bench

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// freshness is how old the data of targets are when Prometheus scrapes them, in seconds: before is without regard to when it
// comes, after is once its rhythm is known. Polls are the readings of all targets in the same time.
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
	freshTargets = 6
	// freshTakes is how long a reading of the first target takes; each next one takes as much longer.
	freshTakes = 10 * time.Millisecond
)

var freshHours = flag.Int("freshness.hours", 1, "how many hours of scrapes are simulated")

// simulateFreshness has two pollers scraped at the same moments, of which one is told. Whole hours pass in seconds, in a
// synctest bubble each, and the time until the rhythm is known counts.
func simulateFreshness(t *testing.T, during time.Duration) freshness {
	t.Helper()
	f := freshness{Targets: freshTargets, Interval: usualInterval.Seconds(), Hours: during.Hours()}
	simulate := func(told bool) (middle, p99 float64, polls int) {
		synctest.Test(t, func(t *testing.T) {
			var ages []float64
			ages, polls = simulateScrapes(t, during, told)
			middle, p99 = median(ages), quantile(ages, 0.99)
		})
		return middle, p99, polls
	}
	f.MedianBefore, f.P99Before, f.PollsBefore = simulate(false)
	f.MedianAfter, f.P99After, f.PollsAfter = simulate(true)
	return f
}

// simulateScrapes returns how old each target's data were at each scrape, and how many readings were made.
func simulateScrapes(t *testing.T, during time.Duration, told bool) (ages []float64, polls int) {
	t.Helper()
	var targets []poll.Target
	for i := range freshTargets {
		targets = append(targets, poll.Target{
			Name:      fmt.Sprintf("target_%d", i),
			Schedule:  cron.Every(usualInterval),
			Timeout:   10 * time.Second,
			Collector: sleeper(time.Duration(i+1) * freshTakes),
		})
	}
	poller, err := poll.New(targets, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), during)
	defer cancel()
	ended := make(chan struct{})
	go func() { defer close(ended); poller.Run(ctx) }()
	// Where in the interval Prometheus comes is a matter of its own hash.
	time.Sleep(usualInterval / 3)
	scrapes := time.NewTicker(usualInterval)
	defer scrapes.Stop()
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
	select {
	case <-time.After(time.Duration(s)):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// TestDataAreFresherAtTheSameNumberOfReadings holds what the page of figures claims. With -freshness.hours=24 it prints those
// of a whole day.
func TestDataAreFresherAtTheSameNumberOfReadings(t *testing.T) {
	f := simulateFreshness(t, time.Duration(*freshHours)*time.Hour)
	t.Logf("%+v", f)
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
