package notify

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// TestDrillSendsEachReceiverAMessage and says what became of it. It waits for no other message, and what fails is not tried again.
func TestDrillSendsEachReceiverAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well, refuses, hangs := &telephone{}, &telephone{}, &telephone{}
		refuses.failWith(errors.New("status 401"))
		hangs.failWith(errHang)
		// Another one of the pair is not there, and would send first.
		p := startIn(t, Pair{ID: "1", Role: config.PairOther, Peers: []string{"http://gone"}}, &file{},
			map[string]*telephone{"a": hangs, "b": well, "c": refuses})
		defer p.end()
		p.see(web)
		time.Sleep(time.Hour)
		for range 5 {
			before := len(well.list())
			results, err := p.notifier.Drill(t.Context(), "none", nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := well.list()[before:]; len(got) != 1 || !strings.Contains(got[0], "[DRILL]") {
				t.Errorf("b got %q", got)
			}
			if r := results[1]; len(results) != 3 || r.Name != "b" || !r.Delivered || r.Answer != "ok" {
				t.Errorf("got %+v", results)
			}
			for i, want := range map[int]string{0: "deadline exceeded", 2: "status 401"} {
				if r := results[i]; r.Delivered || !strings.Contains(r.Error, want) || r.Duration > maxDrill.Seconds() {
					t.Errorf("got %+v, want %s", r, want)
				}
			}
		}
		refuses.failWith(nil)
		hangs.failWith(nil)
		time.Sleep(time.Hour)
		for _, phone := range []*telephone{refuses, hangs} {
			if got := phone.list(); len(got) == 0 || strings.Contains(strings.Join(got, ""), "[DRILL]") {
				t.Errorf("later it got %q", got)
			}
		}
		results, err := p.notifier.Drill(t.Context(), "critical", []string{"b"})
		if err != nil || len(results) != 1 || !results[0].Delivered {
			t.Errorf("of one receiver: %+v, %v", results, err)
		}
	})
}

// TestDrillLeavesNoTrace but that it arrived: one that fails is no failure of the receiver, as nothing would be tried again, and one that
// is under way when the process ends is forgotten. Only one is under way at a time, and any number of them hold nothing back.
func TestDrillLeavesNoTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone, f := &telephone{}, &file{}
		p := start(t, f, map[string]*telephone{"phone": phone})
		for range 2 * maxPerHour {
			if results, err := p.notifier.Drill(t.Context(), "critical", nil); err != nil || !results[0].Delivered {
				t.Fatalf("%+v, %v", results, err)
			}
		}
		phone.failWith(errors.New("status 500"))
		if results, err := p.notifier.Drill(t.Context(), "none", nil); err != nil || results[0].Delivered {
			t.Errorf("%+v, %v", results, err)
		}
		if s := p.notifier.States()[0]; s.Failing != "" || !s.Since.IsZero() || s.Waiting != 0 || s.Counts[Held] != 0 {
			t.Errorf("after the drills: %+v", s)
		}
		phone.failWith(errHang)
		go p.notifier.Drill(t.Context(), "critical", nil) //nolint:errcheck // the process ends first
		time.Sleep(time.Second)
		if _, err := p.notifier.Drill(t.Context(), "none", nil); !errors.Is(err, ErrDrilling) {
			t.Errorf("two at once: %v", err)
		}
		p.end()
		phone.failWith(nil)
		before := len(phone.list())
		p = start(t, f, map[string]*telephone{"phone": phone})
		p.see(web)
		time.Sleep(time.Hour)
		p.end()
		if got := phone.list()[before:]; len(got) != 1 || strings.Contains(got[0], "[DRILL]") {
			t.Errorf("after a restart it got %q", got)
		}
	})
}

// TestNextDrillIsTried although the attempt of the one before has outlasted it.
func TestNextDrillIsTried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		phone := &telephone{}
		p := start(t, &file{}, map[string]*telephone{"phone": phone})
		defer p.end()
		phone.failWith(errHang)
		p.see(web)
		time.Sleep(settleCritical + time.Second) // now an attempt hangs
		for _, want := range []string{"it was not tried", "deadline exceeded"} {
			results, err := p.notifier.Drill(t.Context(), "none", nil)
			if err != nil || !strings.Contains(results[0].Error, want) {
				t.Errorf("got %+v, %v, want %s", results, err, want)
			}
		}
	})
}
