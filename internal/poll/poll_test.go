package poll

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var plantsDesc = prometheus.NewDesc("chatstack_test_plants", "Plants, for tests.", nil, nil)

// reader is a collector made of a function.
type reader func(context.Context, *collectors.Batch) error

func (r reader) Collect(ctx context.Context, b *collectors.Batch) error { return r(ctx, b) }

func every(t *testing.T, interval string) cron.Schedule {
	t.Helper()
	s, err := cron.ParseStandard("@every " + interval)
	must(t, err)
	return s
}

// halfMinutely is a target that is read every 30 s, with a deadline of 10 s.
func halfMinutely(t *testing.T, name string, read reader) Target {
	t.Helper()
	return Target{
		Name:      name,
		Schedule:  every(t, "30s"),
		Timeout:   10 * time.Second,
		Collector: read,
	}
}

// idle is a target that is up and says nothing, with a deadline of a second.
func idle(t *testing.T, name, interval string) Target {
	t.Helper()
	return Target{
		Name:      name,
		Schedule:  every(t, interval),
		Timeout:   time.Second,
		Collector: reader(func(context.Context, *collectors.Batch) error { return nil }),
	}
}

// newPoller makes a poller that logs nothing; previous is nil but after a reload.
func newPoller(t *testing.T, previous *Poller, targets ...Target) *Poller {
	t.Helper()
	p, err := New(targets, prometheus.NewRegistry(), nil, slog.New(slog.DiscardHandler), previous)
	must(t, err)
	return p
}

// must ends the test where something fails that is not its subject.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// start runs a poller over the targets, and returns it with a function that stops it and waits for its end.
func start(t *testing.T, log io.Writer, targets ...Target) (*Poller, func()) {
	t.Helper()
	p, err := New(targets, prometheus.NewRegistry(), nil, slog.New(slog.NewTextHandler(log, nil)), nil)
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.Run(ctx) }()
	return p, func() { cancel(); <-ended }
}

func textOf(p *Poller) string {
	page := p.Page(http.Header{})
	return string(page.Start) + string(page.End)
}

func wantLines(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("the page lacks %q:\n%s", line, page)
		}
	}
}

func TestFailureLeavesNothingStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		p, stop := start(t, io.Discard, Target{
			Name:     "store",
			Kind:     config.Row{Name: "plant_store"},
			Schedule: every(t, "30s"),
			Timeout:  10 * time.Second,
			Collector: reader(func(_ context.Context, b *collectors.Batch) error {
				b.HTTPStatus = http.StatusOK
				b.Gauge(plantsDesc, 7)
				if down.Load() {
					b.HTTPStatus = 0
					return failure.Errorf(failure.Refused, "dial: nobody there")
				}
				return nil
			}),
		})
		defer stop()
		if page := textOf(p); strings.Contains(page, "chatstack_probe_success{") {
			t.Errorf("a verdict before the first reading:\n%s", page)
		}
		time.Sleep(time.Second)
		wantLines(t, textOf(p), "chatstack_test_plants 7", `chatstack_probe_success{target="store"} 1`,
			`chatstack_probe_http_status_code{target="store"} 200`, `chatstack_probe_failures_total{reason="refused",target="store"} 0`)

		down.Store(true)
		time.Sleep(50 * time.Second)
		page := textOf(p)
		wantLines(t, page, `chatstack_probe_success{target="store"} 0`, `chatstack_probe_failing{reason="refused",target="store"} 1`)
		for _, stale := range []string{"chatstack_test_plants", "chatstack_probe_http_status_code{"} {
			if strings.Contains(page, stale) {
				t.Errorf("%s outlived the failure:\n%s", stale, page)
			}
		}
		if !strings.Contains(page, "chatstack_probe_last_success_timestamp_seconds{") {
			t.Errorf("the time of the last success is forgotten:\n%s", page)
		}

		down.Store(false)
		time.Sleep(31 * time.Second)
		page = textOf(p)
		wantLines(t, page, "chatstack_test_plants 7", `chatstack_probe_success{target="store"} 1`)
		if strings.Contains(page, "chatstack_probe_failing{") {
			t.Errorf("still said to be failing after the recovery:\n%s", page)
		}
	})
}

// TestReasonsOfOneKindAreNoSeriesOfOthers: only what calls a method can get a call's error.
func TestReasonsOfOneKindAreNoSeriesOfOthers(t *testing.T) {
	for kind, want := range map[string]bool{"irc_rpc": true, "irc_services": true, "irc_tls": false, "docker": false} {
		p := newPoller(t, nil, Target{
			Name:     "it",
			Kind:     config.Row{Name: kind},
			Schedule: every(t, "30s"),
			Timeout:  time.Second,
		})
		page := textOf(p)
		wantLines(t, page, `chatstack_probe_failures_total{reason="closed",target="it"} 0`)
		if got := strings.Contains(page, `chatstack_probe_failures_total{reason="rpc_error",target="it"} 0`+"\n"); got != want {
			t.Errorf("%s: a series of the reason rpc_error: %t, want %t", kind, got, want)
		}
	}
}

// TestReasonThatAKindShouldNotHaveIsCounted holds that no failure is lost because nobody thought of its reason.
func TestReasonThatAKindShouldNotHaveIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard, Target{
			Name:      "it",
			Kind:      config.Row{Name: "irc_tls"},
			Schedule:  every(t, "30s"),
			Timeout:   time.Second,
			Collector: reader(func(context.Context, *collectors.Batch) error { return failure.Errorf(failure.RPCError, "refused") }),
		})
		defer stop()
		if page := textOf(p); strings.Contains(page, `reason="rpc_error"`) {
			t.Errorf("the reason is there before it was seen:\n%s", page)
		}
		time.Sleep(time.Second)
		wantLines(t, textOf(p), `chatstack_probe_failures_total{reason="rpc_error",target="it"} 1`,
			`chatstack_probe_failures_total{reason="closed",target="it"} 0`)
	})
}

// TestTargetsKeepTheirOwnCounters: each name has so many attempts before and after a reload. What has a new name continues a target of the
// same place, unless two could be meant: the judge finds the same, and would take foreign failures for its own.
func TestTargetsKeepTheirOwnCounters(t *testing.T) {
	t.Parallel()
	type attempts map[string]uint64 // by name and place
	for name, c := range map[string]struct{ before, after attempts }{
		"renamed":                       {attempts{"old here": 7}, attempts{"new here": 7}},
		"moved":                         {attempts{"old here": 7}, attempts{"old there": 7}},
		"replaced":                      {attempts{"old here": 7}, attempts{"new there": 0}},
		"copied":                        {attempts{"old here": 7}, attempts{"old here": 7, "new here": 0}},
		"split":                         {attempts{"irc here": 7}, attempts{"irc4 here": 0, "irc6 here": 0}},
		"merged":                        {attempts{"irc4 here": 7, "irc6 here": 9}, attempts{"irc here": 0}},
		"one of two removed":            {attempts{"irc4 here": 7, "irc6 here": 9}, attempts{"irc4 here": 7}},
		"one moved where another was":   {attempts{"a here": 7, "b there": 9}, attempts{"a there": 7}},
		"two exchanged their places":    {attempts{"a here": 7, "b there": 9}, attempts{"a there": 7, "b here": 9}},
		"one of them renamed, one kept": {attempts{"a here": 7, "b here": 9}, attempts{"a here": 7, "c here": 0}},
	} {
		before, after := &Poller{}, []Target(nil)
		at := func(known string) Target {
			given := halfMinutely(t, "", reader(func(context.Context, *collectors.Batch) error { return nil }))
			given.Name, given.Place, _ = strings.Cut(known, " ")
			return given
		}
		log := slog.New(slog.DiscardHandler)
		for known, n := range c.before {
			old := newTarget(at(known), nil, log)
			old.status.Attempts = n
			before.targets = append(before.targets, old)
		}
		for known := range c.after {
			after = append(after, at(known))
		}
		for i, old := range before.continuedBy(after) {
			s, _ := newTarget(after[i], old, log).view()
			if want := c.after[after[i].Name+" "+after[i].Place]; s.Attempts != want || s.Target != after[i].Name {
				t.Errorf("%s: %s has %d attempts, want %d", name, s.Target, s.Attempts, want)
			}
		}
	}
}

// TestAbandonedProbeIsNotStartedAgainAfterAReload changes a target whose probe was given up and still runs.
func TestAbandonedProbeIsNotStartedAgainAfterAReload(t *testing.T) {
	t.Parallel()
	given := halfMinutely(t, "stuck", reader(func(context.Context, *collectors.Batch) error { return nil }))
	log := slog.New(slog.DiscardHandler)
	first := newTarget(given, nil, log)
	first.begin(scheduled)
	first.abandon(make(chan outcome), time.Second)
	second := newTarget(given, first, log)
	third := newTarget(given, second, log)
	if s, _ := third.view(); third.begin(scheduled) || !s.Abandoned {
		t.Errorf("the probe starts again, or is not shown: abandoned %t", s.Abandoned)
	}
	first.deliver(nil, outcome{})
	if s, _ := third.view(); !third.begin(scheduled) || s.Abandoned || third.former != nil {
		t.Errorf("the probe does not start after the first has ended: abandoned %t", s.Abandoned)
	}
}

func TestIgnoredDeadlineIsAbandonedAndNeverStartedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, begun atomic.Int32
		release := make(chan struct{})
		stuck := reader(func(context.Context, *collectors.Batch) error {
			begun.Add(1)
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer running.Add(-1)
			<-release
			return nil
		})
		fine := reader(func(_ context.Context, b *collectors.Batch) error { b.Gauge(plantsDesc, 1); return nil })
		p, stop := start(t, io.Discard,
			halfMinutely(t, "stuck", stuck),
			halfMinutely(t, "fine", fine))
		defer stop()
		time.Sleep(11 * time.Second)
		wantLines(t, textOf(p), `chatstack_probe_success{target="stuck"} 0`, `chatstack_probe_failing{reason="timeout",target="stuck"} 1`,
			`chatstack_probe_success{target="fine"} 1`)
		time.Sleep(5 * time.Minute)
		if begun.Load() != 1 || most.Load() != 1 {
			t.Errorf("begun %d times, %d at once; want one reading that is never started again", begun.Load(), most.Load())
		}
		page := textOf(p)
		wantLines(t, page, `chatstack_probe_success{target="stuck"} 0`, `chatstack_probe_success{target="fine"} 1`,
			`chatstack_probe_abandoned{target="stuck"} 1`, `chatstack_probe_abandoned{target="fine"} 0`)
		for _, failures := range []string{"0", "1"} { // each reading that was due counts
			if strings.Contains(page, `chatstack_probe_failures_total{reason="timeout",target="stuck"} `+failures+"\n") {
				t.Errorf("%s failures in five minutes", failures)
			}
		}
		if strings.Contains(page, `chatstack_poll_overruns_total{target="stuck"} 0`) {
			t.Errorf("no overrun was counted:\n%s", page)
		}
		if err := p.Alive(); err != nil {
			t.Errorf("one stuck target makes the loop look dead: %v", err)
		}
		close(release)
		time.Sleep(45 * time.Second)
		wantLines(t, textOf(p), `chatstack_probe_success{target="stuck"} 1`)
	})
}

func TestReadingThatGoesWrongFailsAloneAndLeavesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		read   reader
		after  time.Duration
		reason failure.Reason
		logged []string
	}{
		"a panic": {
			func(context.Context, *collectors.Batch) error { panic("boom") },
			time.Second,
			failure.Panic,
			[]string{"boom", "poll_test.go"},
		},
		"a series that is there twice": {
			func(_ context.Context, b *collectors.Batch) error {
				b.Gauge(plantsDesc, 1)
				b.Gauge(plantsDesc, 2)
				return nil
			},
			time.Second,
			failure.Internal,
			nil,
		},
		"a connection that the deadline closed": {
			func(ctx context.Context, _ *collectors.Batch) error {
				<-ctx.Done()
				return io.ErrUnexpectedEOF
			},
			11 * time.Second,
			failure.Timeout,
			nil,
		},
		"a result long after the deadline": {
			func(_ context.Context, b *collectors.Batch) error {
				time.Sleep(14 * time.Second) // ignores its context
				b.Gauge(plantsDesc, 1)
				return nil
			},
			14500 * time.Millisecond,
			failure.Timeout,
			nil,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			p, stop := start(t, &log, halfMinutely(t, "wrong", c.read),
				halfMinutely(t, "fine", func(context.Context, *collectors.Batch) error { return nil }))
			time.Sleep(c.after)
			page := textOf(p)
			wantLines(t, page, fmt.Sprintf(`chatstack_probe_failing{reason=%q,target="wrong"} 1`, c.reason),
				`chatstack_probe_success{target="wrong"} 0`, `chatstack_probe_success{target="fine"} 1`)
			if strings.Contains(page, "chatstack_test_plants") {
				t.Errorf("%s: a number is shown:\n%s", name, page)
			}
			stop()
			for _, want := range c.logged {
				if !strings.Contains(log.String(), want) {
					t.Errorf("%s: the log lacks %q:\n%s", name, want, log.String())
				}
			}
		})
	}
}

func TestKeptMetricsOutliveTheirOwnFailureOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var readings atomic.Int32
		p, stop := start(t, io.Discard, halfMinutely(t, "store", func(_ context.Context, b *collectors.Batch) error {
			if readings.Add(1) == 1 {
				b.Kept.Gauge(plantsDesc, 3)
			}
			return errors.New("down")
		}))
		defer stop()
		time.Sleep(time.Second)
		wantLines(t, textOf(p), "chatstack_test_plants 3")
		time.Sleep(50 * time.Second)
		if page := textOf(p); strings.Contains(page, "chatstack_test_plants") {
			t.Errorf("kept from an older reading:\n%s", page)
		}
	})
}

func TestReadingsStartAtOnceAndThenSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		seconds := map[time.Duration]int{}
		var targets []Target
		times := make(chan time.Time, 1000)
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			targets = append(targets, Target{
				Name:      name,
				Schedule:  every(t, "30s"),
				Timeout:   time.Second,
				Collector: reader(func(context.Context, *collectors.Batch) error { times <- time.Now(); return nil }),
			})
		}
		_, stop := start(t, io.Discard, targets...)
		time.Sleep(time.Duration(len(targets)) * firstStep)
		if n := len(times); n != len(targets) {
			t.Errorf("%d of %d first readings at once", n, len(targets))
		}
		time.Sleep(46 * time.Second)
		stop()
		close(times)
		for at := range times {
			if since := at.Sub(begin); since > time.Second {
				seconds[since.Truncate(time.Second)]++
				if since < 15*time.Second {
					t.Errorf("second reading %s after the first; want half an interval at least", since)
				}
			}
		}
		if len(seconds) < len(targets)/2 {
			t.Errorf("second readings fall into %d seconds: %v; want them spread", len(seconds), seconds)
		}
	})
}

func TestNoGapAfterTheFirstReadingIsLongerThanTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := &readingsOf{times: map[string][]time.Time{}}
		var targets []Target
		for _, name := range []string{
			"docker", "xmpp_status", "xmpp_metrics", "irc_rpc", "irc_services", "identity", "plant_store", "web_irc",
		} {
			targets = append(targets, readings.target(t, name, "30s", always(time.Millisecond)))
		}
		_, stop := start(t, io.Discard, targets...)
		time.Sleep(2 * time.Minute)
		stop()
		for name, times := range readings.times {
			for i := 1; i < len(times); i++ {
				if gap := times[i].Sub(times[i-1]); gap > 30*time.Second {
					t.Errorf("%s: reading %d comes %s after the one before", name, i, gap)
				}
			}
		}
	})
}

func TestIntervalDoesNotDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		times := make(chan time.Time, 100)
		_, stop := start(t, io.Discard, halfMinutely(t, "a", func(context.Context, *collectors.Batch) error {
			times <- time.Now()
			time.Sleep(3 * time.Second) // a reading takes its time
			return nil
		}))
		time.Sleep(10 * time.Minute)
		stop()
		close(times)
		<-times // the first one is outside of the rhythm
		last := <-times
		for at := range times {
			if gap := at.Sub(last); gap != 30*time.Second {
				t.Errorf("gap of %s, want 30s", gap)
			}
			last = at
		}
	})
}

func TestStopEndsWhatWasBegunInTimeAndIsNoFailure(t *testing.T) {
	for name, c := range map[string]struct {
		end      func(ctx context.Context, release <-chan struct{}) // of what was begun
		finishes bool
	}{
		"a deletion of what was created": {
			func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done(); time.Sleep(3 * time.Second) },
			true,
		},
		"at once": {func(ctx context.Context, _ <-chan struct{}) { <-ctx.Done() }, true},
		"never":   {func(_ context.Context, release <-chan struct{}) { <-release }, false},
	} {
		for _, follows := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				var finished atomic.Bool
				release := make(chan struct{})
				end := func(ctx context.Context) { c.end(ctx, release); finished.Store(true) }
				target := halfMinutely(t, "slow", func(ctx context.Context, _ *collectors.Batch) error { end(ctx); return ctx.Err() })
				if follows {
					target.Collector = &listener{follow: func(ctx context.Context, _ *listener) { end(ctx) }}
				}
				p, stop := start(t, &log, target)
				time.Sleep(time.Second)
				began := time.Now()
				stop()
				if took := time.Since(began); took > 5*time.Second || finished.Load() != c.finishes {
					t.Errorf("%s: stopping took %s, want at most 5s; finished: %t, want %t", name, took, finished.Load(), c.finishes)
				}
				if strings.Contains(log.String(), "down") || strings.Contains(textOf(p), `chatstack_probe_success{target="slow"} 0`) {
					t.Errorf("%s: a target was called down because we stopped:\n%s", name, log.String())
				}
				close(release)
			})
		}
	}
}

func TestVerdictsAreLoggedOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var down atomic.Bool
		var log bytes.Buffer
		_, stop := start(t, &log, halfMinutely(t, "store", func(context.Context, *collectors.Batch) error {
			if down.Load() {
				return failure.Errorf(failure.Unauthorized, "status 401")
			}
			return nil
		}))
		time.Sleep(3 * time.Minute)
		down.Store(true)
		time.Sleep(3 * time.Minute)
		stop()
		for line, want := range map[string]int{"target is up": 1, "target is down": 1, "reason=unauthorized": 1, "level=ERROR": 0} {
			if got := strings.Count(log.String(), line); got != want {
				t.Errorf("%q stands %d times in the log, want %d:\n%s", line, got, want, log.String())
			}
		}
	})
}

func TestTargetThatIsNotReadLosesItsFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Nobody calls read, as if the loop stood still.
		tg := &target{
			Target: halfMinutely(t, "a", func(_ context.Context, b *collectors.Batch) error { b.Gauge(plantsDesc, 1); return nil }),
			log:    slog.New(slog.DiscardHandler), status: Status{Target: "a", Counters: Counters{Failures: map[failure.Reason]uint64{}}},
		}
		begin := time.Now()
		tg.read(t.Context(), unscheduled)
		time.Sleep(99 * time.Second)
		if tg.expire(time.Now(), begin) {
			t.Error("expired within three intervals and a deadline")
		}
		time.Sleep(2 * time.Second)
		if !tg.expire(time.Now(), begin) {
			t.Error("not expired after three intervals and a deadline")
		}
		status, families := tg.view()
		if status.Known {
			t.Error("still known")
		}
		for _, f := range families {
			if f.Name == "chatstack_test_plants" || f.Name == "chatstack_probe_success" {
				t.Errorf("%s is still shown", f.Name)
			}
		}
	})
}

func TestStandstillIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard, idle(t, "a", "30s"))
		time.Sleep(5 * time.Minute)
		if err := p.Alive(); err != nil {
			t.Errorf("alive and well, but: %v", err)
		}
		stop()
		time.Sleep(stalledAfter + heartbeatInterval + time.Second)
		if err := p.Alive(); err == nil {
			t.Error("nobody polls any more, and it is not said")
		}
	})
}

// TestBlockedJudgementIsSeen blocks the publisher while the loop goes on.
func TestBlockedJudgementIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPoller(t, nil, idle(t, "a", "30s"))
		release := make(chan struct{})
		p.Notify(func() { <-release })
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { p.Run(ctx) })
		synctest.Wait()
		made := p.Snapshot().Time
		time.Sleep(44 * time.Second) // deploy/systemd/README.md and CHANGELOG.md say 45
		if err := p.Alive(); err != nil {
			t.Errorf("%s after a snapshot: %v", time.Since(made), err)
		}
		time.Sleep(2 * time.Second)
		if err := p.Alive(); err == nil || !strings.Contains(err.Error(), "judgement") {
			t.Errorf("%s after the last snapshot: %v, want that the judgement has stalled", time.Since(made), err)
		}
		close(release)
		cancel()
		running.Wait()
	})
}

func TestPagesAreMadeAtMostEveryQuarterSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var targets []Target
		for i := range 100 {
			targets = append(targets, idle(t, "t"+string(rune('A'+i)), "30s"))
		}
		p, stop := start(t, io.Discard, targets...)
		defer stop()
		pages := 0
		for last, end := p.Snapshot(), time.Now().Add(30*time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if s := p.Snapshot(); s != last {
				pages, last = pages+1, s
			}
		}
		if pages > 4*30+1 || pages < 10 {
			t.Errorf("%d pages in 30 s of 100 targets; want at most one every 250 ms, and more than the heartbeat's", pages)
		}
	})
}

// TestPageIsRenewedOnlyWhereNothingElseDoesSo has readings that are rare, and some that are often enough, and pages made at
// any time between: neither they nor the heartbeat on them become older than alerts allow for.
func TestPageIsRenewedOnlyWhereNothingElseDoesSo(t *testing.T) {
	for _, c := range []struct {
		every string
		pages int // that are made in the five minutes after a reading
	}{{"10m", 300 / 20}, {"9s", 300 / 9}} {
		synctest.Test(t, func(t *testing.T) {
			p, stop := start(t, io.Discard, idle(t, "a", c.every))
			defer stop()
			time.Sleep(15 * time.Second)
			pages, oldest := 0, time.Duration(0)
			for last, end := p.Snapshot(), time.Now().Add(5*time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
				oldest = max(oldest, time.Since(p.Snapshot().Time), time.Since(shownHeartbeat(t, p)))
				if s := p.Snapshot(); s != last {
					pages, last = pages+1, s
				}
			}
			if pages < c.pages-1 || pages > c.pages+1 {
				t.Errorf("every %s: %d pages in five minutes; want %d", c.every, pages, c.pages)
			}
			for range 40 {
				time.Sleep(heartbeatInterval - 250*time.Millisecond)
				p.Refresh()
				for range 30 {
					time.Sleep(heartbeatInterval / 10)
					oldest = max(oldest, time.Since(p.Snapshot().Time), time.Since(shownHeartbeat(t, p)))
				}
			}
			if oldest > 2*heartbeatInterval+publishInterval {
				t.Errorf("every %s: a page, or the heartbeat on it, was %s old", c.every, oldest)
			}
			if err := p.Alive(); err != nil {
				t.Error(err)
			}
		})
	}
}

// shownHeartbeat is the one on the page now, heartbeatOn that on a page.
func shownHeartbeat(t *testing.T, p *Poller) time.Time {
	t.Helper()
	return heartbeatOn(t, textOf(p))
}

func heartbeatOn(t *testing.T, page string) time.Time {
	t.Helper()
	for line := range strings.Lines(page) {
		if value, ok := strings.CutPrefix(line, "chatstack_poll_last_completed_timestamp_seconds "); ok {
			seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			must(t, err)
			return time.UnixMicro(int64(seconds * 1e6))
		}
	}
	t.Fatalf("the page shows no heartbeat:\n%s", page)
	return time.Time{}
}

func TestStallOfTheProcessIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, stop := start(t, io.Discard, idle(t, "a", "10s"))
		time.Sleep(time.Minute)
		stop() // as if the process were stopped
		time.Sleep(time.Minute)
		p.beat(time.Now())
		if err := p.Alive(); err != nil && strings.Contains(err.Error(), "poll loop") {
			t.Errorf("the first beat after a stall: %v", err)
		}
		if s, _ := p.targets[0].view(); !s.Known {
			t.Error("the first beat after a stall made a target unknown that is about to be read")
		}
		time.Sleep(heartbeatInterval)
		p.beat(time.Now())
		if s, _ := p.targets[0].view(); s.Known {
			t.Error("a target that is still not read a beat later is still known")
		}
	})
}

// TestTargetWithATimeOfDayIsProbedOnceADay walks minute by minute from noon before a change of the clock to noon after it.
func TestTargetWithATimeOfDayIsProbedOnceADay(t *testing.T) {
	for zone, changes := range map[string][]string{
		"Europe/Berlin":       {"2026-03-29", "2026-10-25"},
		"America/New_York":    {"2026-03-08", "2026-11-01"},
		"Australia/Lord_Howe": {"2026-10-04", "2026-04-05"},
		"America/Santiago":    {"2026-09-06", "2026-04-05"},
		"Asia/Beirut":         {"2026-03-29", "2026-10-25"},
	} {
		location, err := time.LoadLocation(zone)
		must(t, err)
		for _, day := range changes {
			after, err := time.ParseInLocation("2006-01-02 15:04", day+" 12:00", location)
			must(t, err)
			before := after.AddDate(0, 0, -1)
			if after.Sub(before) == 24*time.Hour {
				t.Errorf("%s: the clock is not changed on %s", zone, day)
			}
			for _, fields := range []string{
				"30 2 * * *", "15 2 * * *", "0 0 * * *", "45 0 * * *", "30 1 * * *", "30 23 * * *", "0 3 * * *",
			} {
				schedule, err := config.ParseSchedule("CRON_TZ=" + zone + " " + fields)
				must(t, err)
				j, probes := &job{schedule: schedule}, 0
				j.begin(before)
				for at := before; at.Before(after); at = at.Add(time.Minute) {
					if j.isDue(at) {
						probes++
					}
				}
				if probes != 1 {
					t.Errorf("%s in %s until %s: %d probes, want 1", fields, zone, after, probes)
				}
			}
		}
	}
}

func TestStepOfTheWallClockMakesNobodyLate(t *testing.T) {
	line, err := cron.ParseStandard("*/5 * * * *")
	must(t, err)
	tg := newTarget(Target{
		Name:      "a",
		Schedule:  line,
		Timeout:   time.Second,
		Collector: reader(func(context.Context, *collectors.Batch) error { return nil }),
	}, nil, slog.New(slog.DiscardHandler))
	tg.read(t.Context(), unscheduled)
	read := tg.status.LastAttempt
	if tg.expire(read.Add(9*time.Minute), read) {
		t.Error("late although it was due twice at most")
	}
	if !tg.expire(read.Add(16*time.Minute), read) {
		t.Error("not late although it was due three times")
	}
}

func TestRepeatedSecretIsMasked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p, stop := start(t, &log, Target{
			Name:     "store",
			Schedule: every(t, "30s"),
			Timeout:  time.Second,
			Redact:   strings.NewReplacer("sesame", "<secret>").Replace,
			Collector: reader(func(_ context.Context, b *collectors.Batch) error {
				b.Note("said sesame")
				b.Exchanges = append(b.Exchanges,
					&exchange.Exchange{Err: "sesame", Header: http.Header{"Server": {"sesame"}, "X-sesame": {"<masked>"}}})
				return failure.Errorf(failure.Unauthorized, "status 401: token sesame\x1b is not valid%s", strings.Repeat("!", 5000)).
					WithHint("take another than sesame")
			}),
		})
		time.Sleep(time.Second)
		stop()
		h, _ := p.History("store")
		shown := fmt.Sprintf("%+v %+v %s", h, *h.Last[0].Exchanges[0], log.String())
		if strings.Contains(shown, "sesame") || strings.Contains(shown, "\x1b") || len(h.Last[0].Error) > 2*maxText {
			t.Errorf("shown: %s", shown)
		}
	})
}

// TestSecretAtTheCutIsMasked has a server whose text is so long that a secret lies across its end.
func TestSecretAtTheCutIsMasked(t *testing.T) {
	tg := newTarget(Target{Name: "a", Redact: strings.NewReplacer("sesame-token", "<secret>").Replace}, nil, slog.New(slog.DiscardHandler))
	for at := maxText - 15; at <= maxText+1; at++ {
		if got := tg.clean(strings.Repeat("x", at) + "sesame-token"); strings.Contains(got, "ses") {
			t.Fatalf("a secret after %d characters: %q", at, got[max(0, len(got)-30):])
		}
	}
}

// reloadedReader is a collector that has put something off.
type reloadedReader struct {
	reader
	putOff bool
}

func (r reloadedReader) Reloaded() bool { return r.putOff }

// TestReloadReadsATargetAtOnceThatPutSomethingOff, and leaves others to their schedules.
func TestReloadReadsATargetAtOnceThatPutSomethingOff(t *testing.T) {
	for putOff, want := range map[bool]int32{true: 2, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			var readings atomic.Int32
			target := Target{
				Name:     "irc_rpc",
				Schedule: every(t, "30s"),
				Timeout:  time.Second,
				Collector: reloadedReader{func(context.Context, *collectors.Batch) error {
					readings.Add(1)
					return nil
				}, putOff},
			}
			before, stop := start(t, io.Discard, target)
			time.Sleep(time.Second)
			stop()
			target.Same = true
			p := newPoller(t, before, target)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			p.Run(ctx)
			if got := readings.Load(); got != want {
				t.Errorf("put off: %t: %d readings, want %d", putOff, got, want)
			}
		})
	}
}
