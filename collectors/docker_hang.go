package collectors

import (
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// An engine goes on with an inspection that hangs, whether anybody waits for it or not: each one more takes memory and a
// goroutine of it. So a container that it hangs at is left alone for hangFirst, then for twice as long each time, up to
// hangMost; and of all such containers one is tried again every hangApart at most. Once one of them is answered, all are tried.
// While the engine hangs at all of its containers, one is tried with the next reading, then after stallFirst, then after twice as
// long each time: so an engine that hung for a moment is not down for longer than it hung twice over.
const (
	hangFirst  = time.Minute
	hangMost   = 30 * time.Minute
	hangApart  = 10 * time.Second
	stallFirst = 2 * time.Second
)

// hang is until when a container is left alone, and how long that was.
type hang struct {
	until time.Time
	wait  time.Duration
}

// mayInspect reports whether a container may be inspected, or asked for its stats, now.
func (c *docker) mayInspect(id string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h, hangs := c.hanging[id]
	if !hangs {
		return true
	}
	if !c.answersAgain && (now.Before(h.until) || now.Sub(c.retried) < hangApart) {
		return false
	}
	h.until = now.Add(h.wait) // also if the inspection is cut
	c.retried, c.hanging[id] = now, h
	return true
}

// hangs reports whether the engine hangs at a container.
func (c *docker) hangs(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, hangs := c.hanging[id]
	return hangs
}

// tryStalled lets one container be inspected if the engine hangs at all that are to be.
func (c *docker) tryStalled(listed []container.Summary, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(listed) == 0 || c.answersAgain || now.Before(c.stall.until) {
		return
	}
	for i := range listed {
		if _, hangs := c.hanging[listed[i].ID]; !hangs {
			return
		}
	}
	first := slices.MinFunc(listed, func(a, b container.Summary) int { return c.hanging[a.ID].until.Compare(c.hanging[b.ID].until) }).ID
	c.hanging[first] = hang{wait: c.hanging[first].wait}
	c.retried = time.Time{}
	c.stall.until = now.Add(c.stall.wait)
	c.stall.wait = min(max(2*c.stall.wait, stallFirst), hangMost)
}

// inspected takes in how an inspection ended that nothing cut short.
func (c *docker) inspected(id string, hung bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, hangs := c.hanging[id]; hangs || hung {
		c.answersAgain = !hung
	}
	if !hung {
		delete(c.hanging, id)
		c.stall = hang{}
		return
	}
	wait := min(max(2*c.hanging[id].wait, hangFirst), hangMost)
	c.hanging[id] = hang{until: now.Add(wait), wait: wait}
}

// forgetHangs forgets the containers that a list does not have any more. The caller holds the lock.
func (c *docker) forgetHangs(listed []container.Summary) {
	maps.DeleteFunc(c.hanging, func(id string, _ hang) bool {
		return !slices.ContainsFunc(listed, func(l container.Summary) bool { return l.ID == id })
	})
}
