package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
)

// engineStart is one start of a container as the engine records it.
type engineStart struct {
	started, stamped time.Time
	policy           int
}

// randomStarts returns n random starts, by policy or by hand. A start by hand resets the engine's count.
func randomStarts(r *rand.Rand, n int) []engineStart {
	at := time.Unix(1_700_000_000, 0)
	starts := make([]engineStart, n)
	policy := 0
	for i := range starts {
		at = at.Add(time.Duration(1+r.IntN(1000)) * time.Millisecond)
		if i > 0 && r.IntN(2) == 0 {
			policy++
		} else {
			policy = 0
		}
		starts[i] = engineStart{at, at.Add(time.Duration(1+r.IntN(900)) * time.Microsecond), policy}
	}
	return starts
}

// TestEveryStartIsCountedOnceWhileEventsFlow delivers all events in order, some late, between descriptions
// at random times.
func TestEveryStartIsCountedOnceWhileEventsFlow(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		starts := randomStarts(r, 1+r.IntN(8))
		l := startCounter{}
		trace := ""
		delivered, now, want := 0, 0, uint64(len(starts))
		if r.IntN(2) == 0 { // it was running before anybody looked; the event of its start may come or not
			delivered, now, want = r.IntN(2), 1, want-1
			if delivered == 1 { // it will not, since the start was long before
				starts[0].started = starts[0].started.Add(-time.Hour)
			}
			l = startCounterFrom(starts[0].started, starts[0].policy)
			trace = fmt.Sprint(" running", delivered)
		}
		for now < len(starts) || delivered < len(starts) {
			switch {
			case now < len(starts) && r.IntN(3) == 0:
				now++
			case now > 0 && r.IntN(2) == 0:
				// A description that was fetched while an event came in is thrown away, so it is never older than those.
				if delivered <= now {
					l.describe(starts[now-1].started, starts[now-1].policy)
					trace += fmt.Sprintf(" d%d", now)
				}
			case delivered < now:
				l.countEvent(starts[delivered].stamped)
				delivered++
				trace += fmt.Sprintf(" e%d", delivered)
			}
		}
		// After the last event, the container is described once more.
		l.describe(starts[len(starts)-1].started, starts[len(starts)-1].policy)
		if l.Total != want {
			t.Fatalf("seed %d: %d starts, want %d: %s %+v", seed, l.Total, want, trace, starts)
		}
	}
}

// TestDescriptionMakesUpForLostEvents loses several events and describes the container afterwards.
func TestDescriptionMakesUpForLostEvents(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 2))
		starts := randomStarts(r, 2+r.IntN(8))
		from := r.IntN(len(starts))
		to := from + 1 + r.IntN(len(starts)-from) // starts[from:to] are lost
		l := startCounter{}
		follow := func(some []engineStart) {
			for _, s := range some {
				l.countEvent(s.stamped)
				l.describe(s.started, s.policy)
			}
		}
		follow(starts[:from])
		last := starts[to-1]
		least := last.policy + 1
		if from > 0 {
			least = max(last.policy-starts[from-1].policy, 1)
		}
		l.describe(last.started, last.policy)
		gap := int(l.Total) //nolint:gosec // small
		follow(starts[to:])
		if want := from + least; gap != want || int(l.Total) != want+len(starts)-to { //nolint:gosec // small
			t.Fatalf("seed %d: %d starts after a gap, then %d; want %d, and those of %d events", seed, gap, l.Total, want, len(starts)-to)
		}
	}
}

// TestStartsWithoutEventsTakeBoundedMemory describes start after start, without an event.
func TestStartsWithoutEventsTakeBoundedMemory(t *testing.T) {
	started := time.Unix(1_700_000_000, 0)
	l := startCounterFrom(started, 0)
	const starts = 2 * maxAwaitedEvents
	for i := range starts {
		l.describe(started.Add(time.Duration(i+1)*time.Minute), 0)
	}
	if l.Total != starts {
		t.Errorf("%d starts, want %d", l.Total, starts)
	}
	if got := len(l.awaitedEvents); got != maxAwaitedEvents {
		t.Errorf("waits for %d events, want %d", got, maxAwaitedEvents)
	}
	l.countEvent(started.Add(starts * time.Minute)) // the last of them is among these
	if l.Total != starts {
		t.Errorf("%d starts after the event of the last one, want %d", l.Total, starts)
	}
}

// scriptTime parses a time after the first start: a duration, or the number of a restart, half a second apart.
func scriptTime(t *testing.T, text string) time.Duration {
	t.Helper()
	if n, err := strconv.Atoi(text); err == nil {
		return time.Hour + time.Duration(n)*500*time.Millisecond
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestStartsAreCountedOnce plays scripts that begin with a running container, restarted by policy this often: an event
// (e) or a description (d, perhaps with the policy's count) of a start, the end of the process (kill), and the count (=).
func TestStartsAreCountedOnce(t *testing.T) {
	begun := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		policy int
		script string
	}{
		{"starts before the first list do not count", 7, "e-1m e0s d0s:7 =0 d1m:9 =2 d1h:9 =3"},
		{"an event in time for the start", 0, "e9999ms =0"},
		{"an event too late for the start", 0, "e10s =1"},
		{"restarts right after the first list", 0, "e1h e2h d2h =2"},
		{"restarts at once after a restart of the process", 0, "kill e1h e2h d2h =2"},
		{"restarts at once after a gap", 0, "d1h =1 e2h e3h d3h =3"},
		{"the engine plans a restart, and waits", 0, "d0s:1 =0 d1s:1 =1"},
		{"the process ends between an event and the description", 0, "e1 kill d2 e1 e2 =2"},
		{"the event before comes alone", 0, "e1 d1 e2 kill e1 d2 e2 =2"},
		{"two events, no description", 0, "e1 e2 kill e1 d2 e2 =2"},
		{"two more before the description", 0, "e1 kill e2 e3 d3 =3"},
		{"two more, and the engine repeats all events", 0, "e1 kill e1 e2 e3 d3 =3"},
		{"two more soon after the description", 0, "e1 d1 kill e2 e3 d3 =3"},
		{"after the description", 0, "e1 d1 kill e1 e2 d2 =2"},
		{"after the description", 0, "e1 d1 kill e1 e2 d2 =2"},
	} {
		l := startCounterFrom(begun, tt.policy)
		for word := range strings.FieldsSeq(tt.script) {
			moment, count, _ := strings.Cut(word[1:], ":")
			switch word[0] {
			case 'e':
				l.countEvent(begun.Add(scriptTime(t, moment) + time.Millisecond))
			case 'd':
				policy, err := strconv.Atoi("0" + count)
				if err != nil {
					t.Fatal(err)
				}
				l.describe(begun.Add(scriptTime(t, moment)), policy)
			case 'k':
				content, err := json.Marshal(l)
				l = startCounter{}
				if err := errors.Join(err, json.Unmarshal(content, &l)); err != nil {
					t.Fatal(err)
				}
				l = l.restored()
			case '=':
				if got := strconv.FormatUint(l.Total, 10); got != moment {
					t.Errorf("%s: %s starts at %s of %q", tt.name, got, word, tt.script)
				}
			}
		}
	}
}

// TestOutOfMemoryIsCountedOnce plays scripts of events (e) and of descriptions of a run (d) from one second to another; one that
// runs again has no beginning.
func TestOutOfMemoryIsCountedOnce(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		want         uint64
	}{
		{"event, then description", "e9s d0s-10s", 1},
		{"description, then event", "d0s-10s e9s", 1},
		{"description, then event stamped after the end", "d0s-10s e11s", 1},
		{"description, then event stamped long after the end", "d0s-10s e20s", 1},
		{"description, then event stamped too late for the end", "d0s-10s e20001ms", 2},
		{"description twice", "d0s-10s d0s-10s", 1},
		{"event of a child, without an end", "e3s", 1},
		{"two runs by events", "e9s d0s-10s e19s d11s-20s", 2},
		{"late event, then one of a child at once", "d0s-10s e9s e11s", 2},
		{"second run without event", "e9s d0s-10s d11s-20s", 2},
		{"second run without event, running again", "e9s d0s-10s d-20s", 2},
	} {
		var l oomCounter
		for word := range strings.FieldsSeq(tt.script) {
			from, to, ended := strings.Cut(word[1:], "-")
			var at time.Time
			if from != "" {
				at = portOpened.Add(scriptTime(t, from))
			}
			if ended {
				l.describeKill(at, portOpened.Add(scriptTime(t, to)))
			} else {
				l.countEvent(at)
			}
		}
		if l.Count != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, l.Count, tt.want)
		}
	}
}
