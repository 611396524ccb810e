package status

import (
	"slices"
	"time"
)

const (
	// maxTransitions limits all transitions, maxOfSubject the transitions per service or container: a flapping one must not push
	// out what broke first.
	maxTransitions, maxOfSubject = 100, 10
	// foldWithin is how soon a transition must repeat to be counted in the same line.
	foldWithin = time.Hour
)

// transitions are the last transitions.
type transitions struct {
	list    []Transition // newest first, by Until
	dropped int
}

// add adds a transition, or counts it as a repetition of an equal one.
func (c *transitions) add(t Transition) {
	t.Count, t.Until = max(t.Count, 1), t.Time
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
	switch {
	case of > maxOfSubject:
	case len(c.list) > maxTransitions:
		oldest = len(c.list) - 1
	default:
		return
	}
	c.list = slices.Delete(c.list, oldest, oldest+1)
	c.dropped++
}
