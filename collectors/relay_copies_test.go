package collectors

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestCheckStopsFeedingALoop has two bridges relay each other for ever: the check sends nothing more until that has ended.
func TestCheckStopsFeedingALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		r.poll = 5 * time.Second
		r.probe()
		irc, xmpp := r.stack.RelayMessages()
		r.fault("loops", true)
		r.probe()
		for n := range 20 {
			if got := r.probe(); got != failure.Mismatch || !strings.Contains(r.err.Error(), "has come back") {
				t.Fatalf("poll %d: reason %q, want %q: %v", n, got, failure.Mismatch, r.err)
			}
		}
		if a, b := r.stack.RelayMessages(); a > irc+1 || b > xmpp+1 {
			t.Errorf("%d and %d messages were sent into the loop, want one each way", a-irc, b-xmpp)
		}
		if got := r.holds(); !slices.Equal(got, []string{"BridgeDuplicates irc to xmpp", "BridgeDuplicates xmpp to irc"}) {
			t.Errorf("these conditions hold: %q", got)
		}
		if copies := r.metrics("chatstack_relay_copies_total"); copies[toXMPP] < 90 || copies[toIRC] < 90 {
			t.Errorf("copies %v, want one each second, each way", copies)
		}
		r.fault("loops", false)
		for range int(relayQuiet/r.poll) - 1 {
			if got := r.probe(); got != failure.Mismatch {
				t.Errorf("before a quiet minute: reason %q: %v", got, r.err)
			}
		}
		r.works()
		r.poll = relayPoll
		r.wantSumOfOutcomes()
		r.wantNoAlert()
	})
}

// TestCopiesAreCounted: a message that its own server returns is none, nor one that a text has twice.
func TestCopiesAreCounted(t *testing.T) {
	now := time.Now()
	c := &relayProbe{settings: newRelaySettings(), run: "abc", marks: marksOf("abc")}
	irc, xmpp := &relaySide{name: sideIRC, relay: c}, &relaySide{name: sideXMPP, relay: c}
	w := newCrossing(irc, xmpp)
	w.begin(&message{number: 7, sent: now})
	if text := c.text(7); !slices.Equal(c.numbers("> "+text+" "+text), []uint64{7}) {
		t.Errorf("%q: %d", text, c.numbers("> "+text+" "+text))
	}
	for n, side := range []*relaySide{irc, xmpp, xmpp, irc, xmpp, xmpp} {
		w.hear(side, 7, now)
		if got, want := w.copies, uint64(max(0, n-1)); got != want {
			t.Errorf("heard %d times: %d copies, want %d", n+1, got, want)
		}
		if got := w.comesBack(now) > 0; got != (n > relayCopies+1) {
			t.Errorf("heard %d times: comes back is %t", n+1, got)
		}
	}
	for n, want := range []bool{true, true, false} {
		if got := w.repeats(); got != want {
			t.Errorf("report %d: repeats is %t", n+1, got)
		}
	}
	w.expire(now.Add(relayLifetime))
	if len(w.messages) > 0 || w.outcomes[relayDelivered] != 1 {
		t.Errorf("afterwards: %v, outcomes %v", w.messages, w.outcomes)
	}
}
