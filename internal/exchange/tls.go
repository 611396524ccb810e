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
	Address    string // host:port
	Connection config.Connection
	// StartTLS is XMPPClient, XMPPServer, or "" for TLS at once.
	StartTLS string
	// Domain is the virtual host; "" is the address's host.
	Domain string
	Trust  config.TLS
	// ALPN are the application protocols that a client offers there, unless Trust names others.
	ALPN []string
	// IRC says that the server speaks IRC: how it ends a handshake then shows whether it bans this address.
	IRC bool
	// Lasting says that conversations are sessions, which do not ask for the server's other certificate.
	Lasting bool
	// Silence is how long a server may say nothing before another connection is to find out why; 2 s by default.
	Silence time.Duration

	tries *secondTries
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
	timed, timing := r.Begin(ctx, s.String())
	watch := &CertificateWatch{Trust: &s.Trust, Host: cmp.Or(s.Domain, config.HostOf(s.Address)), ALPN: s.ALPN}
	defer watch.Record(r)
	if s.tries == nil {
		s.tries = &secondTries{silence: s.Silence}
	}
	last := "tls"
	if talk != nil {
		last = "reply"
	}
	err := s.converse(timed, watch, timing, talk)
	if !s.Lasting {
		s.tries.seeOther(ctx, watch, err != nil, s.IRC, s.handshakeAgain)
	}
	switch {
	case err == nil:
		s.tries.forget(whichRefusal, false)
	case failure.ReasonOf(err) == failure.Throttled:
		s.tries.avoid()
		fallthrough
	default:
		err = watch.withHint(fmt.Errorf("%s: %w", s, err))
	}
	timing.End(last, err)
	return err
}

func (s *TLSServer) converse(ctx context.Context, watch *CertificateWatch, timing *Timing, talk func(*tls.Conn) error) error {
	tlsConfig, err := watch.ClientConfig()
	if err != nil {
		return failure.Errorf(failure.TLS, "%w", err)
	}
	raw, err := Dial(ctx, s.Connection, "tcp", s.Address)
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
			return WithHeader(err, first, s.Connection)
		}
		timing.Phase("starttls")
		first = Hear(first) // another opening, that of TLS
	}
	conn := tls.Client(first, tlsConfig)
	again := func(ctx context.Context) error { return s.handshakeAgain(ctx, shortHello(tlsConfig)) }
	if err := s.tries.handshake(ctx, conn, first, again); err != nil {
		err = s.explainEnd(ctx, tlsConfig, first, first.explainHandshake(fmt.Errorf("handshake: %w", err)))
		err = s.withoutAnswer(first, err)
		if watch.last() == nil {
			err = WithHeader(err, first, s.Connection)
		}
		return err
	}
	defer conn.Close() //nolint:errcheck // the server need not receive TLS's close_notify
	if talk == nil {
		return nil
	}
	timing.Phase("tls")
	return s.explainEnd(ctx, tlsConfig, first, talk(conn))
}

// withoutAnswer adds a guess to the failure of a handshake in which the server has said nothing at all.
func (s *TLSServer) withoutAnswer(heard *Heard, err error) error {
	reason := failure.ReasonOf(err)
	fits := reason == failure.Timeout || reason == failure.Closed
	if !fits || s.StartTLS != "" || heard.Answered() || failure.HasHint(err) {
		return err
	}
	return &failure.Error{
		Reason: reason,
		Err:    err,
		Guess: "the port accepts connections but does not answer in TLS: if TLS does not begin at once there, " +
			"as on 6667 of IRC and 5222 of XMPP, set the port that begins with TLS; else the server hangs or restarts: read its log",
	}
}

// handshakeAgain makes another connection as far as its handshake.
func (s *TLSServer) handshakeAgain(ctx context.Context, tlsConfig *tls.Config) error {
	return attempt(ctx, s.Connection, s.Address, func(ctx context.Context, conn net.Conn) error {
		if s.StartTLS != "" {
			if err := startXMPP(conn, s.StartTLS, s.Domain); err != nil {
				return err
			}
		}
		return tls.Client(conn, tlsConfig).HandshakeContext(ctx)
	})
}

// explainEnd finds out whether a server that has closed a connection in TLS refuses this address; else it returns err. InspIRCd says so
// to banned addresses before the handshake is complete: GnuTLS then ends a TLS 1.3 handshake without the words. With TLS 1.2 they
// mostly arrive.
func (s *TLSServer) explainEnd(ctx context.Context, tlsConfig *tls.Config, heard *Heard, err error) error {
	if err == nil || s.StartTLS != "" || failure.ReasonOf(err) != failure.Closed || protocolOf(heard.opening()) != speaksTLS {
		return err
	}
	refused := s.endedTLS(heard)
	if refused == nil {
		old := withoutTrust(tlsConfig)
		old.MaxVersion = tls.VersionTLS12
		refused = s.tries.find(ctx, whichRefusal, func(ctx context.Context) (found error) {
			//nolint:errcheck // only a refusal counts
			attempt(ctx, s.Connection, s.Address, func(ctx context.Context, conn net.Conn) error {
				found = s.refusalIn(ctx, Hear(conn), old)
				return nil
			})
			return found
		})
	}
	return cmp.Or(refused, err)
}

// endedTLS returns the failure of an IRC server that has ended a handshake in order, since InspIRCd does so for a banned address; nil
// otherwise. Of another server it shows nothing.
func (s *TLSServer) endedTLS(heard *Heard) error {
	if !s.IRC || !heard.closedNotify() {
		return nil
	}
	return failure.Errorf(failure.Throttled,
		"the server ends the TLS handshake on purpose, as IRC servers do for an address that they ban").WithHint(LimitHint(""))
}

// refusalIn returns the failure of a server that refuses this address in such a handshake or right after it; nil if it says nothing of
// the kind.
func (s *TLSServer) refusalIn(ctx context.Context, heard *Heard, tlsConfig *tls.Config) error {
	conn := tls.Client(heard, tlsConfig)
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
	begin := func() error { return startXMPP(conn, s.StartTLS, s.Domain) }
	return s.tries.whileSilent(ctx, whichProtocol, conn, conn.Answered, begin, func(ctx context.Context) error {
		return s.identify(ctx).insteadOfXMPP(nil)
	})
}
