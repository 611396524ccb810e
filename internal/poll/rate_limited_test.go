package poll

import (
	"cmp"
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// connections are when a server was asked.
type connections struct {
	mu    sync.Mutex
	times []time.Time
}

func (c *connections) target(t *testing.T, interval string, takes time.Duration) Target {
	t.Helper()
	return Target{
		Name:     "irc",
		Kind:     config.Row{Name: "irc_tls", LeastInterval: 30 * time.Second},
		Schedule: every(t, interval),
		Timeout:  10 * time.Second,
		Collector: reader(func(context.Context, *collectors.Batch) error {
			c.mu.Lock()
			c.times = append(c.times, time.Now())
			c.mu.Unlock()
			time.Sleep(takes)
			return nil
		}),
	}
}

// shortest is the shortest time between two connections.
func (c *connections) shortest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	least := time.Duration(1 << 62)
	for i := 1; i < len(c.times); i++ {
		least = min(least, c.times[i].Sub(c.times[i-1]))
	}
	return least
}

// throttled counts the connections that a stock UnrealIRCd refuses: it lets in three of an address in 60 s from the first
// one on, and forgets the address up to 5 s later.
func (c *connections) throttled() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	refused, count := 0, 0
	var first time.Time
	for _, at := range c.times {
		if at.Sub(first) > 65*time.Second {
			first, count = at, 0
		}
		if count++; count > 3 {
			refused++
		}
	}
	return refused
}

// TestRateLimitedTargetKeepsItsDistance follows several scrapers whose rhythms change, over reloads that replace the target, and
// with readings that start late.
func TestRateLimitedTargetKeepsItsDistance(t *testing.T) {
	for name, c := range map[string]struct {
		interval string
		takes    time.Duration
		scrapers []visitor
		reload   time.Duration
	}{
		"alone": {interval: "30s"},
		"one scraper": {interval: "30s", scrapers: []visitor{{
			name:   "a",
			period: 30 * time.Second,
			offset: 7 * time.Second,
			jitter: 20 * time.Millisecond,
		}}},
		"several scrapers": {interval: "30s", scrapers: []visitor{
			{name: "a", period: 15 * time.Second, offset: 3 * time.Second},
			{
				name:   "b",
				period: 30 * time.Second,
				offset: 11 * time.Second,
				missed: 20,
			},
			{name: "c", period: 60 * time.Second, offset: 50 * time.Second},
		}},
		"a scraper's drift": {
			interval: "30s",
			scrapers: []visitor{{name: "a", period: 30*time.Second - 2*time.Millisecond, offset: time.Second}},
		},
		"slow readings": {interval: "30s", takes: 8 * time.Second},
		"reloads":       {interval: "30s", reload: 47 * time.Second},
		"many reloads":  {interval: "30s", reload: 4 * time.Second, scrapers: []visitor{{name: "a", period: 30 * time.Second}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked connections
				ctx, cancel := context.WithCancel(t.Context())
				var all sync.WaitGroup
				var mu sync.Mutex
				current := newPoller(t, nil, asked.target(t, c.interval, c.takes))
				poller := func() *Poller { mu.Lock(); defer mu.Unlock(); return current }
				for _, v := range c.scrapers {
					all.Go(func() {
						for due := time.Now().Add(v.offset); ; due = due.Add(v.period) {
							select {
							case <-ctx.Done():
								return
							case <-time.After(time.Until(due)):
								poller().Scraped(v.name, time.Now())
							}
						}
					})
				}
				for begin := time.Now(); time.Since(begin) < time.Hour; {
					round, end := context.WithTimeout(ctx, min(time.Hour-time.Since(begin), cmp.Or(c.reload, time.Hour)))
					poller().Run(round)
					end()
					next := newPoller(t, poller(), asked.target(t, c.interval, c.takes))
					mu.Lock()
					current = next
					mu.Unlock()
				}
				cancel()
				all.Wait()
				if got := asked.shortest(); got < 29900*time.Millisecond {
					t.Errorf("%s between two readings", got)
				}
				if n := asked.throttled(); n > 0 {
					t.Errorf("%d of %d connections throttled", n, len(asked.times))
				}
				if n := len(asked.times); n < 70 {
					t.Errorf("only %d readings in an hour", n)
				}
			})
		})
	}
}

// TestRateLimitedTargetThatWaitsDoesNotHoldBackReadiness: a reload must not take the exporter out of service for 30 s.
func TestRateLimitedTargetThatWaitsDoesNotHoldBackReadiness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked connections
		plain := idle(t, "web", "30s")
		for _, c := range []struct {
			name   string
			target Target
			want   bool
		}{{"sparing", asked.target(t, "30s", 0), true}, {"other", plain, false}} {
			p, stop := start(t, io.Discard, c.target)
			if p.Ready() {
				t.Errorf("%s: ready before the first reading", c.name)
			}
			time.Sleep(time.Second)
			stop()
			reloaded := newPoller(t, p, c.target)
			if got := reloaded.Ready(); got != c.want {
				t.Errorf("%s: ready after a reload that replaces it: %t, want %t", c.name, got, c.want)
			}
		}
	})
}
