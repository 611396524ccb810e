package status

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// TestTargetThatWaitsSaysUntilWhen: its row, its problem and its card say when it is tried again, and why not earlier.
func TestTargetThatWaitsSaysUntilWhen(t *testing.T) {
	for reason, want := range map[failure.Reason]string{
		failure.Unauthorized: "next try at 14:05 UTC, since the server refused the password or token",
		failure.Throttled:    "next try at 14:05 UTC, since the server limits this address",
	} {
		w := begin(poll.Status{Target: "login", Kind: "irc_login"})
		w.poll(0)
		s := w.status("login")
		s.Up, s.Reason, s.Error = false, reason, "the server said no"
		s.RetryAt, s.RetryReason = time.Date(2026, 3, 1, 14, 4, 30, 0, time.UTC), reason
		w.poll(0)
		r := w.poll(10 * time.Minute)
		row := r.service("login")
		if strings.Count(row.Text, want) != 1 || row.State != down || !row.RetryAt.Equal(s.RetryAt) || row.RetryReason != reason {
			t.Errorf("%s: the row says %+v", reason, row)
		}
		if len(r.Problems) != 1 || strings.Count(r.Problems[0].Text, want) != 1 {
			t.Errorf("%s: the problem says %+v", reason, r.Problems)
		}
		if len(r.Causes) != 1 || strings.Count(r.Causes[0].Text, want) != 1 || r.Causes[0].State != "refuses the exporter" ||
			r.Causes[0].Loss != "" {
			t.Errorf("%s: the card says %+v", reason, r.Causes)
		}
		if mayBeWell := strings.Contains(row.Text, "users may be well"); mayBeWell != (reason == failure.Throttled) {
			t.Errorf("%s: %q", reason, row.Text)
		}
		for _, transition := range r.Transitions {
			if strings.Contains(transition.Text, "next try") {
				t.Errorf("%s: the list of changes keeps a time that will pass: %q", reason, transition.Text)
			}
		}
		text, err := json.Marshal(row)
		if err != nil || !strings.Contains(string(text), `"retry_at":"2026-03-01T14:04:30Z","retry_reason":"`+string(reason)+`"`) {
			t.Errorf("%s: as JSON %s, %v", reason, text, err)
		}
	}
}

// TestTargetThatIsUpMayWait for a limit on connections to its address. That is no problem.
func TestTargetThatIsUpMayWait(t *testing.T) {
	w := begin(poll.Status{Target: "irc_tls", Kind: "irc_tls"})
	w.status("irc_tls").RetryAt = w.now.Add(9 * time.Minute)
	r := w.poll(0)
	want := "its last probe succeeded; next try at 12:09 UTC, since the server may allow few connections from this address"
	if got := r.service("irc_tls"); got.Text != want || got.Level != OK || r.Level != OK {
		t.Errorf("got %s %q, the whole is %s", got.Level, got.Text, r.Level)
	}
	w.status("irc_tls").RetryAt = time.Time{}
	if got := w.poll(0).service("irc_tls").Text; got != "its last probe succeeded" {
		t.Errorf("afterwards: %q", got)
	}
}

// TestAnotherProblemHidesNoNextTry: the row of a target says both.
func TestAnotherProblemHidesNoNextTry(t *testing.T) {
	w := begin(poll.Status{Target: "irc_tls", Kind: "irc_tls", Impairments: []string{"no certificate"}})
	w.status("irc_tls").RetryAt = w.now.Add(time.Hour)
	want := "partly working: no certificate; next try at 13:00 UTC, since the server may allow few connections from this address"
	if got := w.poll(0).service("irc_tls").Text; got != want {
		t.Errorf("got %q", got)
	}
}

// TestTimeOfTheNextTryIsNews: a page that people look at is made again.
func TestTimeOfTheNextTryIsNews(t *testing.T) {
	w := begin(poll.Status{Target: "x", Kind: "irc_tls"})
	w.poll(0)
	before := w.in
	after := before
	after.Snapshot = &poll.Snapshot{Time: w.now, Statuses: slices.Clone(before.Snapshot.Statuses)}
	after.Snapshot.Statuses[0].RetryAt = w.now.Add(time.Minute)
	if before.hasNews(&before) || !after.hasNews(&before) {
		t.Errorf("news without a change %t, with a new time %t", before.hasNews(&before), after.hasNews(&before))
	}
}

// TestUnstableForALimitSaysThatUsersMayBeWell, unless the server itself fails too.
func TestUnstableForALimitSaysThatUsersMayBeWell(t *testing.T) {
	for reason, want := range map[failure.Reason]string{
		failure.Throttled: " of its probes failed in the last hour: the server limits this address; users may be well",
		failure.Refused:   " of its probes failed in the last hour",
	} {
		w := begin(poll.Status{Target: "irc_tls", Kind: "irc_tls"})
		for n := range 60 {
			s := w.status("irc_tls")
			if s.Up, s.Reason = n%2 == 0, ""; !s.Up {
				s.Reason, s.Missed = reason, s.Missed+1
			}
			w.poll(30 * time.Second)
		}
		w.status("irc_tls").Up, w.status("irc_tls").Reason = true, ""
		r := w.poll(30 * time.Second)
		if len(r.Problems) != 1 || r.Problems[0].Alert != health.AlertTargetUnstable || !strings.HasSuffix(r.Problems[0].Text, want) {
			t.Errorf("%s: got %+v", reason, r.Problems)
		}
	}
}

// TestUnstableTargetShowsWhatItsSeverityCounts has a critical alert that counts more failures than the warning.
func TestUnstableTargetShowsWhatItsSeverityCounts(t *testing.T) {
	web := health.TargetSubject("web")
	m := newMemory()
	r := m.report(&Input{Alerts: alerts.Defaults(), Snapshot: &poll.Snapshot{
		Statuses: []poll.Status{{
			Target: "web",
			Kind:   "http",
			Known:  true,
			Up:     true,
		}},
		Judgement: &health.Judgement{
			Problems: []health.Problem{{Subject: web, Alert: health.AlertTargetUnstable, Severity: health.Critical}},
			Values: []health.Value{
				{Subject: web, Alert: health.AlertTargetUnstable, Number: 0.45},
				{Subject: web, Alert: health.AlertTargetUnstable, Number: 0.6},
			},
		},
	}}, time.Now())
	if got, want := r.service("web").Text, "60 % of its probes failed in the last hour"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
