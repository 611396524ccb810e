package simstack

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	_ "embed" // for the faults
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"gopkg.in/yaml.v3"
)

// Fault is a failure of a service that can be switched on.
type Fault struct {
	Service string `json:"service"`
	Name    string `json:"fault"`
	// Description is one sentence for people.
	Description string `json:"description"`
}

//go:embed faults.yaml
var faultsYAML []byte

// knownFaults are the descriptions of faults, by service or group of services and by name.
var knownFaults = sync.OnceValue(func() (all map[string]map[string]string) {
	if err := yaml.Unmarshal(faultsYAML, &all); err != nil {
		panic(err) // it is part of the binary
	}
	return all
})

// findFaults sets the faults of a service: its own, and the faults of its groups.
func (s *service) findFaults() {
	s.faults = map[string]string{}
	for group, applies := range map[string]bool{
		s.name: true, "every service": s.name != "bridge", "services with a certificate": s.secure || s.startTLS,
		"services with TLS from the beginning": s.secure, "XMPP streams": s.startTLS, "services that speak HTTP": s.speak == nil,
	} {
		if applies {
			maps.Copy(s.faults, knownFaults()[group])
		}
	}
}

// A flaky service fails for a part of each period, which begins with the fault.
const (
	flakyPeriod = 20 * time.Second
	flakyFails  = 15 * time.Second
)

// answerFaults change the HTTP answers of every service. The services themselves implement all other faults.
var answerFaults = []struct {
	name string
	// instead answers in the service's place; nil lets the service answer.
	instead func(*service) *answer
	// spoil changes the service's own answer.
	spoil func(*service, *answer)
}{
	{name: "status_403", instead: statusInstead(http.StatusForbidden)},
	{name: "status_404", instead: statusInstead(http.StatusNotFound)},
	{name: "status_500", instead: statusInstead(http.StatusInternalServerError)},
	{name: "flaky", instead: func(s *service) *answer {
		if s.onFor("flaky")%flakyPeriod < flakyFails {
			return statusInstead(http.StatusInternalServerError)(s)
		}
		return nil
	}},
	{name: "status_502", instead: func(*service) *answer { return captured("proxy_502") }},
	{name: "redirect", instead: func(*service) *answer {
		return reply(http.StatusFound, "text/plain", "").set("Location", "http://elsewhere.invalid/")
	}},
	{name: "header_flood", instead: func(s *service) *answer {
		return &answer{
			status:     http.StatusOK,
			headerOpen: true,
			end:        endCut,
			tail:       s.flood("header_flood", "X-Flood: 1\r\n"),
		}
	}},
	{name: "truncated", spoil: func(_ *service, a *answer) {
		half := len(a.body) / 2
		a.missing += len(a.body) - half
		if a.missing == 0 {
			a.missing = 100 // an empty body or a stream promises more
			a.set("Content-Length", "")
		}
		a.body, a.tail, a.end = a.body[:half], nil, endCut
	}},
	{name: "malformed", spoil: func(_ *service, a *answer) {
		a.status, a.body, a.tail = http.StatusOK, []byte("{\"<html>\x00\xff it works!\n{{{ 1 2 3\n"), nil
	}},
	{name: "huge", spoil: func(s *service, a *answer) {
		a.status, a.end = http.StatusOK, endCut
		a.drop("Content-Length").drop("Transfer-Encoding")
		a.tail = s.flood("huge", "simulated_endless{n=\"0\"} 1\n")
		if len(a.body) > 0 && strings.ContainsRune("[{", rune(a.body[0])) {
			// A JSON parser stops where the value ends, so the value must not end.
			a.body, a.tail = bytes.TrimRight(a.body, "]}\n"), s.flood("huge", strings.Repeat(" ", 31)+"\n")
		}
	}},
	{name: "gzip_bomb", spoil: func(_ *service, a *answer) {
		a.status, a.body, a.tail = http.StatusOK, bomb(), nil
		a.set("Content-Encoding", "gzip").set("Content-Length", "").drop("Transfer-Encoding")
	}},
}

// statusInstead answers with a status in the service's own format, by default plain text.
func statusInstead(status int) func(*service) *answer {
	return func(s *service) *answer {
		switch {
		case s.name == "docker":
			return dockerError(status, "simulated fault")
		case s.name == "xmpp" && status == http.StatusForbidden:
			return captured("xmpp_metrics_403")
		case s.name == "xmpp" && status == http.StatusNotFound:
			return captured("xmpp_404")
		case s.name == "irc_rpc":
			return &answer{status: status, header: ircHeader, body: []byte(http.StatusText(status) + "\n")}
		default:
			return plainStatus(status)
		}
	}
}

func plainStatus(status int) *answer {
	return reply(status, "text/plain", http.StatusText(status)+"\n")
}

// flood repeats a line until the fault is off or the client leaves.
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
		panic(err) // writing to a buffer never fails
	}
	return bytes.Repeat(member.Bytes(), 1024)
})

// turn switches one fault of the service.
func (s *service) turn(fault string, on bool) error {
	if _, known := s.faults[fault]; !known {
		return fmt.Errorf("%s has no fault %q; it has %v", s.name, fault, slices.Sorted(maps.Keys(s.faults)))
	}
	s.turning.Lock()
	defer s.turning.Unlock()
	if s.ended() {
		return errClosed
	}
	if s.on(fault) == on {
		return nil
	}
	stops := fault == "stopped"
	if stops && !on {
		if err := s.open(); err != nil {
			return fmt.Errorf("start %s again: %w", s.name, err)
		}
	}
	s.mark(fault, on)
	if stops && on {
		s.shut()
	}
	if switched := s.switched[fault]; switched != nil {
		switched(on)
	}
	return nil
}

// switches are the faults of a service that are on. The zero value has none.
type switches struct {
	turning sync.Mutex // held while a fault is switched

	mu     sync.Mutex
	active map[string]bool
	since  map[string]time.Time // when it was last switched
	change chan struct{}        // closed when a fault is switched
}

// mark records that a fault is on or off, and wakes everything that waits for a change.
func (s *switches) mark(fault string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		s.active, s.since = map[string]bool{}, map[string]time.Time{}
	}
	s.active[fault], s.since[fault] = on, time.Now()
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

// onFor returns the time since a fault was switched.
func (s *switches) onFor(fault string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.since[fault])
}

// waitWhile waits while a fault is on, up to most. It reports whether the fault is off.
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
