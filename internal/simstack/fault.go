package simstack

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Fault is one way in which a service can go wrong.
type Fault struct {
	Service string `json:"service"`
	Name    string `json:"fault"`
	// Description is one sentence for people.
	Description string `json:"description"`
}

// fault is one way in which a service can go wrong. Where it says no more than its name, the service's own code looks
// whether it is on.
type fault struct {
	name, description string
	// instead makes an HTTP answer in the service's place, which never sees the request.
	instead func(*service) *answer
	// spoil changes the service's own HTTP answer.
	spoil func(*service, *answer)
	// switched is told when the fault is turned, one change at a time.
	switched func(on bool)
}

// connectionFaults act before a request is read. Every service has them.
var connectionFaults = []fault{
	{name: "stopped", description: "nothing listens: TCP connections are refused, the engine's socket is gone"},
	{name: "hang", description: "connections are accepted and never answered, not even with a TLS handshake"},
	{name: "slow", description: "every answer comes a few seconds late"},
	{name: "reset", description: "the connection is reset as soon as the client has spoken"},
	{name: "not_http", description: "something that speaks another protocol has the port"},
}

// certificateFaults are those of the services that have a certificate.
var certificateFaults = []fault{
	{name: "expired_certificate", description: "the certificate expired yesterday"},
	{name: "wrong_name_certificate", description: "the certificate is for another host"},
	{name: "other_certificate", description: "the certificate is by an authority that nobody knows"},
	{name: "incomplete_chain", description: "the server leaves out the intermediate certificate that signed its own"},
}

// noTLS is the fault of the services that speak TLS from the beginning.
var noTLS = fault{name: "no_tls", description: "the port speaks plain HTTP"}

// answerFaults act on HTTP answers. Every service that speaks HTTP has them.
var answerFaults = []fault{
	{name: "status_403", description: "every answer is 403", instead: statusInstead(http.StatusForbidden)},
	{name: "status_404", description: "every answer is 404", instead: statusInstead(http.StatusNotFound)},
	{name: "status_500", description: "every answer is 500", instead: statusInstead(http.StatusInternalServerError)},
	{name: "status_502", description: "every answer is 502, by a proxy in between", instead: func(*service) *answer { return captured("proxy_502") }},
	{name: "redirect", description: "every answer is a redirect to another host", instead: func(*service) *answer {
		return reply(http.StatusFound, "text/plain", "").set("Location", "http://elsewhere.invalid/")
	}},
	{name: "header_flood", description: "the answer's header never ends", instead: func(s *service) *answer {
		return &answer{status: http.StatusOK, headerOpen: true, end: endCut, rest: s.flood("header_flood", "X-Flood: 1\r\n")}
	}},
	{name: "truncated", description: "the connection closes in the middle of the body", spoil: func(_ *service, a *answer) {
		half := len(a.body) / 2
		a.missing += len(a.body) - half
		if a.missing == 0 {
			a.missing = 100 // of an empty body, as of a stream, some more is promised
			a.set("Content-Length", "")
		}
		a.body, a.rest, a.end = a.body[:half], nil, endCut
	}},
	{name: "malformed", description: "the answer is 200 with bytes that are neither JSON nor OpenMetrics", spoil: func(_ *service, a *answer) {
		a.status, a.body, a.rest = http.StatusOK, []byte("{\"<html>\x00\xff it works!\n{{{ 1 2 3\n"), nil
	}},
	{name: "huge", description: "the body never ends", spoil: func(s *service, a *answer) {
		a.status, a.end = http.StatusOK, endCut
		a.drop("Content-Length").drop("Transfer-Encoding")
		a.rest = s.flood("huge", "simulated_endless{n=\"0\"} 1\n")
		if len(a.body) > 0 && strings.ContainsRune("[{", rune(a.body[0])) {
			// A reader of JSON stops where the value ends, so the value does not end.
			a.body, a.rest = bytes.TrimRight(a.body, "]}\n"), s.flood("huge", strings.Repeat(" ", 31)+"\n")
		}
	}},
	{name: "gzip_bomb", description: "a small compressed body that becomes 1 GiB", spoil: func(_ *service, a *answer) {
		a.status, a.body, a.rest = http.StatusOK, bomb(), nil
		a.set("Content-Encoding", "gzip").set("Content-Length", "").drop("Transfer-Encoding")
	}},
}

// dialects are how a service says that it failed, where it does not say so in plain text.
var dialects = map[string]func(status int) *answer{
	"docker": func(status int) *answer { return dockerError(status, "simulated fault") },
	"xmpp": func(status int) *answer {
		switch status {
		case http.StatusForbidden:
			return captured("xmpp_metrics_403")
		case http.StatusNotFound:
			return captured("xmpp_404")
		default:
			return plainStatus(status)
		}
	},
	"irc_rpc": func(status int) *answer {
		return &answer{status: status, header: ircHeader, body: []byte(http.StatusText(status) + "\n")}
	},
}

func statusInstead(status int) func(*service) *answer {
	return func(s *service) *answer {
		if own := dialects[s.name]; own != nil {
			return own(status)
		}
		return plainStatus(status)
	}
}

func plainStatus(status int) *answer {
	return reply(status, "text/plain", http.StatusText(status)+"\n")
}

// flood writes a line again and again, as long as the fault is on and the client reads.
func (s *service) flood(fault, line string) func(io.Writer) error {
	block := []byte(strings.Repeat(line, 64))
	return func(w io.Writer) error {
		for s.on(fault) {
			if _, err := w.Write(block); err != nil {
				return err
			}
		}
		return nil
	}
}

// bomb is 1 GiB of zeros: one compressed MiB, 1,024 times.
var bomb = sync.OnceValue(func() []byte {
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	_, err := w.Write(make([]byte, 1<<20))
	if err = cmp.Or(err, w.Close()); err != nil {
		panic(err) // a buffer takes everything
	}
	return bytes.Repeat(member.Bytes(), 1024)
})

// addCommonFaults gives a service the faults that others have as well.
func (s *service) addCommonFaults() {
	s.faults = slices.Concat(connectionFaults, s.faults)
	if s.secure || s.startTLS {
		s.faults = append(s.faults, certificateFaults...)
	}
	if s.secure {
		s.faults = append(s.faults, noTLS)
	}
	if s.speak == nil {
		s.faults = append(s.faults, answerFaults...)
	}
}

// turn switches one fault of the service.
func (s *service) turn(name string, on bool) error {
	var names []string
	for _, f := range s.faults {
		if f.name == name {
			return s.turnKnown(f, on)
		}
		names = append(names, f.name)
	}
	return fmt.Errorf("%s has no fault %q; it has %v", s.name, name, names)
}

func (s *service) turnKnown(f fault, on bool) error {
	s.turning.Lock()
	defer s.turning.Unlock()
	if s.ended() {
		return errClosed
	}
	if s.on(f.name) == on {
		return nil
	}
	stops := f.name == "stopped"
	if stops && !on {
		if err := s.open(); err != nil {
			return fmt.Errorf("start %s again: %w", s.name, err)
		}
	}
	s.mark(f.name, on)
	if stops && on {
		s.shut()
	}
	if f.switched != nil {
		f.switched(on)
	}
	return nil
}

// switches are the faults of a service that are on. The zero value has none.
type switches struct {
	turning sync.Mutex // held while a fault is switched

	mu     sync.Mutex
	active map[string]bool
	change chan struct{} // closed when a fault is switched
}

// mark notes that a fault is on or off, and wakes everything that waits for a change.
func (s *switches) mark(fault string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		s.active = map[string]bool{}
	}
	s.active[fault] = on
	if s.change != nil {
		close(s.change)
		s.change = nil
	}
}

// on reports whether a fault is on.
func (s *switches) on(fault string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active[fault]
}

// waitWhile waits while a fault is on, for at most a time. It reports whether the fault is off by then.
func (s *switches) waitWhile(ctx context.Context, fault string, most time.Duration) bool {
	if !s.on(fault) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for ctx.Err() == nil {
		s.mu.Lock()
		if !s.active[fault] {
			s.mu.Unlock()
			return true
		}
		if s.change == nil {
			s.change = make(chan struct{})
		}
		change := s.change
		s.mu.Unlock()
		select {
		case <-change:
		case <-ctx.Done():
		}
	}
	return false
}
