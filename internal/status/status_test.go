package status

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// world is a recorder with its input, under the test's control.
type world struct {
	*Recorder

	now   time.Time
	in    Input
	found map[string][]health.Condition // by target
	// containers and disappeared are those of every engine.
	containers, disappeared []health.Container
	judge                   *health.Judge
}

// begin makes a world with targets that are up.
func begin(targets ...poll.Status) *world {
	w := &world{
		now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), found: map[string][]health.Condition{},
		in: Input{Alerts: alerts.Defaults(), Snapshot: &poll.Snapshot{}},
	}
	w.Recorder = &Recorder{memory: newMemory()}
	w.current.Store(&update{&Report{}, &Report{}, make(chan struct{})})
	w.judge = health.NewJudge(alerts.Rules(&w.in.Alerts))
	for _, t := range targets {
		t.Known, t.Up = true, t.Reason == ""
		t.Since, t.LastAttempt, t.LastSuccess = w.now, w.now, w.now
		t.Failures = map[failure.Reason]uint64{}
		w.in.Snapshot.Statuses = append(w.in.Snapshot.Statuses, t)
	}
	return w
}

// Report and Watch override the recorder's, which would renew the report by the real clock.
func (w *world) Report() *Report { return w.current.Load().report }

func (w *world) Watch() (published *Report, superseded <-chan struct{}) {
	u := w.current.Load()
	return u.published, u.superseded
}

// status returns a target's status for the next poll, which the test may change.
func (w *world) status(target string) *poll.Status {
	i := slices.IndexFunc(w.in.Snapshot.Statuses, func(s poll.Status) bool { return s.Target == target })
	return &w.in.Snapshot.Statuses[i]
}

// poll advances the clock, probes all targets with the statuses and conditions that the test has set, and makes a report.
func (w *world) poll(later time.Duration) *Report {
	w.now = w.now.Add(later)
	s := &poll.Snapshot{Time: w.now}
	for _, t := range w.in.Snapshot.Statuses {
		t.LastAttempt = w.now
		if t.Kind == engine.Kind {
			t.Engine = &health.Engine{
				Host:        "local",
				Read:        t.Known && t.Up,
				Containers:  w.containers,
				Disappeared: w.disappeared,
			}
		}
		s.Statuses = append(s.Statuses, t)
	}
	s.Judgement = w.judge.Judge(w.facts(s))
	w.Apply(&s.Judgement.Round)
	w.in.Snapshot = s
	w.observe(w.in, w.now)
	return w.Report()
}

// facts returns the judgement's facts for a snapshot.
func (w *world) facts(s *poll.Snapshot) *health.Facts {
	f := &health.Facts{Now: w.now}
	for _, e := range w.in.Maintenance {
		f.Maintenance = append(f.Maintenance, health.Subject{Kind: e.Kind, Name: e.Name})
	}
	hosts := map[string]*health.Engine{}
	for _, t := range s.Statuses {
		row := rowOf(t.Kind)
		target := health.Target{
			Name:      t.Target,
			Kind:      t.Kind,
			Role:      row.Role.Name,
			Relay:     row.Relay,
			Container: t.Container,
			Read:      t.Known,
			Up:        t.Up,
			ReadAt:    t.LastAttempt,
		}
		target.Throttled = t.Known && t.Reason == failure.Throttled
		target.Reason, target.OwnFault = string(t.Reason), t.Known && t.Reason.IsOwn()
		target.Every, target.Failed, target.Conditions = 30*time.Second, t.Missed, w.found[t.Target]
		if t.Engine != nil {
			target.Engine = t.Engine.Host
		}
		f.Targets = append(f.Targets, target)
		if t.Engine == nil {
			continue
		}
		hosts["local"] = &health.Engine{Host: "local", Read: t.Engine.Read}
		for _, c := range t.Engine.Containers {
			if hosts[c.Host] == nil {
				hosts[c.Host] = &health.Engine{Host: c.Host, Read: t.Engine.Read}
			}
			hosts[c.Host].Containers = append(hosts[c.Host].Containers, c)
		}
	}
	for _, e := range hosts {
		f.Engines = append(f.Engines, *e)
	}
	return f
}

// find sets what the next probes of a target find.
func (w *world) find(target string, conditions ...health.Condition) { w.found[target] = conditions }

// failedLogins is what a target finds that has counted so many failed logins.
func failedLogins(total float64) health.Condition {
	return health.Condition{Alert: health.AlertAuthFailureRate, Counts: map[string]float64{"": total}}
}

// testContainer is a container of an engine, without its name.
type testContainer struct {
	state, health, role, dependsOn, waitsFor string // dependsOn: several with a space between them
	host                                     string // local if empty
	restarts                                 uint64
	memory                                   float64
	optional                                 bool
}

func (c testContainer) as(name string) health.Container {
	return health.Container{
		Host:      cmp.Or(c.host, "local"),
		Name:      name,
		Role:      c.role,
		State:     cmp.Or(c.state, "running"),
		Health:    cmp.Or(c.health, "none"),
		Expected:  !c.optional,
		WaitsFor:  c.waitsFor,
		DependsOn: strings.Fields(c.dependsOn),
		Restarts:  c.restarts,
		Usage:     health.Usage{Memory: c.memory, HasMemory: c.memory > 0},
	}
}

var engine = poll.Status{Target: "docker", Kind: "docker"}

// firstOf returns the first matching element, or the zero value.
func firstOf[T any](list []T, is func(T) bool) (found T) {
	if i := slices.IndexFunc(list, is); i >= 0 {
		found = list[i]
	}
	return found
}

func (r *Report) container(name string) Container {
	return firstOf(r.Containers, func(c Container) bool { return c.Name == name })
}

func (r *Report) service(name string) Service {
	return firstOf(r.Services, func(s Service) bool { return s.Name == name })
}

func (r *Report) threshold(alert string) Threshold {
	return firstOf(r.Thresholds, func(t Threshold) bool { return t.Alert == alert })
}

func TestLevelsHaveNames(t *testing.T) {
	for l := OK; l <= Critical; l++ {
		text, err := l.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back Level
		if err := back.UnmarshalText(text); err != nil || back != l || l.String() != string(text) {
			t.Errorf("%q became %d, %v", text, back, err)
		}
	}
	if _, err := Level(9).MarshalText(); err == nil {
		t.Error("there is a level 9")
	}
	if err := new(Level).UnmarshalText([]byte("fine")); err == nil {
		t.Error("there is a level fine")
	}
}

func TestFutureTimesRoundUpToMinutes(t *testing.T) {
	now := time.Date(2026, 3, 1, 23, 55, 30, 0, time.FixedZone("", 3600))
	for later, want := range map[time.Duration]string{
		30 * time.Second: "22:56 UTC", 31 * time.Second: "22:57 UTC", 3 * time.Hour: "01:56 UTC", 24 * time.Hour: "2026-03-02 22:56 UTC",
	} {
		if got := clockUntil(now, now.Add(later)); got != want {
			t.Errorf("in %s: got %q, want %q", later, got, want)
		}
	}
}

func TestDisappearedContainerIsUnknown(t *testing.T) {
	w := begin(engine)
	w.contain(named{"irc", testContainer{}})
	w.poll(0)
	w.containers, w.disappeared = nil, []health.Container{{Host: "local", Name: "irc", Health: "none"}}
	if got := w.poll(time.Second).container("irc"); got.Level != Unknown || got.State != "unknown" ||
		!strings.HasPrefix(got.Text, "has just disappeared") {
		t.Errorf("got %+v", got)
	}
	w.disappeared = nil
	w.contain(named{"irc", testContainer{state: "missing"}})
	r := w.poll(time.Second)
	if list := r.Transitions; len(list) != 1 || list[0].From != up || list[0].To != down || list[0].Text != "does not exist" {
		t.Errorf("got %+v, want that it went missing", list)
	}
}

func TestHistoryShowsShortOutage(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.poll(0)
	w.poll(time.Minute)
	// It failed and recovered between two reports.
	w.status("irc_rpc").Failures = map[failure.Reason]uint64{failure.Timeout: 1}
	w.poll(time.Minute)
	w.poll(time.Minute)
	w.poll(10 * time.Minute)
	s := w.memory.series["service/irc_rpc/up"]
	h := s.history(w.now)
	if len(h.Values) != 288 || h.Step != 300 || !h.Start.Equal(w.now.Truncate(step).Add(-287*step)) {
		t.Errorf("got %d steps of %g s from %s", len(h.Values), h.Step, h.Start)
	}
	tail := h.Values[len(h.Values)-3:]
	if tail[0] == nil || *tail[0] != 0 || tail[1] != nil || tail[2] == nil || *tail[2] != 1 {
		t.Errorf("got %v, want 0, nothing, 1", tail)
	}
	later := s.history(w.now.Add(25 * time.Hour))
	if slices.ContainsFunc(later.Values, func(v *float64) bool { return v != nil }) {
		t.Error("what is older than a day is still there")
	}
}

func TestMemoryIsBounded(t *testing.T) {
	w := begin(engine)
	for round := range 3 {
		w.containers = nil
		for i := range 2500 {
			state := []string{"running", "exited"}[(round+i)%2]
			w.containers = append(w.containers, testContainer{state: state, memory: 1}.as(fmt.Sprintf("c%d-%d", round/2, i)))
		}
		r := w.poll(time.Minute)
		if len(r.Containers) != maxContainers || r.ContainersLeftOut != 500 || len(r.Transitions) > maxTransitions ||
			len(w.memory.series) > maxSeries {
			t.Errorf("got %d containers, %d left out, %d transitions, %d series",
				len(r.Containers), r.ContainersLeftOut, len(r.Transitions), len(w.memory.series))
		}
	}
	w.containers = nil
	w.poll(25 * time.Hour)
	w.poll(2 * time.Hour)
	for name := range w.memory.series {
		if strings.HasPrefix(name, "container/") {
			t.Fatalf("%s is kept although its container has been gone for a day", name)
		}
	}
}

func TestNothingConfiguredIsUnknown(t *testing.T) {
	if r := begin().poll(0); r.Level != Unknown || !strings.Contains(strings.ToLower(r.Summary), "nothing is watched") {
		t.Errorf("got %s: %s", r.Level, r.Summary)
	}
}

func TestProblemOfRunningServiceIsTransition(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp_status", Kind: "xmpp_status"})
	for i, linked := range []bool{true, false, false, true} {
		w.find("xmpp_status", health.Condition{Alert: health.AlertComponentDisconnected, Of: "bridge", Holds: !linked})
		r := w.poll(10 * time.Minute)
		if want := []int{0, 0, 1, 2}[i]; len(r.Transitions) != want {
			t.Fatalf("look %d: got %+v, want %d", i, r.Transitions, want)
		}
	}
	list := w.poll(time.Minute).Transitions
	if lost := list[1]; lost.From != up || lost.To != "up, with a problem" || lost.Level < Warning ||
		!strings.Contains(lost.Text, "bridge") || !lost.Time.Equal(w.now.Add(-11*time.Minute)) {
		t.Errorf("lost: got %+v", lost)
	}
	if back := list[0]; back.To != up || back.Level != OK || !back.Time.Equal(w.now.Add(-time.Minute)) {
		t.Errorf("back: got %+v", back)
	}
}

func TestTransitionsAreChangesOnly(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, engine)
	w.contain(named{"irc", testContainer{}})
	if got := w.poll(0).Transitions; len(got) > 0 {
		t.Errorf("the start is news: %+v", got)
	}
	s := w.status("irc_rpc")
	s.Up, s.Reason, s.Since = false, failure.Timeout, w.now.Add(time.Minute)
	w.contain(named{"irc", testContainer{restarts: 1}})
	r := w.poll(time.Minute)
	w.poll(time.Minute)
	if len(r.Transitions) != 2 {
		t.Fatalf("got %+v", r.Transitions)
	}
	for _, got := range r.Transitions {
		switch got.Kind {
		case "target":
			if got.From != "up" || got.To != "down" || got.Level != Pending || !got.Time.Equal(w.now.Add(-time.Minute)) {
				t.Errorf("got %+v", got)
			}
		default:
			if got.From != up || got.To != "restarted" || got.Level != Warning {
				t.Errorf("got %+v", got)
			}
		}
	}
}

func TestWatchersReceiveNewsAtOnceAndAgesRarely(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	first := w.poll(0)
	published, next := w.Watch()
	if published != first {
		t.Fatal("the first report is not published")
	}
	newer := func() bool {
		select {
		case <-next:
			_, next = w.Watch()
			return true
		default:
			return false
		}
	}
	w.poll(9 * time.Second)
	if newer() {
		t.Error("ages alone are published after nine seconds")
	}
	if w.Report().Revision != 2 {
		t.Errorf("revision: got %d, want 2", w.Report().Revision)
	}
	w.poll(time.Second)
	if !newer() {
		t.Error("nothing is published after ten seconds")
	}
	s := w.status("irc_rpc")
	s.Up, s.Reason = false, failure.Timeout
	w.poll(time.Millisecond)
	if !newer() {
		t.Error("a failure is not published at once")
	}
}

func TestRecorderRenewsWhenWokenAndByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}).in
		stale := make(chan string, 1)
		stale <- ""
		r := NewRecorder("1.2.3", func() Input {
			in := in
			in.Stale = <-stale
			stale <- in.Stale
			return in
		})
		done := make(chan struct{})
		go func() { defer close(done); r.Run(t.Context()) }()
		r.Report() // there is a viewer
		r.Wake()
		r.Wake()
		synctest.Wait()
		if got := r.Report().Revision; got < 2 || got > 3 {
			t.Errorf("revision after waking it: got %d", got)
		}
		<-stale
		stale <- "the poll loop has been stalled for 31s"
		time.Sleep(maxAge)
		synctest.Wait()
		if got := r.Report(); got.Level != Critical || got.Stale == "" || got.Version != "1.2.3" {
			t.Errorf("got %+v", got)
		}
	})
}

func TestFirstViewerNeverSeesIdleReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
		var in atomic.Pointer[Input]
		in.Store(&w.in)
		r := NewRecorder("1.2.3", func() Input { return *in.Load() })
		made := func() time.Time { return r.current.Load().report.Made }
		first := made()
		go r.Run(t.Context())

		time.Sleep(maxIdleAge - time.Second)
		r.Wake() // a snapshot without news, such as the heartbeat publishes
		synctest.Wait()
		if got := made(); !got.Equal(first) {
			t.Errorf("a report was made after %s, without a viewer and without news", got.Sub(first))
		}
		read := w.in
		read.Snapshot = &poll.Snapshot{Statuses: slices.Clone(w.in.Snapshot.Statuses)}
		s := &read.Snapshot.Statuses[0]
		s.Attempts, s.LastAttempt, s.Since, s.Up, s.Reason = 1, time.Now(), time.Now(), false, failure.Timeout
		in.Store(&read)
		now := health.Milli(time.Now().UnixMilli())
		r.Apply(&health.Round{Events: []health.Event{
			{
				At:   now,
				Of:   health.Key(health.TargetSubject(s.Target)),
				From: health.Up,
				To:   health.Down,
			},
		}})
		r.Wake()
		synctest.Wait()
		if got := made(); !got.Equal(time.Now()) {
			t.Errorf("a probe is not recorded: the last report is %s old", time.Since(got))
		}
		if got := len(r.current.Load().report.Transitions); got != 1 {
			t.Errorf("got %d transitions, want that the service has gone down", got)
		}

		stale := read
		stale.Stale = "the poll loop has been stalled for 31s"
		time.Sleep(2 * maxAge)
		synctest.Wait()
		in.Store(&stale)
		if got := r.Report(); got.Stale == "" || !got.Made.Equal(time.Now()) {
			t.Errorf("the first viewer sees a report that is %s old: %q", time.Since(got.Made), got.Stale)
		}
		time.Sleep(maxAge)
		synctest.Wait()
		published, superseded := r.Watch()
		time.Sleep(notifyEvery + maxAge)
		synctest.Wait()
		select {
		case <-superseded:
		default:
			t.Errorf("a watcher has received nothing for %s", time.Since(published.Made))
		}
		time.Sleep(2 * viewerTimeout)
		synctest.Wait()
		if age := time.Since(made()); age > maxIdleAge+maxAge {
			t.Errorf("the history has a gap: the last report is %s old", age)
		}
	})
}

// The names forge a line, reverse the writing direction, and are too long.
func TestUntrustedNamesBecomePrintable(t *testing.T) {
	w := begin(engine)
	for _, name := range []string{"a\x1b[2J\x1b[31m", `b\nDOWN`, "c\u202egnp\u2066\u200b", "d\xff", strings.Repeat("e", 10_000)} {
		c := testContainer{host: name, role: name, state: "exited"}.as(name)
		c.DependsOn = []string{name}
		w.containers = append(w.containers, c)
	}
	w.poll(0)
	report := w.poll(10 * time.Minute)
	if len(report.Containers) != 5 {
		t.Errorf("%d containers, want 5", len(report.Containers))
	}
	raw, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	var check func(any)
	check = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, inner := range v {
				check(inner)
			}
		case []any:
			for _, inner := range v {
				check(inner)
			}
		case string:
			if strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) }) || len(v) > 5000 {
				t.Errorf("shown: %.100q, %d bytes", v, len(v))
			}
		}
	}
	check(all)
}

// A problem becomes critical by time alone, without a new probe and without a viewer.
func TestFirstViewerSeesPresentSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
		var in atomic.Pointer[Input]
		publish := func(severity health.Severity) {
			next := w.in
			problem := health.Problem{Subject: health.TargetSubject("irc_rpc"), Alert: health.AlertTargetDown, Severity: severity}
			next.Snapshot = &poll.Snapshot{
				Time:      time.Now(),
				Statuses:  w.in.Snapshot.Statuses,
				Judgement: &health.Judgement{Problems: []health.Problem{problem}},
			}
			in.Store(&next)
		}
		publish(health.Warning)
		r := NewRecorder("1.2.3", func() Input { return *in.Load() })
		time.Sleep(time.Second)
		publish(health.Critical)
		if got := r.Report().Problems[0].Severity; got != health.Critical {
			t.Errorf("got %s, want critical", got)
		}
	})
}

func TestHistoryHasMeanLowestAndHighest(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at              []time.Duration
		values          []float64
		mean, low, high float64
	}{
		"one value": {
			[]time.Duration{0},
			[]float64{7},
			7,
			7,
			7,
		},
		"each value for its time": {
			[]time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second},
			[]float64{1, 9, 2},
			3.5,
			1,
			9,
		},
		"a viewer changes no mean": {
			[]time.Duration{10 * time.Second, 11 * time.Second, 12 * time.Second, 20 * time.Second},
			[]float64{1, 1, 1, 3},
			1.8,
			1,
			3,
		},
		"a gap counts as one reading": {
			[]time.Duration{30 * time.Second, 270 * time.Second},
			[]float64{0, 10},
			5,
			0,
			10,
		},
		"no number": {
			[]time.Duration{10 * time.Second, 20 * time.Second},
			[]float64{4, math.NaN()},
			4,
			4,
			4,
		},
	} {
		s := newSeries(History{Keeps: mean}, start)
		for i, v := range c.values {
			s.add(start.Add(c.at[i]), v)
		}
		h := s.history(start)
		got := [3]float64{*h.Values[steps-1], *h.Min[steps-1], *h.Max[steps-1]}
		for i, want := range []float64{c.mean, c.low, c.high} {
			if math.Abs(got[i]-want) > 1e-6 {
				t.Errorf("%s: got mean, lowest and highest %v, want %g, %g, %g", name, got, c.mean, c.low, c.high)
				break
			}
		}
	}
}

// TestHistoryOfAStepKeepsNothingOfTheOneBefore: extremes begin anew, and steps before the first difference are known too.
func TestHistoryOfAStepKeepsNothingOfTheOneBefore(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSeries(History{Keeps: mean}, start)
	for i, v := range []float64{5, 5, 1, 3, 2} {
		s.add(start.Add(time.Duration(i/2)*step+time.Duration(1+i%2)*10*time.Second), v)
	}
	h := s.history(start.Add(2 * step))
	for i, want := range [][3]float64{{5, 5, 5}, {2, 1, 3}, {2, 2, 2}} {
		at := steps - 3 + i
		if got := [3]float64{*h.Values[at], *h.Min[at], *h.Max[at]}; got != want {
			t.Errorf("step %d: got %v, want %v", i, got, want)
		}
	}
	if h.Min[steps-4] != nil || h.Max[steps-4] != nil {
		t.Error("a step without values has extremes")
	}
	h = s.history(start.Add(25 * time.Hour))
	if slices.ContainsFunc(slices.Concat(h.Min, h.Max), func(v *float64) bool { return v != nil }) {
		t.Error("a day later, there are extremes")
	}
}

// BenchmarkHistoryMemory reports what a history takes.
func BenchmarkHistoryMemory(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, values := range map[string][]float64{"steady": {1, 1}, "changing": {1, 2}} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newSeries(History{Keeps: mean}, now)
				for i, v := range values {
					s.add(now.Add(time.Duration(i)*time.Second), v)
				}
			}
		})
	}
}

func TestLastIsTheNewestValue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSeries(History{Keeps: mean}, now)
	for i, v := range []float64{1, 9, 2} {
		s.add(now.Add(time.Duration(i)*time.Second), v)
	}
	if h := s.history(now); h.Last == nil || *h.Last != 2 || *h.Max[steps-1] != 9 || h.Keeps != "mean" {
		t.Errorf("got %+v", h)
	}
	if h := s.history(now.Add(step)); h.Last != nil {
		t.Errorf("a step later: got %g", *h.Last)
	}
}
