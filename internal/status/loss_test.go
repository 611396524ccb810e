package status

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

func TestOrderFollowsWhatUsersLose(t *testing.T) {
	w := begin(engine,
		poll.Status{Target: "a_docs", Kind: "docs_search", Reason: failure.Refused},
		poll.Status{Target: "z_logins", Kind: "xmpp_c2s", Reason: failure.Refused})
	w.contain(named{"a-docs", testContainer{state: "exited", role: "docs"}}, named{"z-irc", testContainer{state: "exited", role: "irc"}})
	w.poll(0)
	r := w.poll(time.Hour)
	if r.Services[0].Name != "z_logins" || r.Containers[0].Name != "z-irc" {
		t.Errorf("got %s and %s first", r.Services[0].Name, r.Containers[0].Name)
	}
}

func TestSummaryBeginsWithWorstPart(t *testing.T) {
	w := begin(engine, poll.Status{Target: "docs_search", Kind: "docs_search"})
	w.contain(named{"irc", testContainer{memory: 2e9}})
	w.poll(0)
	w.poll(3 * time.Minute)
	s := w.status("docs_search")
	s.Up, s.Reason, s.Since = false, failure.Refused, w.now
	r := w.poll(time.Second)
	if r.Level != Critical || !strings.HasPrefix(r.Summary, "Container irc has a problem: 1 of 2 targets and 1 of 1 container.") {
		t.Errorf("got %s: %s", r.Level, r.Summary)
	}
}
