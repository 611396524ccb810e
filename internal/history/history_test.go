package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// noon is the time of most tests.
var noon = time.Date(2026, time.March, 3, 12, 0, 0, 0, time.UTC)

// situation has the states of subjects. Those that are not watched may be missing.
type situation map[string]State

// recorder makes rounds of situations, keeps records as a journal does, and lets time pass.
type recorder struct {
	*History

	clock   health.Clock
	is      situation
	records []any // rounds, and what is kept of subjects
	now     time.Time
}

func newRecorder(now time.Time) *recorder {
	return &recorder{History: New(), now: now, is: situation{}}
}

// rewrite replaces the records.
func (r *recorder) rewrite() {
	r.records = []any{&health.Round{Tick: health.Tick{From: r.Last(), To: r.Last()}}}
	for _, k := range r.All() {
		r.records = append(r.records, k)
	}
}

// kill starts another process with what the last one has recorded.
func (r *recorder) kill(t *testing.T) {
	t.Helper()
	r.History, r.is, r.clock = restore(t, r.records), situation{}, health.Clock{}
	r.clock.Resume(r.Last(), r.Last())
}

func restore(t *testing.T, records []any) *History {
	t.Helper()
	h := New()
	for _, record := range records {
		raw, err := json.Marshal(record)
		if err == nil {
			switch record.(type) {
			case *health.Round:
				r := &health.Round{}
				err = json.Unmarshal(raw, r)
				h.Apply(r)
			case *Kept:
				k := &Kept{}
				err = cmp.Or(json.Unmarshal(raw, k), h.Restore(k))
			}
		}
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
	}
	return h
}

func keyOf(name string) (k health.Key) {
	if err := k.UnmarshalText([]byte(name)); err != nil {
		panic(err)
	}
	return k
}

func (r *recorder) see(s situation) { r.round(s, nil) }

// round adds a round, whose latency is of web.
func (r *recorder) round(s situation, latency *health.Latency) {
	round := &health.Round{Tick: r.clock.Tick(r.now)}
	all := maps.Clone(s)
	for name := range r.is {
		if _, still := s[name]; !still {
			all[name] = NotWatched
		}
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		from, known := r.is[name]
		if !known {
			from = NotWatched
		}
		if to := all[name]; to != from {
			round.Events = append(round.Events, health.Event{
				At:   round.To,
				Of:   keyOf(name),
				From: from,
				To:   to,
			})
		}
	}
	if latency != nil {
		round.Latency = map[health.Key]health.Latency{keyOf("service/web"): *latency}
	}
	r.is = all
	r.Apply(round)
	r.records = append(r.records, round)
}

// watch observes every step for a while, so that d has passed at the end.
func (r *recorder) watch(d, step time.Duration, s situation) {
	for range d / step {
		r.now = r.now.Add(step)
		r.see(s)
	}
}

// web is a situation with one target.
func web(up bool) situation {
	if !up {
		return situation{"service/web": Down}
	}
	return situation{"service/web": Up}
}

// of returns a subject's times in a window, without NotWatched.
func of(t *testing.T, h *History, now time.Time, subject, window string) Times {
	t.Helper()
	w := windowOf(t, h.Report(now), subject, window)
	spent := w.Spent
	spent[NotWatched] = 0
	return spent
}

func windowOf(t *testing.T, r *Report, subject, window string) *Window {
	t.Helper()
	for i := range r.Subjects {
		if r.Subjects[i].Key == subject {
			for k := range r.Subjects[i].Windows {
				if w := &r.Subjects[i].Windows[k]; w.Name == window {
					return w
				}
			}
		}
	}
	t.Fatalf("no %s of %s", window, subject)
	return nil
}

func wantTimes(t *testing.T, got, want Times) {
	t.Helper()
	if got != want {
		t.Errorf("got %v, want %v (%v)", got, want, "up, degraded, down, maintenance, not watched")
	}
}

// TestChangesCountFromTheirTimes has states that changed within a round, but not before it.
func TestChangesCountFromTheirTimes(t *testing.T) {
	r := newRecorder(noon)
	r.see(web(true))
	change := func(to State, before time.Duration) {
		r.now = r.now.Add(30 * time.Second)
		round := &health.Round{Tick: r.clock.Tick(r.now)}
		round.Events = []health.Event{{At: round.To.Add(-before), Of: keyOf("service/web"), To: to}}
		r.Apply(round)
	}
	change(Down, 700*time.Millisecond)
	change(Down, 400*time.Millisecond)
	change(Up, 100*time.Millisecond)
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 29400 * time.Millisecond, Down: 60600 * time.Millisecond})
	change(Down, time.Hour)
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 29400 * time.Millisecond, Down: 90600 * time.Millisecond})
}

func TestGapsAreNotWatched(t *testing.T) {
	for name, interrupt := range map[string]func(*recorder){
		"stalled": func(r *recorder) { r.now = r.now.Add(health.MaxGap + time.Second) },
		"killed":  func(r *recorder) { r.kill(t); r.now = r.now.Add(time.Second) },
		"killed for long": func(r *recorder) {
			r.kill(t)
			r.now = r.now.Add(2 * time.Hour)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(noon)
			r.see(web(false))
			r.watch(10*time.Minute, 5*time.Second, web(false))
			interrupt(r)
			r.see(web(false))
			r.watch(time.Minute, 5*time.Second, web(false))
			wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Down: 11 * time.Minute})
		})
	}
}

// TestClockSetForward: the time over which the clock was set is not watched, and a far future costs one hour of the past.
func TestClockSetForward(t *testing.T) {
	r := newRecorder(noon)
	r.see(web(true))
	r.watch(20*time.Minute, 10*time.Second, web(true))
	r.now = r.now.AddDate(12, 0, 0)
	r.see(web(true))
	r.watch(5*time.Minute, 10*time.Second, web(true))
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 5 * time.Minute})
	r.now = noon.Add(26 * time.Minute) // it was wrong
	r.see(web(true))
	r.watch(30*time.Minute, 10*time.Second, web(true))
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 20 * time.Minute})
	r.watch(2*time.Hour, 10*time.Second, web(true))
	for _, h := range []*History{r.History, restore(t, r.records)} {
		wantTimes(t, of(t, h, r.now, "service/web", "24h"), Times{Up: 20*time.Minute + 150*time.Minute - time.Hour + 10*time.Second})
	}
	for _, b := range windowOf(t, r.Report(r.now), "service/web", "24h").Buckets {
		if sum := b.Spent[Up]; sum > time.Hour {
			t.Errorf("an hour is %s long", sum)
		}
	}
}

func TestClockSetBackCountsNothingTwice(t *testing.T) {
	for _, step := range []time.Duration{500 * time.Millisecond, 5 * time.Second, 10 * time.Minute, 3 * time.Hour, 40 * 24 * time.Hour} {
		r := newRecorder(noon)
		r.see(web(true))
		r.watch(8*24*time.Hour, time.Minute, web(true))
		r.now = r.now.Add(-step)
		r.see(web(true))
		r.watch(8*24*time.Hour, time.Minute, web(true))
		for _, h := range []*History{r.History, restore(t, r.records)} {
			report := h.Report(r.now)
			for _, w := range report.Subjects[0].Windows {
				var sum time.Duration
				for i, b := range w.Buckets {
					all := time.Duration(0)
					for _, spent := range b.Spent {
						all += spent
					}
					if length := time.Duration(w.Step * float64(time.Second)); all > length || all < length && i < len(w.Buckets)-1 {
						t.Errorf("%s, %s: bucket %d is %s long, want %s", step, w.Name, i, all, length)
					}
					sum += b.Spent[Up]
				}
				if w.Name == "7d" && sum < 6*24*time.Hour {
					t.Errorf("%s: up for %s in the last week", step, sum)
				}
			}
		}
	}
}

func TestSubjectsComeAndGo(t *testing.T) {
	r := newRecorder(noon)
	r.see(web(true))
	r.watch(time.Minute, 10*time.Second, web(true))
	r.watch(5*time.Minute, 10*time.Second, situation{})
	r.rewrite()
	r.kill(t)
	r.see(situation{})
	r.watch(4*time.Minute, 10*time.Second, web(true))
	r.watch(time.Minute, 10*time.Second, web(false))
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 5*time.Minute + 10*time.Second, Down: 50 * time.Second})
	r.watch(10*time.Second, 10*time.Second, situation{})
	r.now = r.now.AddDate(0, 0, 92)
	r.watch(time.Minute, 10*time.Second, situation{})
	if r.rewrite(); len(r.Report(r.now).Subjects) != 0 {
		t.Error("a subject without any day left is still kept")
	}
}

// TestSubjectsAreBounded: those that are gone make room, those that are watched do not.
func TestSubjectsAreBounded(t *testing.T) {
	r := newRecorder(noon)
	crowd := func(from, n int) situation {
		s := web(true)
		for i := range n {
			s[fmt.Sprint("service/t", from+i)] = Up
		}
		return s
	}
	for i := range 20 {
		r.see(crowd(1000*i, 1000))
		r.watch(time.Minute, 10*time.Second, crowd(1000*i, 1000))
	}
	report := r.Report(r.now)
	if n := len(report.Subjects); n != maxSubjects {
		t.Errorf("%d subjects", n)
	}
	wantTimes(t, of(t, r.History, r.now, "service/web", "24h"), Times{Up: 20 * time.Minute})
	wantTimes(t, of(t, r.History, r.now, "service/t19999", "24h"), Times{Up: time.Minute})
	if again := restore(t, r.records).Report(r.now); len(again.Subjects) != maxSubjects {
		t.Errorf("%d subjects are restored", len(again.Subjects))
	}
	r.see(crowd(0, 2*maxSubjects))
	if n := len(r.subjects); n != maxSubjects {
		t.Errorf("%d subjects", n)
	}
}

func TestLatency(t *testing.T) {
	r := newRecorder(noon.Add(58 * time.Minute))
	s := web(true)
	var wantSum time.Duration
	for i := range 10 {
		r.now = r.now.Add(30 * time.Second)
		took := time.Duration(10+i) * time.Millisecond
		if micro := took.Microseconds(); i != 5 {
			wantSum += took
			r.round(s, &health.Latency{1, micro, micro, micro})
		}
		r.see(s)
	}
	r.watch(time.Minute, 10*time.Second, s)
	for name, h := range map[string]*History{"live": r.History, "restored": restore(t, r.records)} {
		for _, window := range []string{"24h", "90d"} {
			w := windowOf(t, h.Report(r.now), "service/web", window)
			want := Latency{
				wantSum.Seconds() / 9,
				0.010,
				0.019,
				9,
			}
			if w.Latency == nil || *w.Latency != want {
				t.Errorf("%s, %s: %+v, want %+v", name, window, w.Latency, want)
			}
			if window == "24h" && (w.Buckets[22].Latency.Count != 3 || w.Buckets[23].Latency.Count != 6) {
				t.Errorf("%s: %+v and %+v", name, w.Buckets[22].Latency, w.Buckets[23].Latency)
			}
		}
	}
}

// period is a time in one state.
type period struct {
	state    State
	from, to time.Time
}

// spentWithin is how long the periods last from a time to another.
func spentWithin(all []period, from, to time.Time) (sum Times) {
	sum[NotWatched] = max(to.Sub(from), 0)
	for _, p := range all {
		start, end := p.from, p.to
		if start.Before(from) {
			start = from
		}
		if end.After(to) {
			end = to
		}
		if d := end.Sub(start); d > 0 && p.state != NotWatched {
			sum[p.state] += d
			sum[NotWatched] -= d
		}
	}
	return sum
}

// TestRandomDays compares random days, with restarts and rewrites, with an oracle that remembers everything.
func TestRandomDays(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 1))
		r := newRecorder(noon.Add(time.Duration(rng.IntN(86400)) * time.Second))
		subjects := []string{"service/a", "service/b", "container/local/c", "container/far/d"}
		periods := map[string][]period{}
		is := situation{}
		for _, s := range subjects {
			is[s] = NotWatched
		}
		var before time.Time // zero after a gap
		for r.now.Before(noon.Add(60 * time.Hour)) {
			switch rng.IntN(400) {
			case 0:
				r.kill(t)
				before = time.Time{}
				r.now = r.now.Add(time.Duration(rng.IntN(5000)) * time.Second)
			case 1:
				r.now = r.now.Add(health.MaxGap + time.Duration(1+rng.IntN(5000))*time.Second)
				before = time.Time{}
			case 2:
				r.rewrite()
			}
			r.now = r.now.Add(time.Duration(1+rng.IntN(60)) * time.Second)
			if !before.IsZero() {
				for _, s := range subjects {
					periods[s] = append(periods[s], period{is[s], before, r.now})
				}
			}
			for _, s := range subjects {
				if rng.IntN(20) == 0 {
					is[s] = State(rng.IntN(int(health.States)))
				}
			}
			r.see(is)
			before = r.now
		}
		for _, h := range []*History{r.History, restore(t, r.records)} {
			report := h.Report(r.now)
			for _, s := range subjects {
				for _, name := range []string{"24h", "7d", "30d", "90d"} {
					w := windowOf(t, report, s, name)
					for i, b := range w.Buckets {
						step := time.Duration(w.Step * float64(time.Second))
						start := w.Start.Add(time.Duration(i) * step)
						end := start.Add(step)
						if end.After(r.now) {
							end = r.now
						}
						want := spentWithin(periods[s], start, end)
						if b.Spent != want {
							t.Fatalf("seed %d: %s of %s: bucket %d is %v, want %v", seed, name, s, i, b.Spent, want)
						}
					}
				}
			}
		}
	}
}

// restoreWithoutFirst restores a rewritten journal whose first line, the span, is damaged.
func restoreWithoutFirst(t *testing.T, r *recorder) {
	t.Helper()
	r.rewrite()
	r.History = restore(t, r.records[1:])
}

// TestDamagedSpanCountsNothingTwice loses the record of until when time is counted, and then has an earlier time.
func TestDamagedSpanCountsNothingTwice(t *testing.T) {
	for name, step := range map[string]time.Duration{
		"clock set back":         -3 * time.Hour,
		"clock set back by days": -50 * time.Hour,
		"same hour":              -10 * time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(noon)
			s := web(true)
			r.see(s)
			r.watch(150*time.Minute, 30*time.Second, s)
			want := of(t, r.History, r.now, "service/web", "90d")
			restoreWithoutFirst(t, r)
			end := r.now
			r.now = r.now.Add(step)
			r.see(s)
			r.watch(5*time.Minute, 30*time.Second, s)
			wantTimes(t, of(t, r.History, end, "service/web", "90d"), want)
		})
	}
}

// TestRecordOfAnEarlierTimeIsNotCounted has a record from before a subject's buckets, after the first record was lost.
func TestRecordOfAnEarlierTimeIsNotCounted(t *testing.T) {
	r := newRecorder(noon)
	r.see(web(true))
	r.watch(2*time.Hour, 30*time.Second, web(true))
	want := of(t, r.History, r.now, "service/web", "90d")
	restoreWithoutFirst(t, r)
	from := noon.Add(-24 * time.Hour).UnixMilli()
	text := fmt.Sprintf(`{"from":%d,"to":%d,"changes":[{"of":"service/web","state":"down","at":%d}],"latency":{"service/web":[1,5,5,5]}}`,
		from, from+1000, from)
	var round health.Round
	if err := json.Unmarshal([]byte(text), &round); err != nil {
		t.Error(err)
	}
	r.Apply(&round)
	wantTimes(t, of(t, r.History, r.now, "service/web", "90d"), want)
}

// TestContradictingBucketsDoNotPanic has subjects whose days are later than their hours, as no journal of ours has.
func TestContradictingBucketsDoNotPanic(t *testing.T) {
	h := New()
	day := noon.Unix()/86400 + 1
	if err := h.Restore(&Kept{Of: keyOf("service/web"), Days: buckets{{day, 1000}}, DayLatency: buckets{{day, 1, 5, 5, 5}}}); err != nil {
		t.Fatal(err)
	}
	r := &recorder{History: h, now: noon, is: situation{}}
	r.see(web(true))
	for range 100 {
		r.now = r.now.Add(time.Minute)
		r.round(web(true), &health.Latency{1, 5, 5, 5})
	}
	for name, bad := range map[string]*Kept{
		"longer than an hour": {Hours: buckets{{1, hour, 1}}},
		"negative":            {Days: buckets{{1, -1}}},
		"not in order":        {HourLatency: buckets{{2, 1}, {2, 1}}},
		"too many":            {DayLatency: make(buckets, keptDays+1)},
	} {
		if New().Restore(bad) == nil {
			t.Errorf("%s: it is restored", name)
		}
	}
}

// TestMostlyUnwatchedTimeIsNotUp: a day of which little is known is not green, but any downtime shows.
func TestMostlyUnwatchedTimeIsNotUp(t *testing.T) {
	const day = 24 * time.Hour
	for want, all := range map[State][]Times{
		NotWatched: {
			{},
			{Up: time.Second, NotWatched: day - time.Second},
			{Maintenance: 5 * time.Hour, Up: 5 * time.Hour, NotWatched: 14 * time.Hour},
		},
		Up: {
			{Up: day},
			{Up: 13 * time.Hour, NotWatched: 11 * time.Hour},
			{Up: 7 * time.Hour, Maintenance: 6 * time.Hour, NotWatched: 11 * time.Hour},
		},
		Maintenance: {{Maintenance: 13 * time.Hour, NotWatched: 11 * time.Hour}},
		Degraded:    {{Degraded: time.Second, NotWatched: day - time.Second}},
		Down:        {{Down: time.Second, NotWatched: day - time.Second}, {Down: time.Second, Degraded: time.Hour, Up: 10 * time.Hour}},
	} {
		for _, times := range all {
			if got := times.Worst(); got != want {
				t.Errorf("%v: got %s, want %s", times, got, want)
			}
		}
	}
}

// TestStateEndsWithTheWatching: without an observation for as long as a gap, what was last known is not the present state.
func TestStateEndsWithTheWatching(t *testing.T) {
	r := newRecorder(noon)
	r.see(web(true))
	r.watch(time.Minute, 30*time.Second, web(true))
	for name, h := range map[string]*History{"live": r.History, "restored": restore(t, r.records)} {
		for since, want := range map[time.Duration]State{
			0: Up, health.MaxGap: Up, health.MaxGap + time.Second: NotWatched, time.Hour: NotWatched,
		} {
			if got := h.Report(r.now.Add(since)).Subjects[0].State; got != want {
				t.Errorf("%s, %s after the last observation: got %s, want %s", name, since, got, want)
			}
		}
	}
	r.watch(time.Minute, 30*time.Second, web(false))
	if got := r.Report(r.now).Subjects[0].State; got != Down {
		t.Errorf("watched again: got %s", got)
	}
}

// clockAt is what a clock gives that is set to a time: with a monotonic reading, which a later setting does not change.
func clockAt(at time.Time) time.Time {
	now := time.Now()
	return set(now, at.Round(0).Sub(now.Round(0)))
}

// set sets the clock, whose time has full seconds above 30 bits of nanoseconds.
func set(now time.Time, by time.Duration) time.Time {
	wall := now.Round(0).Add(by)
	*(*uint64)(unsafe.Pointer(&now)) += uint64(wall.Unix()-now.Unix())<<30 + uint64(wall.Nanosecond()-now.Nanosecond())
	return now
}

// TestHoursFollowTheClock watches for 20 minutes before it is set, and for 40 after.
func TestHoursFollowTheClock(t *testing.T) {
	const wrong = 50 * 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		set func(t *testing.T, r *recorder)
		// counted is how long it has been up in the end, by the clock as it is then.
		counted time.Duration
	}{
		"as it is":    {func(_ *testing.T, _ *recorder) {}, time.Hour},
		"set forward": {func(_ *testing.T, r *recorder) { r.now = set(r.now, 3*time.Hour) }, time.Hour},
		"suspended":   {func(_ *testing.T, r *recorder) { r.now = set(r.now, 90*time.Minute) }, time.Hour},
		// The same time is not counted again.
		"set back": {func(_ *testing.T, r *recorder) { r.now = set(r.now, -15*time.Minute) }, 45 * time.Minute},
		// After an hour it is believed, and later hours are dropped.
		"set back for good": {func(t *testing.T, r *recorder) {
			t.Helper()
			r.now = set(r.now, -24*time.Hour)
			r.watch(2*time.Hour, 10*time.Second, web(true))
		}, 100 * time.Minute},
		"wrong at boot": {func(t *testing.T, r *recorder) {
			t.Helper()
			r.now = clockAt(r.now.Add(-wrong))
			r.kill(t)
			r.watch(10*time.Minute, 10*time.Second, web(true))
			r.now = set(r.now, wrong)
		}, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRecorder(clockAt(noon))
			r.see(web(true))
			r.watch(20*time.Minute, 10*time.Second, web(true))
			c.set(t, r)
			r.watch(40*time.Minute, 10*time.Second, web(true))
			for what, h := range map[string]*History{"live": r.History, "restored": restore(t, r.records)} {
				if got := of(t, h, r.now, "service/web", "24h")[Up]; (got - c.counted).Abs() > 10*time.Second {
					t.Errorf("%s: up for %s, want %s", what, got, c.counted)
				}
			}
		})
	}
}

// TestWorkloadContinuesTheHistoryOfItsContainer, also if there were two of them, and after a restart.
func TestWorkloadContinuesTheHistoryOfItsContainer(t *testing.T) {
	r := newRecorder(noon)
	r.see(situation{"container/local/a-1": Up})
	r.watch(2*time.Hour, time.Minute, situation{"container/local/a-1": Up})
	r.watch(time.Hour, time.Minute, situation{"container/local/a-1": Down, "container/local/a-2": Up})
	r.now = r.now.Add(time.Minute)
	round := &health.Round{Tick: r.clock.Tick(r.now)}
	for _, was := range []string{"container/local/a-1", "container/local/a-2", "container/local/a-2"} {
		round.Events = append(round.Events, health.Event{At: round.From, Of: keyOf("workload/local/p/a"), Was: keyOf(was)})
	}
	round.Events = append(round.Events, health.Event{
		At:   round.To,
		Of:   keyOf("workload/local/p/a"),
		From: Down,
		To:   Up,
	})
	r.Apply(round)
	r.records = append(r.records, round)
	r.is = situation{"workload/local/p/a": Up}
	r.watch(time.Hour, time.Minute, situation{"workload/local/p/a": Up})
	for _, h := range []*History{r.History, restore(t, r.records)} {
		if all := h.All(); len(all) != 1 || all[0].Of != keyOf("workload/local/p/a") {
			t.Fatalf("got %+v", all)
		}
		got := of(t, h, r.now, "workload/local/p/a", "24h")
		wantTimes(t, got, Times{Up: 3*time.Hour + time.Minute, Down: time.Hour})
	}
	r.rewrite()
	restore(t, r.records) // what is kept is valid
}
