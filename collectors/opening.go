package collectors

import (
	"bytes"
	"crypto/tls"
	"net"
	"strings"
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
	if !is[tls.RecordHeaderError](err) {
		return err
	}
	// IRC servers refuse an address before TLS begins, without it.
	if command, params := splitIRC(o.line()); strings.EqualFold(command, "ERROR") && throttling.MatchString(params) {
		return refusedByIRC(strings.TrimPrefix(params, ":"))
	}
	return err
}

// line returns the first line that the server sent, and reads on if its end has not arrived.
func (o *opening) line() string {
	for len(o.heard) < maxOpening && !bytes.ContainsRune(o.heard, '\n') {
		if _, err := o.Read(make([]byte, maxOpening)); err != nil {
			break
		}
	}
	line, _, _ := bytes.Cut(o.heard, []byte("\n"))
	return strings.TrimSpace(string(line))
}
