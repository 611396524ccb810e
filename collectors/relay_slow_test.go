package collectors

import (
	"strings"
	"testing"
	"time"
)

// TestOutageDoesNotMakeTheBridgeSlow has a bridge that loses messages work again: those of an outage with its own alert do not count.
func TestOutageDoesNotMakeTheBridgeSlow(t *testing.T) {
	for lost, want := range map[int]bool{relayFailuresLimit - 1: true, relayFailuresLimit: false, 200: false} {
		irc, xmpp := &relaySide{name: sideIRC}, &relaySide{name: sideXMPP}
		c := &relayProbe{deadline: 10 * time.Second, slow: 5 * time.Second}
		w, back, now := newCrossing(irc, xmpp), newCrossing(xmpp, irc), time.Now()
		back.accepted = now // the XMPP server works
		cross := func(took time.Duration) {
			now = now.Add(30 * time.Second)
			w.sent, w.accepted, w.arrived = now, now, time.Time{}
			if took > 0 {
				w.arrived = now.Add(took)
			}
			if err := c.decide(w, back); (err == nil) != (took > 0) {
				t.Errorf("a message that takes %s: %v", took, err)
			}
		}
		for range 4 {
			cross(6 * time.Second)
			cross(time.Second)
		}
		cross(time.Second) // 4 of 9 are slow
		for range lost {
			cross(0)
		}
		cross(time.Second)
		if got := w.isSlow(); got != want {
			t.Errorf("after %d lost messages, slow is %t, want %t: %v", lost, got, want, w.recent)
		}
	}
}

func TestRareMessagesShowNoSlowBridge(t *testing.T) {
	for schedule, want := range map[string]bool{"@every 30s": false, "@every 6m": false, "@every 6m30s": true, "0 3 * * *": true, "*/5 * * * *": false} {
		s := newRelaySettings()
		s.Schedule = schedule
		if got := strings.Contains(strings.Join(s.Warnings(), "\n"), "BridgeSlow never fires"); got != want {
			t.Errorf("%s: a warning is %t, want %t", schedule, got, want)
		}
	}
}
