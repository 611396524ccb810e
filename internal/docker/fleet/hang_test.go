package fleet

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// TestHangsArePausedForLongerEachTime has an engine that never answers about a container, inspected whenever that is allowed.
func TestHangsArePausedForLongerEachTime(t *testing.T) {
	h, now := NewHangs(), portOpened
	listed := []container.Summary{{ID: "stuck"}, {ID: "well"}}
	tries := 0
	for range 24 * 120 {
		inspect, paused := h.Split(listed, now)
		if len(inspect)+len(paused) != 2 || inspect[len(inspect)-1].ID != "well" {
			t.Fatalf("inspect %v, paused %v; want well inspected", inspect, paused)
		}
		if len(inspect) == 2 {
			tries++
			h.Pause(&listed[0], now)
		}
		now = now.Add(30 * time.Second)
		h.Forget(listed, now)
	}
	if tries < 48 || tries > 54 { // 1+2+4+8+16 minutes, then every 30
		t.Errorf("inspected %d times in a day, want about 52", tries)
	}
	h.End("stuck")
	if _, paused := h.Split(listed, now); len(paused) > 0 || h.Has("stuck") {
		t.Errorf("paused %v after an answer", paused)
	}
}

func TestEventOrAnotherStateEndsAPause(t *testing.T) {
	h := NewHangs()
	h.Pause(&container.Summary{ID: "a"}, portOpened)
	h.ApplyEvent(&events.Message{Action: events.ActionHealthStatusUnhealthy, Actor: events.Actor{ID: "a"}}, portOpened)
	if _, paused := h.Split([]container.Summary{{ID: "a"}}, portOpened); len(paused) > 0 {
		t.Error("still paused after an event")
	}
	h.Pause(&container.Summary{ID: "a", State: container.StateExited}, portOpened)
	if _, paused := h.Split([]container.Summary{{ID: "a", State: container.StateRunning}}, portOpened); len(paused) > 0 {
		t.Error("still paused when the list shows another state")
	}
}

func TestContainerIsStartingUntilItsStartHasAnEvent(t *testing.T) {
	for _, begins := range []events.Action{events.ActionCreate, events.ActionDie, events.ActionStop} {
		h := NewHangs()
		h.ApplyEvent(&events.Message{Action: begins, Actor: events.Actor{ID: "a"}}, portOpened)
		h.Forget(nil, portOpened.Add(time.Minute)) // a list may be older than the event
		if !h.Starting("a", portOpened.Add(time.Minute)) {
			t.Errorf("after %s: not starting", begins)
		}
		if h.Starting("a", portOpened.Add(maxStart)) {
			t.Errorf("after %s: starting for ever", begins)
		}
		h.ApplyEvent(&events.Message{Action: events.ActionStart, Actor: events.Actor{ID: "a"}}, portOpened)
		if h.Starting("a", portOpened.Add(time.Minute)) {
			t.Errorf("after %s and start: still starting", begins)
		}
	}
}
