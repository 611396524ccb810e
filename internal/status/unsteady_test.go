package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// failLogins has so many logins fail a minute at a target for a while, read every 30 s.
func (w *world) failLogins(target string, total *float64, perMinute float64, minutes int) *Report {
	var r *Report
	for range 2 * minutes {
		*total += perMinute / 2
		w.text[target] = fmt.Sprintf("xmpp_c2s_auth_failure_total{host=\"a\"} %g\n", *total)
		r = w.look(30 * time.Second)
	}
	return r
}

func TestLostReadingDoesNotEndAnAttack(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp", Kind: "xmpp_metrics"})
	total := 0.0
	if got := w.failLogins("xmpp", &total, 100, 8).threshold("XMPPAuthFailureRate"); got.Level != Critical {
		t.Fatalf("after eight minutes: got %s: %s", got.Level, got.Text)
	}
	s := w.status("xmpp")
	s.Up, s.Reason, s.LastSuccess = false, failure.Timeout, w.now
	text := w.text["xmpp"]
	w.text["xmpp"] = ""
	if got := w.look(30 * time.Second).threshold("XMPPAuthFailureRate"); got.Level != Critical || got.Present != nil {
		t.Errorf("while a reading is lost: got %s: %s", got.Level, got.Text)
	}
	s = w.status("xmpp")
	s.Up, s.Reason = true, ""
	w.text["xmpp"] = text
	if got := w.failLogins("xmpp", &total, 100, 1).threshold("XMPPAuthFailureRate"); got.Level != Critical {
		t.Errorf("after the lost reading: got %s: %s", got.Level, got.Text)
	}
	s = w.status("xmpp")
	s.Up, s.Reason, s.LastSuccess = false, failure.Timeout, w.now
	w.text["xmpp"] = ""
	if got := w.look(5 * time.Minute).threshold("XMPPAuthFailureRate"); got.Level != Unknown {
		t.Errorf("after five minutes without a reading: got %s: %s", got.Level, got.Text)
	}
}

func TestWorstOfSeveralServersCounts(t *testing.T) {
	w := begin(poll.Status{Target: "calm", Kind: "xmpp_metrics"}, poll.Status{Target: "attacked", Kind: "xmpp_metrics"})
	w.text["calm"] = "xmpp_c2s_auth_failure_total{host=\"a\"} 3\n"
	total := 0.0
	if got := w.failLogins("attacked", &total, 100, 8).threshold("XMPPAuthFailureRate"); got.Level != Critical || got.Subject != "attacked" {
		t.Errorf("got %s of %q: %s", got.Level, got.Subject, got.Text)
	}
}

func TestNothingIsKnownWhilePollingStandsStill(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.contain(named{"irc", containerText{health: "healthy"}})
	w.look(0)
	w.in.Alive = errors.New("the poll loop has stood still for 31s")
	r := w.look(time.Hour)
	if got := r.service("irc_rpc"); got.Level != Unknown || got.State != waiting {
		t.Errorf("service: got %s, %s", got.Level, got.State)
	}
	if got := r.container("irc"); got.Level != Unknown || got.State == running || got.Health == "healthy" {
		t.Errorf("container: got %s, %s, %s", got.Level, got.State, got.Health)
	}
	for _, row := range r.Thresholds {
		if row.Level != Unknown || row.Present != nil {
			t.Errorf("row %s: got %s, %v", row.Alert, row.Level, row.Present)
		}
	}
	if r.Level != Critical {
		t.Errorf("verdict: got %s, want critical", r.Level)
	}
	if r = begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}).look(0); r.Level != OK || r.threshold("XMPPAuthFailureRate").Level != Unknown {
		t.Errorf("what nobody measures: got %s, and the whole is %s", r.threshold("XMPPAuthFailureRate").Level, r.Level)
	}
}

func TestVerdictLastsSinceTheFirstCause(t *testing.T) {
	w := begin(engine)
	since := w.now.Add(-3 * time.Hour)
	w.contain(named{"irc", containerText{health: "unhealthy"}})
	w.text["docker"] += fmt.Sprintf("chatstack_container_unhealthy_since_timestamp_seconds{container=\"irc\",docker_host=\"local\"} %d\n", since.Unix())
	if r := w.look(0); r.Level != Critical || !r.Since.Equal(since) {
		t.Errorf("got %s since %s, want critical since %s", r.Level, r.Since, since)
	}
}

// TestEngineWhoseClockIsAheadLastsNoNegativeTime has an engine that says that a check began to fail in the future.
func TestEngineWhoseClockIsAheadLastsNoNegativeTime(t *testing.T) {
	w := begin(engine)
	w.contain(named{"irc", containerText{health: "unhealthy"}})
	w.text["docker"] += fmt.Sprintf("chatstack_container_unhealthy_since_timestamp_seconds{container=\"irc\",docker_host=\"local\"} %d\n", w.now.Add(time.Hour).Unix())
	if got := w.look(0).threshold("ContainerUnhealthy"); got.Level != Warning || got.Present == nil || *got.Present != 0 {
		t.Errorf("got %s, %s, %v, want a warning after 0 s", got.Level, got.Text, got.Present)
	}
}

func TestProblemIsToldOnce(t *testing.T) {
	w := begin(engine)
	for restarts := range 6 {
		w.contain(named{"irc", containerText{state: "restarting", restarts: float64(restarts)}})
		w.look(time.Second)
	}
	if got := w.look(time.Second).container("irc").Text; strings.Count(got, "restarted 5 times") != 1 {
		t.Errorf("got %q", got)
	}
}

func TestServicesThatNeedNotRunAreNotMissed(t *testing.T) {
	for name, excused := range map[string]func(w *world){
		"told as down": func(w *world) { s := w.status("irc_services"); s.Up, s.Reason = false, failure.Refused },
		"maintenance": func(w *world) {
			w.in.Maintenance = []maintenance.Entry{{Kind: config.MaintenanceTarget, Name: "irc_services", Active: true, Until: w.now.Add(time.Hour)}}
		},
	} {
		w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, poll.Status{Target: "irc_services", Kind: "irc_services"})
		w.text["irc_rpc"] = "chatstack_irc_services_linked 0\n"
		excused(w)
		w.look(0)
		if got := w.look(time.Hour).service("irc_rpc"); got.Level != Warning {
			t.Errorf("%s: got %s: %s", name, got.Level, got.Text)
		}
	}
}

func TestHistoryKeepsNoNumberBeyondItsRange(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := newSeries("sessions", "", last, now)
	s.add(now, 1e39)
	s.add(now, math.NaN())
	s.add(now.Add(step), 3)
	h := s.history("sessions", now.Add(step))
	if _, err := json.Marshal(h); err != nil {
		t.Error(err)
	}
	if v := h.Values[len(h.Values)-1]; v == nil || *v != 3 {
		t.Errorf("the last step: got %v, want 3", v)
	}
}
