package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestCrashLoopKeepsOlderTransitions(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.contain(named{"irc-services", testContainer{}})
	w.poll(0)
	s := w.status("irc_rpc")
	s.Up, s.Reason, s.Since = false, failure.Timeout, w.now
	w.poll(0)
	began := w.now.Add(3 * time.Second)
	for n := range 300 {
		state := "restarting"
		if n%2 == 1 {
			state = "running"
		}
		w.contain(named{"irc-services", testContainer{state: state, restarts: uint64(1 + n/2)}})
		w.poll(3 * time.Second)
	}
	r := w.Report()
	if n := len(r.Transitions); n > 5 {
		t.Errorf("%d lines of one container and a service", n)
	}
	restarts, down := Transition{}, Transition{}
	for _, got := range r.Transitions {
		switch {
		case got.To == "restarted":
			restarts = got
		case got.Name == "irc_rpc":
			down = got
		}
	}
	if restarts.Count != 150 || !restarts.Time.Equal(began) || w.now.Sub(restarts.Until) > 6*time.Second {
		t.Errorf("restarts: got %+v", restarts)
	}
	if down.Count != 1 || down.To != "down" {
		t.Errorf("what broke first is gone: %+v", r.Transitions)
	}
}

func TestTransitionsPerSubjectAreLimited(t *testing.T) {
	c := transitions{}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	c.add(Transition{
		Time: start,
		Kind: "target",
		Name: "irc_rpc",
		To:   "down",
	})
	for i := range 50 {
		c.add(Transition{
			Time: start.Add(time.Duration(i) * 2 * time.Hour),
			Kind: "container",
			Name: "nightly",
			To:   "restarted",
		})
	}
	if len(c.list) != 1+maxOfSubject || c.dropped != 50-maxOfSubject || c.list[maxOfSubject].Name != "irc_rpc" {
		t.Errorf("got %d lines, %d left out: %+v", len(c.list), c.dropped, c.list)
	}
	for i := range 200 {
		c.add(Transition{
			Time: start,
			Kind: "target",
			Name: fmt.Sprint(i),
			To:   "down",
		})
	}
	if len(c.list) != maxTransitions || c.dropped != 50+1+200-maxTransitions {
		t.Errorf("got %d lines, %d left out", len(c.list), c.dropped)
	}
}

func TestLateRepetitionIsASeparateLine(t *testing.T) {
	c := transitions{}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, later := range []time.Duration{0, 59 * time.Minute, 118 * time.Minute, 200 * time.Minute} {
		c.add(Transition{
			Time: start.Add(later),
			Kind: "target",
			Name: "irc_rpc",
			To:   "down",
		})
		c.add(Transition{
			Time: start.Add(later),
			Kind: "container",
			Name: "irc_rpc",
			To:   "down",
		})
	}
	if len(c.list) != 4 || c.list[2].Count != 3 || c.list[0].Count != 1 || !c.list[2].Time.Equal(start) ||
		!c.list[2].Until.Equal(start.Add(118*time.Minute)) {
		t.Errorf("got %+v", c.list)
	}
}
