package collectors

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRestartedRoomServiceIsNoDeadBridge ends the XMPP session as a clean restart of the room's service does.
func TestRestartedRoomServiceIsNoDeadBridge(t *testing.T) {
	for _, poll := range []time.Duration{time.Second, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			r := startRelayed(t)
			r.poll = poll
			r.lines[1].cut(chat.ErrRoomSilent)
			for failed := true; failed; {
				failed = r.probe() != ""
				r.wantNoAlert()
				if got := r.relay.ways[0].failures; got > 0 {
					t.Fatalf("poll %s: %d failures of the bridge, although no check has tested it", poll, got)
				}
			}
		})
	}
}

// TestSilentRoomCountsOncePerJoin lets no join succeed: polls between two attempts say nothing new.
func TestSilentRoomCountsOncePerJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		r.poll = time.Second
		r.lines[1].close(chat.ErrNoRoomService)
		r.lines[1].cut(chat.ErrRoomSilent)
		before := r.lines[1].attempts()
		for len(r.holds()) == 0 {
			r.probe()
		}
		if got := r.lines[1].attempts() - before; got != relayFailuresLimit {
			t.Errorf("alert after %d failed joins, want %d", got, relayFailuresLimit)
		}
		r.wantState([]string{toIRC + " bridge", toXMPP + " bridge"},
			[]string{"BridgeNotRelaying irc to xmpp", "BridgeNotRelaying xmpp to irc"})
		r.lines[1].close(nil)
		r.poll = relayPoll
		r.works()
		r.wantState(nil, nil)
	})
}

// TestMisspeltRoomIsNoDeadBridge has never joined.
func TestMisspeltRoomIsNoDeadBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := prepareRelayed(t)
		r.lines[1].close(chat.ErrNoRoomService)
		r.follow()
		for range 2 { // the simulated IRC server ends a session that is silent for long
			if got := r.probe(); got != failure.NotFound {
				t.Errorf("reason %q, want %q: %v", got, failure.NotFound, r.err)
			}
		}
		r.wantState([]string{toIRC + " xmpp", toXMPP + " xmpp"}, []string{"RelaySessionDown xmpp", "RelayUnwatched "})
	})
}

// TestFailuresBeforeAnOutageDoNotCount has the bridge fail before and after an outage of the IRC server.
func TestFailuresBeforeAnOutageDoNotCount(t *testing.T) {
	for _, before := range []int{relayFailuresLimit - 1, relayFailuresLimit} {
		synctest.Test(t, func(t *testing.T) {
			r := startRelayed(t)
			r.fault("frozen", true)
			for range before {
				r.probe()
			}
			r.turn("irc_tls", "stopped", true)
			for range 100 {
				r.probe()
				for _, c := range r.batch.Conditions(r.err) {
					if c.Alert == "BridgeNotRelaying" {
						t.Fatalf("%s is %t, although no message is sent", c.Alert, c.Holds)
					}
				}
			}
			r.turn("irc_tls", "stopped", false)
			for r.relay.ways[0].brokenAt != atBridge {
				r.probe()
			}
			if got, want := slices.Contains(r.holds(), "BridgeNotRelaying irc to xmpp"), before >= relayFailuresLimit; got != want {
				t.Errorf("after %d failures, an outage and one failure, BridgeNotRelaying is %t, want %t", before, got, want)
			}
		})
	}
}

// TestReceiverThatRejoinsIsNotTheBridge cuts the session that a message is on its way to, while a slow bridge has it.
func TestReceiverThatRejoinsIsNotTheBridge(t *testing.T) {
	for i, way := range []string{toIRC, toXMPP} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := startRelayed(t)
				r.limits(28*time.Second, 20*time.Second, 35*time.Second)
				r.poll = time.Minute
				r.probe()
				r.fault("late", true) // 15 s
				for range 4 {
					time.AfterFunc(time.Until(time.Now().Truncate(r.poll).Add(r.poll+2*time.Second)),
						func() { r.lines[i].cut(errors.New("cut")) })
					if got := r.probe(); got == "" {
						t.Error("a message arrived in a session that has ended")
					}
				}
				if got, want := r.relay.ways[1-i].brokenAt, r.relay.sides[i].name; got != want {
					t.Errorf("broken at %q, want %q", got, want)
				}
				r.fault("late", false)
				r.works()
				r.wantNoAlert()
				r.wantSumOfOutcomes()
			})
		})
	}
}

// TestRefusalsBelongToTheirMessage has a server refuse an old message, or the last one after its deadline.
func TestRefusalsBelongToTheirMessage(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		refused uint64
		want    string
	}{{7, relayNotSent}, {6, relayLost}} {
		c := &relayProbe{
			settings: &Relay{Prefix: "check"},
			run:      "abc",
			arrival:  make(chan struct{}),
			marks:    marksOf("abc"),
		}
		irc, xmpp := &relaySide{name: sideIRC, relay: c}, &relaySide{name: sideXMPP, relay: c}
		c.ways = [2]*crossing{newCrossing(irc, xmpp), newCrossing(xmpp, irc)}
		w := c.ways[0]
		w.begin(&message{number: 7, sent: now, failed: true})
		irc.Refused(c.text(tt.refused), errors.New("refused"))
		w.expire(now.Add(relayLifetime))
		if w.outcomes[tt.want] != 1 {
			t.Errorf("message 7 after a refusal of %d: %v, want %s", tt.refused, w.outcomes, tt.want)
		}
	}
}

// TestNobodyCanPlayTheBridge has a member say, on the other side of a frozen bridge, every number that follows one that was sent.
func TestNobodyCanPlayTheBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startRelayed(t)
		c := r.relay
		r.fault("frozen", true)
		for range relayFailuresLimit {
			last := c.ways[0].number
			for n := last; n < last+10; n++ {
				c.sides[1].Heard(chat.Message{Text: c.text(n)})
				c.sides[1].Heard(chat.Message{Text: fmt.Sprintf("%s %s %d", c.settings.Prefix, c.run, c.count+n-last)})
			}
			time.AfterFunc(time.Until(time.Now().Truncate(r.poll).Add(r.poll+time.Second)), func() {
				c.mu.Lock()
				guess := last + 1
				c.mu.Unlock()
				for n := range uint64(10) {
					c.sides[1].Heard(chat.Message{Text: c.text(guess + n)})
				}
			})
			r.probe()
		}
		if got := c.ways[0].failures; got != relayFailuresLimit {
			t.Errorf("%d failures of a dead bridge, want %d", got, relayFailuresLimit)
		}
	})
}

// TestTwoExportersInARoomDoNotMix has another exporter, or an older one, say its messages on both sides.
func TestTwoExportersInARoomDoNotMix(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := prepareRelayed(t).relay, prepareRelayed(t).relay
		for _, text := range []string{b.text(b.numberOf(1)), "chatstack check 7f3a9c01b2d4 42", "chatstack check " + a.run + " 42"} {
			if got := a.numbers(text); len(got) > 0 {
				t.Errorf("%q is taken for message %d", text, got)
			}
		}
		if a.numberOf(1) == b.numberOf(1) {
			t.Error("two exporters send the same number")
		}
		own := a.numberOf(1)
		if got := a.numbers("<check> " + a.text(own)); !slices.Equal(got, []uint64{own}) {
			t.Errorf("got %d, want our own %d", got, own)
		}
	})
}
