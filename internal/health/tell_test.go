package health

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

// chain folds the events of all rounds of a test, and holds after each one that this is what the judgement says.
type chain struct {
	states   map[Subject]State
	problems map[toldKey]Event
	resumed  time.Time
	last     Milli
}

func (c *chain) follow(w *world) {
	w.t.Helper()
	r := &w.last.Round
	if r.Start || c.states == nil {
		c.states, c.resumed, c.last = map[Subject]State{}, w.now, r.To
	}
	if c.problems == nil {
		c.problems = map[toldKey]Event{}
	}
	for key, e := range c.problems {
		e.Since += r.Step
		c.problems[key] = e
	}
	if r.From > r.To || r.From < min(c.last+r.Step, r.To) {
		w.t.Errorf("the round from %d to %d follows one until %d", r.From, r.To, c.last)
	}
	c.last = r.To
	if !slices.IsSortedFunc(r.Events, func(a, b Event) int { return int(a.At - b.At) }) {
		w.t.Errorf("the events are not in the order of time: %+v", r.Events)
	}
	for _, e := range r.Events {
		c.add(w, e)
	}
	c.compareProblems(w)
	for i := range w.last.Problems {
		if p := &w.last.Problems[i]; p.Kind == KindTarget && p.Alert == AlertTargetDown && !p.Unknown && !p.Excuse.Holds() {
			if state := c.states[p.Subject]; state != Down && state != Maintenance {
				w.t.Errorf("%s is %s, but has been told to be down", p.Name, state)
			}
		}
	}
}

// add applies an event, which must change something.
func (c *chain) add(w *world, e Event) {
	w.t.Helper()
	key := toldKey{e.Of, e.Alert, e.Part}
	before, known := c.problems[key]
	switch {
	case e.Alert == "":
		from, known := c.states[e.Subject()]
		if !known {
			from = NotWatched
		}
		if e.From != from || e.From == e.To && e.Times == 0 || e.At < w.last.Round.From || e.At > w.last.Round.To {
			w.t.Errorf("%+v, which was %s", e, from)
		}
		c.states[e.Subject()] = e.To
	case e.Over:
		if !known || e.At > w.last.Round.To {
			w.t.Errorf("%+v ends, which was not told: %t", e, known)
		}
		delete(c.problems, key)
	default:
		if before.At = e.At; known && before == e {
			w.t.Errorf("%+v changes nothing", e)
		}
		c.problems[key] = e
	}
}

// compareProblems holds that the events have told exactly what the judgement says.
func (c *chain) compareProblems(w *world) {
	w.t.Helper()
	present := map[toldKey]bool{}
	for _, p := range w.last.Problems {
		key := toldKey{Key(p.Subject), p.Alert, p.Of}
		e, told := c.problems[key]
		present[key] = true
		cause := p.Cause
		if e.Cause == (Key{}) {
			cause = Subject{}
			if p.Cause != p.Subject {
				cause = p.Cause
			}
		}
		since := (w.last.Round.To.Time().Sub(e.Since.Time()) - p.Lasted).Abs()
		if !told || e.Severity != p.Severity || e.Excuse != p.Excuse || e.AtLeast != p.AtLeast || e.Cause != Key(cause) ||
			since > clockTolerance && !p.Unknown {
			w.t.Errorf("told %t: %+v\nof the problem %+v", told, e, p)
		}
	}
	for key, e := range c.problems {
		v, watched := w.last.Verdicts[e.Subject()]
		allRead := !slices.ContainsFunc(w.Engines, func(e Engine) bool { return !e.Read })
		if !present[key] && !v.Unknown && (watched || allRead || w.now.Sub(c.resumed) > unreadGrace) {
			w.t.Errorf("%+v was not told to be over", e)
		}
	}
}

// events are those of the last round as text, without times of day.
func (w *world) events() (list []string) {
	for _, e := range w.last.Round.Events {
		text := fmt.Sprintf("%s %s", e.Of.Name, e.Alert)
		switch {
		case e.Alert == "":
			text = fmt.Sprintf("%s %s to %s", e.Of.Name, e.From, e.To)
			if e.Reason != "" {
				text += " (" + e.Reason + ")"
			}
			if e.Times > 0 {
				text += fmt.Sprintf(" %d times", e.Times)
			}
		case e.Over:
			text += " over"
		default:
			text += " " + e.Severity.String()
			if e.Excuse.Holds() {
				text += " " + e.Excuse.Reason + "(" + e.Excuse.Cause + ")"
			}
			if e.Cause != (Key{}) {
				text += " by " + e.Cause.Name
			}
		}
		if e.AtLatest {
			text += " at the latest"
		}
		if e.Unwatched {
			text += " unwatched"
		}
		list = append(list, text)
	}
	return list
}

func (w *world) tells(want ...string) {
	w.t.Helper()
	w.look()
	if got := w.events(); !slices.Equal(got, want) {
		w.t.Errorf("got  %q,\nwant %q", got, want)
	}
}

// TestEventsTellEachChangeOnce has a database stop with what needs it, and come back.
func TestEventsTellEachChangeOnce(t *testing.T) {
	w := stack(t)
	w.tells()
	w.container("db").State = "exited"
	w.tells("db up to down (exited)", "db ContainerDown pending")
	w.tells()
	w.target("api").Up, w.target("api").Reason = false, "timeout"
	w.now = w.now.Add(10 * time.Second)
	w.tells("api up to down (timeout)", "api TargetDown pending dependency(db) by db")
	w.now = w.now.Add(time.Minute)
	w.tells("db ContainerDown warning")
	w.now = w.now.Add(4 * time.Minute)
	w.tells("db ContainerDown critical")
	w.target("api").Read = false
	w.tells("api down to not_watched")
	w.target("api").Read, w.target("api").Up = true, true
	w.tells("api not_watched to up", "api TargetDown over at the latest")
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "db"}}
	w.tells("db down to maintenance")
	w.container("db").State, w.Maintenance = Running, nil
	w.container("db").Restarts++
	w.tells("db maintenance to up 1 times", "db ContainerDown over")
	w.pass(20 * time.Minute)
	w.container("web").Health = Unhealthy
	w.tells("web up to degraded (ContainerUnhealthy)", "web ContainerUnhealthy warning")
	w.Targets = w.Targets[1:]
	w.tells("api up to not_watched")
}

// TestEventsHaveTheTimesOfReadings has readings that end before the judgement, but not before the one before it.
func TestEventsHaveTheTimesOfReadings(t *testing.T) {
	w := stack(t)
	for before, want := range map[time.Duration]time.Duration{
		700 * time.Millisecond: 700 * time.Millisecond, time.Hour: 10 * time.Second, -time.Hour: 0,
	} {
		w.target("api").Up = !w.target("api").Up
		w.now = w.now.Add(10 * time.Second)
		w.target("api").ReadAt, w.target("api").Took = w.now.Add(-before), 5*time.Millisecond
		w.look()
		if e := w.last.Round.Events[0]; w.now.Sub(e.At.Time()) != want {
			t.Errorf("read %s before: told %s before, want %s", before, w.now.Sub(e.At.Time()), want)
		}
	}
}

// TestLatencyIsOfEachSuccessfulReadingOnce counts no failure, and no reading twice.
func TestLatencyIsOfEachSuccessfulReadingOnce(t *testing.T) {
	w := stack(t)
	var sum Round
	read := func(up bool, took time.Duration) {
		w.now = w.now.Add(time.Second)
		x := w.target("api")
		x.Up, x.ReadAt, x.Took, x.Every = up, w.now, took, 30*time.Second
		for range 2 {
			w.look()
			sum.Join(&w.last.Round)
		}
	}
	w.target("web").ReadAt = w.now
	w.look()
	read(true, 7*time.Millisecond)
	read(false, time.Millisecond)
	read(true, 3*time.Millisecond)
	read(true, -time.Second)
	got := sum.Latency[Key(TargetSubject("api"))]
	if got != (Latency{3, 0, 7000, 10000}) || len(sum.Latency) != 1 || sum.Every != 30*time.Second {
		t.Errorf("got %v", sum.Latency)
	}
}

// TestRestartTellsOnlyWhatChanged has a judge that goes on with what was told, in which a problem ends unseen and another lasts.
func TestRestartTellsOnlyWhatChanged(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.target("web").Up = "exited", false
	w.pass(10 * time.Minute)
	w.now = w.now.Add(time.Hour)
	w.restart(true)
	w.target("web").Up = true
	w.tells("api not_watched to up", "web not_watched to up", "api not_watched to up", "db not_watched to down (exited)",
		"web not_watched to up", "web TargetDown over at the latest")
	w.restart(true)
	w.Engines[0].Read = false
	w.tells("api not_watched to up", "web not_watched to up")
	w.Engines[0].Containers = w.Engines[0].Containers[1:]
	w.Engines[0].Read = true
	w.tells("api not_watched to up", "web not_watched to up", "db ContainerDown over at the latest unwatched")
}

// TestCountedEventsEndWithTheLast has restarts that are forgotten after a while.
func TestCountedEventsEndWithTheLast(t *testing.T) {
	w := stack(t)
	for range 5 {
		w.container("db").Restarts++
		w.pass(10 * time.Second)
	}
	last := w.now.Add(-10 * time.Second)
	for range 1000 {
		w.now = w.now.Add(10 * time.Second)
		w.look()
		for _, e := range w.last.Round.Events {
			if e.Over {
				if !e.At.Time().Equal(last) || e.AtLatest {
					t.Errorf("got %+v, want an end at %s", e, last)
				}
				return
			}
		}
	}
	t.Error("it does not end")
}

// TestRoundsAreRestored holds that a round says the same after it was kept, but for what only people read.
func TestRoundsAreRestored(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.target("web").Up = "exited", false
	w.target("api").ReadAt = w.now
	for range 20 {
		w.pass(time.Minute)
		raw, err := json.Marshal(&w.last.Round)
		if err != nil {
			t.Fatal(err)
		}
		var got Round
		if err := json.Unmarshal(raw, &got); err != nil {
			t.Fatal(err)
		}
		want := w.last.Round
		want.Events = slices.Clone(want.Events)
		for i := range want.Events {
			want.Events[i].From, want.Events[i].Reason, want.Events[i].Times = 0, "", 0
		}
		want.Every = 0
		if one, other := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); one != other {
			t.Errorf("got  %s,\nwant %s", one, other)
		}
	}
	for text, want := range map[string]Key{

		"service/a/b":           Key(TargetSubject("a/b")),
		"container/tcp://x:1/c": Key(ContainerSubject("tcp://x:1", "c")),
		"exporter/":             Key(ExporterSubject),
	} {
		var k Key
		if err := k.UnmarshalText([]byte(text)); err != nil || k != want {
			t.Errorf("%s: got %+v, %v", text, k, err)
		}
	}
	for _, bad := range []string{"", "service", "container/x"} {
		if new(Key).UnmarshalText([]byte(bad)) == nil && bad != "service" {
			t.Errorf("%q is a subject", bad)
		}
	}
}
