//go:build realservers

package collectors

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// puppetUser is the account of a puppet's session on the XMPP server.
const puppetUser = "puppet"

// puppet is a bridge between the channel and a room, as a user on each side. Biboumi is none between a channel and a room of its own.
type puppet struct {
	// dropIRC and dropXMPP make it drop what is said on that side.
	dropIRC, dropXMPP atomic.Bool
	// stays makes it stay away once a session has ended.
	stays atomic.Bool
}

// startPuppet registers an account and starts a bridge, which ends with the test. It returns when the bridge has joined on both sides.
func startPuppet(tb testing.TB, xmpp *realstack.Prosody, irc *realstack.IRC, room string) *puppet {
	tb.Helper()
	return startPuppetAs(tb, puppetUser, xmpp, irc, room)
}

// startPuppetAs is startPuppet with the name of its account and its nicks.
func startPuppetAs(tb testing.TB, name string, xmpp *realstack.Prosody, irc *realstack.IRC, room string) *puppet {
	tb.Helper()
	xmpp.Register(name, realstack.XMPPDomain, "pw-puppet")
	p := &puppet{}
	ircSide := &puppetSide{
		name:  name,
		mark:  "<xmpp> ",
		drop:  &p.dropIRC,
		heard: make(chan string, 100),
	}
	xmppSide := &puppetSide{
		name:  name,
		mark:  "<irc> ",
		drop:  &p.dropXMPP,
		heard: make(chan string, 100),
	}
	ircSide.keep(&chat.IRC{
		Server:  chat.Server{TLSServer: exchange.TLSServer{Address: irc.Addr}, Plain: true},
		Nick:    name,
		Channel: realstack.IRCChannel,
	})
	xmppSide.keep(&chat.XMPP{
		Iterations: defaultSCRAMIterations,
		Server: chat.Server{TLSServer: exchange.TLSServer{
			Address:  xmpp.ClientAddr,
			StartTLS: exchange.XMPPClient,
			Domain:   realstack.XMPPDomain,
			Trust:    config.TLS{CAFile: xmpp.Authority.File},
		}},
		User:     name,
		Password: config.NewSecret("pw-puppet"),
		Room:     room,
		Nick:     name,
	})
	ircSide.keeper.Gate, xmppSide.keeper.Gate = p, p
	ctx, stop := context.WithCancel(tb.Context())
	var work sync.WaitGroup
	for _, s := range []struct{ from, to *puppetSide }{{ircSide, xmppSide}, {xmppSide, ircSide}} {
		work.Go(func() { s.from.keeper.Run(ctx) })
		work.Go(func() { s.from.pass(ctx, s.to) })
	}
	tb.Cleanup(func() { stop(); work.Wait() })
	joined := exportertest.Eventually(time.Minute, 10*time.Millisecond,
		func() bool { return ircSide.joined.Load() && xmppSide.joined.Load() })
	if !joined {
		tb.Fatalf("the bridge has not joined: IRC %v, XMPP %v", ircSide.joined.Load(), xmppSide.joined.Load())
	}
	return p
}

// Begin implements chat.Gate.
func (p *puppet) Begin(time.Time) error {
	if p.stays.Load() {
		return errors.New("it stays away")
	}
	return nil
}

// End implements chat.Gate.
func (p *puppet) End(time.Time, time.Time, *exchange.Record, error) {}

// puppetSide is one session of a puppet.
type puppetSide struct {
	name   string
	mark   string // begins what the bridge says here
	keeper *chat.Keeper
	drop   *atomic.Bool
	joined atomic.Bool
	heard  chan string
}

func (s *puppetSide) keep(a chat.Account) {
	s.keeper = chat.NewKeeper(a, s)
	s.keeper.Retry = backoff.NewConstantBackOff(200 * time.Millisecond)
}

// pass says on the other side what is heard on this one.
func (s *puppetSide) pass(ctx context.Context, other *puppetSide) {
	for {
		select {
		case <-ctx.Done():
			return
		case text := <-s.heard:
			if c, _, err := other.keeper.Await(ctx); err == nil {
				_ = c.Say(ctx, other.mark+text) // what cannot be said is lost
			}
		}
	}
}

// Joined implements chat.Listener.
func (s *puppetSide) Joined(chat.Conversation) { s.joined.Store(true) }

// Heard implements chat.Listener.
func (s *puppetSide) Heard(m chat.Message) {
	if s.drop.Load() || m.Nick == "" || m.Nick == s.name {
		return
	}
	select {
	case s.heard <- m.Text:
	default: // more than it can pass on is lost
	}
}

// Refused implements chat.Listener.
func (s *puppetSide) Refused(string, error) {}

// Members implements chat.Listener.
func (s *puppetSide) Members([]string) {}

// Moved implements chat.Listener.
func (s *puppetSide) Moved(chat.Move) {}

// Archived implements chat.Listener.
func (s *puppetSide) Archived() {}
