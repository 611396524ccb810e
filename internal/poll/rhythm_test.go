package poll

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

// visitor scrapes a poller as Prometheus does.
type visitor struct {
	name   string
	period time.Duration
	// offset is when it begins.
	offset time.Duration
	// jitter is how late it comes at most, missed how many of a hundred scrapes it leaves out.
	jitter time.Duration
	missed int
	// quiet is a scraper that nobody is told of, to see what others see.
	quiet bool
}

// visits lets the visitor come until ctx is done, and returns how old each target's data were at each scrape after the
// time to settle.
func (v visitor) visits(ctx context.Context, p *Poller, settle time.Duration) []time.Duration {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same at each run
	begin := time.Now()
	var ages []time.Duration
	for due := begin.Add(v.offset); ; due = due.Add(v.period) {
		at := due
		if v.jitter > 0 {
			at = at.Add(time.Duration(random.Int64N(int64(v.jitter))))
		}
		if random.IntN(100) < v.missed {
			continue
		}
		select {
		case <-ctx.Done():
			return ages
		case <-time.After(time.Until(at)):
		}
		if !v.quiet {
			p.Scraped(v.name, time.Now())
		}
		if time.Since(begin) < settle {
			continue
		}
		for _, s := range p.Snapshot().Statuses {
			ages = append(ages, time.Since(s.LastSuccess))
		}
	}
}

// readingsOf collects when targets were read.
type readingsOf struct {
	mu    sync.Mutex
	times map[string][]time.Time
}

// target is read in the given time, which may depend on how many readings there were, this one among them.
func (r *readingsOf) target(t *testing.T, name, interval string, takes func(n int) time.Duration) Target {
	t.Helper()
	return Target{
		Name:     name,
		Schedule: every(t, interval),
		Timeout:  10 * time.Second,
		Collector: reader(func(context.Context, *collectors.Batch) error {
			r.mu.Lock()
			r.times[name] = append(r.times[name], time.Now())
			n := len(r.times[name])
			r.mu.Unlock()
			time.Sleep(takes(n))
			return nil
		}),
	}
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

// check holds that no reading came sooner than it may, or later.
func (r *readingsOf) check(t *testing.T, interval time.Duration) {
	t.Helper()
	for name, times := range r.times {
		for i := 2; i < len(times); i++ { // the second reading is the first one of the schedule
			if gap := times[i].Sub(times[i-1]); gap < interval*39/40 || gap > interval*6/5+time.Millisecond {
				t.Errorf("%s: reading %d comes %s after the one before", name, i, gap)
			}
		}
	}
}

func (r *readingsOf) count() (n int) {
	for _, times := range r.times {
		n += len(times)
	}
	return n
}

func quantile(ages []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(ages))
	return sorted[int(q*float64(len(sorted)-1))]
}

// visitsLast is how long visitors come to targets, after the time in which readings find their place.
const (
	visitsLast = 90 * time.Minute
	settling   = 30 * time.Minute
)

// visit runs two targets and returns the ages that each visitor found once they had settled.
func visit(t *testing.T, interval string, takes func(n int) time.Duration, visitors ...visitor) ([][]time.Duration, *readingsOf) {
	t.Helper()
	readings := &readingsOf{times: map[string][]time.Time{}}
	p, stop := start(t, io.Discard, readings.target(t, "target_0", interval, takes), readings.target(t, "target_1", interval, takes))
	defer stop()
	ctx, cancel := context.WithTimeout(t.Context(), visitsLast)
	defer cancel()
	ages := make([][]time.Duration, len(visitors))
	var group sync.WaitGroup
	for i, v := range visitors {
		group.Go(func() { ages[i] = v.visits(ctx, p, settling) })
	}
	group.Wait()
	return ages, readings
}

func TestReadingsEndJustBeforeTheScrape(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	// bound holds that the data of that part of the scrapes are so old at most.
	type bound struct {
		part float64
		most time.Duration
	}
	median := func(median, worst time.Duration) []bound { return []bound{{0.5, median}, {0.99, worst}} }
	fresh, quick := median(1500*ms, 2*s), always(ms)
	slow := func(every, often int, d, usual time.Duration) func(int) time.Duration {
		return func(n int) time.Duration {
			if n%every < often {
				return d
			}
			return usual
		}
	}
	for name, c := range map[string]struct {
		interval string
		takes    func(n int) time.Duration
		visitors []visitor
		ages     [][]bound // of each visitor
	}{
		"the same rhythm": {
			"30s",
			always(10 * ms),
			[]visitor{{period: 30 * s, offset: 7 * s}},
			[][]bound{fresh},
		},
		"another interval": {
			"1m",
			quick,
			[]visitor{{period: 60 * s, offset: 50 * s}},
			[][]bound{fresh},
		},
		"slow readings": {
			"30s",
			always(5 * s),
			[]visitor{{period: 30 * s, offset: 7 * s}},
			[][]bound{fresh},
		},
		"a slightly faster clock": {
			"30s",
			quick,
			[]visitor{{period: 30*s - 10*ms}},
			[][]bound{fresh},
		},
		"a slightly slower clock": {
			"30s",
			quick,
			[]visitor{{period: 30*s + 10*ms}},
			[][]bound{fresh},
		},
		"late by up to half a second": {
			"30s",
			quick,
			[]visitor{{period: 30 * s, jitter: 500 * ms}},
			[][]bound{median(2*s, 3*s)},
		},
		"scrapes missed": {
			"30s",
			quick,
			[]visitor{{period: 30 * s, missed: 10}},
			[][]bound{fresh},
		},
		"every second reading": {
			"30s",
			quick,
			[]visitor{{period: 60 * s}},
			[][]bound{fresh},
		},
		"every sixth reading": {
			"30s",
			quick,
			[]visitor{{period: 180 * s}},
			[][]bound{fresh},
		},
		// One reading for two scrapes: the second one finds it older by what lies between them.
		"twice a reading": {
			"30s",
			quick,
			[]visitor{{period: 15 * s}},
			[][]bound{median(16*s, 17*s)},
		},
		// Readings and scrapes meet at every second scrape, and miss by half an interval at the others.
		"in common a half": {
			"30s",
			quick,
			[]visitor{{period: 45 * s}},
			[][]bound{median(16*s, 17*s)},
		},
		"one slow reading, which alone comes too late": {
			"30s",
			slow(40, 1, 5*s, ms),
			[]visitor{{period: 30 * s, offset: 7 * s}},
			[][]bound{{{0.95, 2 * s}}},
		},
		"slow readings, two in a row": {
			"30s",
			slow(20, 2, 1300*ms, 100*ms),
			[]visitor{{period: 30 * s}},
			[][]bound{{{0.5, 2 * s}, {0.85, 3 * s}}},
		},
		"two scrapers, of which none sees older data than it must": {
			"30s",
			quick,
			[]visitor{
				{name: "a", period: 30 * s, offset: 9 * s},
				{name: "b", period: 30 * s, offset: 3 * s},
				{name: "curl", period: 3 * time.Hour, offset: 60 * s},
			},
			[][]bound{{{0.99, 8 * s}}, {{0.99, 2 * s}}},
		},
		"a pair behind one address": {
			"30s",
			quick,
			[]visitor{{period: 30 * s, offset: 7 * s}, {period: 30 * s, offset: 18 * s}},
			[][]bound{{{0.99, 2 * s}}, {{0.99, 13 * s}}},
		},
		// The first one finds one reading at three scrapes, whenever that is made.
		"a scraper that gains more than the first": {
			"30s",
			quick,
			[]visitor{{name: "often", period: 10 * s, offset: 3 * s}, {name: "seldom", period: 30 * s, offset: 7 * s}},
			[][]bound{{{0.5, 20 * s}}, {{0.99, 2 * s}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ages, readings := visit(t, c.interval, c.takes, c.visitors...)
				for i, bounds := range c.ages {
					for _, b := range bounds {
						if got := quantile(ages[i], b.part); got > b.most {
							t.Errorf("scraper %d: data at %v of its scrapes are up to %s old, want at most %s", i, b.part, got, b.most)
						}
					}
				}
				interval := every(t, c.interval).Next(time.Unix(0, 0)).Sub(time.Unix(0, 0))
				readings.check(t, interval)
				// The share of readings that may be lost while the place is found.
				if n, full := readings.count(), 2*int(visitsLast/interval); n < full-2*2 || n > full+2 {
					t.Errorf("%d readings in %s, %d without a scraper", n, visitsLast, full)
				}
			})
		})
	}
}

func TestReadingsWithoutARhythmStaySpread(t *testing.T) {
	for name, v := range map[string]visitor{
		"no scraper":        {name: "somebody", period: 30 * time.Second, quiet: true},
		"nothing in common": {name: "prometheus", period: 37 * time.Second},
		"no rhythm":         {name: "prometheus", period: 30 * time.Second, jitter: 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ages, readings := visit(t, "30s", always(time.Millisecond), v)
				if low, high := quantile(ages[0], 0.1), quantile(ages[0], 0.9); high-low < 8*time.Second {
					t.Errorf("ages from %s to %s: not spread", low, high)
				}
				readings.check(t, 30*time.Second)
				for target, times := range readings.times {
					for i := 2; i < len(times); i++ {
						if gap := times[i].Sub(times[i-1]); name != "no rhythm" && gap != 30*time.Second {
							t.Errorf("%s: a gap of %s", target, gap)
						}
					}
				}
			})
		})
	}
}

// TestReadingsFollowAScraperThatMoves has one that is gone for a while and comes back in another place, one that stops for good.
func TestReadingsFollowAScraperThatMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		readings := &readingsOf{times: map[string][]time.Time{}}
		p, stop := start(t, &log, readings.target(t, "a", "30s", always(time.Millisecond)),
			readings.target(t, "b", "30s", always(time.Millisecond)))
		scrape := func(period, d time.Duration) (ages []time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			return visitor{name: "prometheus", period: period}.visits(ctx, p, d-10*time.Minute)
		}
		for range 3 {
			if ages := scrape(30*time.Second, 30*time.Minute); quantile(ages, 0.99) > 2*time.Second {
				t.Errorf("ages %v", ages)
			}
			time.Sleep(13 * time.Second)
		}
		if ages := scrape(time.Minute, time.Hour); quantile(ages, 0.99) > 2*time.Second {
			t.Errorf("after another period: ages %v", ages)
		}
		time.Sleep(time.Hour)
		stop()
		for name, times := range readings.times {
			if gap := times[len(times)-1].Sub(times[len(times)-2]); gap != 30*time.Second {
				t.Errorf("%s: a gap of %s an hour after the last scrape", name, gap)
			}
		}
		readings.check(t, 30*time.Second)
		for _, want := range []string{
			"just before the scrapes of one scraper", "scraper=prometheus", "period=30s", "probes are spread evenly",
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, &log)
			}
		}
	})
}

// TestReloadKeepsTheRhythm has all targets but one unchanged.
func TestReloadKeepsTheRhythm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		readings := &readingsOf{times: map[string][]time.Time{}}
		log := slog.New(slog.DiscardHandler)
		var p *Poller
		for round := range 4 {
			var targets []Target
			for i := range 5 {
				target := readings.target(t, fmt.Sprintf("target_%d", i), "30s", always(time.Millisecond))
				target.Same = round > 0 && i > 0
				targets = append(targets, target)
			}
			next, err := New(targets, prometheus.NewRegistry(), nil, log, p)
			must(t, err)
			p = next
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+11*time.Second)
			ran := make(chan struct{})
			go func() { defer close(ran); p.Run(ctx) }()
			ages := visitor{name: "prometheus", period: 30 * time.Second, offset: 19 * time.Second}.visits(ctx, p, 6*time.Minute)
			cancel()
			<-ran
			if worst := slices.Max(ages); worst > 2*time.Second {
				t.Errorf("round %d: an age of %s", round, worst)
			}
		}
		delete(readings.times, "target_0") // read at once after each reload, as what is new
		readings.check(t, 30*time.Second)
	})
}

func TestScrapersAreRememberedWithinBounds(t *testing.T) {
	r := newRhythm(slog.New(slog.DiscardHandler))
	now := time.Now()
	for i := range 10_000 {
		r.scraped(fmt.Sprint(i), now)
		if i%10 == 0 {
			r.scraped("prometheus", now)
		}
		now = now.Add(3 * time.Second)
	}
	if len(r.scrapers) > maxScrapers {
		t.Errorf("%d scrapers are remembered, %d at most", len(r.scrapers), maxScrapers)
	}
	s := r.scrapers["prometheus"]
	if s == nil || len(s.arrivals) > rememberedScrapes || s.period != 30*time.Second {
		t.Errorf("of the one that comes again and again: %+v", s)
	}
	// Nobody waits for the lock.
	r.mu.Lock()
	r.scraped("somebody", now)
	r.mu.Unlock()
}

func TestIntervalAndPeriodShare(t *testing.T) {
	const s = time.Second
	for _, c := range []struct{ interval, period, want time.Duration }{
		{30 * s, 30 * s, 30 * s},
		{30 * s, 60 * s, 30 * s},
		{30 * s, 15 * s, 15 * s},
		{30 * s, 10 * s, 10 * s},
		{30 * s, 45 * s, 15 * s},
		{30 * s, 20 * s, 10 * s},
		{30 * s, 300 * s, 30 * s},
		{60 * s, 30 * s, 30 * s},
		{30 * s, 30*s + 60*time.Millisecond, 30*s + 60*time.Millisecond},
		{30 * s, 37 * s, 0},
		{30 * s, 31 * s, 0},
		{30 * s, 2 * s, 0},
		{30 * s, time.Millisecond, 0},
	} {
		if got := commonDivisor(c.interval, c.period); got != c.want {
			t.Errorf("%s and %s: got %s, want %s", c.interval, c.period, got, c.want)
		}
	}
}

// TestStepOfTheWallClockSkipsNoReading tells the jobs what the clock says, which a test cannot set. A wall clock has no
// monotonic reading.
func TestStepOfTheWallClockSkipsNoReading(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, err := cron.ParseStandard("*/5 * * * *")
		must(t, err)
		for name, step := range map[string]time.Duration{"back": -time.Hour, "forward": time.Hour} {
			start := time.Now()
			spread := &job{schedule: pace(every(t, "30s"), "a", start, newRhythm(slog.New(slog.DiscardHandler)), nil)}
			written := &job{schedule: line}
			beats := &job{schedule: heartbeats{start}}
			stepped := start.Add(7 * time.Minute)
			fired := map[string][]time.Duration{}
			for _, j := range []*job{spread, written, beats} {
				j.begin(start)
			}
			for at := start; at.Before(start.Add(20 * time.Minute)); at = at.Add(time.Second) {
				wall := at.Round(0)
				if at.After(stepped) {
					wall = wall.Add(step)
				}
				if spread.isDue(at) {
					fired["spread"] = append(fired["spread"], at.Sub(start))
				}
				if written.isDue(wall) {
					fired["line"] = append(fired["line"], at.Sub(start))
				}
				if beats.isDue(wall) {
					fired["beat"] = append(fired["beat"], at.Sub(start))
				}
			}
			for _, c := range []struct {
				name  string
				count int
				most  time.Duration
			}{{"spread", 38, 31 * time.Second}, {"line", 3, 5 * time.Minute}, {"beat", 115, 20 * time.Second}} {
				times := fired[c.name]
				if len(times) < c.count {
					t.Errorf("%s: %s came due %d times in 20 minutes: %v", name, c.name, len(times), times)
				}
				for i := 1; i < len(times); i++ {
					if gap := times[i] - times[i-1]; gap > c.most {
						t.Errorf("%s: %s: a gap of %s", name, c.name, gap)
					}
				}
			}
		}
	})
}
