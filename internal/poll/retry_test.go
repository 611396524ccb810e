package poll

import (
	"context"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// twice is a kind with two retries, the first after a second.
var twice = config.Row{Name: "k", Retry: config.Retry{First: time.Second, Most: 2}}

// impatient is a collector that is read again after a failure.
type impatient struct {
	down     atomic.Bool
	readings chan time.Time
}

func (c *impatient) Collect(context.Context, *collectors.Batch) error {
	c.readings <- time.Now()
	if c.down.Load() {
		return failure.Errorf(failure.HTTPStatus, "status 500")
	}
	return nil
}

func TestFailureIsReadAgainSoonerOncePerOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &impatient{readings: make(chan time.Time, 1000)}
		p, stop := start(t, io.Discard, Target{
			Name:      "identity",
			Kind:      twice,
			Schedule:  every(t, "60s"),
			Timeout:   10 * time.Second,
			Collector: c,
		})
		defer stop()
		time.Sleep(time.Second)
		drain := func() int {
			n := len(c.readings)
			for range n {
				<-c.readings
			}
			return n
		}
		if n := drain(); n != 1 {
			t.Errorf("%d readings of a target that is up", n)
		}
		c.down.Store(true)
		time.Sleep(10 * time.Minute)
		if n := drain(); n != 10+2 {
			t.Errorf("%d readings in ten minutes of one outage, want one a minute and two retries", n)
		}
		wantLines(t, textOf(p), `chatstack_probe_failures_total{reason="http_status",target="identity"} 12`)
		c.down.Store(false)
		time.Sleep(2 * time.Minute)
		drain()
		wantLines(t, textOf(p), `chatstack_probe_success{target="identity"} 1`)
	})
}

// TestRetriesWaitTwiceAsLongEachTime has a target that stays down.
func TestRetriesWaitTwiceAsLongEachTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, begin := &impatient{readings: make(chan time.Time, 1000)}, time.Now()
		c.down.Store(true)
		row := config.Row{Name: "k", Retry: config.Retry{First: 2 * time.Second, Most: 4}}
		_, stop := start(t, io.Discard, Target{
			Name:      "identity",
			Kind:      row,
			Schedule:  every(t, "1h"),
			Timeout:   10 * time.Second,
			Collector: c,
		})
		defer stop()
		time.Sleep(10 * time.Minute)
		var at []time.Duration
		for range len(c.readings) {
			at = append(at, (<-c.readings).Sub(begin).Round(time.Second))
		}
		if want := []time.Duration{0, 2 * time.Second, 6 * time.Second, 14 * time.Second, 30 * time.Second}; !slices.Equal(at, want) {
			t.Errorf("readings at %s, want %s", at, want)
		}
	})
}

func TestPassingFaultIsOverInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &impatient{readings: make(chan time.Time, 1000)}
		c.down.Store(true)
		p, stop := start(t, io.Discard, Target{
			Name:      "identity",
			Kind:      twice,
			Schedule:  every(t, "1h"),
			Timeout:   10 * time.Second,
			Collector: c,
		})
		defer stop()
		time.Sleep(500 * time.Millisecond)
		wantLines(t, textOf(p), `chatstack_probe_success{target="identity"} 0`)
		c.down.Store(false)
		time.Sleep(2 * time.Second)
		wantLines(t, textOf(p), `chatstack_probe_success{target="identity"} 1`,
			`chatstack_probe_failures_total{reason="http_status",target="identity"} 1`)
	})
}

func TestSuccessorGoesOnWhereItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := map[string]*atomic.Int32{"same": {}, "changed": {}, "gone": {}}
		target := func(name string, same bool) Target {
			return Target{
				Name:      name,
				Kind:      config.Row{Name: "k"},
				Schedule:  every(t, "30s"),
				Timeout:   time.Second,
				Same:      same,
				Collector: reader(func(context.Context, *collectors.Batch) error { calls[name].Add(1); return nil }),
			}
		}
		first, stop := start(t, io.Discard, target("same", false), target("changed", false), target("gone", false))
		time.Sleep(61 * time.Second)
		stop()
		for name, counter := range calls {
			n := counter.Load()
			if n < 2 || n > 3 {
				t.Errorf("%s: %d readings", name, n)
			}
		}
		second := newPoller(t, first, target("same", true), target("changed", false))
		wantLines(t, textOf(second), `chatstack_probe_success{target="same"} 1`)
		was := calls["same"].Load()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); second.Run(ctx) }()
		time.Sleep(time.Millisecond)
		if calls["same"].Load() != was {
			t.Error("a target that is the same was read out of its rhythm")
		}
		time.Sleep(60 * time.Second)
		cancel()
		<-ended
		if n := calls["same"].Load() - was; n != 2 {
			t.Errorf("%d readings in a minute after the reload, want 2", n)
		}
		status, _ := second.targets[1].view()
		if int32(status.Attempts) != calls["changed"].Load() {
			t.Errorf("changed: %d attempts counted of %d", status.Attempts, calls["changed"].Load())
		}
		if _, ok := second.History("gone"); ok {
			t.Error("gone is still known")
		}
		if h, ok := second.History("same"); !ok || len(h.Last) == 0 || len(h.Last) > maxHistory {
			t.Errorf("history of %d readings", len(h.Last))
		}
	})
}

// TestRetryThatMeetsTheScheduleIsNoOverrun has a target that hangs until its deadline, so that both meet.
func TestRetryThatMeetsTheScheduleIsNoOverrun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard, Target{
			Name:      "identity",
			Kind:      twice,
			Schedule:  every(t, "30s"),
			Timeout:   10 * time.Second,
			Collector: &hanging{},
		})
		defer stop()
		time.Sleep(time.Minute)
		wantLines(t, textOf(p), `chatstack_poll_overruns_total{target="identity"} 0`)
	})
}

// hanging is a collector that obeys its deadline and nothing else, and is read again after a failure.
type hanging struct{}

func (*hanging) Collect(ctx context.Context, _ *collectors.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}
