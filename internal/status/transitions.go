package status

import (
	"math"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

const (
	// maxTransitions limits all transitions, maxOfSubject the transitions per service or container: a flapping one must not push
	// out what broke first.
	maxTransitions, maxOfSubject = 100, 10
	// foldWithin is how soon a transition must repeat to be counted in the same line.
	foldWithin = time.Hour
)

// transitions are the last transitions, a fold over the rounds of the judge.
type transitions struct {
	list    []Transition // newest first, by Until
	dropped int
	// states are the last known ones, fresh the changes that no report has told yet.
	states map[health.Subject]health.State
	fresh  map[health.Subject][]health.Event
}

// take takes in the changes of states. They get their words from the next report.
func (c *transitions) take(events []health.Event) {
	for _, e := range events {
		if c.shows(&e) {
			c.fresh[e.Subject()] = append(c.fresh[e.Subject()], e)
		}
	}
}

// shows reports whether an event is news to people, from the last known state. What comes up after the start of the exporter has not
// changed, and a container has not while nobody can look at it.
func (c *transitions) shows(e *health.Event) bool {
	of, container := e.Subject(), e.Subject().OnEngine()
	if e.Joins() {
		was := health.Subject(e.Was)
		if state, known := c.states[was]; known {
			c.states[of] = state
			delete(c.states, was)
		}
		return false
	}
	if container && e.To == health.NotWatched && e.Reason == "" {
		return false
	}
	last, known := c.states[of]
	c.states[of] = e.To
	if !known {
		return e.To == health.Down && !container
	}
	e.From = last
	return e.Times > 0 || e.To != last
}

// tell adds the fresh changes of a subject, with the words that a report has for it. They may be none of the present.
func (c *transitions) tell(of health.Subject, level Level, text string) {
	for _, e := range c.fresh[of] {
		t := Transition{
			Time:       e.At.Time(),
			Kind:       of.Kind,
			Name:       of.Name,
			DockerHost: of.Host,
			From:       stateWords[e.From],
			To:         stateWords[e.To],
			Level:      level,
			Text:       text,
		}
		if e.Times > 0 {
			t.To, t.Text, t.Count = "restarted", "now "+stateWords[e.To], int(min(e.Times, math.MaxInt32))
		}
		c.add(t)
	}
	delete(c.fresh, of)
}

var stateWords = [health.States]string{"up", "up, with a problem", "down", "under maintenance", "not watched"}

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
