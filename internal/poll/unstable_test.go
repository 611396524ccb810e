package poll

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

// missed are the failed readings of a poller's only target that its schedule asked for.
func missed(p *Poller) (failed uint64, every time.Duration) {
	_, _, facts := p.targets[0].viewAll()
	return facts.Failed, facts.Every
}

// TestOnlyScheduledReadingsCount has a target that is read again after a failure, and hangs for good in the end.
func TestOnlyScheduledReadingsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &impatient{readings: make(chan time.Time, 1000)}
		c.down.Store(true)
		target := Target{
			Name:      "identity",
			Kind:      twice,
			Schedule:  every(t, "60s"),
			Timeout:   10 * time.Second,
			Collector: c,
		}
		p, stop := start(t, io.Discard, target)
		time.Sleep(10 * time.Second)
		if n, _ := missed(p); n != 0 || len(c.readings) != 3 {
			t.Errorf("%d of %d readings count, want none of a first one and two retries", n, len(c.readings))
		}
		time.Sleep(10 * time.Minute)
		n, interval := missed(p)
		if n != 10 || interval != time.Minute {
			t.Errorf("%d failures in ten minutes of one reading in %s, want 10 of one in 1m0s", n, interval)
		}
		stop()

		target.Collector = reader(func(context.Context, *collectors.Batch) error { <-t.Context().Done(); return nil })
		next := newPoller(t, p, target)
		if n, _ := missed(next); n != 10 {
			t.Errorf("%d failures after a reload, want those 10 from before", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); next.Run(ctx) }()
		time.Sleep(10*time.Minute + 10*time.Second)
		if n, _ := missed(next); n != 20 {
			t.Errorf("%d failures after ten minutes in which the first reading hangs, want 10 more", n)
		}
		cancel()
		<-ended
	})
}

// TestPaceIsThatOfTheLastHour holds how often a schedule asked for a reading.
func TestPaceIsThatOfTheLastHour(t *testing.T) {
	for _, c := range []struct {
		schedule, at string
		want         time.Duration
	}{
		{"@every 7m", "12:00", 7 * time.Minute},
		{"*/5 * * * *", "12:00", 5 * time.Minute},
		{"*/5 * * * *", "12:04", 5 * time.Minute},
		{"* * * * *", "12:00", time.Minute},
		{"0,1,2,30 * * * *", "12:10", 15 * time.Minute},
		{"0 3 * * *", "03:00", time.Hour},
		{"0 3 * * *", "04:00", 0},
		{"*/10 8-17 * * *", "08:25", 20 * time.Minute},
		{"0 0 30 2 *", "12:00", 0}, // never
	} {
		at, err := time.Parse("15:04", c.at)
		must(t, err)
		schedule, err := cron.ParseStandard(c.schedule)
		must(t, err)
		tg := &target{Target: Target{Schedule: schedule}}
		if got := tg.scheduledInterval(at.AddDate(2026, 0, 0)); got != c.want {
			t.Errorf("%s at %s: one reading in %s, want %s", c.schedule, c.at, got, c.want)
		}
		tg.Schedule = &paced{every: 7 * time.Minute}
		if got := tg.scheduledInterval(at); got != 7*time.Minute {
			t.Errorf("of a paced schedule, one reading in %s", got)
		}
	}
}
