package collectors

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestEvidenceSaysWhatHappenedToTheBridge, on the side of IRC.
func TestEvidenceSaysWhatHappenedToTheBridge(t *testing.T) {
	const carrier = "bridgebot"
	ban := chat.Move{Mask: "bridgebot!*@*", How: chat.Banned, By: "boss"}
	kick := chat.Move{Nick: "BridgeBot", How: chat.Kicked, By: "boss"}
	left := func(how chat.How, why string) []chat.Move { return []chat.Move{{Nick: carrier, How: how, Why: why}} }
	quit := left(chat.Left, "Ping timeout")
	for name, tt := range map[string]struct {
		moves []chat.Move
		list  []string // nil for none
		late  bool     // a message that was sent before comes after them
		again bool     // so does one that was sent after them
		want  string   // the cause and the text
	}{
		"nothing":                       {},
		"left":                          {moves: quit, want: "left: bridgebot left #check: Ping timeout"},
		"left and is back":              {moves: append(left(chat.Left, ""), chat.Move{Nick: carrier, How: chat.Came})},
		"left, and is in the next list": {moves: quit, list: []string{carrier}},
		"G-line":                        {moves: left(chat.Banned, "G-Lined"), want: "banned: bridgebot left #check: G-Lined"},
		"killed":                        {moves: left(chat.Killed, "Killed (boss)"), want: "killed: bridgebot left #check: Killed (boss)"},
		"netsplit": {
			moves: left(chat.Split, "irc.test leaf.irc.test"),
			want:  "netsplit: bridgebot left with irc.test leaf.irc.test: the link between these servers broke",
		},
		"kicked":                 {moves: []chat.Move{kick}, want: "kicked: bridgebot was kicked from #check by boss"},
		"kicked, then a message": {moves: []chat.Move{kick}, late: true, want: "kicked: bridgebot was kicked from #check by boss"},
		"kicked, then messages":  {moves: []chat.Move{kick}, late: true, again: true},
		"banned, kicked":         {moves: []chat.Move{ban, kick}, want: "banned: bridgebot is banned from #check by boss: bridgebot!*@*"},
		"banned, and there": {
			moves: []chat.Move{ban},
			list:  []string{carrier},
			want:  "banned: bridgebot is banned from #check by boss: bridgebot!*@*",
		},
		"ban is lifted":     {moves: []chat.Move{ban, {Mask: ban.Mask, How: chat.Heard}}},
		"another is banned": {moves: []chat.Move{{Mask: "other!*@*", How: chat.Banned}}},
		"moderated": {
			moves: []chat.Move{{How: chat.Silenced, By: "boss", Why: "+m"}},
			want:  "silenced: bridgebot may not be allowed to speak in #check by boss: +m",
		},
		"in a list, then absent": {list: []string{"boss"}, want: "absent: bridgebot is not in #check"},
		"renamed":                {moves: left(chat.Renamed, "bridge_"), list: []string{"bridge_"}},
		"somebody left":          {moves: []chat.Move{{Nick: "boss", How: chat.Left}}},
		"control codes":          {moves: left(chat.Left, "\x02\x0304a\nb"), want: "left: bridgebot left #check:   04a b"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			w.list([]string{"boss", carrier})
			said, now := chat.Message{Nick: carrier, Address: "bridgebot!u@h"}, time.Now()
			w.carried(said, now)
			for _, m := range tt.moves {
				w.see(m, now.Add(time.Second))
			}
			if tt.late {
				w.carried(said, now)
			}
			if tt.again {
				w.carried(said, now.Add(2*time.Second))
			}
			if tt.list != nil {
				w.list(tt.list)
			}
			e := w.evidence("#check")
			if got := strings.TrimPrefix(e.cause+": "+e.text, ": "); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

// TestNamesOfStrangersAreOnlyInNotes and in the text of the problem: what the log has of a failed probe is its error and its hint.
func TestNamesOfStrangersAreOnlyInNotes(t *testing.T) {
	for name, m := range map[string]chat.Move{
		health.BridgeHangs:  {Nick: "nobody", How: chat.Left},
		health.BridgeKicked: {Nick: "bridge", How: chat.Kicked, By: "boss spam"},
		health.BridgeSplit:  {Nick: "bridge", How: chat.Split, Why: "irc.test leaf.irc.test"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := startRelayed(t)
			r.fault("frozen", true)
			r.relay.sides[0].Moved(m)
			for range relayFailuresLimit {
				r.probe()
			}
			logged := r.err.Error() + failure.HintOf(r.err)
			for _, stranger := range []string{"boss", "spam", "leaf", "bridge_"} {
				if strings.Contains(logged, stranger) {
					t.Errorf("%s: the log has %q: %s", name, stranger, logged)
				}
			}
			because := ""
			for _, c := range r.batch.Conditions(r.err) {
				if c.Alert == health.AlertBridgeNotRelaying && c.Of == "irc to xmpp" {
					because = c.Because
				}
			}
			if notes := strings.Join(r.batch.Notes, "\n"); because == "" || !strings.Contains(notes, "bridge") {
				t.Errorf("%s: notes %q, the problem's text %q", name, notes, because)
			}
			if got := r.causes(); len(got) != 2 || got[0] != name {
				t.Errorf("causes %q, want %q for both ways", got, name)
			}
			r.fault("frozen", false)
			r.works()
			if got := r.causes(); len(got) > 0 || len(r.batch.Notes) > 1+1 {
				t.Errorf("afterwards: causes %q, notes %q", got, r.batch.Notes)
			}
		})
	}
}

// causes returns why messages stop, for each way that shows a cause.
func (r *relayed) causes() (list []string) {
	for _, w := range r.relay.ways {
		if w.because.cause != "" {
			list = append(list, w.because.cause)
		}
	}
	return list
}

// TestSessionTellsWhatItMeets: its nick is taken over, and the room keeps an archive.
func TestSessionTellsWhatItMeets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		irc, xmpp := r.relay.sides[0], r.relay.sides[1]
		irc.Moved(chat.Move{
			Own:  true,
			Nick: ircNick,
			How:  chat.Renamed,
			Why:  "Guest123",
		})
		xmpp.Archived()
		r.works()
		notes := strings.Join(r.batch.Notes, "\n")
		for _, want := range []string{"from irccheck to Guest123", "xmpp: the room keeps an archive"} {
			if !strings.Contains(notes, want) {
				t.Errorf("notes %q, want %q", notes, want)
			}
		}
		irc.Joined(nil)
		xmpp.Joined(nil)
		r.works()
		if len(r.batch.Notes) > 0 {
			t.Errorf("in the next session: %q", r.batch.Notes)
		}
	})
}
