package status

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// endedAt returns what a target finds whose certificate expires then.
func endedAt(end time.Time) health.Condition {
	return health.Condition{Alert: health.AlertCertificateExpiry, Certificates: []health.Validity{{Ends: end}}}
}

// Outages begin while a certificate has been expired for days.
func TestHeadlineAgeIsThatOfItsSummary(t *testing.T) {
	w := begin(poll.Status{Target: "pinned", Kind: "tls"}, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"},
		poll.Status{Target: "xmpp_proxy", Kind: "xmpp_proxy"})
	w.find("pinned", endedAt(w.now.Add(-24*time.Hour)))
	critical := w.now.Add(-4 * 24 * time.Hour)
	w.poll(0)
	r := w.poll(time.Minute)
	if got := r.service("pinned").Values; len(got) != 1 || got[0].Name != "certificate expired" || got[0].Text != "1 d ago" {
		t.Errorf("the figure says %+v", got)
	}
	if r.Level != Critical || !r.Since.Equal(critical) || r.service("pinned").Text != "a certificate expired 1 d ago" {
		t.Errorf("a certificate alone: got %s %q since %s, want critical since %s: %s",
			r.Level, r.Summary, r.Since, critical, r.service("pinned").Text)
	}
	outage := w.now
	for _, name := range []string{"irc_rpc", "xmpp_proxy"} {
		s := w.status(name)
		s.Up, s.Reason, s.Error, s.Since = false, failure.Refused, "refused", outage
	}
	w.find("xmpp_proxy", endedAt(w.now.Add(-24*time.Hour))) // it is down, and its certificate too old
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

// headlineOf returns the headline of causes, and how long the problem has lasted that it names.
func headlineOf(now time.Time, causes ...Cause) (text string, age time.Duration) {
	r := &Report{Services: make([]Service, 9), Causes: causes}
	for i := range causes {
		r.Level = max(r.Level, causes[i].Level)
	}
	text, began := headline(r)
	return text, now.Sub(began.ProblemSince)
}

func TestHeadlineSaysDownOnlyOfWhatIsDown(t *testing.T) {
	now := time.Now()
	cause := func(title, state string, level Level) Cause {
		return Cause{
			Title: title,
			State: state,
			Level: level,
			Since: now,
			down:  strings.Contains(state, "down") || strings.Contains(state, "not"),
		}
	}
	for want, causes := range map[string][]Cause{
		"XMPP server and bridge have problems": {
			cause("XMPP server", "is partly down", Critical), cause("bridge", "does not relay", Critical),
		},
		"XMPP server and backup have problems": {
			cause("XMPP server", "is partly down", Critical), cause("backup", "is down", Critical),
		},
		"Web IRC client and backup have problems, no alert yet": {
			cause("web IRC client", "is down", Pending), cause("backup", "has a problem", Pending),
		},
		"Web IRC client, container x and IRC services are down": {
			cause("web IRC client", "is down", Critical), cause("container x", "is not running", Critical),
			cause("IRC services", "are down", Warning),
		},
		"Web IRC client and 3 more are down": {
			cause("web IRC client", "is down", Critical), cause("b", "is down", Critical), cause("c", "is down", Critical),
			cause("d", "is down", Critical),
		},
		"Web IRC client and 3 more have problems": {
			cause("web IRC client", "is down", Critical), cause("b", "is down", Critical), cause("c", "is down", Critical),
			cause("bridge", "does not relay", Critical),
		},
		"Backup has a problem, web IRC client and bridge have problems": {
			cause("backup", "has a problem", Critical), cause("web IRC client", "is down", Warning),
			cause("bridge", "does not relay", Warning),
		},
		"xmpp_s2s and irc-2 are down": {cause("xmpp_s2s", "is down", Critical), cause("irc-2", "is down", Critical)},
	} {
		if got, _ := headlineOf(now, causes...); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestHeadlineTimeIsOfTheOldestCriticalProblemItNames: the time beside a headline is never that of a problem which it does not name.
func TestHeadlineTimeIsOfTheOldestCriticalProblemItNames(t *testing.T) {
	now := time.Now()
	cause := func(title, state string, level Level, age time.Duration) Cause {
		return Cause{
			Title: title,
			State: state,
			Level: level,
			Since: now.Add(-age),
			down:  state == "is down",
		}
	}
	irc, xmpp := cause("IRC server", "is down", Critical, 5*time.Minute), cause("XMPP server", "is down", Critical, 9*time.Minute)
	early := cause("backup", "is down", Warning, time.Hour)
	certificate, older := cause("website", "has a problem", Critical, 72*time.Hour), cause("mail", "has a problem", Critical, 96*time.Hour)
	unknown := Cause{
		Title: "plant store",
		State: "is down",
		Level: Critical,
		down:  true,
	}
	for name, c := range map[string]struct {
		causes []Cause
		text   string
		age    time.Duration
	}{
		"of two outages, the older":             {[]Cause{irc, xmpp}, "IRC server and XMPP server are down", 9 * time.Minute},
		"not of an older problem without alert": {[]Cause{irc, early}, "IRC server and backup are down", 5 * time.Minute},
		"not of what the headline leaves out":   {[]Cause{irc, certificate}, "IRC server is down", 5 * time.Minute},
		"of two certificates, the older":        {[]Cause{certificate, older}, "Website and mail have problems", 96 * time.Hour},
		"of a certificate, named first":         {[]Cause{certificate, early}, "Website has a problem, backup is down", 72 * time.Hour},
		"of what has a time":                    {[]Cause{irc, unknown}, "IRC server and plant store are down", 5 * time.Minute},
		"of what has a time, in any order":      {[]Cause{unknown, irc}, "Plant store and IRC server are down", 5 * time.Minute},
	} {
		if text, age := headlineOf(now, c.causes...); text != c.text || age != c.age {
			t.Errorf("%s: got %q for %s, want %q for %s", name, text, age, c.text, c.age)
		}
	}
}
