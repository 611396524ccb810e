package status

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// failLogins lets perMinute logins fail at a target for a while, with a poll every 30 s.
func (w *world) failLogins(target string, total *float64, perMinute float64, minutes int) *Report {
	var r *Report
	for range 2 * minutes {
		*total += perMinute / 2
		w.find(target, failedLogins(*total))
		r = w.poll(30 * time.Second)
	}
	return r
}

func TestWorstOfSeveralServersCounts(t *testing.T) {
	w := begin(poll.Status{Target: "calm", Kind: "xmpp_metrics"}, poll.Status{Target: "attacked", Kind: "xmpp_metrics"})
	w.find("calm", failedLogins(3))
	total := 0.0
	if got := w.failLogins("attacked", &total, 100, 8).threshold("XMPPAuthFailureRate"); got.Level != Critical ||
		got.Subject != "attacked" {
		t.Errorf("got %s of %q: %s", got.Level, got.Subject, got.Text)
	}
}

func TestStalledPollingMakesEverythingUnknown(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.contain(named{"irc", testContainer{health: "healthy"}})
	w.poll(0)
	w.in.Stale = "the poll loop has been stalled for 31s"
	r := w.poll(time.Hour)
	if got := r.service("irc_rpc"); got.Level != Unknown || got.State != waiting {
		t.Errorf("service: got %s, %s", got.Level, got.State)
	}
	if got := r.container("irc"); got.Level != Unknown || got.State == health.Running || got.Health == "healthy" {
		t.Errorf("container: got %s, %s, %s", got.Level, got.State, got.Health)
	}
	for _, row := range r.Thresholds {
		if row.Level != Unknown || row.Present != nil {
			t.Errorf("row %s: got %s, %v", row.Alert, row.Level, row.Present)
		}
	}
	if len(r.Problems) > 0 {
		t.Errorf("problems: got %+v", r.Problems)
	}
	if r.Level != Critical {
		t.Errorf("verdict: got %s, want critical", r.Level)
	}
	if r = begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}).poll(0); r.Level != OK ||
		r.threshold("XMPPAuthFailureRate").Level != Unknown {
		t.Errorf("what nobody measures: got %s, and the whole is %s", r.threshold("XMPPAuthFailureRate").Level, r.Level)
	}
}

func TestProblemIsShownOnce(t *testing.T) {
	w := begin(engine)
	for restarts := range 6 {
		w.contain(named{"irc", testContainer{state: "restarting", restarts: uint64(restarts)}})
		w.poll(time.Second)
	}
	if got := w.poll(time.Second).container("irc").Text; strings.Count(got, "restarted 5 times") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestHistoryIgnoresNumbersBeyondItsRange(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSeries(History{Keeps: mean}, now)
	s.add(now, 1e39)
	s.add(now, math.NaN())
	s.add(now.Add(step), 3)
	h := s.history(now.Add(step))
	if _, err := json.Marshal(h); err != nil {
		t.Error(err)
	}
	if v := h.Values[len(h.Values)-1]; v == nil || *v != 3 {
		t.Errorf("the last step: got %v, want 3", v)
	}
}
