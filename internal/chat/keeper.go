package chat

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Keeper keeps a session of an account. After a failure it connects again, with back-off, since servers limit how often one address
// may connect, and joining too often is noise in a channel.
type Keeper struct {
	// Retry is the back-off between sessions: 20 s at first, a minute at most. Set it before Run.
	Retry backoff.BackOff
	// Gate says when the account may log in; nil means always. Set it before Run.
	Gate Gate

	account  Account
	listener Listener

	mu           sync.Mutex
	conversation Conversation // nil while there is none
	err          error        // why there is none; nil before the first attempt has ended
	last         error        // why the last session ended
	failed       uint64       // sessions that could not join
	changed      chan struct{}
	end          func(error) // ends the session; nil without one
}

// Gate says when an account may log in, since servers limit connections and failed logins.
type Gate interface {
	// Begin returns nil if the account may log in now; End must follow then. Else it returns why the account waits.
	Begin(now time.Time) error
	// End records how an attempt to log in and join that began at began ended, and what it showed of the server.
	End(began, now time.Time, r *exchange.Record, err error)
}

// gateCheck is how often a keeper that must not log in asks again.
const gateCheck = 5 * time.Second

// steadySession is how long a session lasts after which the back-off starts over.
const steadySession = 5 * time.Minute

// NewKeeper returns a keeper, which does nothing until Run. heard and refused are called as Listener says.
func NewKeeper(a Account, l Listener) *Keeper {
	return &Keeper{
		account:  a,
		listener: l,
		changed:  make(chan struct{}),
		Retry: &backoff.ExponentialBackOff{
			InitialInterval:     20 * time.Second,
			RandomizationFactor: 0.2,
			Multiplier:          1.5,
			MaxInterval:         time.Minute,
		},
	}
}

// Run keeps a session until ctx is done.
func (k *Keeper) Run(ctx context.Context) {
	k.Retry.Reset()
	for {
		began := time.Now()
		if waits := k.mayBegin(began); waits != nil {
			k.explainWait(waits)
			if !pause(ctx, gateCheck) {
				k.set(nil, nil)
				return
			}
			continue
		}
		err := k.session(ctx)
		if time.Since(began) >= steadySession { // not at the join, since something may end each session just after it
			k.Retry.Reset()
		}
		if ctx.Err() != nil {
			k.set(nil, nil)
			return
		}
		k.set(nil, err)
		if !pause(ctx, max(k.Retry.NextBackOff(), retryAfter(err))) {
			k.set(nil, nil)
			return
		}
	}
}

// retryAfter is how long an error asks to wait before the next session; 0 if it does not.
func retryAfter(err error) time.Duration {
	if known, ok := errors.AsType[*failure.Error](err); ok {
		return known.RetryAfter
	}
	return 0
}

// mayBegin returns nil if the account may log in now, else why it waits.
func (k *Keeper) mayBegin(now time.Time) error {
	if k.Gate == nil {
		return nil
	}
	return k.Gate.Begin(now)
}

// explainWait sets why there is no session while the account may not log in: waits, unless its own last session says more. If the server
// limits this address, both count.
func (k *Keeper) explainWait(waits error) {
	k.mu.Lock()
	known, last := k.err != nil, k.last
	k.mu.Unlock()
	switch {
	case failure.ReasonOf(waits) == failure.Throttled:
		if last != nil {
			waits = failure.Errorf(failure.Throttled, "%v; before that: %w", waits, last)
		}
		k.show(waits)
	case known:
	case last != nil:
		k.set(nil, last)
	default:
		k.set(nil, waits)
	}
}

// pause waits, and returns false if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// session runs one session and returns why it ended. It recovers from panics, since nothing else does in its goroutine.
func (k *Keeper) session(ctx context.Context) (err error) {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer func() {
		if r := recover(); r != nil {
			err = failure.Errorf(failure.Panic, "the session panicked: %v\n%s", r, debug.Stack())
		}
	}()
	k.mu.Lock()
	k.end = end
	k.mu.Unlock()
	joined, began, record := false, time.Now(), &exchange.Record{}
	attempted := func(err error) {
		if k.Gate != nil {
			k.Gate.End(began, time.Now(), record, err)
		}
	}
	err = k.account.Run(ctx, record, &joining{k.listener, func(c Conversation) {
		joined = true
		attempted(nil)
		k.set(c, nil)
	}})
	if !joined {
		attempted(errors.Join(err, ctx.Err()))
		k.mu.Lock()
		k.failed++
		k.mu.Unlock()
	}
	if cause := context.Cause(ctx); err == nil && cause != nil {
		return cause
	}
	return err
}

// joining tells the keeper when its session has joined, and the listener everything.
type joining struct {
	Listener
	joined func(Conversation)
}

// Joined implements Listener.
func (j *joining) Joined(c Conversation) {
	j.joined(c)
	j.Listener.Joined(c)
}

func (k *Keeper) set(c Conversation, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conversation, k.err = c, err
	if err != nil {
		k.last = err
	}
	k.wake()
}

// show sets why there is no session. The last session's end stays known.
func (k *Keeper) show(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.wake()
}

// wake wakes those who await a change. The caller holds mu.
func (k *Keeper) wake() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// Await returns the session's conversation, or why there is none. Before the first attempt has ended, it waits for that. failed is how
// many attempts could not join so far, since the same error is returned until the next attempt has ended.
func (k *Keeper) Await(ctx context.Context) (c Conversation, failed uint64, err error) {
	for {
		k.mu.Lock()
		c, failed, err = k.conversation, k.failed, k.err
		changed := k.changed
		k.mu.Unlock()
		if c != nil || err != nil {
			return c, failed, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, failed, failure.Errorf(failure.Timeout, "log in and join: %w", ctx.Err())
		}
	}
}

// Verify returns why c hears nothing: its session has ended, or the server does not answer. It ends a session that is dead or not in its
// channel or room any more, so that the next one joins. ended says that the session had ended before: since servers answer in order,
// they did not accept what they had not confirmed.
func (k *Keeper) Verify(ctx context.Context, c Conversation) (ended bool, err error) {
	k.mu.Lock()
	current, end, last := k.conversation, k.end, k.last
	k.mu.Unlock()
	if current != c {
		return true, last
	}
	err = c.Ping(ctx)
	if err != nil && !errors.Is(err, ErrRoomSilent) && !errors.Is(ctx.Err(), context.Canceled) {
		end(err)
	}
	return false, err
}
