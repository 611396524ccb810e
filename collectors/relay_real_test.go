//go:build realservers

package collectors

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// bridged is a bridge between real servers, and the check of it.
type bridged struct {
	t      *testing.T
	xmpp   *realstack.Prosody
	irc    *realstack.IRC
	bridge *realstack.Biboumi // nil if it is another one
	relay  *relayProbe
	probes uint64              // that have run
	ticks  atomic.Uint64       // goes up when a probe begins, and when it ends
	boss   *realstack.Operator // of the channel; nil before its first use
}

// startBridged starts servers and Biboumi, and checks it.
func startBridged(t *testing.T, startIRC func(testing.TB) *realstack.IRC, change func(*bridged, *Relay)) *bridged {
	t.Helper()
	s := startServers(t, startIRC)
	s.bridge = realstack.StartBiboumi(t, s.xmpp, s.irc)
	s.follow(s.bridge.Room(), change)
	return s
}

const checkPassword = "pw-check"

func startServers(t *testing.T, startIRC func(testing.TB) *realstack.IRC) *bridged {
	t.Helper()
	s := &bridged{t: t, irc: startIRC(t), xmpp: realstack.StartProsody(t, realstack.ProsodyOptions{Rooms: true, Modules: []string{"mam"}})}
	s.xmpp.Register("check", realstack.XMPPDomain, checkPassword)
	return s
}

// follow prepares a check and keeps its sessions until the test ends.
func (s *bridged) follow(room string, change func(*bridged, *Relay)) {
	s.t.Helper()
	s.prepare(room, change)
	s.keepSessions()
}

func (s *bridged) keepSessions() {
	ctx, stop := context.WithCancel(s.t.Context())
	var following sync.WaitGroup
	following.Go(func() { s.relay.Follow(ctx, func() {}) })
	s.t.Cleanup(func() { stop(); following.Wait() })
}

// prepare makes a check of the bridge, which has no sessions yet.
func (s *bridged) prepare(room string, change func(*bridged, *Relay)) {
	s.t.Helper()
	settings := newRelaySettings()
	settings.Name, settings.Deadline = "bridge", config.Duration(time.Second)
	settings.OwnSchedule = true // it connects as often as the faults need
	settings.IRC.Address, settings.IRC.Plain, settings.IRC.Channel = s.irc.Addr, true, realstack.IRCChannel
	settings.XMPP.Address, settings.XMPP.User, settings.XMPP.Password = s.xmpp.ClientAddr, "check@"+realstack.XMPPDomain,
		config.NewSecret(checkPassword)
	settings.XMPP.CAFile, settings.XMPP.Room = s.xmpp.Authority.File, room
	if change != nil {
		change(s, settings)
	}
	c, err := newRelay(settings, Deps{Log: slog.New(slog.DiscardHandler), State: &memory{}})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, side := range c.(*relayProbe).sides {
		side.keeper.Retry = untilSeen{s}
	}
	s.relay = c.(*relayProbe)
}

// untilSeen is a back-off until a probe has seen that the session is down, however slow the machine is.
type untilSeen struct{ s *bridged }

func (u untilSeen) NextBackOff() time.Duration {
	now := u.s.ticks.Load()
	// The probe that runs now, if one does, may have begun with the session up.
	for seen := now + now%2 + 2; u.s.ticks.Load() < seen && u.s.t.Context().Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	return 0
}

func (untilSeen) Reset() {}

// probe runs one probe and returns its reason, "" after a success.
func (s *bridged) probe() failure.Reason {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 15*time.Second)
	defer cancel()
	b := &Batch{Target: "bridge"}
	s.probes++
	s.ticks.Add(1)
	defer s.ticks.Add(1)
	err := s.relay.Collect(ctx, b)
	if err != nil {
		s.t.Logf("%v: %v", b.Notes, err)
		return failure.ReasonOf(err)
	}
	return ""
}

// becomes probes until the reason is one of these.
func (s *bridged) becomes(what string, reasons ...failure.Reason) {
	s.t.Helper()
	var got []failure.Reason
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(200 * time.Millisecond) {
		reason := s.probe()
		if slices.Contains(reasons, reason) {
			return
		}
		got = append(got, reason)
	}
	s.t.Fatalf("%s: got the reasons %q, want one of %q", what, got, reasons)
}

// well probes until messages arrive both ways.
func (s *bridged) well(what string) {
	s.t.Helper()
	s.becomes(what, "")
	if got := s.brokenAt(); got != [2]string{} {
		s.t.Errorf("%s: broken at %q", what, got)
	}
}

// relayFault is a fault of a server or a bridge, and what the check says of it.
type relayFault struct {
	name       string
	begin, end func()
	reasons    []failure.Reason
	at         [2]string // where messages stop, from IRC and from XMPP
}

// suffer causes each fault and ends it.
func (s *bridged) suffer(faults []relayFault) {
	s.t.Helper()
	s.well("at first")
	for _, fault := range faults {
		began := time.Now()
		s.t.Logf("== %s", fault.name)
		fault.begin()
		s.becomes(fault.name, fault.reasons...)
		if s.brokenAt() != fault.at {
			s.probe() // the first probe's message may have passed just before the fault
		}
		if got := s.brokenAt(); got != fault.at {
			s.t.Errorf("%s: broken at %q, want %q", fault.name, got, fault.at)
		}
		seen := time.Since(began)
		ending := time.Now()
		fault.end()
		s.well("after: " + fault.name)
		s.t.Logf("== %s: detected after %s, recovered after %s",
			fault.name, seen.Round(time.Millisecond), time.Since(ending).Round(time.Millisecond))
	}
	s.countOutcomes()
}

// countOutcomes compares the sum of the outcomes with the number of probes.
func (s *bridged) countOutcomes() {
	s.t.Helper()
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	for _, w := range s.relay.ways {
		w.expire(time.Now().Add(relayLifetime))
		var sum uint64
		for _, count := range w.outcomes {
			sum += count
		}
		if sum != s.probes {
			s.t.Errorf("from %s: %d outcomes of %d probes: %v", w.from.name, sum, s.probes, w.outcomes)
		}
	}
}

// brokenAt is where messages stop, from IRC and from XMPP.
func (s *bridged) brokenAt() [2]string {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return [2]string{s.relay.ways[0].brokenAt, s.relay.ways[1].brokenAt}
}

var (
	notDelivered = []failure.Reason{failure.NotDelivered}
	forbidden    = []failure.Reason{failure.Forbidden}
	timedOut     = []failure.Reason{failure.Timeout}
	gone         = []failure.Reason{failure.Refused, failure.Closed}
	atBothWays   = [2]string{atBridge, atBridge}
	onIRC        = [2]string{sideIRC, sideIRC}
	onXMPP       = [2]string{sideXMPP, sideXMPP}
	nothing      = func() {}
)

// TestRealRelay breaks a real bridge and its servers, and looks at what the check says then and afterwards. In short, each kind of fault
// has one IRC server.
func TestRealRelay(t *testing.T) {
	t.Parallel()
	t.Run("ngircd", func(t *testing.T) {
		t.Parallel()
		s := startBridged(t, realstack.StartNgIRCd, nil)
		faults := s.serverFaults()
		if !testing.Short() {
			faults = append(s.channelFaults(), faults...)
			// Biboumi may lose a join that comes while it ends the session before, and the next one follows half a minute later.
			faults = append(faults, relayFault{
				"XMPP server hangs",
				s.xmpp.Hang,
				s.xmpp.Resume,
				timedOut,
				onXMPP,
			})
		}
		s.suffer(faults)
	})
	t.Run("inspircd", func(t *testing.T) {
		t.Parallel()
		var proxy *realstack.Proxy
		s := startBridged(t, realstack.StartInspIRCd, func(s *bridged, r *Relay) {
			proxy = realstack.StartProxy(t, s.irc.Addr)
			r.IRC.Address = proxy.Addr
		})
		faults := s.channelFaults()
		if !testing.Short() {
			faults = append(faults, s.serverFaults()...)
		}
		s.well("at first")
		_, from := proxy.Transcript()
		for _, want := range []string{"ACK :echo-message", ":irccheck!irccheck@127.0.0.1 PRIVMSG #check :chatstack check "} {
			if !strings.Contains(from, want) {
				t.Errorf("the server does not send %q:\n%s", want, from)
			}
		}
		s.suffer(faults)
	})
}

// TestRealRelayJoinsNoSilentRoom begins the check while the bridge hangs: that is the bridge's fault, not that of the XMPP server.
func TestRealRelayJoinsNoSilentRoom(t *testing.T) {
	if testing.Short() {
		t.Skip("a join fails after half a minute")
	}
	t.Parallel()
	s := startServers(t, realstack.StartNgIRCd)
	s.bridge = realstack.StartBiboumi(t, s.xmpp, s.irc)
	s.bridge.Hang()
	s.follow(s.bridge.Room(), nil)
	s.becomes("bridge hangs", failure.NotDelivered)
	if got := s.brokenAt(); got != atBothWays {
		t.Errorf("broken at %q, want %q", got, atBothWays)
	}
	s.bridge.Resume()
	s.well("bridge continues")
}

// channelFaults are what operators of a channel can do.
func (s *bridged) channelFaults() []relayFault {
	return []relayFault{
		{
			"channel is moderated",
			s.mode("+m"),
			s.mode("-m"),
			forbidden,
			onIRC,
		},
		{
			"nick is banned",
			s.mode("+b irccheck*!*@*"),
			s.mode("-b irccheck*!*@*"),
			forbidden,
			[2]string{sideIRC, ""},
		},
		{
			"kicked",
			func() { s.operate("KICK "+realstack.IRCChannel+" irccheck,irccheck1,irccheck2 :simulated", "KICK") },
			nothing,
			forbidden,
			onIRC,
		},
	}
}

// serverFaults stop the bridge and the servers.
func (s *bridged) serverFaults() []relayFault {
	return []relayFault{
		{
			"bridge hangs",
			s.bridge.Hang,
			s.bridge.Resume,
			notDelivered,
			atBothWays,
		},
		{
			"bridge killed",
			s.bridge.Kill,
			s.bridge.Start,
			notDelivered,
			atBothWays,
		},
		{
			"bridge with a wrong password",
			func() {
				s.bridge.Stop()
				s.bridge.Configure(s.xmpp, "wrong")
				s.bridge.TryToStart()
			},
			func() {
				s.bridge.Stop()
				s.bridge.Configure(s.xmpp, realstack.ComponentSecret)
				s.bridge.Start()
			},
			notDelivered,
			atBothWays,
		},
		{
			"IRC server killed",
			s.irc.Kill,
			s.irc.Start,
			gone,
			onIRC,
		},
		{
			"IRC server hangs",
			s.irc.Hang,
			s.irc.Resume,
			timedOut,
			onIRC,
		},
		{
			"XMPP server killed",
			s.xmpp.Kill,
			s.xmpp.Start,
			gone,
			onXMPP,
		},
	}
}

// operate makes an operator of the IRC server say a line. The operator stays, since servers slow new sessions down.
func (s *bridged) operate(line, answer string) {
	s.t.Helper()
	if s.boss == nil {
		s.boss = s.irc.Operator()
	}
	if err := s.boss.Do(line, answer); err != nil {
		s.t.Fatal(err)
	}
}

func (s *bridged) mode(change string) func() {
	return func() {
		s.t.Helper()
		s.operate("MODE "+realstack.IRCChannel+" "+change, "MODE")
	}
}
