package collectors

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TestSessionsAtALimitedServerWait once a server that limits connections by the hour has had three; attempts that did not reach it do
// not count.
func TestSessionsAtALimitedServerWait(t *testing.T) {
	p, now := &sessionPace{}, time.Date(2026, 11, 27, 5, 0, 0, 0, time.UTC)
	for i, err := range []error{nil, failure.Errorf(failure.Refused, "connect"), failure.Errorf(failure.DNS, "connect"), io.EOF, nil} {
		if waits := p.Begin(now); waits != nil {
			t.Fatalf("attempt %d: %v", i+1, waits)
		}
		p.End(now, now, &exchange.Record{ConnectionsPerHour: 10}, err)
		now = now.Add(time.Minute)
	}
	waits := p.Begin(now)
	if waits == nil || failure.ReasonOf(waits) != failure.Throttled || !strings.Contains(waits.Error(), "after 06:00:00 UTC") {
		t.Errorf("the fourth session: %v", waits)
	}
	if waits := p.Begin(now.Add(55 * time.Minute)); waits != nil {
		t.Errorf("an hour after the first session: %v", waits)
	}

	p = &sessionPace{}
	for range 5 {
		if waits := p.Begin(now); waits != nil {
			t.Errorf("at a server without a limit: %v", waits)
		}
		p.End(now, now, &exchange.Record{}, errors.New("closed"))
	}
}
