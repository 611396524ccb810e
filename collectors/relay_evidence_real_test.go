//go:build realservers

package collectors

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestRealRelayNamesTheCause removes a bridge in the ways that people and servers have, and reads what the check says of it.
func TestRealRelayNamesTheCause(t *testing.T) {
	t.Parallel()
	hub, leaf := realstack.StartLinkedNgIRCds(t)
	s := startServers(t, func(testing.TB) *realstack.IRC { return hub })
	room := s.xmpp.Room("evidence")
	bridge := startPuppet(t, s.xmpp, leaf, room.Address)
	s.follow(room.Address, nil)
	lost := func(cause, text string, begin, end func()) {
		t.Helper()
		s.well("before: " + cause)
		bridge.stays.Store(true)
		begin()
		s.becomes(cause, failure.NotDelivered)
		s.probe() // the first one may have begun before the fault
		s.wantEvidence(cause, text)
		end()
		bridge.stays.Store(false)
		s.well("after: " + cause)
	}
	drop := func(on bool) func() {
		return func() { bridge.dropIRC.Store(on); bridge.dropXMPP.Store(on) }
	}
	lost(health.BridgeHangs, "puppet is in #check and puppet in "+room.Address+", and messages do not cross", drop(true), drop(false))
	lost(health.BridgeKicked, "puppet was kicked from #check by boss: spam",
		func() { s.operate("KICK "+realstack.IRCChannel+" puppet :spam", "KICK") }, nothing)
	lost(health.BridgeBanned, "puppet is banned from #check by boss: puppet!*@*", func() {
		s.mode("+b puppet!*@*")()
		s.operate("KICK "+realstack.IRCChannel+" puppet :spam", "KICK")
	}, s.mode("-b puppet!*@*"))
	lost(health.BridgeKilled, "puppet left #check: ", func() { s.operate("KILL puppet :go away", "QUIT") }, nothing)
	lost(health.BridgeKicked, "puppet was kicked from "+room.Address+" by owner", func() { room.Role(puppetUser, "none") }, nothing)
	lost(health.BridgeBanned, "puppet was banned from "+room.Address+" by owner", func() { room.Affiliate(puppetUser, "outcast") },
		func() { room.Affiliate(puppetUser, "none") })
	lost(health.BridgeSplit, "puppet left with irc.test leaf.irc.test: the link between these servers broke", leaf.Kill, leaf.Start)
}

// wantEvidence compares what the last check says of the bridge, on the way from IRC.
func (s *bridged) wantEvidence(cause, text string) {
	s.t.Helper()
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	got := s.relay.ways[0].because
	s.t.Logf("%s: %s; hint: %s", got.cause, got.text, got.hint())
	if got.cause != cause || !strings.HasPrefix(got.text, text) {
		s.t.Errorf("got %s: %q, want %s: %q", got.cause, got.text, cause, text)
	}
	if strings.Contains(got.hint(), "puppet") || slices.Contains([]string{"", "unknown"}, got.cause) {
		s.t.Errorf("want a cause, and a hint without names: got %+v", got)
	}
}

// TestRealRelaySessionThatIsEnded is killed by an operator, and finds a channel that forwards.
func TestRealRelaySessionThatIsEnded(t *testing.T) {
	t.Parallel()
	s := startServers(t, func(tb testing.TB) *realstack.IRC {
		tb.Helper()
		return realstack.StartInspIRCdWith(tb, `<module name="redirect">`)
	})
	room := s.xmpp.Room("ended")
	startPuppet(t, s.xmpp, s.irc, room.Address)
	s.follow(room.Address, nil)
	s.well("at first")
	hint := func() string {
		_, _, err := s.relay.sides[0].keeper.Await(t.Context())
		return failure.HintOf(err)
	}
	s.operate("KILL irccheck :go away", "QUIT")
	s.becomes("killed", failure.Closed)
	if got := hint(); !strings.Contains(got, "(KILL)") {
		t.Errorf("killed: %s", got)
	}
	s.well("after the kill")
	s.operate("JOIN #other", "366")
	s.operate("MODE "+realstack.IRCChannel+" +lL 1 #other", "MODE")
	s.operate("KICK "+realstack.IRCChannel+" irccheck :simulated", "KICK")
	s.becomes("kicked", failure.Forbidden)
	if !exportertest.Eventually(10*time.Second, 100*time.Millisecond, func() bool { s.probe(); return strings.Contains(hint(), "(+L)") }) {
		t.Errorf("forwarded: %s", hint())
	}
}
