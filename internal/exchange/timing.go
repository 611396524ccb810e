package exchange

import (
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
	mu     sync.Mutex
	last   time.Time
	phases []Phase
	ended  bool
}

// NewTiming starts the first phase.
func NewTiming() *Timing { return &Timing{last: time.Now()} }

// TraceHTTP starts the first phase, and returns what ends phases as net/http reports them.
func TraceHTTP() (*Timing, *httptrace.ClientTrace) {
	t := NewTiming()
	return t, &httptrace.ClientTrace{
		DNSDone:              func(httptrace.DNSDoneInfo) { t.Phase("dns") },
		ConnectDone:          func(_, _ string, err error) { t.connected(err) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { t.Phase("tls") },
		GotFirstResponseByte: func() { t.Phase("first_byte") },
	}
}

// Phase ends the current phase under this name. The next one begins.
func (t *Timing) Phase(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	now := time.Now()
	t.phases = append(t.phases, Phase{name, now.Sub(t.last)})
	t.last = now
}

// connected ends the phase of connecting, which may try several addresses before one answers.
func (t *Timing) connected(err error) {
	if err == nil {
		t.Phase("connect")
	}
}

// End ends the last phase under this name and returns all phases. Later calls of Phase are ignored.
func (t *Timing) End(last string) []Phase {
	t.Phase(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return slices.Clone(t.phases)
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
