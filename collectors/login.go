package collectors

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/chat"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
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
	return cmp.Or(err, ctx.Err())
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
func (v *visit) Heard(chat.Message) {}

// Refused implements chat.Listener.
func (v *visit) Refused(string, error) {}

// Members implements chat.Listener.
func (v *visit) Members([]string) {}

// Moved implements chat.Listener.
func (v *visit) Moved(chat.Move) {}

// Archived implements chat.Listener.
func (v *visit) Archived() {}

// productMemory remembers which product a target's server has shown: one that refuses the exporter's address shows it no more.
type productMemory struct{ seen exchange.Product }

// advise gives the failure of a limited address the advice for the product, if that is known. It returns other errors unchanged.
func (m *productMemory) advise(b *Batch, err error) error {
	if b.Product != "" {
		m.seen = b.Product
	}
	if err == nil || m.seen == "" || failure.ReasonOf(err) != failure.Throttled {
		return err
	}
	return failure.Errorf(failure.Throttled, "%w", err).WithHint(exchange.LimitHint(m.seen))
}
