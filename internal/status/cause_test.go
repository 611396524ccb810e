package status

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// lines returns the causes as "TITLE STATE LEVEL: AFFECTED".
func causeLines(r *Report) (list []string) {
	for i := range r.Causes {
		c := &r.Causes[i]
		list = append(list, c.Title+" "+c.State+" "+c.Level.String()+": "+strings.Join(c.Affected, ", "))
	}
	return list
}

func wantCauses(t *testing.T, r *Report, want ...string) {
	t.Helper()
	if got := causeLines(r); !slices.Equal(got, want) {
		t.Errorf("got causes\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func (w *world) fail(names ...string) {
	for _, name := range names {
		s := w.status(name)
		s.Up, s.Reason, s.Since = false, failure.Refused, w.now
	}
}

func TestServerThatIsDownIsOneCause(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp_status", Kind: "xmpp_status"}, poll.Status{Target: "xmpp_metrics", Kind: "xmpp_metrics"},
		poll.Status{Target: "xmpp_rest", Kind: "xmpp_rest"},
		poll.Status{Target: "phones", Kind: "xmpp_c2s"}, poll.Status{Target: "web", Kind: "xmpp_c2s"},
		poll.Status{Target: "guests", Kind: "xmpp_c2s"}, poll.Status{Target: "docs_search", Kind: "docs_search"},
		poll.Status{Target: "a", Kind: "tcp"}, poll.Status{Target: "b", Kind: "tcp"}, poll.Status{Target: "c", Kind: "tcp"},
		poll.Status{Target: "d", Kind: "tcp"}, poll.Status{Target: "e", Kind: "tcp"})
	w.poll(0)
	w.fail("xmpp_rest", "xmpp_metrics")
	w.poll(0)
	r := w.poll(10 * time.Minute)
	wantCauses(t, r, "XMPP server is partly down critical: metrics, REST API")
	if r.Headline != "XMPP server is partly down" || r.Summary != r.Headline+": 2 of 12 targets." || r.Causes[0].Loss != "" {
		t.Errorf("got %q, %q, loss %q", r.Headline, r.Summary, r.Causes[0].Loss)
	}
	w.fail("xmpp_status", "phones", "web", "guests")
	w.poll(0)
	r = w.poll(10 * time.Minute)
	wantCauses(t, r, "XMPP server is down critical: status, 3 login ports", "XMPP server is partly down critical: metrics, REST API")
}

// TestOneCertificateIsOneCard has it expire for two targets, and a third one of the same server refuse the exporter.
func TestOneCertificateIsOneCard(t *testing.T) {
	w := begin(poll.Status{Target: "xmpp_c2s", Kind: "xmpp_c2s"}, poll.Status{Target: "irc_tls", Kind: "irc_tls"},
		poll.Status{Target: "xmpp_rest", Kind: "xmpp_rest"}, poll.Status{Target: "a", Kind: "tcp"}, poll.Status{Target: "b", Kind: "tcp"})
	expired := health.Condition{
		Alert:        health.AlertCertificateExpiry,
		Certificates: []health.Validity{{Ends: w.now.Add(-time.Minute), Fingerprint: [32]byte{1}}},
		Refused:      true,
	}
	w.poll(0)
	w.find("xmpp_c2s", expired)
	w.find("irc_tls", expired)
	w.fail("xmpp_c2s", "irc_tls", "xmpp_rest")
	w.status("xmpp_rest").Reason = failure.Unauthorized
	w.poll(0)
	r := w.poll(10 * time.Minute)
	wantCauses(t, r, "IRC server TLS port is down critical: XMPP server login port", "XMPP server REST API refuses the exporter critical: ")
	if c := &r.Causes[0]; c.Alert != health.AlertCertificateExpiry || !strings.HasPrefix(c.Text, "a certificate expired 11 min ago") {
		t.Errorf("the card has the alert %s and says %q", c.Alert, c.Text)
	}
	const want = "; no alert: the alert on the certificate of irc_tls says so"
	if got := r.service("xmpp_c2s").Text; !strings.Contains(got, want) {
		t.Errorf("the other target says %q, want %q", got, want)
	}
}

// TestEngineAndWhatFellWithItAreOneCard has two services fail with their engine, for longer than it excuses them.
func TestEngineAndWhatFellWithItAreOneCard(t *testing.T) {
	irc := health.Server{Container: "irc"}
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Server: irc},
		poll.Status{Target: "irc_tls", Kind: "irc_tls", Server: irc},
		poll.Status{Target: "a", Kind: "tcp"}, poll.Status{Target: "b", Kind: "tcp"}, poll.Status{Target: "c", Kind: "tcp"})
	w.contain(named{"irc", testContainer{}})
	w.poll(0)
	w.fail("docker", "irc_rpc", "irc_tls")
	w.poll(0)
	w.poll(5 * time.Minute)
	r := w.poll(time.Second)
	wantCauses(t, r, "Docker Engine is down critical: IRC server TLS port, IRC server")
}

func TestConsequencesAreFoldedIntoTheirCause(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Server: health.Server{Container: "irc"}},
		poll.Status{Target: "irc_tls", Kind: "irc_tls", Server: health.Server{Container: "irc"}},
		poll.Status{Target: "docs_search", Kind: "docs_search"})
	irc := testContainer{role: "irc"}
	w.contain(named{"irc", irc}, named{"services", testContainer{dependsOn: "irc"}})
	w.poll(0)
	irc.state = "exited"
	w.contain(named{"irc", irc}, named{"services", testContainer{dependsOn: "irc", health: "unhealthy"}})
	w.fail("irc_rpc", "irc_tls")
	w.poll(0)
	r := w.poll(10 * time.Minute)
	wantCauses(t, r, "IRC server is not running critical: TLS port, RPC, container services")
	c := &r.Causes[0]
	if c.Loss != "IRC clients cannot connect over TLS." || c.Alert != health.AlertContainerDown ||
		c.Members[0] != health.ContainerSubject("local", "irc") || len(c.Members) != 4 {
		t.Errorf("got %+v", c)
	}
	if r.Headline != "IRC server is not running" || r.Summary != r.Headline+": 2 of 4 targets and 2 of 2 containers." {
		t.Errorf("got %q, %q", r.Headline, r.Summary)
	}
	if !r.Since.Equal(c.Since) || c.Since.IsZero() {
		t.Errorf("since %s and %s", r.Since, c.Since)
	}
}

// TestServerThatRefusesTheExporterIsNotCalledDown gives the exporter a wrong password: users may well be online.
func TestServerThatRefusesTheExporterIsNotCalledDown(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc"}, poll.Status{Target: "irc_services", Kind: "irc_services"},
		poll.Status{Target: "docs_search", Kind: "docs_search"})
	w.poll(0)
	w.fail("irc_services")
	w.status("irc_services").Reason = failure.Unauthorized
	w.poll(0)
	r := w.poll(10 * time.Minute)
	wantCauses(t, r, "IRC services refuse the exporter critical: ")
	if r.Headline != "IRC services refuse the exporter" || r.Causes[0].Loss != "" {
		t.Errorf("got %q, loss %q", r.Headline, r.Causes[0].Loss)
	}
	w.fail("irc_rpc")
	w.poll(0)
	if r = w.poll(10 * time.Minute); r.Headline != "IRC server is down" {
		t.Errorf("got %q", r.Headline)
	}
}

func TestWorstCauseIsFirst(t *testing.T) {
	w := begin(engine, poll.Status{Target: "docs_search", Kind: "docs_search"}, poll.Status{Target: "old", Kind: "tls"},
		poll.Status{Target: "plant_store", Kind: "plant_store"}, poll.Status{Target: "identity", Kind: "identity"})
	w.contain(named{"irc", testContainer{memory: 6e8}})
	w.find("old", endedAt(w.now.Add(10*24*time.Hour)))
	w.poll(0)
	w.fail("docs_search", "plant_store")
	w.poll(0)
	w.poll(10 * time.Minute)
	w.fail("identity")
	w.poll(0)
	r := w.poll(time.Second)
	wantCauses(t, r, "plant store is down critical: ", "documentation search is down critical: ",
		"old has a problem warning: ", "identity API is down pending: ")
	if r.Headline != "Plant store and documentation search are down" {
		t.Errorf("got %q", r.Headline)
	}
}

func TestManyCausesAreCounted(t *testing.T) {
	var list []poll.Status
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m"} {
		list = append(list, poll.Status{Target: name, Kind: "tcp"})
	}
	w := begin(list...)
	w.poll(0)
	w.fail("a", "b", "c", "d")
	w.poll(0)
	if r := w.poll(10 * time.Minute); r.Headline != "A and 3 more are down" {
		t.Errorf("got %q", r.Headline)
	}
	w.fail("e", "f", "g", "h", "i", "j", "k")
	w.poll(0)
	r := w.poll(10 * time.Minute)
	if len(r.Causes) != 1 || r.Headline != "Most targets are down" || len(r.Causes[0].Affected) != maxAffected+1 ||
		r.Causes[0].Affected[maxAffected] != "3 more" {
		t.Errorf("got %q, %q", r.Headline, causeLines(r))
	}
}

func TestBridgeIsNotDownForLackOfACheck(t *testing.T) {
	for alert, want := range map[string]string{
		health.AlertRelaySessionDown: "boss is not checked critical: |Boss is not checked: 1 of 1 target.|",
		health.AlertRelayUnwatched:   "boss is not checked critical: |Boss is not checked: 1 of 1 target.|",
		health.AlertBridgeNotRelaying: "boss does not relay critical: |Boss does not relay: " +
			"1 of 1 target.|Messages do not cross between IRC and XMPP.",
		"": "boss has a problem critical: |Boss has a problem: 1 of 1 target.|",
	} {
		r := &Report{Verdict: Verdict{Level: Critical}, Services: []Service{
			{Row: rowOf("relay"), Shown: Shown{Level: Critical}, ServiceState: ServiceState{Name: "boss", Kind: "relay", State: down}},
		}}
		if alert != "" {
			r.Problems = []Problem{
				{Problem: health.Problem{Subject: health.TargetSubject("boss"), Cause: health.TargetSubject("boss"), Alert: alert}},
			}
		}
		r.Summarize()
		if len(r.Causes) != 1 || causeLines(r)[0]+"|"+r.Summary+"|"+r.Causes[0].Loss != want {
			t.Errorf("%s: got %q, %q, want %q", alert, causeLines(r), r.Summary, want)
		}
	}
}
