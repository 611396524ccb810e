package collectors

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestSessionsAtALimitedServerWait once a server that limits connections by the hour has had three. Connections that it has not accepted,
// or has forgotten in a restart, do not count, and a schedule of one's own lifts the limit.
func TestSessionsAtALimitedServerWait(t *testing.T) {
	shown, hidden := &exchange.Record{ConnectionsPerHour: 10}, &exchange.Record{}
	start := time.Date(2026, 11, 27, 5, 0, 0, 0, time.UTC)
	now := start
	attempt := func(p *sessionPace, r *exchange.Record, err error) {
		t.Helper()
		if waits := p.Begin(now); waits != nil {
			t.Fatalf("after %s: %v", now.Sub(start), waits)
		}
		p.End(now, now, r, err)
		now = now.Add(time.Minute)
	}
	p := &sessionPace{}
	attempt(p, shown, nil)
	attempt(p, hidden, failure.Errorf(failure.DNS, "connect"))
	attempt(p, hidden, fmt.Errorf("connect: %w", syscall.ENETUNREACH))
	attempt(p, hidden, io.EOF) // perhaps before the server's greeting
	attempt(p, shown, nil)
	waits := p.Begin(now)
	if waits == nil || failure.ReasonOf(waits) != failure.Throttled || !strings.Contains(waits.Error(), "after 06:00:00 UTC") {
		t.Errorf("the fourth session: %v", waits)
	}
	now = start.Add(time.Hour)
	attempt(p, hidden, fmt.Errorf("connect: %w", syscall.ECONNREFUSED))
	for range 3 {
		attempt(p, shown, nil)
	}

	p = &sessionPace{scheduled: true}
	for range 5 {
		attempt(p, shown, nil)
	}
	p = &sessionPace{}
	for range 5 {
		attempt(p, hidden, errors.New("closed"))
	}
}
