package status

import (
	"slices"
	"time"
)

const (
	// maxTransitions bounds how many changes of state are remembered, maxOfSubject how many of them one service or container
	// may have: what fails again and again must not push out what broke first.
	maxTransitions, maxOfSubject = 100, 10
	// foldWithin is how soon after the last time a change must come again to be told in one line with it.
	foldWithin = time.Hour
)

// changes are the last changes of state.
type changes struct {
	list []Transition // newest first, by the last time of each
	left int          // how many older ones have been dropped
}

// note adds a change, or counts it to the one that was the same.
func (c *changes) note(t Transition) {
	t.Count = max(t.Count, 1)
	t.Until = t.Time
	same := func(o Transition) bool { return o.Kind == t.Kind && o.Name == t.Name && o.DockerHost == t.DockerHost }
	again := slices.IndexFunc(c.list, func(o Transition) bool { return same(o) && o.To == t.To && t.Until.Sub(o.Until) < foldWithin })
	if again >= 0 {
		first := c.list[again]
		c.list = slices.Delete(c.list, again, again+1)
		t.Time, t.From, t.Count = first.Time, first.From, first.Count+t.Count
	}
	c.list = slices.Insert(c.list, 0, t)
	of, oldest := 0, 0
	for i := range c.list {
		if same(c.list[i]) {
			of, oldest = of+1, i
		}
	}
	if of > maxOfSubject {
		c.list = slices.Delete(c.list, oldest, oldest+1)
		c.left++
	}
	if n := len(c.list) - maxTransitions; n > 0 {
		c.list = c.list[:maxTransitions]
		c.left += n
	}
}
