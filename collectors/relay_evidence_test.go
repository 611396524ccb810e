package collectors

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestEvidenceSaysWhatHappenedToTheBridge, on the side of IRC or in the room.
func TestEvidenceSaysWhatHappenedToTheBridge(t *testing.T) {
	const carrier = "bridgebot"
	ban := chat.Move{Mask: "bridgebot!*@*", How: chat.Banned, By: "boss"}
	kick := chat.Move{Nick: "BridgeBot", How: chat.Kicked, By: "boss", Why: "spam"}
	quit := chat.Move{Nick: carrier, How: chat.Left, Why: "Ping timeout"}
	for name, tt := range map[string]struct {
		moves []chat.Move
		list  []string // nil for none
		cause string
		text  string
	}{
		"nothing":                       {nil, nil, "", ""},
		"left":                          {[]chat.Move{quit}, nil, health.BridgeLeft, "bridgebot left #check: Ping timeout"},
		"left and is back":              {[]chat.Move{quit, {Nick: carrier, How: chat.Came}}, nil, "", ""},
		"left, and is in the next list": {[]chat.Move{quit}, []string{carrier}, "", ""},
		"G-line": {
			[]chat.Move{{Nick: carrier, How: chat.Banned, Why: "G-Lined"}}, nil, health.BridgeBanned, "bridgebot left #check: G-Lined",
		},
		"netsplit": {
			[]chat.Move{{Nick: carrier, How: chat.Split, Why: "irc.test leaf.irc.test"}},
			nil,
			health.BridgeSplit,
			"bridgebot left with irc.test leaf.irc.test: the link between these servers broke",
		},
		"kicked":            {[]chat.Move{kick}, nil, health.BridgeKicked, "bridgebot was kicked from #check by boss: spam"},
		"banned, kicked":    {[]chat.Move{ban, kick}, nil, health.BridgeBanned, "bridgebot is banned from #check by boss: bridgebot!*@*"},
		"banned, and there": {[]chat.Move{ban}, []string{carrier}, health.BridgeBanned, "bridgebot is banned from #check by boss: bridgebot!*@*"},
		"ban is lifted":     {[]chat.Move{ban, {Mask: ban.Mask, How: chat.Heard}}, nil, "", ""},
		"another is banned": {[]chat.Move{{Mask: "other!*@*", How: chat.Banned}}, nil, "", ""},
		"moderated": {
			[]chat.Move{{How: chat.Silenced, By: "boss", Why: "+m"}},
			nil,
			health.BridgeSilenced,
			"bridgebot may not be allowed to speak in #check by boss: +m",
		},
		"in a list, then absent": {nil, []string{"boss"}, health.BridgeAbsent, "bridgebot is not in #check"},
		"renamed":                {[]chat.Move{{Nick: carrier, How: chat.Renamed, Why: "bridge_"}}, []string{"bridge_"}, "", ""},
		"somebody left":          {[]chat.Move{{Nick: "boss", How: chat.Left}}, nil, "", ""},
		"control codes": {
			[]chat.Move{{Nick: carrier, How: chat.Left, Why: "\x02\x0304a\nb"}}, nil, health.BridgeLeft, "bridgebot left #check:   04a b",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &witness{}
			w.list([]string{"boss", carrier})
			w.carried(chat.Message{Nick: carrier, Address: "bridgebot!u@h"})
			for _, m := range tt.moves {
				w.see(m)
			}
			if tt.list != nil {
				w.list(tt.list)
			}
			if got := w.evidence("#check"); got.cause != tt.cause || got.text != tt.text {
				t.Errorf("got %q: %q\nwant %q: %q", got.cause, got.text, tt.cause, tt.text)
			}
		})
	}
}

// TestNamesOfStrangersAreOnlyInNotes and in the text of the problem: what the log has of a failed probe is its error and its hint.
func TestNamesOfStrangersAreOnlyInNotes(t *testing.T) {
	for name, m := range map[string]chat.Move{
		health.BridgeHangs:  {Nick: "nobody", How: chat.Left},
		health.BridgeKicked: {Nick: "bridge", How: chat.Kicked, By: "boss", Why: "spam"},
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

// causes are those of the last page, of both ways.
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
		irc.Moved(chat.Move{Own: true, Nick: ircNick, How: chat.Renamed, Why: "Guest123"})
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
