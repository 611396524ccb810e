package fleet

import "time"

// Routine inspections find what neither events nor lists show, such as a changed limit. Each container has one every
// maxRotation lists, or more often where lists are rare. If a list does not show the age of a container's run, only an
// inspection detects a restart whose event was lost: that container has one every minRotation lists.
const (
	maxRotation      = 60
	minRotation      = 10
	slowRotationTime = 30 * time.Minute
)

// slowRotation returns the number of lists in which each container has one routine inspection, for lists at this interval.
func slowRotation(interval time.Duration) int {
	return int(min(max(slowRotationTime/max(interval, 1), minRotation), maxRotation))
}

// rotation chooses a range of containers for routine inspections, another one for each list.
type rotation struct{ first, last int }

// advance moves the range on, so that it includes each of n containers once in that many lists.
func (t *rotation) advance(n, lists int) {
	if t.last >= n {
		t.last = 0
	}
	t.first = t.last
	t.last = min(n, t.first+(n+lists-1)/lists)
}

func (t *rotation) includes(i int) bool { return i >= t.first && i < t.last }
