package collectors

import (
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
		r.wantState([]string{toIRC + " bridge", toXMPP + " bridge"}, []string{"BridgeNotRelaying irc to xmpp", "BridgeNotRelaying xmpp to irc"})
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
		for range 4 {
			if got := r.probe(); got != failure.NotFound {
				t.Errorf("reason %q, want %q: %v", got, failure.NotFound, r.err)
			}
		}
		r.wantState([]string{toIRC + " xmpp", toXMPP + " xmpp"}, []string{"RelaySessionDown xmpp"})
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
