package exchange

import (
	"cmp"
	"context"
	"crypto/tls"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// question is what a second connection may find out about a server that does not answer.
type question int

const (
	whichProtocol question = iota // what a port that does not speak XMPP speaks
	whichHello                    // whether a shorter ClientHello is answered
	whichRefusal                  // what a server says in TLS 1.2 that ends TLS 1.3 without a word
)

// secondTries find out why a server does not answer, each by another connection. Servers count connections, so an outage has one try
// for each question, whose finding holds until the server answers again. Only a ban is asked for again: at once, since it may end
// earlier, and after refusalAgain if the server did not say anything of one, which happens to those that are banned. One more
// connection, at start and hourly, asks a server that answers for its other certificate.
type secondTries struct {
	silence time.Duration // how long a server may say nothing before a try; 2 s by default

	mu       sync.Mutex // the transport's goroutines outlive a request that was given up
	findings map[question]finding
	other    otherCertificate
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
	known, tried := t.findings[q]
	again := q == whichRefusal && known.err == nil && time.Since(known.at) >= refusalAgain
	if tried && !again {
		return known.err
	}
	found := look(ctx)
	if found == nil || failure.ReasonOf(found) != failure.Throttled {
		t.record(q, found)
	}
	return found
}

// record sets the finding of a question. The caller holds the lock.
func (t *secondTries) record(q question, found error) {
	if t.findings == nil {
		t.findings = map[question]finding{}
	}
	t.findings[q] = finding{found, time.Now()}
}

// avoid makes no further try at a server that limits connections, until it answers.
func (t *secondTries) avoid() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record(whichProtocol, nil)
	t.record(whichHello, nil)
}

// forget ends the outage. A server that answers slowly would get a try at each probe, so for that only the finding ends.
func (t *secondTries) forget(q question, slow bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if slow {
		t.record(q, nil)
		return
	}
	delete(t.findings, q)
}

// whileSilent calls talk, which speaks over heard. If the server stays silent, or ends the connection without an answer, look may find
// out why. A finding ends talk, and is returned instead of its error.
func (t *secondTries) whileSilent(
	ctx context.Context, q question, heard *Heard, answered func() bool, talk func() error, look func(context.Context) error,
) error {
	result := make(chan error, 1)
	looking, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(cmp.Or(t.silence, 2*time.Second), func() {
		var found error
		if !answered() {
			found = t.find(looking, q, look)
		}
		if found != nil {
			heard.SetDeadline(time.Unix(1, 0)) //nolint:errcheck // a closed one wakes talk too
		}
		result <- found
	})
	err := talk()
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
		t.forget(q, slow)
		return nil
	}
	return cmp.Or(found, err)
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
