package fleet

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// TestEngineThatHangsForLongIsTriedLessOften counts what is tried in an hour of an engine that hangs at all of its containers.
func TestEngineThatHangsForLongIsTriedLessOften(t *testing.T) {
	c := NewHangs()
	listed := []container.Summary{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	now := time.Now()
	tried := 0
	for range 120 { // readings
		c.TryStalled(listed, now)
		for _, l := range listed {
			if c.MayInspect(l.ID, now) {
				tried++
				c.Inspected(l.ID, true, now)
			}
		}
		now = now.Add(30 * time.Second)
	}
	if tried > 40 {
		t.Errorf("%d inspections hang after an hour, want the pauses to grow", tried)
	}
}
