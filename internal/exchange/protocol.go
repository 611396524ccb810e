package exchange

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// protocol is the protocol that a server speaks, recognized by its first bytes.
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

// protocolOf returns the protocol of a server that begins with these bytes.
func protocolOf(first []byte) protocol {
	for _, o := range openings {
		if o.begins.Match(first) {
			return o.protocol
		}
	}
	return unknownProtocol
}

// insteadOfXMPP is the failure of a server that speaks p instead of XMPP with STARTTLS; err if p is unknown.
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
	directTLSHint = xmppPorts + "; on this port TLS begins at once, as on 5223 and 5270: to log in there, set direct_tls: true; " +
		"to check the port, use kind tls and leave starttls empty"
)

// identify finds out whether the server speaks TLS or HTTP. It opens up to two connections.
func (s *TLSServer) identify(ctx context.Context) protocol {
	host := ASCIIHost(s.Domain)
	request := "HEAD / HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n"
	what := unknownProtocol
	attempt(ctx, s.Connection, s.Address, func(ctx context.Context, conn net.Conn) error { //nolint:errcheck // what was found counts
		// Nothing secret is sent; only the protocol matters.
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
		return err
	})
	if what == unknownProtocol {
		attempt(ctx, s.Connection, s.Address, func(_ context.Context, conn net.Conn) error { //nolint:errcheck // see above
			what = asked(conn, request)
			return nil
		})
	}
	return what
}

// attempt connects and calls try, for identifyTimeout at most. It returns the error of either.
func attempt(ctx context.Context, c config.Connection, address string, try func(context.Context, net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	conn, err := Dial(ctx, c, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()                                                           //nolint:errcheck // the answer is already read
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) }) //nolint:errcheck // a closed one wakes its reader too
	defer stop()
	return try(ctx, conn)
}

// asked sends a request and returns the protocol of the answer.
func asked(conn net.Conn, request string) protocol {
	if _, err := io.WriteString(conn, request); err != nil {
		return unknownProtocol
	}
	first := make([]byte, maxOpening)
	n, _ := conn.Read(first) // what came counts
	return protocolOf(first[:n])
}

// tlsAlert is the first byte of a TLS server's answer to plain text.
const tlsAlert = 0x15

// identifyTimeout bounds each attempt to find out what a server speaks.
const identifyTimeout = time.Second

// maxOpening bounds how many of a server's first bytes are kept.
const maxOpening = 512
