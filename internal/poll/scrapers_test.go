package poll

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

// agesOf runs three targets for an hour and a half, whose n-th reading takes as long as takes says, and returns the ages
// that each visitor found in the last hour.
func agesOf(t *testing.T, takes func(n int64) time.Duration, visitors ...visitor) [][]time.Duration {
	t.Helper()
	var targets []Target
	for i := range 3 {
		var readings atomic.Int64
		targets = append(targets, halfMinutely(t, fmt.Sprintf("target_%d", i), func(context.Context, *collectors.Batch) error {
			time.Sleep(takes(readings.Add(1)))
			return nil
		}))
	}
	return agesFound(t, targets, visitors, 30*time.Minute, 90*time.Minute)
}

func quick(int64) time.Duration { return time.Millisecond }

func TestPairBehindOneAddressIsToldApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ages := agesOf(t, quick,
			visitor{name: "proxy", period: 30 * time.Second, offset: 7 * time.Second},
			visitor{name: "proxy", period: 30 * time.Second, offset: 18 * time.Second})
		if first, second := quantile(ages[0], 0.99), quantile(ages[1], 0.99); first > 2*time.Second || second > 13*time.Second {
			t.Errorf("the first one's data are up to %s old, the second one's %s", first, second)
		}
	})
}

// TestScraperThatGainsMostIsAwaited has one that finds one reading at three scrapes, whenever that is made, and comes first.
func TestScraperThatGainsMostIsAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ages := agesOf(t, quick,
			visitor{name: "often", period: 10 * time.Second, offset: 3 * time.Second},
			visitor{name: "seldom", period: 30 * time.Second, offset: 7 * time.Second})
		if often, seldom := quantile(ages[0], 0.5), quantile(ages[1], 0.99); often > 20*time.Second || seldom > 2*time.Second {
			t.Errorf("data are %s old in the median for one, up to %s for the other", often, seldom)
		}
	})
}

func TestOneSlowReadingMovesNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ages := agesOf(t, func(n int64) time.Duration {
			if n%40 == 0 {
				return 5 * time.Second
			}
			return time.Millisecond
		}, visitor{name: "prometheus", period: 30 * time.Second, offset: 7 * time.Second})
		// The slow one itself comes too late for its scrape.
		if usual := quantile(ages[0], 0.95); usual > 2*time.Second {
			t.Errorf("95 of 100 ages are up to %s, want less than two seconds", usual)
		}
	})
}

func TestWhoHasARhythmIsNotPushedOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRhythm(slog.New(slog.DiscardHandler))
		for n := range 20 {
			r.scraped("10.0.0.1 Prometheus", time.Now())
			for i := range 40 {
				r.scraped(fmt.Sprintf("10.0.0.2 %d of %d", i, n), time.Now())
				if n > 5 {
					r.scraped(fmt.Sprintf("10.0.0.1 %d of %d", i, n), time.Now())
					r.scraped(fmt.Sprintf("10.1.%d.%d scraper", n, i), time.Now())
				}
			}
			time.Sleep(30 * time.Second)
		}
		if _, ok := r.next(30 * time.Second); !ok || len(r.scrapers) > maxScrapers {
			t.Errorf("of %d scrapers none has a rhythm: %v", len(r.scrapers), ok)
		}
	})
}

// TestReadingsThatTakeLongerFindTheirPlaceSoon has a service that is slow now and then, twice in a row.
func TestReadingsThatTakeLongerFindTheirPlaceSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ages := agesOf(t, func(n int64) time.Duration {
			if n%20 < 2 {
				return 1300 * time.Millisecond
			}
			return 100 * time.Millisecond
		}, visitor{name: "prometheus", period: 30 * time.Second})
		if median, most := quantile(ages[0], 0.5), quantile(ages[0], 0.85); median > 2*time.Second || most > 3*time.Second {
			t.Errorf("median age %s, of 85 in a hundred at most %s", median, most)
		}
	})
}

// TestShortGapsAreNoPeriod has a scraper that was restarted, so that it came again after a moment.
func TestShortGapsAreNoPeriod(t *testing.T) {
	const period = 30 * time.Second
	s := &scraper{}
	at := time.Now()
	for _, gap := range []time.Duration{0, period, period, period, 2 * time.Second, period, period, period} {
		at = at.Add(gap)
		s.came(at)
	}
	if s.period != period || !s.anchor.Equal(at) {
		t.Errorf("got a period of %s from %s, want %s from %s", s.period, s.anchor, period, at)
	}
}
