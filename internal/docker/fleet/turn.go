package fleet

import "time"

// Without a reason a container is inspected once in so many lists, for what neither events nor lists have told, such as a
// limit that was changed. Where a list does not tell the age of a run either, a restart whose event was lost looks as
// before, so that such a container has its turn more often. Where lists are rare, so has every container.
const (
	slowTurn  = 60
	quickTurn = 10
	slowRound = 30 * time.Minute
)

// slowLists is in how many lists each container has its turn, if they come at that distance.
func slowLists(distance time.Duration) int {
	return int(min(max(slowRound/max(distance, 1), quickTurn), slowTurn))
}

// turn is the part of the containers whose turn it is.
type turn struct{ first, last int }

// next passes the turn on, so that each of n has it once in that many lists.
func (t *turn) next(n, lists int) {
	if t.last >= n {
		t.last = 0
	}
	t.first = t.last
	t.last = min(n, t.first+(n+lists-1)/lists)
}

func (t *turn) has(i int) bool { return i >= t.first && i < t.last }
