package exchange

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Heard is a connection that loses nothing of what the server says last, and keeps its first bytes. A server that refuses a client
// writes why and closes; a client that still writes then sees a broken pipe before it reads the words. So a write that fails because
// the server has closed or reset the connection seems to succeed, as do those after it, and the caller reads on: first what had
// arrived, then the error of that write. This takes no longer, because nothing more can arrive. Who writes and never reads needs the
// connection itself. A Heard is safe for one reader and one writer at the same time.
type Heard struct {
	net.Conn

	mu     sync.Mutex
	first  []byte
	last   [alertSize]byte
	broken error // of the first write that failed
}

// Hear returns conn as a Heard. Converse has done this to its connection already, below TLS.
func Hear(conn net.Conn) *Heard { return &Heard{Conn: conn} }

// Write implements net.Conn.
func (h *Heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	broken := h.broken
	h.mu.Unlock()
	if broken != nil {
		return len(b), nil
	}
	n, err := h.Conn.Write(b)
	if !errors.Is(err, syscall.EPIPE) && !errors.Is(err, syscall.ECONNRESET) {
		return n, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = err
	return len(b), nil
}

// Read implements net.Conn.
func (h *Heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.first = append(h.first, b[:min(n, maxOpening-len(h.first))]...)
	copy(h.last[:], h.last[min(n, alertSize):])
	copy(h.last[max(alertSize-n, 0):], b[max(n-alertSize, 0):n])
	if err != nil && h.broken != nil && len(h.first) == 0 {
		err = h.broken // the cause; after an answer, its end is what counts
	}
	return n, err
}

// opening returns the server's first bytes, up to maxOpening of those that were read.
func (h *Heard) opening() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.first
}

// Answered reports whether the server has said anything.
func (h *Heard) Answered() bool { return len(h.opening()) > 0 }

// answeredHello reports whether the server has answered a ClientHello. An alert refuses it, except the one that ends TLS in order.
func (h *Heard) answeredHello() bool {
	return h.Answered() && (h.opening()[0] != tlsAlert || h.closedNotify())
}

// alertSize is the length of a TLS alert that is not encrypted (RFC 5246, section 7.2).
const alertSize = 7

// closedNotify reports whether the server has ended a handshake in order, by the alert close_notify. A server that crashes, restarts or
// has another fault sends none, or another alert.
func (h *Heard) closedNotify() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.last
	return last[0] == tlsAlert && last[1] == 3 && last[3] == 0 && last[4] == 2 && last[6] == 0
}

// Refusal returns the failure of a server that refuses this address as IRC servers do: in plain text, before any other protocol
// begins; nil for any other beginning.
func (h *Heard) Refusal() error {
	line, _, _ := bytes.Cut(h.opening(), []byte("\n"))
	if command, params := splitIRC(strings.TrimSpace(string(line))); strings.EqualFold(command, "ERROR") && failure.LimitsAddress(params) {
		return RefusedByIRC(strings.TrimPrefix(params, ":"))
	}
	return nil
}

// explainHandshake explains a failed handshake by the server's first bytes; it returns err if they are of no known protocol.
func (h *Heard) explainHandshake(err error) error {
	if !failure.HasType[tls.RecordHeaderError](err) {
		return err
	}
	line := h.line()
	if refused := h.Refusal(); refused != nil {
		return refused
	}
	switch protocolOf([]byte(line)) {
	case speaksHTTP:
		return failure.Errorf(failure.TLS, "the server speaks HTTP without TLS: %w", err).
			WithHint("set address to a TLS port; this is an HTTP port, such as that of a web server or of XMPP over HTTP (5280)")
	case speaksXMPP:
		return failure.Errorf(failure.TLS, "the server speaks XMPP, where TLS begins later: %w", err).
			WithHint("on this port TLS begins with STARTTLS: to log in there, remove direct_tls; to check the port, use kind xmpp_c2s, " +
				"or starttls: xmpp-client or xmpp-server of kind tls")
	case speaksIRC:
		return failure.Errorf(failure.TLS, "the server speaks IRC without TLS (%s): %w", failure.OneLine(line), err).
			WithHint("set address to the IRC server's TLS port, 6697 by default, or set plain: true to log in without TLS; " +
				"if this is the TLS port, the server refuses this address before TLS")
	default:
		return err
	}
}

// line returns the first line from the server. It reads on until the line ends.
func (h *Heard) line() string {
	for len(h.opening()) < maxOpening && !bytes.ContainsAny(h.opening(), "\n>") {
		if _, err := h.Read(make([]byte, maxOpening)); err != nil {
			break
		}
	}
	line, _, _ := bytes.Cut(h.opening(), []byte("\n"))
	return strings.TrimSpace(string(line))
}
