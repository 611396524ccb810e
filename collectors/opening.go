package collectors

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// maxOpening bounds what is kept of a server's first words.
const maxOpening = 512

// opening is a connection that keeps the first bytes that the server sends.
type opening struct {
	net.Conn
	heard []byte
}

func (o *opening) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	o.heard = append(o.heard, b[:min(n, maxOpening-len(o.heard))]...)
	return n, err
}

// explain returns what the server's first words say about a failed handshake, or err itself.
func (o *opening) explain(err error) error {
	if !failure.HasType[tls.RecordHeaderError](err) {
		return err
	}
	line := o.line()
	// IRC servers refuse an address before TLS begins, without it.
	if command, params := splitIRC(line); strings.EqualFold(command, "ERROR") && throttling.MatchString(params) {
		return refusedByIRC(strings.TrimPrefix(params, ":"))
	}
	switch protocolOf([]byte(line)) {
	case speaksHTTP:
		return failure.Errorf(failure.TLS, "the server speaks HTTP without TLS: %w", err).
			WithHint("set address to a TLS port; this is an HTTP port, such as that of a web server or of XMPP over HTTP (5280)")
	case speaksXMPP:
		return failure.Errorf(failure.TLS, "the server speaks XMPP, where TLS begins later: %w", err).
			WithHint("on this port TLS begins with STARTTLS: use kind xmpp_c2s, or starttls: xmpp-client or xmpp-server of kind tls")
	case speaksIRC:
		return failure.Errorf(failure.TLS, "the server speaks IRC without TLS (%s): %w", failure.OneLine(line), err).
			WithHint("set address to the IRC server's TLS port, 6697 by default; if this is it, the server refuses this address before TLS")
	default:
		return err
	}
}

// line returns the first line that the server sent, and reads on if its end has not arrived.
func (o *opening) line() string {
	for len(o.heard) < maxOpening && !bytes.ContainsAny(o.heard, "\n>") {
		if _, err := o.Read(make([]byte, maxOpening)); err != nil {
			break
		}
	}
	line, _, _ := bytes.Cut(o.heard, []byte("\n"))
	return strings.TrimSpace(string(line))
}

// protocol is what a server speaks, as far as its first bytes tell.
type protocol int

const (
	unknownProtocol protocol = iota
	speaksTLS
	speaksHTTP
	speaksHTTPS
	speaksXMPP
	speaksIRC
)

var openings = []struct {
	protocol protocol
	begins   *regexp.Regexp
}{
	{speaksTLS, regexp.MustCompile(`^[\x15\x16]\x03`)},
	{speaksHTTP, regexp.MustCompile(`(?i)^(HTTP/|<html|<!doctype html|\{\s*"jsonrpc")`)},
	{speaksXMPP, regexp.MustCompile(`^(<\?xml|<stream:)`)},
	{speaksIRC, regexp.MustCompile(`^(:\S+ |ERROR |NOTICE |PING )`)},
}

// protocolOf tells what a server speaks that begins with these bytes.
func protocolOf(first []byte) protocol {
	for _, o := range openings {
		if o.begins.Match(first) {
			return o.protocol
		}
	}
	return unknownProtocol
}

const (
	// silence is after how long without a word the exporter tries to find out what listens there.
	silence = 2 * time.Second
	// identifyTimeout bounds each attempt to find out.
	identifyTimeout = time.Second
)

// beginXMPP negotiates TLS in a stream. Servers of other protocols close or stay silent, so it finds out what they speak.
func (s *tlsServer) beginXMPP(ctx context.Context, conn *opening) error {
	found := make(chan protocol, 1)
	identifying, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.AfterFunc(silence, func() { found <- s.identify(identifying) })
	err := startXMPP(conn, s.startTLS, s.domain)
	unanswered := err != nil && len(conn.heard) == 0
	what := unknownProtocol
	switch started := !timer.Stop(); {
	case started && !unanswered:
		cancel()
		<-found
	case started:
		what = <-found
	case unanswered && failure.ReasonOf(err) == failure.Closed:
		what = s.identify(ctx)
	}
	return what.insteadOfXMPP(err)
}

// insteadOfXMPP is the failure of a server that speaks something else than a stream of XMPP with STARTTLS; err where that is
// not known.
func (p protocol) insteadOfXMPP(err error) error {
	switch p {
	case speaksTLS:
		return failure.Errorf(failure.TLS, "stream: the server speaks TLS at once").WithHint(directTLSHint)
	case speaksHTTPS:
		return failure.Errorf(failure.TLS, "stream: the server speaks HTTP over TLS").WithHint(webPortHint)
	case speaksHTTP:
		return failure.Errorf(failure.Malformed, "stream: the server speaks HTTP").WithHint(webPortHint)
	case speaksIRC:
		return failure.Errorf(failure.Malformed, "stream: the server speaks IRC").WithHint(xmppPorts)
	default:
		return err
	}
}

const (
	xmppPorts     = "set address to the XMPP server's port for STARTTLS: 5222 for clients, 5269 for servers"
	webPortHint   = xmppPorts + "; this is the port of a web server, such as 5280 or 5281"
	directTLSHint = xmppPorts + "; on this port TLS begins at once, as on 5223 and 5270: to check it, use kind tls and leave starttls empty"
)

// identify finds out whether a server speaks TLS or HTTP, over connections of its own.
func (s *tlsServer) identify(ctx context.Context) protocol {
	host := s.domain
	request := "HEAD / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	what := unknownProtocol
	s.attempt(ctx, func(ctx context.Context, conn net.Conn) {
		// It is told nothing, and only what it speaks counts.
		secure := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host}) //nolint:gosec // see above
		err := secure.HandshakeContext(ctx)
		switch {
		case err == nil:
			what = speaksTLS
			if asked(secure, request) == speaksHTTP {
				what = speaksHTTPS
			}
		case strings.Contains(err.Error(), "remote error: tls: "):
			what = speaksTLS
		}
	})
	if what == unknownProtocol {
		s.attempt(ctx, func(_ context.Context, conn net.Conn) { what = asked(conn, request) })
	}
	return what
}

// attempt connects and lets try speak, for identifyTimeout at most.
func (s *tlsServer) attempt(ctx context.Context, try func(context.Context, net.Conn)) {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", s.address)
	if err != nil {
		return
	}
	defer conn.Close()                                                           //nolint:errcheck // all is said
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a closed one wakes its reader too
	defer stop()
	try(ctx, conn)
}

// asked tells what the answer to a request begins with.
func asked(conn net.Conn, request string) protocol {
	if _, err := io.WriteString(conn, request); err != nil {
		return unknownProtocol
	}
	first := make([]byte, maxOpening)
	n, _ := conn.Read(first) // what came counts
	return protocolOf(first[:n])
}

// notIRC is the failure of a server that speaks TLS and answers CAP LS otherwise than in IRC, or not at all; first is what came
// of its answer.
func notIRC(first []byte, err error) error {
	const port = "set address to the TLS port of the IRC server's clients, 6697 by default"
	switch protocolOf(first) {
	case speaksHTTP:
		return failure.Errorf(failure.Malformed, "await the answer to CAP LS: the server speaks HTTP").
			WithHint(port + "; this is the port of a web server or of the IRC server's RPC (8600)")
	case speaksXMPP:
		return failure.Errorf(failure.Malformed, "await the answer to CAP LS: the server speaks XMPP").WithHint(port + "; this is a port of an XMPP server")
	default:
		err = fmt.Errorf("await the answer to CAP LS: %w", err)
		reason := failure.ReasonOf(err)
		if len(first) > 0 || reason != failure.Closed && reason != failure.Timeout {
			return err
		}
		return failure.Errorf(reason, "%w", err).
			WithHint("TLS works, but no answer comes: if this is the port of the IRC server's RPC (8600) or of something else, " + port + "; else the server hangs or restarts: read its log")
	}
}
