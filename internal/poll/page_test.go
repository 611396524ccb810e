package poll

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// gate is a Gatherer that counts its calls, and waits while it is shut. Each page gathers once.
type gate struct {
	calls atomic.Int32
	shut  atomic.Pointer[chan struct{}]
}

func (g *gate) Gather() ([]*dto.MetricFamily, error) {
	g.calls.Add(1)
	if shut := g.shut.Load(); shut != nil {
		<-*shut
	}
	return nil, nil
}

func (g *gate) close() (open func()) {
	shut := make(chan struct{})
	g.shut.Store(&shut)
	return func() { g.shut.Store(nil); close(shut) }
}

// startGated runs a poller over an idle target whose pages have to pass the gate.
func startGated(t *testing.T, g *gate) (*Poller, func()) {
	t.Helper()
	p, err := New([]Target{idle(t, "a", "30s")}, g, nil, slog.New(slog.DiscardHandler), nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	return p, func() { cancel(); running.Wait() }
}

// TestADayWithRareScrapesOrNone is healthy throughout, makes no page for nobody, and serves no old one.
func TestADayWithRareScrapesOrNone(t *testing.T) {
	for _, scrapes := range []time.Duration{0, 15 * time.Second, 2 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			var g gate
			p, stop := startGated(t, &g)
			defer stop()
			first, asked := g.calls.Load(), int32(0)
			var oldest time.Duration
			for begin := time.Now(); time.Since(begin) < 24*time.Hour; {
				time.Sleep(cmp.Or(scrapes, time.Minute))
				if err := p.Alive(); err != nil {
					t.Fatalf("scrapes every %s: %v", scrapes, err)
				}
				if scrapes > 0 {
					p.Scraped("prometheus", time.Now())
					asked++
					oldest = max(oldest, time.Since(shownHeartbeat(t, p)))
				}
			}
			if made := g.calls.Load() - first; made > asked || scrapes > 0 && made < asked/2 {
				t.Errorf("scrapes every %s: %d pages for %d requests", scrapes, made, asked)
			}
			if oldest > 2*heartbeatInterval+publishInterval {
				t.Errorf("scrapes every %s: a heartbeat of %s ago was served", scrapes, oldest)
			}
			wantLines(t, textOf(p), `chatstack_probe_success{target="a"} 1`)
			if attempts := p.Snapshot().Statuses[0].Attempts; attempts < 2870 || attempts > 2890 {
				t.Errorf("scrapes every %s: %d probes in a day, want one every 30 s", scrapes, attempts)
			}
		})
	}
}

// TestEachSnapshotHasOnePage asks in bursts, in several encodings at once.
func TestEachSnapshotHasOnePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		p, stop := startGated(t, &g)
		defer stop()
		time.Sleep(time.Second)
		before, snapshots := g.calls.Load(), 0
		var last *Snapshot
		for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if s := p.Snapshot(); s != last {
				last, snapshots = s, snapshots+1
			}
			var requests sync.WaitGroup
			for _, h := range []http.Header{nil, nil, {"Accept-Encoding": {"gzip"}}, {"Accept": {"application/openmetrics-text"}}} {
				requests.Go(func() {
					page := p.Page(h)
					if page.ContentEncoding != h.Get("Accept-Encoding") {
						t.Errorf("%v: got a page in %q", h, page.ContentEncoding)
					}
				})
			}
			requests.Wait()
		}
		if got := int(g.calls.Load() - before); got != snapshots {
			t.Errorf("%d pages of %d snapshots, want one of each", got, snapshots)
		}
	})
}

// TestBlockedPageIsSeen blocks whoever makes the page: requests get the last one while it is fresh, then one without values, on which
// the heartbeat stands still. No request piles up.
func TestBlockedPageIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g gate
		p, stop := startGated(t, &g)
		defer stop()
		time.Sleep(time.Second)
		heartbeat, calls := shownHeartbeat(t, p), g.calls.Load()
		open := g.close()
		time.Sleep(40 * time.Second)
		if err := p.Alive(); err != nil {
			t.Errorf("before anybody asked: %v", err)
		}
		made, blocked := time.Now().Add(-40*time.Second), time.Now()
		for time.Since(blocked) < time.Minute {
			asked := time.Now()
			page := textOf(p)
			wait, values, want := longPageWait, false, blocked
			if asked.Sub(made) <= maxServedAge {
				wait = pageWait
			}
			if time.Since(made) <= maxServedAge {
				values, want = true, heartbeat
			}
			if got := time.Since(asked); got != wait {
				t.Errorf("after %v: waited for %v, want %v", asked.Sub(made), got, wait)
			}
			if got := strings.Contains(page, "chatstack_probe_success"); got != values {
				t.Errorf("after %v: a page with values: %t, want %t", time.Since(made), got, values)
			}
			if !values && !strings.Contains(page, "chatstack_exporter_build_info") {
				t.Error("the page without values lacks the build, so ExporterDown would fire too")
			}
			if got := heartbeatOn(t, page); !got.Equal(want) && values || got.After(want) {
				t.Errorf("after %v: the heartbeat of %v, want at most that of %v", time.Since(made), got, want)
			}
			if err := p.Alive(); (err != nil && strings.Contains(err.Error(), "metrics page")) != (time.Since(blocked) > pageStalledAfter) {
				t.Errorf("%v after the request: %v", time.Since(blocked), err)
			}
		}
		if got := g.calls.Load() - calls; got != 1 {
			t.Errorf("%d pages are being made at once, want 1", got)
		}
		asked := time.Now()
		p.Page(http.Header{"X-Prometheus-Scrape-Timeout-Seconds": {"1"}})
		if got := time.Since(asked); got != 800*time.Millisecond {
			t.Errorf("a scraper with a timeout of a second waited for %v", got)
		}
		open()
		synctest.Wait()
		if shown := shownHeartbeat(t, p); time.Since(shown) > 2*heartbeatInterval {
			t.Errorf("afterwards the page shows a heartbeat of %v ago", time.Since(shown))
		}
		if err := p.Alive(); err != nil {
			t.Error(err)
		}
	})
}

// failing is a Gatherer of metrics that cannot be encoded, while it is on.
type failing struct{ on atomic.Bool }

func (f *failing) Gather() ([]*dto.MetricFamily, error) {
	if !f.on.Load() {
		return nil, nil
	}
	name := "broken"
	return []*dto.MetricFamily{{Name: &name, Type: dto.MetricType_GAUGE.Enum(), Metric: []*dto.Metric{{}}}}, nil
}

// TestFailingPageIsSeen lets every page fail: that is logged once, and unhealthy like a page that takes too long.
func TestFailingPageIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f failing
		var log bytes.Buffer
		p, err := New([]Target{idle(t, "a", "30s")}, &f, nil, slog.New(slog.NewTextHandler(&log, nil)), nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		time.Sleep(time.Minute)
		f.on.Store(true)
		for begin := time.Now(); time.Since(begin) < 2*time.Minute; time.Sleep(5 * time.Second) {
			textOf(p)
			if err := p.Alive(); (err != nil) != (time.Since(begin) > pageStalledAfter) {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		}
		if page := textOf(p); strings.Contains(page, "chatstack_probe_success") {
			t.Errorf("values from before are still served:\n%s", page)
		}
		f.on.Store(false)
		time.Sleep(heartbeatInterval * 2)
		wantLines(t, textOf(p), `chatstack_probe_success{target="a"} 1`)
		if err := p.Alive(); err != nil {
			t.Error(err)
		}
		cancel()
		running.Wait()
		if got := strings.Count(log.String(), "no metrics page can be made"); got != 1 {
			t.Errorf("logged %d times, want once:\n%s", got, log.String())
		}
	})
}

// blockingJudge judges until it is blocked.
type blockingJudge struct{ gate }

func (b *blockingJudge) Judge(facts *health.Facts) *health.Judgement {
	if shut := b.shut.Load(); shut != nil {
		<-*shut
	}
	return &health.Judgement{Time: facts.Now}
}

// TestBlockedJudgeStopsTheHeartbeatOnThePage, so that the alert PollStalled fires although pages are made.
func TestBlockedJudgeStopsTheHeartbeatOnThePage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var judge blockingJudge
		p, err := New([]Target{idle(t, "a", "30s")}, prometheus.NewRegistry(), &judge, slog.New(slog.DiscardHandler), nil)
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		time.Sleep(time.Minute)
		open := judge.close()
		blocked := time.Now()
		time.Sleep(judgementStalledAfter + time.Second)
		if err := p.Alive(); err == nil || !strings.Contains(err.Error(), "judgement") {
			t.Errorf("%v, want that the judgement has stalled", err)
		}
		page := textOf(p)
		if shown := heartbeatOn(t, page); shown.After(blocked) {
			t.Errorf("the page shows a heartbeat of %v after the judge was blocked", shown.Sub(blocked))
		}
		if strings.Contains(page, "chatstack_probe_success") {
			t.Errorf("stale values are served:\n%s", page)
		}
		open()
		cancel()
		running.Wait()
	})
}

// TestUnusedEncodingIsForgotten keeps the last page only in encodings that somebody has asked for of late.
func TestUnusedEncodingIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard, idle(t, "a", "30s"))
		defer stop()
		kept := func() (n int) {
			p.pages.served.Range(func(any, any) bool { n++; return true })
			return n
		}
		p.Page(http.Header{"Accept-Encoding": {"gzip"}})
		for range 20 {
			textOf(p)
			if got := kept(); got != 2 {
				t.Fatalf("%d encodings are kept, want 2", got)
			}
			time.Sleep(30 * time.Second)
		}
		textOf(p)
		if got := kept(); got != 1 {
			t.Errorf("%d encodings are kept after ten minutes, want 1", got)
		}
	})
}
