package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
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
		if p := &w.last.Problems[i]; p.Kind == KindTarget && p.Alert == AlertTargetDown && !p.Unknown && !p.Excuse.Holds() && !p.UpAgain {
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
	case e.Joins():
		c.join(e)
	case e.Alert == "":
		from, known := c.states[e.Subject()]
		if !known {
			from = NotWatched
		}
		if e.From != from || e.From == e.To && e.Times == 0 || e.At < w.last.Round.From || e.At > w.last.Round.To {
			w.t.Errorf("%+v, which was %s", e, from)
		}
		c.states[e.Subject()] = e.To
	case e.Ended:
		_, watched := w.last.Verdicts[e.Subject()]
		if !known || e.At > w.last.Round.To || e.Unwatched != (!watched && e.Subject() != ExporterSubject) {
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

// join moves what a workload continues to it, unless it has that.
func (c *chain) join(e Event) {
	was := Subject(e.Was)
	if state, known := c.states[was]; known {
		moveKey(c.states, was, e.Subject(), state)
	}
	for key, p := range maps.Clone(c.problems) {
		if key.of == e.Was {
			p.Of = e.Of
			moveKey(c.problems, key, toldKey{e.Of, key.alert, key.part}, p)
		}
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
		case e.Ended:
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
	w.container("web").Restarts++
	w.tells("web up to degraded (ContainerRestarts) 1 times", "web ContainerRestarts warning")
	w.now = w.now.Add(time.Minute)
	w.container("web").Restarts++
	w.tells("web degraded to degraded (ContainerRestarts) 1 times", "web ContainerRestarts warning")
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
	w.target("api").Read = false
	read(true, 5*time.Millisecond)
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
			if e.Ended {
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
	events := 0
	for n := range 60 {
		w.now = w.now.Add(10 * time.Second)
		if w.target("api").ReadAt = w.now; n == 40 {
			w.container("db").State, w.target("web").Up = Running, true
		}
		w.look()
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
		want.Every, events = 0, events+len(want.Events)
		if one, other := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); one != other {
			t.Errorf("got  %s,\nwant %s\nfrom %s", one, other, raw)
		}
	}
	if events < 8 {
		t.Errorf("%d events: the test shows too little", events)
	}
	// An event has all its times in the file, unless they are those of its round.
	text := `{"from":1,"to":9,"changes":[{"of":"service/a","alert":"A"},{"at":5,"of":"service/a","alert":"A","since":3},` +
		`{"at":5,"of":"service/b"},{"of":"service/a","alert":"A","over":true}]}`
	var r Round
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatal(err)
	}
	var times []Milli
	for _, e := range r.Events {
		times = append(times, e.At, e.Since)
	}
	again, err := json.Marshal(&r)
	if want := []Milli{9, 9, 5, 3, 5, 0, 9, 0}; !slices.Equal(times, want) || err != nil || string(again) != text {
		t.Errorf("got %v, want %v; written again %s", times, want, again)
	}
}

// TestKeysAreText holds that each subject has a text of its own.
func TestKeysAreText(t *testing.T) {
	for text, want := range map[string]Key{
		"service/a/b":           Key(TargetSubject("a/b")),
		"container/tcp://x:1/c": Key(ContainerSubject("tcp://x:1", "c")),
		"container//c":          Key(ContainerSubject("", "c")),
		"workload/local/p/s":    Key(WorkloadSubject("local", "p/s")),
		"workload/a%2Fb%25/p/s": Key(WorkloadSubject("a/b%", "p/s")),
		"workload/a%252F/s":     Key(WorkloadSubject("a%2F", "s")),
		"exporter/":             Key(ExporterSubject),
		"role/a/b":              {Kind: "role", Name: "a/b"},
	} {
		var k Key
		if err := k.UnmarshalText([]byte(text)); err != nil || k != want || k.String() != text {
			t.Errorf("%s: got %+v, %v, %s", text, k, err, k)
		}
	}
	for _, bad := range []string{"", "other", "container/x", "workload/x"} {
		if new(Key).UnmarshalText([]byte(bad)) == nil {
			t.Errorf("%q is a subject", bad)
		}
	}
	for state, text := range map[State]string{Up: "up", NotWatched: "not_watched", States: "State(5)"} {
		var read State
		err := read.UnmarshalText([]byte(text))
		if state.String() != text || (err == nil) != (state < States) || err == nil && read != state {
			t.Errorf("%s: got %s, read as %s, %v", text, state, read, err)
		}
	}
}

func TestLatencyIsAdded(t *testing.T) {
	for _, c := range []struct{ l, o, want Latency }{
		{Latency{}, Latency{1, 5, 5, 5}, Latency{1, 5, 5, 5}},
		{Latency{1, 5, 5, 5}, Latency{}, Latency{1, 5, 5, 5}},
		{Latency{1, 5, 5, 5}, Latency{1, 7, 7, 7}, Latency{2, 5, 7, 12}},
		{Latency{1, 5, 5, 5}, Latency{1, 0, 0, 0}, Latency{2, 0, 5, 5}},
		{Latency{2, 3, 9, 12}, Latency{3, 1, 2, 4}, Latency{5, 1, 9, 16}},
		{Latency{2, 3, 9, 12}, Latency{2, 4, 5, 9}, Latency{4, 3, 9, 21}},
	} {
		if c.l.Add(c.o); c.l != c.want {
			t.Errorf("got %v, want %v", c.l, c.want)
		}
	}
}

// TestStates are those of targets and containers, with their reasons.
func TestStates(t *testing.T) {
	maintain := func(kind, name string) func(*world) {
		return func(w *world) { w.Maintenance = []Subject{{Kind: kind, Name: name}} }
	}
	container := func(state string, expected bool) func(*world) {
		return func(w *world) { w.container("c").State, w.container("c").Expected = state, expected }
	}
	condition := func(alert string) func(*world) {
		return func(w *world) { w.target("x").Conditions = []Condition{{Alert: alert, Holds: true}} }
	}
	for name, c := range map[string]struct {
		change            func(*world)
		target, container string
	}{
		"well":                      {func(*world) {}, "up", "up"},
		"down":                      {func(w *world) { w.target("x").Up, w.target("x").Reason = false, "dns" }, "down dns", "up"},
		"overdue":                   {func(w *world) { w.target("x").Read = false }, "not_watched", "up"},
		"with an alert":             {condition(AlertChainInvalid), "degraded TLSChainInvalid", "up"},
		"maintained":                {maintain(KindTarget, "x"), "maintenance", "up"},
		"its container maintained":  {maintain(KindContainer, "c"), "maintenance", "maintenance"},
		"another maintained":        {maintain(KindTarget, "c"), "up", "up"},
		"exited":                    {container("exited", true), "up", "down exited"},
		"stopped on purpose":        {container("exited", false), "up", "not_watched exited"},
		"missing":                   {container(Missing, false), "up", "down missing"},
		"paused":                    {container(Paused, true), "up", "down paused"},
		"unhealthy":                 {func(w *world) { w.container("c").Health = Unhealthy }, "up", "degraded ContainerUnhealthy"},
		"its engine cannot be read": {func(w *world) { w.Engines[0].Read = false }, "up", "not_watched"},
		"gone":                      {func(w *world) { w.Targets, w.Engines[0].Containers = nil, nil }, "not_watched", "not_watched"},
	} {
		w := newWorld(t)
		w.container("c")
		w.target("x").Container = "c"
		w.pass(time.Minute)
		got := map[string]string{"x": "up", "c": "up"}
		c.change(w)
		for range 40 {
			w.now = w.now.Add(10 * time.Second)
			w.look()
			for _, e := range w.last.Round.Events {
				if e.Alert == "" {
					got[e.Of.Name] = strings.TrimSpace(e.To.String() + " " + e.Reason)
				}
			}
		}
		if got["x"] != c.target || got["c"] != c.container {
			t.Errorf("%s: the target is %s, want %s; the container %s, want %s", name, got["x"], c.target, got["c"], c.container)
		}
	}
}

// TestRoundsSayHowOftenTargetsAreRead by the most frequent schedule.
func TestRoundsSayHowOftenTargetsAreRead(t *testing.T) {
	const short, long = 10 * time.Second, 30 * time.Second
	for _, every := range [][]time.Duration{{0, long, short}, {short, long, 0}, {long, 0, short}} {
		w := newWorld(t)
		for i, d := range every {
			w.target(fmt.Sprint(i)).Every = d
		}
		if w.look(); w.last.Round.Every != short {
			t.Errorf("%v: got %s", every, w.last.Round.Every)
		}
	}
	w := newWorld(t)
	w.target("x").Every = time.Nanosecond
	if w.look(); w.last.Round.Every != time.Nanosecond {
		t.Errorf("got %s", w.last.Round.Every)
	}
}

// TestReturnToReadingsHasTheirTime has a target that was not read for a while, and one that is still not.
func TestReturnToReadingsHasTheirTime(t *testing.T) {
	w := stack(t)
	w.target("api").Read = false
	w.target("api").ReadAt = w.now.Add(-5 * time.Second)
	w.now = w.now.Add(10 * time.Second)
	w.look()
	if e := w.last.Round.Events[0]; !e.At.Time().Equal(w.now) || e.To != NotWatched {
		t.Errorf("got %+v", e)
	}
	w.now = w.now.Add(10 * time.Second)
	w.Maintenance, w.target("api").ReadAt = []Subject{TargetSubject("api")}, w.now.Add(-5*time.Second)
	w.look()
	if e := w.last.Round.Events[0]; !e.At.Time().Equal(w.now) || e.To != Maintenance {
		t.Errorf("of no reading: got %+v", e)
	}
	w.Maintenance = nil
	w.now = w.now.Add(10 * time.Second)
	w.target("api").Read, w.target("api").ReadAt = true, w.now.Add(-3*time.Second)
	w.look()
	if e := w.last.Round.Events[0]; w.now.Sub(e.At.Time()) != 3*time.Second || e.To != Up {
		t.Errorf("got %+v", e)
	}
	w.now = w.now.Add(10 * time.Second)
	w.target("api").ReadAt = w.now.Add(-4 * time.Second)
	w.Maintenance = []Subject{TargetSubject("api")}
	w.look()
	if e := w.last.Round.Events[0]; !e.At.Time().Equal(w.now) || e.To != Maintenance {
		t.Errorf("got %+v", e)
	}
}

// TestEventsNameTheServer that serves a target, but none for a container of that name.
func TestEventsNameTheServer(t *testing.T) {
	w := stack(t)
	w.target("lone").Up = false
	w.target("api").Up, w.container("api").State = false, "exited"
	w.look()
	for _, e := range w.last.Round.Events {
		want := Key{}
		if e.Alert == AlertTargetDown && e.Of.Name == "api" {
			want = Key(ContainerSubject("local", "api"))
		}
		if e.Server != want {
			t.Errorf("got %+v, want the server %v", e, want)
		}
	}
}

// TestTimesOfAKnownProblemStayAsTheyWereTold unless they differ by more than a second.
func TestTimesOfAKnownProblemStayAsTheyWereTold(t *testing.T) {
	at := time.UnixMilli(1767225600000)
	j := NewJudge(shippedRules())
	j.clock.Tick(at)
	for differs, want := range map[time.Duration]time.Duration{
		time.Second: 0, time.Second + time.Millisecond: time.Second + time.Millisecond, -time.Second: 0, -2 * time.Second: -2 * time.Second,
	} {
		p := &Problem{Subject: TargetSubject("lone"), Since: at.Add(differs)}
		e := (&scene{judge: j}).describe(p, &told{Event: Event{Since: Milli(at.UnixMilli())}}, &Judgement{})
		if got := e.Since.Time().Sub(at); got != want {
			t.Errorf("%s later: told %s later, want %s", differs, got, want)
		}
	}
}

// TestEventsSayThatTheServerRefusesTheExporter until a reading says otherwise.
func TestEventsSayThatTheServerRefusesTheExporter(t *testing.T) {
	w := stack(t)
	for _, c := range []struct{ read, refuses, want, told bool }{
		{
			read:    true,
			refuses: true,
			want:    true,
			told:    true,
		},
		{want: true},
		{read: true, told: true},
		{},
		{
			read:    true,
			refuses: true,
			want:    true,
			told:    true,
		},
	} {
		lone := w.target("lone")
		lone.Up, lone.Read, lone.RefusesUs = false, c.read, c.refuses
		w.now = w.now.Add(time.Second)
		w.look()
		told := false
		for _, e := range w.last.Round.Events {
			told = told || e.Alert != ""
		}
		key := toldKey{of: Key(TargetSubject("lone")), alert: AlertTargetDown}
		if e := w.chain.problems[key]; e.RefusesUs != c.want || told != c.told {
			t.Errorf("%+v: told %t, %+v", c, told, e)
		}
	}
}

// TestEventsTellTheKindOfATargetOnce, and again when a reload of the configuration changes it.
func TestEventsTellTheKindOfATargetOnce(t *testing.T) {
	w := stack(t)
	w.target("lone").Up = false
	var kinds []string
	for _, kind := range []string{"http", "http", "xmpp_c2s"} {
		w.target("lone").Kind = kind
		w.now = w.now.Add(10 * time.Minute)
		w.look()
		for _, e := range w.last.Round.Events {
			if e.Alert == AlertTargetDown {
				kinds = append(kinds, e.TargetKind)
			}
		}
	}
	if !slices.Equal(kinds, []string{"http", "", "xmpp_c2s"}) {
		t.Errorf("got %q", kinds)
	}
}

// TestEndIsToldOnceItIsKnown has a process that has lost its memory, but not what was told, and an engine that is not read for a while.
func TestEndIsToldOnceItIsKnown(t *testing.T) {
	told := func(w *world) {
		w.target("lone").Up = false
		w.container("db").State, w.target("web").Up = "exited", false
		w.pass(10 * time.Minute)
		lasting := slices.Collect(maps.Values(w.chain.problems))
		w.judge = NewJudge(shippedRules())
		w.judge.Resume(&Memory{}, Milli(w.now.UnixMilli()), Milli(w.now.UnixMilli()), lasting, w.now)
		w.Engines[0].Read, w.target("web").Up = false, true
	}
	ends := func(w *world) (list []string) {
		for _, text := range w.events() {
			if strings.Contains(text, " over") {
				list = append(list, text)
			}
		}
		return list
	}
	w := stack(t)
	told(w)
	w.look()
	if got := ends(w); !slices.Equal(got, []string{"web TargetDown over at the latest"}) {
		t.Errorf("at the first reading: %q", got)
	}
	w.Targets = slices.DeleteFunc(w.Targets, func(t Target) bool { return t.Name == "lone" })
	w.now = w.now.Add(time.Second)
	w.look()
	if got := ends(w); !slices.Equal(got, []string{"lone TargetDown over unwatched"}) {
		t.Errorf("a target that was read is not configured any more: %q", got)
	}
	w.now = w.now.Add(unreadGrace - time.Second)
	if w.look(); len(ends(w)) > 0 {
		t.Errorf("before the engine is given up: %q", ends(w))
	}
	w.now = w.now.Add(time.Second)
	w.look()
	if got := ends(w); !slices.Equal(got, []string{"db ContainerDown over at the latest unwatched"}) {
		t.Errorf("once the engine is given up: %q", got)
	}
}
