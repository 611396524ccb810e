package exchange

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// TLSServer is a server that speaks TLS, either at once or after STARTTLS.
type TLSServer struct {
	Address string // host:port
	// StartTLS is XMPPClient, XMPPServer, or "" for TLS at once.
	StartTLS string
	// Domain is the virtual host; "" is the address's host.
	Domain string
	Trust  config.TLS
	// IRC says that the server speaks IRC: how it ends a handshake then shows whether it bans this address.
	IRC bool
	// Silence is how long a server may say nothing before the exporter tries to identify its protocol; 2 s by default.
	Silence time.Duration

	// silent says that a look at the reason of the present outage has found none: each look costs another connection.
	silent bool
}

// String names the server in errors and on the status page.
func (s *TLSServer) String() string {
	if s.StartTLS != "" {
		return "starttls " + s.StartTLS + " " + s.Address
	}
	return "tls " + s.Address
}

// Converse connects, negotiates TLS and calls talk, unless it is nil, with the connection. It writes the exchange and the
// certificate to r. When ctx is done, reads and writes fail with its error.
func (s *TLSServer) Converse(ctx context.Context, r *Record, talk func(*tls.Conn) error) error {
	ctx, timing := r.Begin(ctx, s.String())
	watch := &CertificateWatch{Trust: &s.Trust, Host: cmp.Or(s.Domain, config.HostOf(s.Address))}
	defer watch.Record(r)
	last := "tls"
	if talk != nil {
		last = "reply"
	}
	err := s.converse(ctx, watch, timing, talk)
	if err != nil {
		err = withTLSHint(fmt.Errorf("%s: %w", s, err))
	} else {
		s.silent = false
	}
	timing.End(last, err)
	return err
}

func (s *TLSServer) converse(ctx context.Context, watch *CertificateWatch, timing *Timing, talk func(*tls.Conn) error) error {
	tlsConfig, err := watch.ClientConfig()
	if err != nil {
		return failure.Errorf(failure.TLS, "%w", err)
	}
	if talk == nil {
		// Nothing is said that must stay secret, so the handshake leaves out the key exchange for that, a seventh of a probe's cost.
		tlsConfig.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	}
	raw, err := Dial(ctx, "tcp", s.Address)
	if err != nil {
		return err
	}
	first := Hear(raw)
	defer raw.Close() //nolint:errcheck // the conversation is over
	// When ctx is done, a read or write in progress fails.
	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a closed one wakes them too
	defer stop()
	if s.StartTLS != "" {
		if err := s.beginXMPP(ctx, first); err != nil {
			return err
		}
		timing.Phase("starttls")
		first = Hear(first) // another opening, that of TLS
	}
	conn := tls.Client(first, tlsConfig)
	if err := conn.HandshakeContext(ctx); err != nil {
		err = s.explainSilence(ctx, first, first.explainHandshake(fmt.Errorf("handshake: %w", err)))
		return s.withoutAnswer(first, err)
	}
	defer conn.Close() //nolint:errcheck // the server need not receive TLS's close_notify
	if talk == nil {
		return nil
	}
	timing.Phase("tls")
	return s.explainSilence(ctx, first, talk(conn))
}

// withoutAnswer adds a hint to the failure of a handshake in which the server has said nothing at all.
func (s *TLSServer) withoutAnswer(heard *Heard, err error) error {
	if reason := failure.ReasonOf(err); s.StartTLS != "" || len(heard.opening()) > 0 || failure.HasHint(err) || reason != failure.Timeout && reason != failure.Closed {
		return err
	}
	return failure.Errorf(failure.ReasonOf(err), "%w", err).WithHint("the port accepts connections but does not answer in TLS: if it speaks without TLS, as 6667 of IRC does, " +
		"set the port that begins with TLS; else the server hangs or restarts: read its log")
}

// explainSilence finds out whether a server that has closed a connection in TLS refuses this address; else it returns err. InspIRCd
// says so to banned addresses before the handshake is complete: GnuTLS then ends a TLS 1.3 handshake without the words. With TLS 1.2
// they mostly arrive.
func (s *TLSServer) explainSilence(ctx context.Context, heard *Heard, err error) error {
	if err == nil || s.StartTLS != "" || failure.ReasonOf(err) != failure.Closed || protocolOf(heard.opening()) != speaksTLS {
		return err
	}
	refused := s.endedTLS(heard)
	if refused == nil && !s.silent {
		attempt(ctx, s.Address, func(ctx context.Context, conn net.Conn) { refused = s.askOldTLS(ctx, Hear(conn)) })
		s.silent = refused == nil
	}
	return cmp.Or(refused, err)
}

// endedTLS returns the failure of an IRC server that has ended a handshake in order, since InspIRCd does so for a banned address; nil
// otherwise. Of another server it shows nothing.
func (s *TLSServer) endedTLS(heard *Heard) error {
	if !s.IRC || !heard.closedNotify() {
		return nil
	}
	return failure.Errorf(failure.Throttled, "the server ends the TLS handshake on purpose, as InspIRCd does for an address that it bans").WithHint(LimitHint(""))
}

// askOldTLS returns the failure of a server that refuses this address in TLS 1.2; nil if it says nothing of the kind.
func (s *TLSServer) askOldTLS(ctx context.Context, heard *Heard) error {
	// Nothing is sent but the handshake; only what the server says matters.
	trust := &tls.Config{InsecureSkipVerify: true, ServerName: s.Trust.NameFor(config.HostOf(s.Address)), MaxVersion: tls.VersionTLS12} //nolint:gosec // see above
	conn := tls.Client(heard, trust)
	if conn.HandshakeContext(ctx) != nil {
		return s.endedTLS(heard)
	}
	if said := AwaitIRCCapabilities(conn); said != nil && failure.ReasonOf(said) == failure.Throttled {
		return said
	}
	return nil
}

// beginXMPP negotiates TLS in an XMPP stream. If the server closes or stays silent, it identifies the server's protocol.
func (s *TLSServer) beginXMPP(ctx context.Context, conn *Heard) error {
	found := make(chan protocol, 1)
	identifying, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(cmp.Or(s.Silence, 2*time.Second), func() { found <- identify(identifying, s.Address, s.Domain) })
	err := startXMPP(conn, s.StartTLS, s.Domain)
	unanswered := err != nil && len(conn.opening()) == 0
	what := unknownProtocol
	switch started := !timer.Stop(); {
	case started && !unanswered:
		cancel()
		<-found
	case started:
		what = <-found
	case unanswered && failure.ReasonOf(err) == failure.Closed:
		what = identify(ctx, s.Address, s.Domain)
	}
	return what.insteadOfXMPP(err)
}
