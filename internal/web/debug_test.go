package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// probed is a web.Source with a report and one history for every target.
type probed struct {
	shown

	history poll.History
}

func (p probed) History(target string) (poll.History, bool) { return p.history, target == "irc_rpc" }

// failing has a target that has failed for a while, and a moment the day before.
func failing() probed {
	at := time.Date(2026, 3, 14, 3, 17, 0, 0, time.UTC)
	failed := poll.Reading{
		Time:      at,
		Reason:    "refused",
		Error:     "connect: connection refused",
		Hint:      "Start it.",
		Count:     12,
		First:     at.Add(-6 * time.Minute),
		Exchanges: []*exchange.Exchange{{Request: "POST https://irc.example/api", Address: "192.0.2.1:443"}},
	}
	other := poll.Reading{
		Time:   at.Add(-10 * time.Hour),
		Reason: "timeout",
		Error:  "no answer",
		Count:  2,
		First:  at.Add(-11 * time.Hour),
	}
	night := poll.Reading{
		Time:   at.Add(-3 * time.Hour),
		Reason: "timeout",
		Error:  "no complete answer",
		Count:  3,
		First:  at.Add(-4 * time.Hour),
	}
	one := failed
	one.Count, one.First = 0, time.Time{}
	earlier := one
	earlier.Time = at.Add(-30 * time.Second)
	return probed{shown{report: faultyReport(2)}, poll.History{
		Last:     []poll.Reading{one, earlier, {Time: at.Add(-time.Minute), Up: true}},
		Failures: []poll.Reading{failed, night, other},
	}}
}

func TestPageOfProbesCollapsesEqualFailures(t *testing.T) {
	for accept, wants := range map[string][]string{
		"text/html": {
			"<span>12 times, from 03:11:00 to 03:17:00 UTC</span>", "The last of them:",
			"<span>2 times, from 03:16:30 to 03:17:00 UTC</span>",
			"3 times, from 2026-03-13 23:17:00 to 2026-03-14 00:17:00 UTC", "2 times, from 16:17:00 to 17:17:00 UTC",
			`<a href="./">All targets</a>`,
		},
		"*/*": {
			"\n12 times, from 03:11:00 to 03:17:00 UTC down, refused: connect: connection refused\n",
			"\n2026-03-14 03:16:00.000 UTC up",
		},
	} {
		page := string(fetch(t, newHandler(failing()), "/debug/targets/irc_rpc", "Accept", accept).body)
		holds(t, page, wants...)
		if n := strings.Count(page, "POST https://irc.example/api"); n != 2 || !strings.Contains(page, " at 192.0.2.1:443") {
			t.Errorf("%s: equal failures are shown %d times, want once in each list, with their address", accept, n)
		}
	}
}

// TestPagesOfProbesSayUntilWhenATargetWaits on purpose, and nothing of the kind of any other.
func TestPagesOfProbesSayUntilWhenATargetWaits(t *testing.T) {
	const want = "next try at 04:00 UTC, since the server refused the password or token"
	src := failing()
	for _, path := range []string{"/debug/targets/irc_rpc", "/debug/targets/"} {
		for _, accept := range []string{"text/html", "*/*"} {
			if page := string(fetch(t, newHandler(src), path, "Accept", accept).body); strings.Contains(page, "next try") {
				t.Errorf("%s as %s: it waits:\n%s", path, accept, page)
			}
		}
	}
	for i := range src.report.Services {
		if s := &src.report.Services[i]; s.Name == "irc_rpc" {
			s.LastAttempt = time.Date(2026, 3, 14, 3, 17, 0, 0, time.UTC)
			s.Waiting = poll.Waiting{RetryAt: s.LastAttempt.Add(43 * time.Minute), RetryReason: "unauthorized"}
		}
	}
	for _, path := range []string{"/debug/targets/irc_rpc", "/debug/targets/"} {
		for _, accept := range []string{"text/html", "*/*"} {
			holds(t, string(fetch(t, newHandler(src), path, "Accept", accept).body), want)
		}
	}
}

func TestIndexOfTargetsLinksToTheirProbes(t *testing.T) {
	h := newHandler(failing())
	index := fetch(t, h, "/debug/targets/", "Accept", "text/html")
	holds(t, string(index.body), `<a href="./irc_rpc">irc_rpc</a>`,
		`<td class="critical"><b class="state">down</b> <span class="words">refused</span></td>`,
		"took 12 ms", `href="../../assets/style.css`)
	if !strings.Contains(index.Header.Get("Content-Security-Policy"), "default-src 'none'") || index.Header.Get("Vary") != "Accept" {
		t.Errorf("headers %v", index.Header)
	}
	holds(t, string(fetch(t, h, "/debug/targets/").body), "irc_rpc: down, last probe 20", ", refused\n", "docker: up",
		"/debug/targets/NAME has")
	if r := fetch(t, h, "/debug/targets"); r.StatusCode != http.StatusMovedPermanently || r.Header.Get("Location") != "targets/" {
		t.Errorf("without its slash: status %d to %q", r.StatusCode, r.Header.Get("Location"))
	}
	if r := fetch(t, h, "/debug/targets/none"); r.StatusCode != http.StatusNotFound ||
		!strings.Contains(string(r.body), "/debug/targets/ lists all targets") {
		t.Errorf("an unknown target: status %d: %s", r.StatusCode, r.body)
	}
	empty := newHandler(probed{shown: shown{report: &status.Report{}}})
	for _, accept := range []string{"text/html", "*/*"} {
		holds(t, string(fetch(t, empty, "/debug/targets/", "Accept", accept).body), "No target is configured")
	}
	holds(t, pageOf(t, healthyReport()), `<a href="debug/targets/">`)
	if page := string(fetch(t, newHandler(probed{shown: shown{report: hostileReport()}}), "/debug/targets/",
		"Accept", "text/html").body); strings.Contains(page, "<script") {
		t.Error("a hostile text is a script")
	}
}
