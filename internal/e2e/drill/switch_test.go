//go:build realservers

package drill

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

const (
	// callAfter is how long the other side of the heartbeat waits before it calls, as deploy/alertmanager/README.md advises.
	callAfter = 5 * time.Minute
	// calledWithin is how long after the end of Prometheus it has called: Alertmanager takes an alert for firing for 4 minutes
	// after Prometheus' last word, and sends its last heartbeat up to a minute later.
	calledWithin = callAfter + 5*time.Minute + 10*time.Second
)

// drillSwitch stops a Prometheus, and has the other side of the heartbeat notice. All times are the shipped ones.
func (r *rig) drillSwitch(t *testing.T) {
	t.Helper()
	o := startOperators(t)
	alertmanager := o.startAlertmanager(t, repository, 1)
	prometheus := realstack.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 30s, evaluation_interval: 30s}
rule_files: [chatstack.rules.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: [%q]}]
`, alertmanager.Addr), map[string][]byte{"chatstack.rules.yml": readFile(t, repository, "alerts/chatstack.rules.yml")})
	awaitSwitch := func(what string, within time.Duration, holds func(beats []time.Time) bool) {
		t.Helper()
		for end := time.Now().Add(within); !holds(o.heartbeats()); {
			if time.Now().After(end) {
				t.Fatalf("waited %s for %s; heartbeats: %v", within, what, o.heartbeats())
			}
			o.pause(t, time.Second)
		}
	}
	awaitSwitch("3 heartbeats", 4*time.Minute, func(beats []time.Time) bool { return len(beats) >= 3 })
	prometheus.Stop()
	stopped := time.Now()
	silent := func(beats []time.Time) bool { return time.Since(beats[len(beats)-1]) > callAfter }
	if silent(o.heartbeats()) {
		t.Errorf("the other side calls before anything is stopped: %v", o.heartbeats())
	}
	awaitSwitch("the other side to call", calledWithin, silent)
	beats := o.heartbeats()
	for i, beat := range beats[1:] {
		if gap := beat.Sub(beats[i]); gap > 90*time.Second {
			t.Errorf("%s between two heartbeats, which are a minute apart: %v", gap, beats)
		}
	}
	if !slices.ContainsFunc(beats, stopped.Before) {
		t.Errorf("no heartbeat after the end of Prometheus, so that calledWithin is too long: %v", beats)
	}
	r.report.add(row{
		fault:    "Prometheus is stopped",
		alert:    "Watchdog",
		severity: "none",
		about:    "the heartbeat's other side calls",
		metric:   -1,
		notified: time.Since(stopped),
		resolved: -1,
	})
}

// pause waits, unless the test ends.
func (o *operators) pause(t *testing.T, d time.Duration) {
	t.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-t.Context().Done():
		t.FailNow()
	}
}
