package poll

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

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
