package collectors

import (
	"slices"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
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
	gate *pacing.Gate // of the account

	mu       sync.Mutex
	slow     pacing.Slowdown
	limited  bool // the server has shown a limit by the hour
	connects []time.Time
}

// Begin implements chat.Gate.
func (p *sessionPace) Begin(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connects = slices.DeleteFunc(p.connects, func(at time.Time) bool { return now.Sub(at) >= time.Hour })
	if p.slow.Until().After(now) || p.limited && len(p.connects) >= maxHourlySessions || !p.gate.Begin(now) {
		return false
	}
	p.connects = append(p.connects, now)
	return true
}

// End implements chat.Gate.
func (p *sessionPace) End(began, now time.Time, r *exchange.Record, err error) {
	p.gate.End(began, now, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limited = p.limited || r.ConnectionsPerHour > 0
	p.slow.End(began, now, err, sessionRetry)
}
