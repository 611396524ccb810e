package health

import "time"

const (
	// MaxGap is the longest time between two rounds that counts as watched: three polls of the default interval.
	MaxGap = 90 * time.Second
	// clockTolerance is how far the wall clock may deviate from the monotonic clock until it counts as set.
	clockTolerance = time.Second
	// acceptAfter is how long a clock must stay behind what is kept until what is later than it is dropped.
	acceptAfter = time.Hour
)

// Milli is a time by the wall clock in Unix milliseconds, as it is kept.
type Milli int64

// Time returns the time in UTC.
func (m Milli) Time() time.Time { return time.UnixMilli(int64(m)).UTC() }

// Add returns the time after a duration.
func (m Milli) Add(d time.Duration) Milli { return m + Milli(d.Milliseconds()) }

// Clock is the rule about time for all that is kept. Durations are by the monotonic clock, and times by the wall clock as it is now: if
// it was set, was wrong at boot, or went on while the process was suspended, everything that lasts moves with it. What is over stays, but
// hours later than a clock that stays behind are dropped.
type Clock struct {
	// now is the last moment. anchor is the one by whose wall clock times are kept, drift how far the wall clock has gone from it.
	now, anchor time.Time
	drift       time.Duration
	// ended is the last moment of a former process. latest is the latest kept time, behind since when the clock has been behind it; zero if
	// it is not.
	ended  Milli
	latest Milli
	behind time.Time
}

// Tick is what a moment means for what is kept.
type Tick struct {
	// From is when the watched time began that ends now, at To. They are equal at a start and after a gap.
	From Milli `json:"from"`
	To   Milli `json:"to"`
	// Step is for how many milliseconds everything that lasts must be moved.
	Step Milli `json:"step,omitempty"`
	// Back says that the clock was set back for good, so that nothing is kept of what is later than From.
	Back bool `json:"reset,omitempty"`
	// Start says that the process has just started, so that nothing was watched before.
	Start bool `json:"start,omitempty"`
}

// Tick goes on to the next moment.
func (c *Clock) Tick(now time.Time) Tick {
	to := Milli(now.UnixMilli())
	t := Tick{From: to, To: to, Start: c.now.IsZero()}
	if t.Start {
		t.Step = to - max(c.ended, to)
		c.anchor = now
	} else {
		elapsed := now.Sub(c.now)
		set := now.Round(0).Sub(c.now.Round(0)) - elapsed
		if c.drift += set; c.drift.Abs() > clockTolerance {
			t.Step, c.drift, c.anchor = Milli(c.drift.Milliseconds()), 0, now
		}
		switch {
		case elapsed > MaxGap:
		case set.Abs() > clockTolerance:
			t.From = to.Add(-elapsed)
		default:
			t.From = min(Milli(c.now.UnixMilli()), to)
		}
	}
	c.now = now
	switch {
	case to >= c.latest:
		c.latest, c.behind = to, time.Time{}
	case c.behind.IsZero():
		c.behind = now
	case now.Sub(c.behind) >= acceptAfter:
		t.Back, c.latest, c.behind = true, to, time.Time{}
	}
	return t
}

// Wall returns the time of a moment by the wall clock as it is now. It stays the same for the same moment until the clock is set.
func (c *Clock) Wall(at time.Time) time.Time { return c.anchor.Round(0).Add(at.Sub(c.anchor)) }

// Resume goes on with what a former process has kept, until latest. Its last moment may be earlier, if its clock was set back.
func (c *Clock) Resume(latest, ended Milli) { c.latest, c.ended = max(latest, ended), ended }

// movedFrom returns how the times of a process that ended then are moved to the present clock: what had lasted then has lasted at least as
// long now.
func movedFrom(ended, now time.Time) (move func(time.Time) time.Time) {
	back := max(ended.Sub(now), 0)
	return func(t time.Time) time.Time { return now.Add(-max(now.Sub(t.Add(-back)), 0)) }
}
