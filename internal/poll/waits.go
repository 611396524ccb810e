package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// Pace is what decides whether a target waits on purpose.
type Pace struct {
	// Gate says when the target's credential may be sent; nil means always.
	Gate *pacing.Gate
	// Sessions are the gates of sessions that the target keeps. They ask by themselves, and probes go on meanwhile.
	Sessions []*pacing.Gate
	// Address is what a probe connects to, host:port, if the server there may limit connections and the target has no schedule of its own.
	Address string
}

// Why somebody's request for a probe is refused.
var (
	ErrTargetUnknown = errors.New("unknown target")
	ErrTooSoon       = errors.New("the target was not probed")
)

// askedEvery is the least time between two probes of a target that somebody asks for.
const askedEvery = 30 * time.Second

// waitsUntil returns the end of the target's present or last wait, zero for none, and why it waits.
func (t *target) waitsUntil(now time.Time) (until time.Time, reason failure.Reason) {
	every, asked := t.connections.Every(t.Pace.Address), t.asked.After(t.began)
	if every > 0 && !asked && !t.began.IsZero() && !t.slow.LooksAgain() {
		until = t.began.Add(every - t.interval(now)/4) // schedules are not exact to the second
	}
	if slow := t.slow.Until(); slow.After(until) {
		until = slow
		if t.slow.Throttled() {
			reason = failure.Throttled
		}
	}
	if gate := t.Pace.Gate.Until(now); gate.After(until) {
		until, reason = gate, failure.Unauthorized
	}
	return until, reason
}

// retryAt is waitsUntil of a target that waits now; zero for any other.
func (t *target) retryAt(now time.Time) (until time.Time, reason failure.Reason) {
	if until, reason = t.waitsUntil(now); !until.After(now) {
		return time.Time{}, ""
	}
	return until, reason
}

// shownWait is retryAt, or the wait of the target's session that logs in next.
func (t *target) shownWait(now time.Time) (until time.Time, reason failure.Reason) {
	until, reason = t.retryAt(now)
	for _, session := range t.Pace.Sessions {
		if next := session.Until(now); next.After(now) && (until.IsZero() || next.Before(until)) {
			until, reason = next, failure.Unauthorized
		}
	}
	return until, reason
}

// mayBegin reports whether the target may be probed now. The caller holds mu.
func (t *target) mayBegin(now time.Time) bool {
	if until, _ := t.retryAt(now); !until.IsZero() || !t.Pace.Gate.Begin(now) {
		return false
	}
	t.began = now
	t.connections.Connected(t.Pace.Address, now)
	return true
}

// pace records how a reading affects when the next one may begin. It reports whether the result counts now. The caller holds mu.
func (t *target) pace(began, now time.Time, o *outcome) (counts bool) {
	t.Pace.Gate.End(began, now, o.err)
	if o.perHour > 0 && t.Pace.Address != "" && t.connections.Limit(t.Pace.Address) {
		t.log.Warn("the server may limit connections by the hour: its targets without a schedule are probed less often",
			"target", t.Name, "connections_per_hour", o.perHour, "one_in", t.connections.Every(t.Pace.Address))
	}
	t.meanInterval = t.scheduledInterval(now)
	if counts = t.slow.End(began, now, o.err, t.meanInterval); !counts {
		return false
	}
	// A target that is probed every 10 minutes or less often would be down for that long because of one lost packet.
	rare := t.connections.Every(t.Pace.Address) > 0
	blip := o.err != nil && failure.ReasonOf(o.err) != failure.Throttled && failure.ReasonOf(o.err) != failure.Unauthorized
	return !rare || !blip || !t.status.Up || !t.slow.LookAgain(now)
}

// logWait logs when the target begins to wait for a reason. The caller holds mu.
func (t *target) logWait(now time.Time) {
	until, reason := t.retryAt(now)
	if reason != t.waitLogged && reason != "" {
		t.log.Info("target is probed less often", "target", t.Name, "reason", string(reason), "next", until)
	}
	t.waitLogged = reason
}

// refused reports whether the server refused the last reading's credential or this address, so that trying again at once could harm.
func (t *target) refused() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.Reason == failure.Unauthorized || t.status.Reason == failure.Throttled
}

// lookAgain probes a target once more whose last result does not count yet.
func (p *Poller) lookAgain(ctx context.Context, t *target) {
	if !t.looking.CompareAndSwap(false, true) {
		return // one more probe is enough, whatever the schedule tries meanwhile
	}
	defer t.looking.Store(false)
	t.mu.Lock()
	again, until := t.slow.LooksAgain(), t.slow.Until()
	t.mu.Unlock()
	if again && pause(ctx, time.Until(until)) {
		t.read(ctx, unscheduled)
		p.changed()
	}
}

// Probe requests a probe of a target now, although it waits after a refused credential. The error wraps ErrTargetUnknown or ErrTooSoon. The
// probe has not ended when Probe returns.
func (p *Poller) Probe(name string) error {
	for _, t := range p.targets {
		if t.Name != name {
			continue
		}
		if err := t.ask(time.Now()); err != nil {
			return err
		}
		select {
		case p.asked <- t:
			return nil
		default:
			return fmt.Errorf("%w: the exporter is busy; try again in a few seconds", ErrTooSoon)
		}
	}
	return fmt.Errorf("%w %q: /debug/targets/ lists all targets", ErrTargetUnknown, name)
}

// reopen ends the waits after refused credentials. It returns false if another failed login could get the address banned.
func (t *target) reopen(now time.Time) bool {
	return !slices.ContainsFunc(append(slices.Clip(t.Pace.Sessions), t.Pace.Gate), func(g *pacing.Gate) bool { return !g.Reopen(now) })
}

// ask ends the target's wait after refused credentials, unless a probe now could harm.
func (t *target) ask(now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	least := t.Kind.LeastInterval
	const again = "%w: %s; try again in %s"
	seconds := func(until time.Time) time.Duration { return max(time.Second, until.Sub(now).Round(time.Second)) }
	switch next := t.connections.NextAsked(t.Pace.Address); {
	case t.busy:
		return fmt.Errorf("%w: a probe is running; see its result at /debug/targets/%s", ErrTooSoon, t.Name)
	case t.slow.Until().After(now):
		return fmt.Errorf(again, ErrTooSoon, "the server limits this address, and another probe would prolong that",
			seconds(t.slow.Until()))
	case next.After(now):
		return fmt.Errorf(again, ErrTooSoon, "the server may allow 10 connections an hour and ban the address after that", seconds(next))
	case !t.began.IsZero() && now.Sub(t.began) < least:
		return fmt.Errorf(again, ErrTooSoon, "the last probe was less than "+least.String()+" ago", seconds(t.began.Add(least)))
	case !t.asked.IsZero() && now.Sub(t.asked) < askedEvery:
		return fmt.Errorf(again, ErrTooSoon, "a target is probed on request once in "+askedEvery.String(), seconds(t.asked.Add(askedEvery)))
	case !t.reopen(now):
		return fmt.Errorf("%w: so many logins failed within 70 minutes that another could get the address banned; "+
			"correct the credential and reload the configuration", ErrTooSoon)
	}
	t.asked = now
	return nil
}
