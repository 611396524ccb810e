package exchange

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// opening is a connection that keeps the first bytes from the server.
type opening struct {
	net.Conn
	heard []byte
}

func (o *opening) Read(b []byte) (int, error) {
	n, err := o.Conn.Read(b)
	o.heard = append(o.heard, b[:min(n, maxOpening-len(o.heard))]...)
	return n, err
}

// explainHandshake explains a failed handshake by the server's first bytes; it returns err if they are of no known protocol.
func (o *opening) explainHandshake(err error) error {
	if !failure.HasType[tls.RecordHeaderError](err) {
		return err
	}
	line := o.line()
	// IRC servers refuse an address in plain text, before TLS begins.
	if command, params := splitIRC(line); strings.EqualFold(command, "ERROR") && failure.LimitsAddress(params) {
		return RefusedByIRC(strings.TrimPrefix(params, ":"))
	}
	switch protocolOf([]byte(line)) {
	case speaksHTTP:
		return failure.Errorf(failure.TLS, "the server speaks HTTP without TLS: %w", err).
			WithHint("set address to a TLS port; this is an HTTP port, such as that of a web server or of XMPP over HTTP (5280)")
	case speaksXMPP:
		return failure.Errorf(failure.TLS, "the server speaks XMPP, where TLS begins later: %w", err).
			WithHint("on this port TLS begins with STARTTLS: to log in there, remove direct_tls; to check the port, use kind xmpp_c2s, or starttls: xmpp-client or xmpp-server of kind tls")
	case speaksIRC:
		return failure.Errorf(failure.TLS, "the server speaks IRC without TLS (%s): %w", failure.OneLine(line), err).
			WithHint("set address to the IRC server's TLS port, 6697 by default, or set plain: true to log in without TLS; if this is the TLS port, the server refuses this address before TLS")
	default:
		return err
	}
}

// line returns the first line from the server. It reads on until the line ends.
func (o *opening) line() string {
	for len(o.heard) < maxOpening && !bytes.ContainsAny(o.heard, "\n>") {
		if _, err := o.Read(make([]byte, maxOpening)); err != nil {
			break
		}
	}
	line, _, _ := bytes.Cut(o.heard, []byte("\n"))
	return strings.TrimSpace(string(line))
}
