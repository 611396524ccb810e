package fleet

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

// Hangs are the containers that an engine hangs at.
type Hangs struct {
	byID map[string]hang
	// stall is when one is tried again where the engine hangs at all of them.
	stall hang
	// retried is when one of them was last inspected again; answersAgain is true once the engine answered about the last of them.
	retried      time.Time
	answersAgain bool
}

// NewHangs returns none.
func NewHangs() Hangs { return Hangs{byID: map[string]hang{}} }

// MayInspect reports whether a container may be inspected, or asked for its stats, now.
func (h *Hangs) MayInspect(id string, now time.Time) bool {
	one, hangs := h.byID[id]
	if !hangs {
		return true
	}
	if !h.answersAgain && (now.Before(one.until) || now.Sub(h.retried) < hangApart) {
		return false
	}
	one.until = now.Add(one.wait) // also if the inspection is cut
	h.retried, h.byID[id] = now, one
	return true
}

// Has reports whether the engine hangs at a container.
func (h *Hangs) Has(id string) bool {
	_, hangs := h.byID[id]
	return hangs
}

// TryStalled lets one container be inspected if the engine hangs at all that are to be.
func (h *Hangs) TryStalled(listed []container.Summary, now time.Time) {
	if len(listed) == 0 || h.answersAgain || now.Before(h.stall.until) {
		return
	}
	for i := range listed {
		if _, hangs := h.byID[listed[i].ID]; !hangs {
			return
		}
	}
	first := slices.MinFunc(listed, func(a, b container.Summary) int { return h.byID[a.ID].until.Compare(h.byID[b.ID].until) }).ID
	h.byID[first] = hang{wait: h.byID[first].wait}
	h.retried = time.Time{}
	h.stall.until = now.Add(h.stall.wait)
	h.stall.wait = min(max(2*h.stall.wait, stallFirst), hangMost)
}

// Inspected takes in how an inspection ended that nothing cut short.
func (h *Hangs) Inspected(id string, hung bool, now time.Time) {
	if _, hangs := h.byID[id]; hangs || hung {
		h.answersAgain = !hung
	}
	if !hung {
		delete(h.byID, id)
		h.stall = hang{}
		return
	}
	wait := min(max(2*h.byID[id].wait, hangFirst), hangMost)
	h.byID[id] = hang{until: now.Add(wait), wait: wait}
}

// Forget forgets the containers that a list does not have any more.
func (h *Hangs) Forget(listed []container.Summary) {
	maps.DeleteFunc(h.byID, func(id string, _ hang) bool {
		return !slices.ContainsFunc(listed, func(l container.Summary) bool { return l.ID == id })
	})
}
