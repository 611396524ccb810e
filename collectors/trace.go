package collectors

import (
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// tracer times the phases of one HTTP exchange. The transport calls back from goroutines of its own, so it locks.
type tracer struct {
	mu     sync.Mutex
	last   time.Time
	phases []Phase
	ended  bool
}

// trace begins to time an exchange.
func trace() (*tracer, *httptrace.ClientTrace) {
	t := &tracer{last: time.Now()}
	return t, &httptrace.ClientTrace{
		DNSDone:              func(httptrace.DNSDoneInfo) { t.phase("dns") },
		ConnectDone:          func(_, _ string, err error) { t.connected(err) },
		TLSHandshakeDone:     func(tls.ConnectionState, error) { t.phase("tls") },
		GotFirstResponseByte: func() { t.phase("first_byte") },
	}
}

// phase ends a phase: the time since the one before.
func (t *tracer) phase(name string) {
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
func (t *tracer) connected(err error) {
	if err == nil {
		t.phase("connect")
	}
}

// end returns the phases, with the last one named by the caller; whatever calls back later is not heard.
func (t *tracer) end(last string) []Phase {
	t.phase(last)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	return slices.Clone(t.phases)
}

// harmless are the header fields whose values are shown. Everything else may hold a session or a name.
var harmless = map[string]bool{
	"Content-Encoding": true, "Content-Length": true, "Content-Type": true, "Date": true, "Server": true,
	"Transfer-Encoding": true, "Connection": true, "Api-Version": true, "Docker-Experimental": true, "Retry-After": true,
}

// maskedHeader is a header with the values of all fields masked that are not known to be harmless.
func maskedHeader(h http.Header) http.Header {
	masked := make(http.Header, len(h))
	for name, values := range h {
		for _, v := range values {
			if harmless[name] {
				v = failure.OneLine(v)
			} else {
				v = "<masked>"
			}
			masked.Add(name, v)
		}
	}
	return masked
}
