package pacing

import (
	"errors"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// slowed probes at the end of each wait, and returns the waits.
func slowed(s *Slowdown, every time.Duration, n int, retryAfter time.Duration) (waits []time.Duration) {
	now := start
	for range n {
		s.End(now, now, &failure.Error{Reason: failure.Throttled, Err: errors.New("no"), RetryAfter: retryAfter}, every)
		waits = append(waits, s.Until().Sub(now))
		now = s.Until()
	}
	return waits
}

func TestThrottledTargetIsProbedHalfAsOften(t *testing.T) {
	var s Slowdown
	for i, wait := range slowed(&s, 30*time.Second, 7, 0) {
		want := min(30*time.Second<<(i+1), 10*time.Minute) - 7500*time.Millisecond
		if wait != want {
			t.Errorf("wait %d is %s, want %s", i+1, wait, want)
		}
	}
	s.End(start, start, nil, 30*time.Second)
	if !s.Until().IsZero() {
		t.Error("a target that is served still waits")
	}
	if wait := slowed(&s, 30*time.Second, 1, 0)[0]; wait > time.Minute {
		t.Errorf("after a success, the first wait is %s", wait)
	}
}

func TestRetryAfterIsObeyed(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		time.Second: 52500 * time.Millisecond, 5 * time.Minute: 5 * time.Minute,
	} {
		if got := slowed(new(Slowdown), 30*time.Second, 1, asked)[0]; got != want {
			t.Errorf("Retry-After %s: waits %s, want %s", asked, got, want)
		}
	}
	if got := slowed(new(Slowdown), time.Hour, 1, 0)[0]; got != 45*time.Minute {
		t.Errorf("a target with a long schedule waits %s", got)
	}
}

func TestSlowedTargetThatFailsOtherwiseIsProbedTwice(t *testing.T) {
	var s Slowdown
	if !s.End(start, start, errorOf(failure.Refused), time.Minute) {
		t.Error("a failure of a target that is not slowed does not count")
	}
	slowed(&s, 30*time.Second, 3, 0)
	if s.End(start, start, errorOf(failure.Refused), 30*time.Second) || s.Until() != start.Add(time.Minute) || !s.LooksAgain() {
		t.Errorf("the first failure of a slowed target counts, or waits until %s", s.Until())
	}
	for range 3 {
		if !s.End(start, start, errorOf(failure.Refused), 30*time.Second) || s.LooksAgain() {
			t.Error("the second failure does not count")
		}
	}
}

// TestSlowedTargetThatAnswersALoginIsServed: the server no longer limits the address, and the credential has a clock of its own.
func TestSlowedTargetThatAnswersALoginIsServed(t *testing.T) {
	var s Slowdown
	slowed(&s, 30*time.Second, 3, 0)
	if !s.End(start, start, errorOf(failure.Unauthorized), 30*time.Second) || !s.Until().IsZero() {
		t.Errorf("it waits until %s", s.Until())
	}
}
