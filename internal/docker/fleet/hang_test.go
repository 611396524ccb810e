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
	for _, event := range []bool{false, true} {
		h, now := NewHangs(), container.Summary{ID: "a", State: container.StateRunning}
		if h.Pause(&container.Summary{ID: "a", State: container.StateExited}, portOpened); event {
			now.State = container.StateExited
			h.ApplyEvent(&events.Message{Action: events.ActionHealthStatusUnhealthy, Actor: events.Actor{ID: "a"}}, portOpened)
		}
		if _, paused := h.Split([]container.Summary{now}, portOpened); len(paused) > 0 {
			t.Errorf("still paused, after an event: %t", event)
		}
	}
}

func TestContainerIsStartingUntilItsStartHasAnEvent(t *testing.T) {
	later := portOpened.Add(time.Minute)
	for _, begins := range []events.Action{events.ActionCreate, events.ActionDie, podmanDied, events.ActionStop} {
		h := NewHangs()
		h.ApplyEvent(&events.Message{Action: begins, Actor: events.Actor{ID: "a"}}, portOpened)
		h.Forget(nil, later) // a list may be older than the event
		soon, late := h.Starting("a", later), h.Starting("a", portOpened.Add(maxStart))
		h.ApplyEvent(&events.Message{Action: events.ActionStart, Actor: events.Actor{ID: "a"}}, portOpened)
		if after := h.Starting("a", later); !soon || late || after {
			t.Errorf("%s: starting after a minute: %t, for ever: %t, after its start: %t", begins, soon, late, after)
		}
	}
}
