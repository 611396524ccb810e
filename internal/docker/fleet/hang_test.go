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
		{"for long: less and less often", 3, 120, 120, 40, 3},
		{"for a moment: all in the next reading but one", 20, 3, 1, 20, 0},
		{"for a while: all in the third reading after", 20, 8, 5, 26, 0},
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
			t.Errorf("%s: %d inspections hang, want %d at most; %d containers are left alone, want %d", tt.name, tried, tt.tried, len(h.pauses), tt.left)
		}
	}
}
