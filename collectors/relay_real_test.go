//go:build realservers

package collectors

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// bridged is a bridge between real servers, and the check of it.
type bridged struct {
	t      *testing.T
	xmpp   *realstack.Prosody
	irc    *realstack.IRC
	bridge *realstack.Biboumi
	relay  *relayProbe
}

func startBridged(t *testing.T) *bridged {
	t.Helper()
	s := &bridged{t: t, xmpp: realstack.StartProsody(t, realstack.ProsodyOptions{}), irc: realstack.StartNgIRCd(t)}
	s.xmpp.Register("check", realstack.XMPPDomain, "pw-check")
	s.bridge = realstack.StartBiboumi(t, s.xmpp, s.irc)
	s.relay = s.collector(func(*Relay) {})
	ctx, stop := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { s.relay.Follow(ctx, func() {}) })
	t.Cleanup(func() { stop(); following.Wait() })
	return s
}

func (s *bridged) collector(change func(*Relay)) *relayProbe {
	s.t.Helper()
	settings := newRelaySettings()
	settings.Name, settings.Deadline = "bridge", config.Duration(2*time.Second)
	settings.IRC.Address, settings.IRC.Plain, settings.IRC.Channel = s.irc.Addr, true, realstack.IRCChannel
	settings.XMPP.Address, settings.XMPP.User, settings.XMPP.Password = s.xmpp.ClientAddr, "check@"+realstack.XMPPDomain, config.NewSecret("pw-check")
	settings.XMPP.CAFile, settings.XMPP.Room = s.xmpp.Authority.File, s.bridge.Room()
	change(settings)
	c, err := newRelay(settings, Deps{Log: slog.New(slog.DiscardHandler), State: &memory{}})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, side := range c.(*relayProbe).sides {
		side.keeper.Retry = backoff.NewConstantBackOff(time.Second)
	}
	return c.(*relayProbe)
}

// probe runs one probe and returns its reason, "" after a success.
func (s *bridged) probe() failure.Reason {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 15*time.Second)
	defer cancel()
	b := &Batch{Target: "bridge"}
	err := s.relay.Collect(ctx, b)
	s.t.Logf("%v: %v", b.Notes, err)
	if err != nil {
		return failure.ReasonOf(err)
	}
	return ""
}

// becomes probes until the reason is one of these.
func (s *bridged) becomes(what string, reasons ...failure.Reason) {
	s.t.Helper()
	var got []failure.Reason
	for begin := time.Now(); time.Since(begin) < 20*time.Second; time.Sleep(200 * time.Millisecond) {
		reason := s.probe()
		if slices.Contains(reasons, reason) {
			return
		}
		got = append(got, reason)
	}
	s.t.Fatalf("%s: got the reasons %q, want one of %q", what, got, reasons)
}

// brokenAt is where messages stop, from IRC and from XMPP.
func (s *bridged) brokenAt() [2]string {
	s.relay.mu.Lock()
	defer s.relay.mu.Unlock()
	return [2]string{s.relay.ways[0].brokenAt, s.relay.ways[1].brokenAt}
}

// TestRealRelay breaks a real bridge and its servers, and looks at what the check says then and afterwards.
func TestRealRelay(t *testing.T) {
	s := startBridged(t)
	well := func(what string) {
		t.Helper()
		s.becomes(what, "")
		if got := s.brokenAt(); got != [2]string{} {
			t.Errorf("%s: broken at %q", what, got)
		}
	}
	well("at first")
	atBothWays := [2]string{atBridge, atBridge}
	for _, fault := range []struct {
		name       string
		begin, end func()
		reasons    []failure.Reason
		at         [2]string
	}{
		{"bridge hangs", s.bridge.Hang, s.bridge.Resume, []failure.Reason{failure.NotDelivered}, atBothWays},
		{"bridge killed", s.bridge.Kill, s.bridge.Start, []failure.Reason{failure.NotDelivered}, atBothWays},
		{"bridge with a wrong password", func() {
			s.bridge.Stop()
			s.bridge.Configure(s.xmpp, "wrong")
			s.bridge.TryToStart()
		}, func() {
			s.bridge.Stop()
			s.bridge.Configure(s.xmpp, realstack.ComponentSecret)
			s.bridge.Start()
		}, []failure.Reason{failure.NotDelivered}, atBothWays},
		{"channel is moderated", s.mode("+m"), s.mode("-m"), []failure.Reason{failure.Forbidden}, [2]string{sideIRC, sideIRC}},
		{"nick is banned", s.mode("+b irccheck!*@*"), s.mode("-b irccheck!*@*"), []failure.Reason{failure.Forbidden}, [2]string{sideIRC, ""}},
		{"kicked", func() { s.operate("KICK "+realstack.IRCChannel+" irccheck :simulated", "KICK") }, func() {}, []failure.Reason{failure.Forbidden}, [2]string{sideIRC, sideIRC}},
		{"IRC server killed", s.irc.Kill, s.irc.Start, []failure.Reason{failure.Refused, failure.Closed}, [2]string{sideIRC, sideIRC}},
		{"IRC server hangs", s.irc.Hang, s.irc.Resume, []failure.Reason{failure.Timeout}, [2]string{sideIRC, sideIRC}},
		{"XMPP server killed", s.xmpp.Kill, s.xmpp.Start, []failure.Reason{failure.Refused, failure.Closed}, [2]string{sideXMPP, sideXMPP}},
	} {
		t.Logf("== %s", fault.name)
		fault.begin()
		s.becomes(fault.name, fault.reasons...)
		if got := s.brokenAt(); got != fault.at {
			t.Errorf("%s: broken at %q, want %q", fault.name, got, fault.at)
		}
		fault.end()
		well("after: " + fault.name)
	}
}

// operate makes an operator of the IRC server say a line.
func (s *bridged) operate(line, answer string) {
	s.t.Helper()
	o := s.irc.Operator()
	if err := o.Do(line, answer); err != nil {
		s.t.Fatal(err)
	}
	o.Close() //nolint:errcheck,gosec // its work is done
}

func (s *bridged) mode(change string) func() {
	return func() {
		s.t.Helper()
		s.operate("MODE "+realstack.IRCChannel+" "+change, "MODE")
	}
}
