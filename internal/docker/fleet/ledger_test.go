package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// lifeOf is one start of a container as the engine knows it.
type lifeOf struct {
	started, stamped time.Time
	policy           int
}

// life makes n starts at random: by policy, or by hand, which zeroes the engine's count.
func life(r *rand.Rand, n int) []lifeOf {
	at := time.Unix(1_700_000_000, 0)
	starts := make([]lifeOf, n)
	policy := 0
	for i := range starts {
		at = at.Add(time.Duration(1+r.IntN(1000)) * time.Millisecond)
		if i > 0 && r.IntN(2) == 0 {
			policy++
		} else {
			policy = 0
		}
		starts[i] = lifeOf{at, at.Add(time.Duration(1+r.IntN(900)) * time.Microsecond), policy}
	}
	return starts
}

// TestEveryStartIsCountedOnceWhileEventsFlow delivers all events in their order, some of them late, among descriptions
// of whatever moment.
func TestEveryStartIsCountedOnceWhileEventsFlow(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		starts := life(r, 1+r.IntN(8))
		l := startLedger{}
		trace := ""
		delivered, now, want := 0, 0, uint64(len(starts))
		if r.IntN(2) == 0 { // it was running before anybody looked; the event of its start may come or not
			delivered, now, want = r.IntN(2), 1, want-1
			if delivered == 1 { // it will not, since the start was long before
				starts[0].started = starts[0].started.Add(-time.Hour)
			}
			l = sightedLedger(starts[0].started, starts[0].policy)
			trace = fmt.Sprint(" sighted", delivered)
		}
		for now < len(starts) || delivered < len(starts) {
			switch {
			case now < len(starts) && r.IntN(3) == 0:
				now++
			case now > 0 && r.IntN(2) == 0:
				// A description that was fetched while an event came in is thrown away, so it is never older than those.
				if delivered <= now {
					l.described(starts[now-1].started, starts[now-1].policy)
					trace += fmt.Sprintf(" d%d", now)
				}
			case delivered < now:
				l.event(starts[delivered].stamped)
				delivered++
				trace += fmt.Sprintf(" e%d", delivered)
			}
		}
		// After the last event, the container is described once more.
		l.described(starts[len(starts)-1].started, starts[len(starts)-1].policy)
		if l.Starts != want {
			t.Fatalf("seed %d: %d starts, want %d: %s %+v", seed, l.Starts, want, trace, starts)
		}
	}
}

// TestGapIsMadeUpFor loses a run of events and describes the container after it.
func TestGapIsMadeUpFor(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 2))
		starts := life(r, 2+r.IntN(8))
		from := r.IntN(len(starts))
		to := from + 1 + r.IntN(len(starts)-from) // starts[from:to] are lost
		l := startLedger{}
		for _, s := range starts[:from] {
			l.event(s.stamped)
			l.described(s.started, s.policy)
		}
		last := starts[to-1]
		base := 0
		if from > 0 {
			base = starts[from-1].policy
		}
		least := uint64(max(last.policy-base, 1)) //nolint:gosec // not negative
		if from == 0 {
			least = uint64(last.policy + 1) //nolint:gosec // not negative
		}
		want := uint64(from) + least //nolint:gosec // not negative
		l.described(last.started, last.policy)
		if l.Starts != want {
			t.Fatalf("seed %d: %d starts after a gap, want %d", seed, l.Starts, want)
		}
		for _, s := range starts[to:] {
			l.event(s.stamped)
			l.described(s.started, s.policy)
		}
		want += uint64(len(starts) - to) //nolint:gosec // not negative
		if l.Starts != want {
			t.Fatalf("seed %d: %d starts after events flow again, want %d", seed, l.Starts, want)
		}
	}
}

func TestStartBeforeTheFirstSightDoesNotCount(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	l := sightedLedger(started, 7)
	l.event(started.Add(-time.Minute))     // the engine tells of what was
	l.event(started.Add(time.Millisecond)) // was under way
	l.described(started, 7)
	if l.Starts != 0 {
		t.Errorf("%d starts, want none: the container was running when it was first seen", l.Starts)
	}
	l.described(started.Add(time.Minute), 9)
	if l.Starts != 2 {
		t.Errorf("%d starts, want the policy's 2", l.Starts)
	}
	l.described(started.Add(time.Hour), 9) // the engine itself was restarted
	if l.Starts != 3 {
		t.Errorf("%d starts, want 3", l.Starts)
	}
}

func TestFirstRestartsAfterTheFirstSightCount(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	at := func(hours int) time.Time { return started.Add(time.Duration(hours) * time.Hour) }
	for name, begin := range map[string]func() startLedger{
		"sighted": func() startLedger { return sightedLedger(started, 0) },
		"resumed": func() startLedger { return startLedger{Started: started}.resumed() },
		"after a gap": func() startLedger {
			l := sightedLedger(started.Add(-time.Hour), 0)
			l.described(started, 0)
			l.Starts = 0
			return l
		},
	} {
		l := begin()
		l.event(at(1).Add(time.Millisecond)) // both at once, before anybody can look
		l.event(at(2).Add(time.Millisecond))
		l.described(at(2), 0)
		if l.Starts != 2 {
			t.Errorf("%s: %d starts, want 2", name, l.Starts)
		}
	}
}

func TestPlannedRestartIsNoStart(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	l := sightedLedger(started, 0)
	// The engine counts a restart when it decides on it, and waits before it does it.
	l.described(started, 1)
	if l.Starts != 0 {
		t.Errorf("%d starts, want none yet", l.Starts)
	}
	l.described(started.Add(time.Second), 1)
	if l.Starts != 1 {
		t.Errorf("%d starts, want 1", l.Starts)
	}
}

// TestLateEventIsOneOfItsTime has the event of a start come, and one that is too late to be of that start.
func TestLateEventIsOneOfItsTime(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		after time.Duration
		want  uint64
	}{
		{0, 0},
		{3 * time.Second, 0},
		{3*time.Second + 1, 1},
	} {
		l := sightedLedger(started, 0)
		l.event(started.Add(tt.after))
		if l.Starts != tt.want {
			t.Errorf("an event %s after the start: %d more starts, want %d", tt.after, l.Starts, tt.want)
		}
		var oom oomLedger
		oom.described(started.Add(-time.Hour), started)
		oom.event(started.Add(tt.after))
		if want := 1 + tt.want; oom.Count != want {
			t.Errorf("an event %s after the end: %d times out of memory, want %d", tt.after, oom.Count, want)
		}
	}
}

// TestStartsThatNoEventTellsOfTakeBoundedMemory describes start after start, while no event comes.
func TestStartsThatNoEventTellsOfTakeBoundedMemory(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	l := sightedLedger(started, 0)
	const starts = 2 * maxOwedStarts
	for i := range starts {
		l.described(started.Add(time.Duration(i+1)*time.Minute), 0)
	}
	if l.Starts != starts {
		t.Errorf("%d starts, want %d", l.Starts, starts)
	}
	if got := len(l.owed); got != maxOwedStarts {
		t.Errorf("waits for %d events, want %d", got, maxOwedStarts)
	}
	l.event(started.Add(starts * time.Minute)) // the last of them is among these
	if l.Starts != starts {
		t.Errorf("%d starts after the event of the last one, want %d", l.Starts, starts)
	}
}

func TestOutOfMemoryIsCountedOnce(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		name string
		do   func(*oomLedger)
		want uint64
	}{
		{"event, then description", func(l *oomLedger) { l.event(at(9)); l.described(began, at(10)) }, 1},
		{"description, then event", func(l *oomLedger) { l.described(began, at(10)); l.event(at(9)) }, 1},
		{"description, then event stamped after the end", func(l *oomLedger) { l.described(began, at(10)); l.event(at(11)) }, 1},
		{"description twice", func(l *oomLedger) { l.described(began, at(10)); l.described(began, at(10)) }, 1},
		{"event of a child, without an end", func(l *oomLedger) { l.event(at(3)) }, 1},
		{"two runs by events", func(l *oomLedger) {
			l.event(at(9))
			l.described(began, at(10))
			l.event(at(19))
			l.described(at(11), at(20))
		}, 2},
		{"late event, then one of a child at once", func(l *oomLedger) { l.described(began, at(10)); l.event(at(9)); l.event(at(11)) }, 2},
		{"second run without event", func(l *oomLedger) {
			l.event(at(9))
			l.described(began, at(10))
			l.described(at(11), at(20))
		}, 2},
		{"second run without event, running again", func(l *oomLedger) {
			l.event(at(9))
			l.described(began, at(10))
			l.described(time.Time{}, at(20))
		}, 2},
	} {
		var l oomLedger
		tt.do(&l)
		if l.Count != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, l.Count, tt.want)
		}
	}
}

// TestProcessThatEndsCountsNothingTwice has a process end around starts, and the engine tell some events again to the next one.
func TestProcessThatEndsCountsNothingTwice(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	start := func(n int) time.Time { return begun.Add(time.Hour + time.Duration(n)*500*time.Millisecond) }
	event := func(l *startLedger, n int) { l.event(start(n).Add(time.Millisecond)) }
	described := func(l *startLedger, n int) { l.described(start(n), 0) }
	for name, tt := range map[string]struct {
		before, after func(l *startLedger)
		want          uint64
	}{
		"between an event and the description": {
			func(l *startLedger) { event(l, 1) },
			func(l *startLedger) { described(l, 2); event(l, 1); event(l, 2) },
			2,
		},
		"the event before comes alone": {
			func(l *startLedger) { event(l, 1); described(l, 1); event(l, 2) },
			func(l *startLedger) { event(l, 1); described(l, 2); event(l, 2) },
			2,
		},
		"two events, no description": {
			func(l *startLedger) { event(l, 1); event(l, 2) },
			func(l *startLedger) { event(l, 1); described(l, 2); event(l, 2) },
			2,
		},
		"two more before the description": {
			func(l *startLedger) { event(l, 1) },
			func(l *startLedger) { event(l, 2); event(l, 3); described(l, 3) },
			3,
		},
		"two more, and all is told again": {
			func(l *startLedger) { event(l, 1) },
			func(l *startLedger) { event(l, 1); event(l, 2); event(l, 3); described(l, 3) },
			3,
		},
		"two more soon after the description": {
			func(l *startLedger) { event(l, 1); described(l, 1) },
			func(l *startLedger) { event(l, 2); event(l, 3); described(l, 3) },
			3,
		},
		"after the description": {
			func(l *startLedger) { event(l, 1); described(l, 1) },
			func(l *startLedger) { event(l, 1); event(l, 2); described(l, 2) },
			2,
		},
	} {
		l := sightedLedger(begun, 0)
		tt.before(&l)
		content, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		var kept startLedger
		if err := json.Unmarshal(content, &kept); err != nil {
			t.Fatal(err)
		}
		kept = kept.resumed()
		tt.after(&kept)
		if kept.Starts != tt.want {
			t.Errorf("%s: %d starts, want %d", name, kept.Starts, tt.want)
		}
	}
}
