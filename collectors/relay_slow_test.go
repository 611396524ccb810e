package collectors

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// crossings judges messages from irc to xmpp, each 30 s after the last. The function's argument is how long one takes, 0 if it is lost.
func crossings(t *testing.T) (*crossing, func(took time.Duration)) {
	t.Helper()
	c := &relayProbe{settings: newRelaySettings()}
	irc, xmpp := &relaySide{name: sideIRC, relay: c}, &relaySide{name: sideXMPP, relay: c}
	w, back, now := newCrossing(irc, xmpp), newCrossing(xmpp, irc), time.Now()
	c.ways = [2]*crossing{w, back}
	back.accepted = now // the XMPP server works
	return w, func(took time.Duration) {
		now = now.Add(30 * time.Second)
		w.begin(&message{sent: now, accepted: now})
		if took > 0 {
			w.hear(xmpp, 0, now.Add(took))
		}
		if err := c.decide(w, back); (err == nil) != (took > 0) {
			t.Errorf("a message that takes %s: %v", took, err)
		}
		w.outage = w.outage || w.failsInARow()
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
		if got := w.mostly(w.isSlow); got != want || w.notRelaying(w.sent) {
			t.Errorf("after %d lost messages, slow is %t, want %t; not relaying is %t", lost, got, want, w.notRelaying(w.sent))
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
		if w.notRelaying(w.sent) {
			t.Fatalf("it does not relay after %d lost messages", n+1)
		}
		cross(time.Second)
	}
	cross(0)
	if !w.notRelaying(w.sent) {
		t.Error("it relays although half of an hour's messages were lost")
	}
	for range 20 {
		cross(time.Second)
		cross(0)
		cross(0)
	}
	for n := range steady {
		if !w.notRelaying(w.sent) {
			t.Errorf("it relays after %d messages", n)
		}
		cross(time.Second)
	}
	if w.notRelaying(w.sent) {
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
	hint := failure.HintOf(c.notDelivered("a message", atBridge, &relayEvidence{}))
	if mapping, log := strings.Index(hint, maps), strings.Index(hint, "read its log"); mapping < 0 || mapping > log {
		t.Errorf("before any message crossed: %s", hint)
	}
	c.ways[1].latest = &message{}
	hint = failure.HintOf(c.notDelivered("a message", atBridge, &relayEvidence{}))
	if mapping, log := strings.Index(hint, maps), strings.Index(hint, "read its log"); mapping < log {
		t.Errorf("after a message crossed: %s", hint)
	}
}

// TestSlowIsNotLost has a bridge take twice the deadline for each message, which is four polls: all arrive, so the bridge is slow, and no
// failed check counts against the target.
func TestSlowIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t) // the fault takes 15 s
		r.limits(time.Second, time.Second, 4*time.Second)
		r.poll = 4 * time.Second
		r.fault("late", true)
		const polls = 300
		for n := range polls {
			if got := r.probe(); got != failure.NotDelivered {
				t.Fatalf("poll %d: reason %q: %v", n, got, r.err)
			}
			for _, c := range r.batch.Conditions(r.err) {
				if c.Alert == health.AlertBridgeNotRelaying && c.Holds {
					t.Fatalf("poll %d: %s: %v", n, c.Alert, r.err)
				}
			}
			if hint := failure.HintOf(r.err); n > 10 && !strings.Contains(hint, "the last message took 15s") {
				t.Fatalf("poll %d: hint %q", n, hint)
			}
		}
		r.wantState([]string{toIRC + " bridge", toXMPP + " bridge"}, []string{"BridgeSlow irc to xmpp", "BridgeSlow xmpp to irc"})
		r.relay.mu.Lock()
		late := r.relay.late
		r.relay.mu.Unlock()
		if want := uint64(polls - 5); late < want {
			t.Errorf("%d of %d checks are forgiven, want at least %d", late, polls, want)
		}
		r.fault("late", false)
		r.poll = relayPoll
		r.wantSumOfOutcomes()
		for _, way := range []string{toXMPP, toIRC} {
			if got := r.outcomes(way); got != fmt.Sprintf("delivered 2, late %d", polls) {
				t.Errorf("%s: %s", way, got)
			}
		}
	})
}

// TestBridgeIsDownWithin100Seconds has a bridge hang just after a message has crossed: three polls later it counts as down.
func TestBridgeIsDownWithin100Seconds(t *testing.T) {
	for _, poll := range []time.Duration{5 * time.Second, 15 * time.Second, relayPoll} {
		synctest.Test(t, func(t *testing.T) {
			r := startRelayed(t)
			r.poll = poll
			r.fault("frozen", true)
			begin := time.Now()
			for len(r.holds()) == 0 {
				r.probe()
			}
			if took := time.Since(begin); took < relaySilence || took > relaySilence+10*time.Second+poll/2 {
				t.Errorf("poll %s: %s after %s", poll, r.holds(), took)
			}
			r.fault("frozen", false)
			r.works()
			r.wantNoAlert()
		})
	}
}
