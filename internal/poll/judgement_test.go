package poll

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestPageTellsOfAThresholdWhenItIsPassed reads seldom, so that no reading has the page made anew at that moment.
func TestPageTellsOfAThresholdWhenItIsPassed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alerts := config.DefaultAlerts()
		var down atomic.Bool
		target := Target{Name: "web", Schedule: every(t, "4m"), Timeout: time.Second, Collector: reader(func(context.Context, *collectors.Batch) error {
			if down.Load() {
				return failure.Errorf(failure.Refused, "it is down")
			}
			return nil
		})}
		p, err := New([]Target{target}, prometheus.NewRegistry(), health.NewJudge(&alerts), slog.New(slog.DiscardHandler), nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); p.Run(ctx) }()
		defer func() { cancel(); <-ended }()
		time.Sleep(time.Second)
		synctest.Wait()
		if !strings.Contains(textOf(p), `chatstack_target_down_seconds{target="web"} 0`) {
			t.Fatalf("it is not up:\n%s", textOf(p))
		}
		down.Store(true)
		problem := func() *health.Problem {
			if problems := p.Snapshot().Judgement.Problems; len(problems) > 0 {
				return &problems[0]
			}
			return nil
		}
		for problem() == nil {
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
		}
		began := problem().Since
		for _, c := range []struct {
			after time.Duration
			want  health.Severity
		}{{2 * time.Minute, health.Pending}, {2*time.Minute + publishInterval, health.Warning}, {5 * time.Minute, health.Warning}, {5*time.Minute + publishInterval, health.Critical}} {
			time.Sleep(time.Until(began.Add(c.after)))
			synctest.Wait()
			if got := problem().Severity; got != c.want {
				t.Errorf("after %s the page says %s, want %s", c.after, got, c.want)
			}
		}
	})
}
