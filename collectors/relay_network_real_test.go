//go:build realservers

package collectors

import (
	"maps"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestRealRelayNetwork delays and partitions the networks between the check and its servers. On IRC, it has an account and TLS.
func TestRealRelayNetwork(t *testing.T) {
	t.Parallel()
	s := startServers(t, realstack.StartInspIRCd)
	room := s.xmpp.Room("remote")
	startPuppet(t, s.xmpp, s.irc, room.Address)
	s.irc.IRCServices("irccheck", checkPassword)
	irc, xmpp := realstack.StartProxy(t, s.irc.TLSAddr), realstack.StartProxy(t, s.xmpp.ClientAddr)
	s.follow(room.Address, func(_ *bridged, r *Relay) {
		r.IRC.Address, r.XMPP.Address, r.Deadline = irc.Addr, xmpp.Addr, config.Duration(600*time.Millisecond)
		r.IRC.Plain, r.IRC.CAFile, r.IRC.Password = false, s.irc.Authority.File, config.NewSecret(checkPassword)
	})
	s.well("at first")
	for _, c := range []struct {
		name  string
		proxy *realstack.Proxy
		way   int // the way whose messages arrive through the proxy
		at    [2]string
	}{
		{
			sideIRC,
			irc,
			1,
			onIRC,
		},
		{
			sideXMPP,
			xmpp,
			0,
			onXMPP,
		},
	} {
		const short, long = 200 * time.Millisecond, 900 * time.Millisecond
		c.proxy.Delay(short, short)
		if reason := s.probe(); reason != "" {
			t.Errorf("%s, %s each way: %s", c.name, short, reason)
		}
		if took := s.took(); took[0] < short || took[1] < short {
			t.Errorf("%s, %s each way: the messages took %s", c.name, short, took)
		}
		// The answer to the ping that verifies the session comes after the message, which is late then.
		before := s.outcomes(c.way)
		c.proxy.Delay(0, long)
		for range 3 {
			if reason := s.probe(); reason != failure.NotDelivered {
				t.Errorf("%s, %s to the exporter: got the reason %q, want %q", c.name, long, reason, failure.NotDelivered)
			}
			if got, want := s.brokenAt()[c.way], atBridge; got != want {
				t.Errorf("%s, %s to the exporter: broken at %q, want %q", c.name, long, got, want)
			}
		}
		c.proxy.Delay(0, 0)
		s.well(c.name + ": no delay")
		after := s.outcomes(c.way)
		if late, lost := after[relayLate]-before[relayLate], after[relayLost]-before[relayLost]; late != 3 || lost != 0 {
			t.Errorf("%s: late %d, lost %d, want 3 and 0", c.name, late, lost)
		}

		c.proxy.Partition()
		if reason := s.probe(); reason != failure.Timeout {
			t.Errorf("%s: partition: got the reason %q, want %q", c.name, reason, failure.Timeout)
		}
		if got := s.brokenAt(); got != c.at {
			t.Errorf("%s: partition: broken at %q, want %q", c.name, got, c.at)
		}
		c.proxy.Mend()
		s.well(c.name + ": partition mended")
	}
	s.countOutcomes()
}

// outcomes are those of one way so far.
func (s *bridged) outcomes(way int) map[string]uint64 {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return maps.Clone(s.relay.ways[way].outcomes)
}

// took is how long the last messages took.
func (s *bridged) took() (took [2]time.Duration) {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for i, w := range s.relay.ways {
		took[i] = w.arrived.Sub(w.sent)
	}
	return took
}
