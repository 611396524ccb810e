package exchange

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Timing measures the phases of one exchange. It is safe for concurrent use, since transports call it from their goroutines.
type Timing struct {
	record   *Record
	exchange *Exchange

	mu     sync.Mutex
	last   time.Time
	phases []Phase
	ended  bool
	reach  reach
}

// Begin adds an exchange to the record, and starts its first phase. In the context, connections end the phases that they go through.
func (r *Record) Begin(ctx context.Context, request string) (context.Context, *Timing) {
	e := &Exchange{Request: request}
	r.Exchanges = append(r.Exchanges, e)
	t := &Timing{record: r, exchange: e, last: time.Now()}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		DNSDone:              func(i httptrace.DNSDoneInfo) { t.resolved(len(i.Addrs)) },
		ConnectStart:         func(_, address string) { t.connecting(address) },
		ConnectDone:          t.connected,
		TLSHandshakeDone:     func(tls.ConnectionState, error) { t.Phase("tls") },
		GotFirstResponseByte: func() { t.Phase("first_byte") },
	}), t
}

// Phase ends the current phase under this name. The next one begins.
func (t *Timing) Phase(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase(name)
}

// phase is Phase for callers that hold mu.
func (t *Timing) phase(name string) {
	if t.ended {
		return
	}
	now := time.Now()
	t.phases = append(t.phases, Phase{name, now.Sub(t.last)})
	t.last = now
}

func (t *Timing) resolved(addresses int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.phase("dns")
	t.reach = reach{addresses: addresses}
}

func (t *Timing) connecting(address string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reach.begin(address)
}

// connected ends the phase of connecting, which may try several addresses before one answers.
func (t *Timing) connected(network, address string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reach.end(address, err)
	if err != nil {
		return
	}
	t.phase("connect")
	if network != "unix" && !t.ended {
		t.exchange.Address = address
	}
}

// End ends the exchange, and its last phase under this name, or as failed. Later calls of Phase are ignored.
func (t *Timing) End(last string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil {
		last, t.exchange.Err = "failed", failure.OneLine(err.Error())
	} else {
		t.reach.note(t.record)
	}
	t.phase(last)
	t.ended = true
	t.exchange.Phases = slices.Clone(t.phases)
}

// harmlessFields are the header fields whose values are shown. Everything else may hold a session or a name.
var harmlessFields = map[string]bool{
	"Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Date": true, "Server": true,
	"Transfer-Encoding": true, "Connection": true, "Api-Version": true, "Docker-Experimental": true, "Retry-After": true,
	"Cf-Mitigated": true, "X-Amzn-Waf-Action": true,
}

// maskedHeader returns a copy of a header in which the values of all other fields are masked.
func maskedHeader(h http.Header) http.Header {
	masked := make(http.Header, len(h))
	for name, values := range h {
		for _, v := range values {
			if harmlessFields[name] {
				v = failure.OneLine(v)
			} else {
				v = "<masked>"
			}
			masked.Add(name, v)
		}
	}
	return masked
}
