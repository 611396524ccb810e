package status

import (
	"maps"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// increase is by how much a counter has grown at a moment.
type increase struct {
	at time.Time
	by float64
}

// counter remembers when a counter has grown. The first value that is seen counts for nothing; after one that is less
// than the one before, the counter has begun anew.
type counter struct {
	seen      bool
	last      float64
	increases []increase
}

// observe notes the value of now and forgets what was longer than window ago. It returns by how much the counter has grown.
func (c *counter) observe(now time.Time, v float64, window time.Duration) float64 {
	grown := 0.0
	switch {
	case !c.seen:
		c.seen = true
	case v > c.last:
		grown = v - c.last
	case v < c.last:
		grown = v
	}
	c.last = v
	if grown > 0 {
		c.increases = append(c.increases, increase{now, grown})
	}
	for len(c.increases) > 0 && now.Sub(c.increases[0].at) >= window {
		c.increases = c.increases[1:]
	}
	return grown
}

// forgive forgets growth that was seen at from or later.
func (c *counter) forgive(from time.Time) {
	for n := len(c.increases); n > 0 && !c.increases[n-1].at.Before(from); n-- {
		c.increases = c.increases[:n-1]
	}
}

// within is by how much the counter grew within the window that observe was told.
func (c *counter) within() float64 {
	sum := 0.0
	for _, i := range c.increases {
		sum += i.by
	}
	return sum
}

// until is when no more than over of the growth will be left in the window, if nothing is added; zero where that is so
// already.
func (c *counter) until(over float64, window time.Duration) time.Time {
	var end time.Time
	left := c.within()
	for _, i := range c.increases {
		if left <= over {
			break
		}
		left -= i.by
		end = i.at.Add(window)
	}
	return end
}

// rate is how fast counters of several series grow together, by their values at each reading.
type rate struct {
	series map[string]*counter
	total  float64
	points []increase // by is the total
}

// observe notes what a reading found. A reading that was seen before changes nothing.
func (r *rate) observe(at time.Time, samples []exposition.Line, window time.Duration) {
	if n := len(r.points); n > 0 && !at.After(r.points[n-1].at) {
		return
	}
	before := r.series
	r.series = make(map[string]*counter, len(samples))
	for _, s := range samples {
		var b strings.Builder
		for _, l := range s.Labels {
			b.WriteString(l.Name + "\x00" + l.Value + "\x00")
		}
		key := b.String()
		c := before[key]
		if c == nil {
			c = &counter{}
		}
		r.total += c.observe(at, s.Value, 0)
		r.series[key] = c
	}
	r.points = append(r.points, increase{at, r.total})
	for len(r.points) > 0 && at.Sub(r.points[0].at) > window {
		r.points = r.points[1:]
	}
}

// perMinute is the rate over the window; false until two readings lie in it.
func (r *rate) perMinute(now time.Time, window time.Duration) (float64, bool) {
	points := r.points
	for len(points) > 0 && now.Sub(points[0].at) > window {
		points = points[1:]
	}
	if len(points) < 2 {
		return 0, false
	}
	first, last := points[0], points[len(points)-1]
	return (last.by - first.by) / last.at.Sub(first.at).Minutes(), true
}

// holds remembers since when conditions hold.
type holds map[string]holding

// holding is a condition: since when it holds, and when that was last seen.
type holding struct{ since, seen time.Time }

// hold returns for how long a condition has held, and false where it does not.
func (h holds) hold(key string, is bool, now time.Time) (time.Duration, bool) {
	if !is {
		delete(h, key)
		return 0, false
	}
	c, known := h[key]
	if !known {
		c.since = now
	}
	c.seen = now
	h[key] = c
	return now.Sub(c.since), true
}

// last is hold of a condition that may be unknown for a moment: until grace is over it holds on if it did.
func (h holds) last(key string, known, is bool, grace time.Duration, now time.Time) (time.Duration, bool) {
	if known {
		return h.hold(key, is, now)
	}
	if c, held := h[key]; held && now.Sub(c.seen) <= grace {
		return now.Sub(c.since), true
	}
	delete(h, key)
	return 0, false
}

// forget drops the conditions of which nobody has said anything for long.
func (h holds) forget(now time.Time) {
	maps.DeleteFunc(h, func(_ string, c holding) bool { return now.Sub(c.seen) > sweepEvery })
}
