package collectors

import (
	"errors"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

const (
	// sessionRetry is the interval that doubles while a server limits the sessions of this address.
	sessionRetry = time.Minute
	// maxHourlySessions is how often a session may connect within an hour to a server that limits that, beside the probes of other targets.
	maxHourlySessions = 3
)

// sessionPace says when a lasting session may connect; it implements chat.Gate.
type sessionPace struct {
	gate      *pacing.Gate // of the account
	scheduled bool         // the target has a schedule of its own, so that no limit by the hour is assumed

	mu       sync.Mutex
	slow     pacing.Slowdown
	limited  bool // the server has shown a limit by the hour
	connects []time.Time
}

// errRefusedElsewhere is why a session waits that was not refused itself.
var errRefusedElsewhere = failure.Errorf(failure.Unauthorized,
	"the server has refused this login of another target; the next attempt waits").BeforeLogin()

// Begin implements chat.Gate.
func (p *sessionPace) Begin(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connects = slices.DeleteFunc(p.connects, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	next := p.slow.Until()
	if p.limited && len(p.connects) >= maxHourlySessions && p.connects[0].Add(time.Hour).After(next) {
		next = p.connects[0].Add(time.Hour)
	}
	switch {
	case next.After(now):
		return failure.Errorf(failure.Throttled, "the server limits connections of this address; the next session begins after %s",
			next.UTC().Format("15:04:05 MST"))
	case !p.gate.Begin(now):
		return errRefusedElsewhere
	}
	p.connects = append(p.connects, now)
	return nil
}

// End implements chat.Gate.
func (p *sessionPace) End(began, now time.Time, r *exchange.Record, err error) {
	p.gate.End(began, now, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limited = p.limited || r.ConnectionsPerHour > 0 && !p.scheduled
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		p.connects = nil // a server that does not run has forgotten all of them
	case err != nil && (failure.ReasonOf(err) == failure.DNS || failure.ReasonOf(err) == failure.Refused):
		p.connects = p.connects[:max(len(p.connects)-1, 0)] // nobody has accepted this one
	}
	p.slow.End(began, now, err, sessionRetry)
}
