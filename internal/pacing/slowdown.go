package pacing

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// slowest is the longest interval of a throttled target, unless its schedule or Retry-After is longer.
	slowest = 10 * time.Minute
	// lookAgain is when a slowed target that fails for another reason is probed once more.
	lookAgain = time.Minute
)

// Slowdown is how much less often a target is probed whose server limits this address: half as often after each such answer, until the
// server serves it again.
type Slowdown struct {
	every time.Duration // 0 if the target is not slowed
	until time.Time
	// throttled says that the last result that counts was throttled, again that one since then does not count yet.
	throttled, again bool
	// failed says that a failure since the last success has had its second look.
	failed bool
}

// Until returns when the target may be probed next; zero if it is not slowed.
func (s *Slowdown) Until() time.Time { return s.until }

// Throttled reports whether the target is slowed because the server limits this address.
func (s *Slowdown) Throttled() bool { return s.every > 0 }

// LooksAgain reports whether the last result waits for a second probe, at Until.
func (s *Slowdown) LooksAgain() bool { return s.again }

// End records how a reading that began at began ended; nil is a success. every is the target's scheduled interval. It returns false if the
// result must not count yet: the first failure of another kind may still come from the limit.
func (s *Slowdown) End(began, now time.Time, err error, every time.Duration) (counts bool) {
	switch {
	case err == nil, failure.ReasonOf(err) == failure.Unauthorized: // who answers a login serves this address
		*s = Slowdown{}
		return true
	case failure.ReasonOf(err) == failure.Throttled:
		s.every = max(every, min(2*max(s.every, every), slowest))
		s.throttled, s.again = true, false
		s.wait(began, every)
		if asked := now.Add(failure.RetryAfterOf(err)); asked.After(s.until) {
			s.until = asked
		}
		return true
	case s.every == 0:
		return true
	case !s.again && s.throttled && !s.failed:
		s.LookAgain(now)
		return false
	default:
		s.throttled, s.again = false, false
		s.wait(began, every)
		return true
	}
}

// LookAgain requests a second probe before a failure counts. It returns false if there has been one since the last success.
func (s *Slowdown) LookAgain(now time.Time) bool {
	if s.failed {
		s.again = false
		return false
	}
	s.again, s.failed, s.until = true, true, now.Add(lookAgain)
	return true
}

// wait lets the scheduled readings pass that come too early. Schedules are not exact to the second.
func (s *Slowdown) wait(began time.Time, every time.Duration) { s.until = began.Add(s.every - every/4) }
