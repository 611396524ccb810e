package exchange

import (
	"cmp"
	"context"
	"crypto/tls"
	"net/netip"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// question is what a second connection may find out about a server that does not answer.
type question int

const (
	whichProtocol question = iota // what a port that does not speak XMPP speaks
	whichHello                    // whether a shorter ClientHello is answered
	whichRefusal                  // the words in TLS 1.2 of a server that ends TLS 1.3 without any
)

// secondTries find out why a server does not answer, each by another connection. Servers count connections, so an outage has one try
// for each question, whose finding holds until the server answers again. Only a ban is asked for again: at once, since it may end
// earlier, and after refusalAgain if the server said nothing, since some banned clients are told nothing. One more connection, at
// start and hourly, asks a server that answers for its other certificate. Each address of a name has its own tries.
type secondTries struct {
	silence time.Duration // how long a server may say nothing before a try; 2 s by default

	mu sync.Mutex // the transport's goroutines outlive a request that was given up
	// servers are by the address of the route, the zero address without one.
	servers map[netip.Addr]*triedServer
}

// triedServer is what tries have found out about one server.
type triedServer struct {
	findings map[question]finding
	other    otherCertificate
}

// server returns what is known of the server that a context's route leads to. The caller holds the lock.
func (t *secondTries) server(ctx context.Context) *triedServer {
	r, _ := ctx.Value(routeKey{}).(Route)
	if t.servers[r.Address] == nil {
		if t.servers == nil {
			t.servers = map[netip.Addr]*triedServer{}
		}
		t.servers[r.Address] = &triedServer{findings: map[question]finding{}}
	}
	return t.servers[r.Address]
}

// finding is what a try has found, nil for nothing, and when.
type finding struct {
	err error
	at  time.Time
}

// refusalAgain is the time between two tries for the words of a refusal that found none.
const refusalAgain = 10 * time.Minute

// find returns what the outage's try has found, nil for nothing. It makes the try by look, unless there was one.
func (t *secondTries) find(ctx context.Context, q question, look func(context.Context) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	server := t.server(ctx)
	known, tried := server.findings[q]
	again := q == whichRefusal && known.err == nil && time.Since(known.at) >= refusalAgain
	if tried && !again {
		return known.err
	}
	if ctx.Err() != nil {
		return nil // another address has had the time: the try is still to be made
	}
	found := look(ctx)
	if found == nil || failure.ReasonOf(found) != failure.Throttled {
		server.findings[q] = finding{found, time.Now()}
	}
	return found
}

// avoid makes no further try at a server that limits connections, until it answers.
func (t *secondTries) avoid(ctx context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	found := t.server(ctx).findings
	found[whichProtocol], found[whichHello] = finding{}, finding{}
}

// forget ends the outage. A server that answers slowly would get a try at each probe, so for that only the finding ends.
func (t *secondTries) forget(ctx context.Context, q question, slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slow {
		t.server(ctx).findings[q] = finding{}
		return
	}
	delete(t.server(ctx).findings, q)
}

// whileSilent calls talk, which speaks over heard. If the server stays silent, or ends the connection without an answer, look may find
// out why. A finding ends talk, and is returned instead of its error.
func (t *secondTries) whileSilent(
	ctx context.Context, q question, heard *Heard, answered func() bool, talk func() error, look func(context.Context) error,
) error {
	result, ended := make(chan error, 1), make(chan struct{})
	looking, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(cmp.Or(t.silence, 2*time.Second), func() {
		var found error
		if !answered() {
			found = t.find(looking, q, func(ctx context.Context) error { return unlessAnswered(ctx, ended, answered, look(ctx)) })
		}
		if found != nil {
			heard.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed one wakes talk too
		}
		result <- found
	})
	err := talk()
	close(ended)
	slow := !timer.Stop()
	if err == nil || answered() {
		cancel()
	}
	var found error
	switch {
	case slow:
		found = <-result
	case err != nil && !answered() && ctx.Err() == nil:
		found = t.find(ctx, q, look)
	}
	if err == nil {
		t.forget(ctx, q, slow)
		return nil
	}
	return cmp.Or(found, err)
}

// unlessAnswered returns found unless the server answers yet the talk that has not ended: one that hung for a moment answers all at once.
func unlessAnswered(ctx context.Context, ended <-chan struct{}, answered func() bool, found error) error {
	if found == nil {
		return nil
	}
	select {
	case <-time.After(identifyTimeout):
	case <-ended:
	case <-ctx.Done():
	}
	if answered() {
		return nil
	}
	return found
}

// handshake makes the handshake of conn, which is over heard. A server that does not answer is tried again with a shorter ClientHello.
func (t *secondTries) handshake(ctx context.Context, conn *tls.Conn, heard *Heard, again func(context.Context) error) error {
	return t.whileSilent(ctx, whichHello, heard, heard.answeredHello, func() error { return conn.HandshakeContext(ctx) },
		func(ctx context.Context) error {
			if err := again(ctx); err == nil {
				return failure.Errorf(failure.TLS, "the server answers a ClientHello without X25519MLKEM768, but not one with it").
					WithHint("current browsers and other clients send X25519MLKEM768, with which a ClientHello needs two packets, " +
						"so they may not get in: update what is in front of the server, such as a proxy or firewall, " +
						"or the server's TLS library")
			}
			return nil
		})
}

// shortHello returns a configuration for nothing but a handshake, without X25519MLKEM768.
func shortHello(c *tls.Config) *tls.Config {
	c = withoutTrust(c)
	c.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	return c
}

// withoutTrust returns a copy of a configuration that accepts and reports no certificate. Nothing secret may be sent with it.
func withoutTrust(c *tls.Config) *tls.Config {
	c = c.Clone()
	c.VerifyConnection = nil
	return c
}
