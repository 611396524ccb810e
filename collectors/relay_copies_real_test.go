//go:build realservers

package collectors

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealRelayStopsFeedingALoop has two bridges in one channel and room, which relay each other for ever.
func TestRealRelayStopsFeedingALoop(t *testing.T) {
	t.Parallel()
	s := startServers(t, realstack.StartNgIRCd)
	room := s.xmpp.Room("looped")
	startPuppet(t, s.xmpp, s.irc, room.Address)
	startPuppetAs(t, "puppet2", s.xmpp, s.irc, room.Address)
	s.follow(room.Address, nil)
	s.becomes("two bridges", failure.Mismatch)
	sent := s.sent()
	for range 20 {
		if got := s.probe(); got != failure.Mismatch {
			t.Fatalf("reason %q, want %q", got, failure.Mismatch)
		}
		time.Sleep(100 * time.Millisecond)
	}
	if got := s.sent(); got != sent {
		t.Errorf("the check sends %d more messages into the loop", got-sent)
	}
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for _, w := range s.relay.ways {
		t.Logf("from %s: %d copies", w.from.name, w.copies)
		if w.copies <= relayCopies {
			t.Errorf("from %s: %d copies", w.from.name, w.copies)
		}
	}
}

// sent is how many messages the check has made.
func (s *bridged) sent() uint64 {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return s.relay.count
}
