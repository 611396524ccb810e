package status

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestProblemBeganWhenItDidNotWhenTheStateDid(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, poll.Status{Target: "xmpp_status", Kind: "xmpp_status"})
	started := w.now.Add(-3 * time.Hour)
	container := func(c containerText) string {
		return c.lines("xmpp") + fmt.Sprintf("chatstack_container_start_time_seconds{container=\"xmpp\",docker_host=\"local\"} %d\n", started.Unix())
	}
	w.text["docker"] = container(containerText{role: "xmpp", memory: 1e8})
	w.text["irc_rpc"] = "chatstack_irc_services_linked 1\n"
	w.text["xmpp_status"] = "chatstack_xmpp_component_connected{host=\"bridge\"} 1\n"
	w.look(0)
	w.text["docker"] = container(containerText{role: "xmpp", memory: 6e8})
	w.text["irc_rpc"] = "chatstack_irc_services_linked 0\n"
	w.text["xmpp_status"] = "chatstack_xmpp_component_connected{host=\"bridge\"} 0\n"
	r := w.look(2 * time.Hour)
	began := w.now
	for range 2 {
		c, irc, xmpp := r.container("xmpp"), r.service("irc_rpc"), r.service("xmpp_status")
		if !c.Since.Equal(started) || !c.ProblemSince.Equal(began) || c.ProblemSinceAtLeast {
			t.Errorf("memory: got since %s, wrong since %s, want %s and %s", c.Since, c.ProblemSince, started, began)
		}
		for _, s := range []Service{irc, xmpp} {
			if !s.ProblemSince.Equal(began) || s.ProblemSinceAtLeast || !s.Since.Before(began) {
				t.Errorf("%s: got since %s, wrong since %s, want %s", s.Name, s.Since, s.ProblemSince, began)
			}
		}
		if !r.Since.Equal(began) || r.SinceAtLeast {
			t.Errorf("the whole: got since %s, want %s", r.Since, began)
		}
		r = w.look(10 * time.Minute) // the warnings of services have become critical
	}
	w.text["docker"] = container(containerText{role: "xmpp", memory: 1e8})
	w.text["irc_rpc"] = "chatstack_irc_services_linked 1\n"
	r = w.look(time.Minute)
	if c, s := r.container("xmpp"), r.service("irc_rpc"); !c.ProblemSince.IsZero() || !s.ProblemSince.IsZero() {
		t.Errorf("what is over has a beginning: %s, %s", c.ProblemSince, s.ProblemSince)
	}
	w.text["irc_rpc"] = "chatstack_irc_services_linked 0\n"
	if got := w.look(time.Minute).service("irc_rpc").ProblemSince; !got.Equal(w.now) {
		t.Errorf("unlinked again: got %s, want %s", got, w.now)
	}
}

func TestRestartsBeganWithTheFirst(t *testing.T) {
	w := begin(engine)
	set := func(n float64) {
		w.text["docker"] = containerText{restarts: n}.lines("irc") +
			fmt.Sprintf("chatstack_container_start_time_seconds{container=\"irc\",docker_host=\"local\"} %d\n", w.now.Unix())
	}
	set(0)
	w.look(0)
	began := w.now.Add(time.Minute)
	for n := range 20 {
		set(float64(n + 1))
		if got := w.look(time.Minute).container("irc"); !got.ProblemSince.Equal(began) {
			t.Fatalf("restart %d: got %s since %s, want since %s", n+1, got.Level, got.ProblemSince, began)
		}
	}
}

func TestMissingIsSinceTheContainerWasSeenLast(t *testing.T) {
	w := begin(engine)
	w.text["docker"] = containerText{}.lines("plant-store") + containerText{}.lines("irc")
	w.look(0)
	last := w.now
	w.text["docker"] = containerText{}.lines("irc")
	w.look(30 * time.Second)
	w.text["docker"] = containerText{}.lines("irc") + containerText{state: "missing"}.lines("plant-store")
	r := w.look(time.Minute)
	if got := r.container("plant-store"); !got.Since.Equal(last) || !got.ProblemSince.Equal(last) || got.ProblemSinceAtLeast {
		t.Errorf("got since %s, wrong since %s, want %s", got.Since, got.ProblemSince, last)
	}
}

func TestWhatWasWrongAlreadyIsSoAtLeastSinceTheStart(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Reason: failure.Refused})
	w.text["docker"] = containerText{state: "missing"}.lines("plant-store") + containerText{role: "xmpp", memory: 6e8}.lines("xmpp")
	start := w.now
	w.look(0)
	r := w.look(time.Hour)
	for _, name := range []string{"plant-store", "xmpp"} {
		if c := r.container(name); !c.ProblemSinceAtLeast || !c.ProblemSince.Equal(start) {
			t.Errorf("%s: got %s, at least %t", name, c.ProblemSince, c.ProblemSinceAtLeast)
		}
	}
	if s := r.service("irc_rpc"); !s.ProblemSinceAtLeast || !s.ProblemSince.Equal(start) || !r.SinceAtLeast {
		t.Errorf("irc_rpc: got %s, at least %t; the whole at least %t", s.ProblemSince, s.ProblemSinceAtLeast, r.SinceAtLeast)
	}
	w.status("irc_rpc").Up, w.status("irc_rpc").Reason, w.status("irc_rpc").Since = true, "", w.now
	w.look(time.Minute)
	w.status("irc_rpc").Up, w.status("irc_rpc").Reason, w.status("irc_rpc").Since = false, failure.Refused, w.now
	w.text["docker"] += containerText{health: "unhealthy"}.lines("new")
	r = w.look(time.Minute)
	if s, c := r.service("irc_rpc"), r.container("new"); s.ProblemSinceAtLeast || c.ProblemSinceAtLeast {
		t.Errorf("what began under its eyes is told of as older: %+v, %+v", s, c)
	}
}

func TestThresholdTellsSinceWhenItIsPassed(t *testing.T) {
	w := begin(engine)
	w.text["docker"] = containerText{memory: 1e8}.lines("irc")
	w.look(0)
	w.text["docker"] = containerText{memory: 2e9}.lines("irc")
	w.look(time.Hour)
	passed := w.now
	r := w.look(time.Minute)
	row := r.Thresholds[slices.IndexFunc(r.Thresholds, func(t Threshold) bool { return t.Level == Critical })]
	if !row.Since.Equal(passed) {
		t.Errorf("got %s, want %s", row.Since, passed)
	}
	w.text["docker"] = containerText{memory: 1e8}.lines("irc")
	for _, row := range w.look(time.Minute).Thresholds {
		if !row.Since.IsZero() {
			t.Errorf("%s is passed no more, and has been since %s", row.Alert, row.Since)
		}
	}
}
