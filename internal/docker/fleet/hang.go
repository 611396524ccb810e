package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// An engine continues an inspection that hangs after the exporter has given up, and logs each one. So the exporter pauses
// inspections of such a container for firstHangPause, then twice as long each time, up to maxHangPause.
const (
	firstHangPause = time.Minute
	maxHangPause   = 30 * time.Minute
	// maxStart is how long after its last event a container may be starting: until then, an engine that does not describe it is well.
	maxStart = 10 * time.Minute
)

// pause is a time without inspections of a container. It ends early if the list shows another state.
type pause struct {
	state  string
	until  time.Time
	length time.Duration
}

// Hangs are the containers that an engine hangs at, and those that it may be starting.
type Hangs struct {
	pauses map[string]pause
	// starting is the time of the event after which a start must follow, by id.
	starting map[string]time.Time
}

// NewHangs returns an empty set.
func NewHangs() Hangs { return Hangs{pauses: map[string]pause{}, starting: map[string]time.Time{}} }

// ApplyEvent ends the container's pause. An engine sends the event of a start at its end.
func (h *Hangs) ApplyEvent(e *events.Message, now time.Time) {
	id := e.Actor.ID
	delete(h.pauses, id)
	switch e.Action {
	case events.ActionCreate, events.ActionDie, podmanDied, events.ActionStop:
		h.starting[id] = now
	case events.ActionStart, events.ActionRestart:
		delete(h.starting, id)
	default:
	}
}

// Starting reports whether the engine may be starting the container.
func (h *Hangs) Starting(id string, now time.Time) bool {
	since, known := h.starting[id]
	return known && now.Sub(since) < maxStart
}

// Pause pauses inspections of a container that the engine hangs at.
func (h *Hangs) Pause(l *container.Summary, now time.Time) {
	length := min(max(2*h.pauses[l.ID].length, firstHangPause), maxHangPause)
	h.pauses[l.ID] = pause{l.State, now.Add(length), length}
}

// End ends the pauses of a container about which the engine has answered.
func (h *Hangs) End(id string) { delete(h.pauses, id) }

// Has reports whether the engine did not answer the last inspection of a container.
func (h *Hangs) Has(id string) bool {
	_, has := h.pauses[id]
	return has
}

// Split separates the containers whose inspections are paused.
func (h *Hangs) Split(wanted []container.Summary, now time.Time) (inspect, paused []container.Summary) {
	for i := range wanted {
		if p := h.pauses[wanted[i].ID]; p.state == wanted[i].State && now.Before(p.until) {
			paused = append(paused, wanted[i])
		} else {
			inspect = append(inspect, wanted[i])
		}
	}
	return inspect, paused
}

// Forget forgets the containers that are no longer in the list, and starts that are over.
func (h *Hangs) Forget(listed []container.Summary, now time.Time) {
	maps.DeleteFunc(h.pauses, func(id string, _ pause) bool {
		return !slices.ContainsFunc(listed, func(l container.Summary) bool { return l.ID == id })
	})
	maps.DeleteFunc(h.starting, func(id string, _ time.Time) bool { return !h.Starting(id, now) })
}
