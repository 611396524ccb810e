package collectors

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// crossings judges messages from irc to xmpp, each 30 s after the last. The function's argument is how long one takes, 0 if it is lost.
func crossings(t *testing.T) (*crossing, func(took time.Duration)) {
	t.Helper()
	irc, xmpp := &relaySide{name: sideIRC}, &relaySide{name: sideXMPP}
	c := &relayProbe{settings: newRelaySettings()}
	w, back, now := newCrossing(irc, xmpp), newCrossing(xmpp, irc), time.Now()
	c.ways = [2]*crossing{w, back}
	back.accepted = now // the XMPP server works
	return w, func(took time.Duration) {
		now = now.Add(30 * time.Second)
		w.sent, w.accepted, w.arrived = now, now, time.Time{}
		if took > 0 {
			w.arrived = now.Add(took)
		}
		if err := c.decide(w, back); (err == nil) != (took > 0) {
			t.Errorf("a message that takes %s: %v", took, err)
		}
	}
}

// TestOutageDoesNotMakeTheBridgeSlow has a bridge that loses messages work again: those of an outage with its own alert do not count.
func TestOutageDoesNotMakeTheBridgeSlow(t *testing.T) {
	for lost, want := range map[int]bool{relayFailuresLimit - 1: true, relayFailuresLimit: false, 200: false} {
		w, cross := crossings(t)
		for range 4 {
			cross(6 * time.Second)
			cross(time.Second)
		}
		cross(time.Second) // 4 of 9 are slow
		for range lost {
			cross(0)
		}
		cross(time.Second)
		if got := w.mostly(isSlow); got != want || w.notRelaying() {
			t.Errorf("after %d lost messages, slow is %t, want %t; not relaying is %t: %v", lost, got, want, w.notRelaying(), w.recent)
		}
	}
}

// TestBridgeThatLosesHalfDoesNotRelay has a bridge never lose three in a row.
func TestBridgeThatLosesHalfDoesNotRelay(t *testing.T) {
	w, cross := crossings(t)
	for range 120 { // an hour
		cross(time.Second)
	}
	for n := range 59 {
		cross(0)
		if w.notRelaying() {
			t.Fatalf("it does not relay after %d lost messages", n+1)
		}
		cross(time.Second)
	}
	cross(0)
	if !w.notRelaying() {
		t.Error("it relays although half of an hour's messages were lost")
	}
	for range 20 {
		cross(time.Second)
		cross(0)
		cross(0)
	}
	for n := range steady {
		if !w.notRelaying() {
			t.Errorf("it relays after %d messages", n)
		}
		cross(time.Second)
	}
	if w.notRelaying() {
		t.Errorf("it does not relay after %d messages", steady)
	}
}

func TestRareMessagesShowNoSlowBridge(t *testing.T) {
	for schedule, want := range map[string]bool{
		"@every 30s": false, "@every 6m": false, "@every 6m30s": true, "0 3 * * *": true, "*/5 * * * *": false,
	} {
		s := newRelaySettings()
		s.Schedule = schedule
		if got := strings.Contains(strings.Join(s.Warnings(), "\n"), "BridgeSlow never fires"); got != want {
			t.Errorf("%s: a warning is %t, want %t", schedule, got, want)
		}
	}
}

// TestHintNamesWhatTheBridgeMaps: as long as nothing has crossed, the mapping is the likeliest mistake.
func TestHintNamesWhatTheBridgeMaps(t *testing.T) {
	irc, xmpp := &relaySide{name: sideIRC}, &relaySide{name: sideXMPP}
	settings := newRelaySettings()
	settings.IRC.Channel, settings.XMPP.Room = "#check", "check@rooms.test"
	c := &relayProbe{settings: settings, ways: [2]*crossing{newCrossing(irc, xmpp), newCrossing(xmpp, irc)}}
	const maps = "#check to check@rooms.test"
	hint := failure.HintOf(c.notDelivered("a message", atBridge))
	if mapping, log := strings.Index(hint, maps), strings.Index(hint, "read its log"); mapping < 0 || mapping > log {
		t.Errorf("before any message crossed: %s", hint)
	}
	c.ways[1].last = time.Now()
	hint = failure.HintOf(c.notDelivered("a message", atBridge))
	if mapping, log := strings.Index(hint, maps), strings.Index(hint, "read its log"); mapping < log {
		t.Errorf("after a message crossed: %s", hint)
	}
}
