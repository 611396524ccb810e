//go:build realservers

package realstack

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

// PuppetUser is the account of a Puppet's session on XMPPDomain.
const PuppetUser = "puppet"

// Puppet is a bridge between IRCChannel and a room, as a user on each side. Biboumi is none between a channel and a room of its own.
type Puppet struct {
	// DropIRC and DropXMPP make it drop what is said on that side.
	DropIRC, DropXMPP atomic.Bool
}

// StartPuppet registers an account and starts a bridge, which ends with the test. It returns when the bridge has joined on both sides.
func StartPuppet(tb testing.TB, xmpp *Prosody, irc *IRC, room string) *Puppet {
	tb.Helper()
	xmpp.Register(PuppetUser, XMPPDomain, "pw-puppet")
	p := &Puppet{}
	onIRC := &puppetSide{mark: "<xmpp> ", drop: &p.DropIRC, heard: make(chan string, 100)}
	onXMPP := &puppetSide{mark: "<irc> ", drop: &p.DropXMPP, heard: make(chan string, 100)}
	onIRC.keep(&chat.IRC{Server: chat.Server{TLSServer: exchange.TLSServer{Address: irc.Addr}, Plain: true}, Nick: PuppetUser, Channel: IRCChannel})
	onXMPP.keep(&chat.XMPP{
		Server: chat.Server{TLSServer: exchange.TLSServer{Address: xmpp.ClientAddr, StartTLS: exchange.XMPPClient, Domain: XMPPDomain, Trust: config.TLS{CAFile: xmpp.Authority.File}}},
		User:   PuppetUser, Password: config.NewSecret("pw-puppet"), Room: room, Nick: PuppetUser,
	})
	ctx, stop := context.WithCancel(tb.Context())
	var work sync.WaitGroup
	for _, s := range []struct{ from, to *puppetSide }{{onIRC, onXMPP}, {onXMPP, onIRC}} {
		work.Go(func() { s.from.keeper.Run(ctx) })
		work.Go(func() { s.from.pass(ctx, s.to) })
	}
	tb.Cleanup(func() { stop(); work.Wait() })
	joined := eventually(readyWithin, func() bool { return onIRC.joined.Load() && onXMPP.joined.Load() })
	if !joined {
		tb.Fatalf("the bridge has not joined: IRC %v, XMPP %v", onIRC.joined.Load(), onXMPP.joined.Load())
	}
	return p
}

// puppetSide is one session of a Puppet.
type puppetSide struct {
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
			if c, err := other.keeper.Await(ctx); err == nil {
				_ = c.Say(other.mark + text) // what cannot be said is lost
			}
		}
	}
}

// Joined implements chat.Listener.
func (s *puppetSide) Joined(chat.Conversation) { s.joined.Store(true) }

// Heard implements chat.Listener.
func (s *puppetSide) Heard(text string) {
	if s.drop.Load() || strings.HasPrefix(text, s.mark) {
		return
	}
	select {
	case s.heard <- text:
	default: // more than it can pass on is lost
	}
}

// Refused implements chat.Listener.
func (s *puppetSide) Refused(error) {}
