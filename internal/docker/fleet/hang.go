package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// An engine does not describe a container while it starts it, which takes seconds on a busy machine. So an inspection that took too
// long is repeated by the next poll, until the engine has not answered about the container for slowStart.
//
// An engine continues an inspection that hangs after the exporter has given up, and each one costs it memory and a goroutine.
// So the exporter then pauses inspections of such a container for firstHangPause, then twice as long each time, up to
// maxHangPause. It retries at most one of them every hangRetryInterval, and all of them once the engine answers about one.
//
// While the engine hangs at all of its containers, the exporter tries one in the next poll, then after firstStallPause, then
// after twice as long each time. So after a short hang, the target is not down for more than twice as long as the hang.
const (
	slowStart         = 20 * time.Second
	firstHangPause    = time.Minute
	maxHangPause      = 30 * time.Minute
	hangRetryInterval = 10 * time.Second
	firstStallPause   = 2 * time.Second
)

// pause is a time without inspections of a container. Its length is 0 while the engine may still be starting the container; since is
// when it first did not answer.
type pause struct {
	since, until time.Time
	length       time.Duration
}

// hangs reports whether it is more than a slow start.
func (p pause) hangs() bool { return p.length > 0 }

// Hangs are the containers that an engine hangs at.
type Hangs struct {
	pauses map[string]pause
	// allHang is the pause while the engine hangs at all containers.
	allHang pause
	// lastRetry is when one of them was last inspected again. answersAgain is true if the engine answered the last inspection of one.
	lastRetry    time.Time
	answersAgain bool
}

// NewHangs returns an empty set.
func NewHangs() Hangs { return Hangs{pauses: map[string]pause{}} }

// MayInspect reports whether to inspect or measure a container now. It records a retry.
func (h *Hangs) MayInspect(id string, now time.Time) bool {
	one := h.pauses[id]
	if !one.hangs() {
		return true
	}
	if !h.answersAgain && (now.Before(one.until) || now.Sub(h.lastRetry) < hangRetryInterval) {
		return false
	}
	one.until = now.Add(one.length) // even if the inspection is cut short
	h.lastRetry, h.pauses[id] = now, one
	return true
}

// Has reports whether the last inspection of a container took too long.
func (h *Hangs) Has(id string) bool {
	_, has := h.pauses[id]
	return has
}

// AllowOneIfStalled allows the inspection of one container if the engine hangs at all of the listed ones.
func (h *Hangs) AllowOneIfStalled(listed []container.Summary, now time.Time) {
	if len(listed) == 0 || h.answersAgain || now.Before(h.allHang.until) {
		return
	}
	for i := range listed {
		if !h.pauses[listed[i].ID].hangs() {
			return
		}
	}
	first := slices.MinFunc(listed, func(a, b container.Summary) int { return h.pauses[a.ID].until.Compare(h.pauses[b.ID].until) }).ID
	h.pauses[first] = pause{since: h.pauses[first].since, length: h.pauses[first].length}
	h.lastRetry = time.Time{}
	h.allHang.until = now.Add(h.allHang.length)
	h.allHang.length = min(max(2*h.allHang.length, firstStallPause), maxHangPause)
}

// RecordInspection records whether an inspection took too long. Do not call it for one that was cut short.
func (h *Hangs) RecordInspection(id string, late bool, now time.Time) {
	one, known := h.pauses[id]
	if !known {
		one.since = now
	}
	hangs := late && now.Sub(one.since) >= slowStart
	if one.hangs() || hangs {
		h.answersAgain = !late
	}
	if !late {
		delete(h.pauses, id)
		h.allHang = pause{}
		return
	}
	if hangs {
		one.length = min(max(2*one.length, firstHangPause), maxHangPause)
		one.until = now.Add(one.length)
	}
	h.pauses[id] = one
}

// Forget forgets the containers that are no longer in the list.
func (h *Hangs) Forget(listed []container.Summary) {
	maps.DeleteFunc(h.pauses, func(id string, _ pause) bool {
		return !slices.ContainsFunc(listed, func(l container.Summary) bool { return l.ID == id })
	})
}
