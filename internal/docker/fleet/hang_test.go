package fleet

import (
	"fmt"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// TestHangingContainersAreTriedAgain has an engine hang at all of its containers from the first reading on, and answer after some.
func TestHangingContainersAreTriedAgain(t *testing.T) {
	const every = 30 * time.Second // between readings
	for _, tt := range []struct {
		name                 string
		containers, readings int
		hangs                int // readings during which it hangs
		tried                int // at most, while it hangs
		left                 int // alone in the end
	}{
		{
			"for long: less and less often",
			3,
			120,
			120,
			43,
			3,
		},
		{
			"for a moment: all in the next reading",
			20,
			2,
			1,
			20,
			0,
		},
		{
			"for a while: all in the third reading after",
			20,
			9,
			6,
			46,
			0,
		},
	} {
		h, now := NewHangs(), portOpened
		listed := make([]container.Summary, tt.containers)
		for i := range listed {
			listed[i].ID = fmt.Sprint(i)
		}
		tried := 0
		for reading := range tt.readings {
			hangs := reading < tt.hangs
			h.AllowOneIfStalled(listed, now)
			for _, l := range listed {
				if h.MayInspect(l.ID, now) {
					h.RecordInspection(l.ID, hangs, now)
					if hangs {
						tried++
					}
				}
			}
			now = now.Add(every)
		}
		if tried > tt.tried || len(h.pauses) != tt.left {
			t.Errorf("%s: %d inspections hang, want %d at most; %d containers are left alone, want %d",
				tt.name, tried, tt.tried, len(h.pauses), tt.left)
		}
	}
}

// TestSlowStartIsNoHang has an engine describe a container only once it has started it, and others at once.
func TestSlowStartIsNoHang(t *testing.T) {
	for _, tt := range []struct {
		takes, every time.Duration
		tried        int // before it answers, or at most if it hangs
		hangs        bool
	}{
		{
			5 * time.Second,
			time.Second,
			5,
			false,
		},
		{
			15 * time.Second,
			time.Second,
			15,
			false,
		},
		{
			25 * time.Second,
			30 * time.Second,
			1,
			false,
		},
		{
			10 * time.Minute,
			time.Second,
			25,
			true,
		},
	} {
		h, began, tried := NewHangs(), portOpened, 0
		listed := []container.Summary{{ID: "slow"}, {ID: "other"}}
		for now := began; now.Sub(began) < tt.takes; now = now.Add(tt.every) {
			h.AllowOneIfStalled(listed, now)
			if h.RecordInspection("other", false, now); h.MayInspect("slow", now) {
				tried++
				h.RecordInspection("slow", true, now)
			}
		}
		if again := h.MayInspect("slow", began.Add(tt.takes)); again == tt.hangs || tried > tt.tried || !tt.hangs && tried < tt.tried {
			t.Errorf("a start that takes %s, polled every %s: inspected %d times, want %d; then again: %t",
				tt.takes, tt.every, tried, tt.tried, again)
		}
	}
}
