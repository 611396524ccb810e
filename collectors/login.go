package collectors

import (
	"context"
	"errors"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// login logs in to a chat server at each probe, asks for a sign of life, and logs out. It joins and writes nothing.
type login struct {
	account chat.Account
	product productMemory
}

func newIRCLogin(s *IRCLogin, _ Deps) (Collector, error) { return &login{account: s.account("")}, nil }

func newXMPPLogin(s *XMPPLogin, _ Deps) (Collector, error) {
	return &login{account: s.account("", "")}, nil
}

// Collect implements Collector.
func (c *login) Collect(ctx context.Context, b *Batch) error {
	return c.product.advise(b, c.visit(ctx, b))
}

func (c *login) visit(ctx context.Context, b *Batch) error {
	session, logOut := context.WithCancel(ctx)
	defer logOut()
	v := &visit{ctx: session, logOut: logOut, pinged: make(chan error, 1)}
	err := c.account.Run(session, &b.Record, v)
	logOut()
	v.pinging.Wait()
	select {
	case pinged := <-v.pinged:
		if errors.Is(pinged, context.Canceled) && err != nil {
			return err // the session ended before the answer came
		}
		return pinged
	default:
	}
	if err == nil {
		return ctx.Err()
	}
	return err
}

// visit is a session that ends after one ping.
type visit struct {
	ctx     context.Context //nolint:containedctx // of the session, for the ping
	logOut  context.CancelFunc
	pinging sync.WaitGroup
	pinged  chan error
}

// Joined implements chat.Listener.
func (v *visit) Joined(c chat.Conversation) {
	v.pinging.Go(func() {
		defer v.logOut()
		v.pinged <- guarded(func() error { return c.Ping(v.ctx) })
	})
}

// guarded recovers from panics of talk, since nothing else does in its goroutine.
func guarded(talk func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = failure.Errorf(failure.Panic, "the conversation panicked: %v", r)
		}
	}()
	return talk()
}

// Heard implements chat.Listener.
func (v *visit) Heard(string) {}

// Refused implements chat.Listener.
func (v *visit) Refused(string, error) {}
