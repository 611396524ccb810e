package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// endedAt returns the metrics of a target whose certificate expires then.
func endedAt(target string, end time.Time) string {
	return fmt.Sprintf("chatstack_tls_certificate_not_after_timestamp_seconds{endpoint=%q,source=\"leaf\"} %d\n", target, end.Unix())
}

// Outages begin while a certificate has been expired for days.
func TestHeadlineAgeIsThatOfItsSummary(t *testing.T) {
	w := begin(poll.Status{Target: "pinned", Kind: "tls"}, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, poll.Status{Target: "xmpp_proxy", Kind: "xmpp_proxy"})
	w.text["pinned"] = endedAt("pinned", w.now.Add(-24*time.Hour))
	critical := w.now.Add(-4 * 24 * time.Hour)
	w.poll(0)
	r := w.poll(time.Minute)
	if got := r.service("pinned").Values; len(got) != 1 || got[0].Name != "certificate expired" || got[0].Text != "1 d ago" {
		t.Errorf("the figure says %+v", got)
	}
	if r.Level != Critical || !r.Since.Equal(critical) || r.service("pinned").Text != "a certificate expired 1 d ago" {
		t.Errorf("a certificate alone: got %s %q since %s, want critical since %s: %s", r.Level, r.Summary, r.Since, critical, r.service("pinned").Text)
	}
	outage := w.now
	for _, name := range []string{"irc_rpc", "xmpp_proxy"} {
		s := w.status(name)
		s.Up, s.Reason, s.Error, s.Since = false, failure.Refused, "refused", outage
	}
	w.text["xmpp_proxy"] = endedAt("xmpp_proxy", w.now.Add(-24*time.Hour)) // it is down, and its certificate too old
	w.poll(0)
	for range 2 {
		r := w.poll(6 * time.Minute)
		if r.Headline != "IRC server and XMPP over HTTPS are down" || r.Summary != r.Headline+": 3 of 3 targets." {
			t.Errorf("got %q, %q", r.Headline, r.Summary)
		}
		if r.Level != Critical || !r.Since.Equal(outage) || r.SinceAtLeast {
			t.Errorf("got %s %q since %s, want since the outage at %s", r.Level, r.Summary, r.Since, outage)
		}
		if s := r.service("xmpp_proxy"); !s.ProblemSince.Equal(outage) {
			t.Errorf("xmpp_proxy: got %q since %s, want since %s", s.Text, s.ProblemSince, outage)
		}
	}
}
