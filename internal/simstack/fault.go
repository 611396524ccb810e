package simstack

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// Fault is one way in which a service can go wrong.
type Fault struct {
	Service string `json:"service"`
	Name    string `json:"fault"`
	// Description is one sentence for people.
	Description string `json:"description"`
}

func compareFaults(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Name, b.Name))
}

// connectionFaults act before a request is read. Every service has them.
var connectionFaults = []Fault{
	{Name: "stopped", Description: "nothing listens: TCP connections are refused, the engine's socket is gone"},
	{Name: "hang", Description: "connections are accepted and never answered, not even with a TLS handshake"},
	{Name: "slow", Description: "every answer comes a few seconds late"},
	{Name: "reset", Description: "the connection is reset as soon as the client has spoken"},
	{Name: "not_http", Description: "something that speaks another protocol has the port"},
}

// certificateFaults are those of the services that have a certificate.
var certificateFaults = []Fault{
	{Name: "expired_certificate", Description: "the certificate expired yesterday"},
	{Name: "wrong_name_certificate", Description: "the certificate is for another host"},
	{Name: "other_certificate", Description: "the certificate is by an authority that nobody knows"},
	{Name: "incomplete_chain", Description: "the server leaves out the intermediate certificate that signed its own"},
}

// noTLS is the fault of the services that speak TLS from the beginning.
var noTLS = Fault{Name: "no_tls", Description: "the port speaks plain HTTP"}

// answerFaults act on HTTP answers. Every service that speaks HTTP has them.
var answerFaults = []struct {
	name, description string
	// instead makes the answer in the service's place, which never sees the request.
	instead func(*service) *answer
	// spoil changes the service's own answer.
	spoil func(*service, *answer)
}{
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

// catalogue returns the faults of the service.
func (s *service) catalogue() []Fault {
	all := slices.Concat(connectionFaults, s.faults)
	if s.secure || s.startTLS {
		all = append(all, certificateFaults...)
	}
	if s.secure {
		all = append(all, noTLS)
	}
	for _, f := range answerFaults {
		if s.speak == nil {
			all = append(all, Fault{Name: f.name, Description: f.description})
		}
	}
	for i := range all {
		all[i].Service = s.name
	}
	slices.SortFunc(all, compareFaults)
	return all
}

// turn switches one fault of the service.
func (s *service) turn(fault string, on bool) error {
	known := s.catalogue()
	if !slices.ContainsFunc(known, func(f Fault) bool { return f.Name == fault }) {
		names := make([]string, len(known))
		for i, f := range known {
			names[i] = f.Name
		}
		return fmt.Errorf("%s has no fault %q; it has %v", s.name, fault, names)
	}
	s.switching.Lock()
	defer s.switching.Unlock()
	if s.ended() {
		return errClosed
	}
	if s.on(fault) == on {
		return nil
	}
	if fault == "stopped" && !on {
		if err := s.open(); err != nil {
			return fmt.Errorf("start %s again: %w", s.name, err)
		}
	}
	s.mark(fault, on)
	if fault == "stopped" && on {
		s.shut()
	}
	if s.switched != nil {
		s.switched(fault, on)
	}
	return nil
}

// mark notes that a fault is on or off, and wakes everything that waits for a change.
func (s *service) mark(fault string, on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.active == nil {
		s.active = map[string]bool{}
	}
	s.active[fault] = on
	if s.change != nil {
		close(s.change)
	}
	s.change = make(chan struct{})
}

// on reports whether a fault is on.
func (s *service) on(fault string) bool {
	on, _ := s.watch(fault)
	return on
}

// watch reports whether a fault is on, and returns what is closed when any fault of the service is switched.
func (s *service) watch(fault string) (on bool, change <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.change == nil {
		s.change = make(chan struct{})
	}
	return s.active[fault], s.change
}
