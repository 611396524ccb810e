package chat

import (
	"bufio"
	"bytes"
	"io"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

const (
	// maxStanza bounds one stanza, in bytes: what is longer loses the elements and texts that do not fit.
	maxStanza = 64 << 10
	// maxDepth bounds how deep elements are nested; the stream itself is at depth 1, and a stanza at 2.
	maxDepth = 16
)

// pruner reads an XML stream (RFC 6120) and leaves out what is nested too deep or does not fit into a stanza, so that a decoder of its
// output needs little memory. It reads no further than the decoder asks for. It is an io.ByteReader, so that the decoder has no buffer.
type pruner struct {
	in   *bufio.Reader
	unit []byte // a tag or a text that passes
	next int    // of unit
	// depth is that of the open elements that have passed, hidden that of the open ones below that did not.
	depth, hidden int
	room          int // left in the stanza
}

func newPruner(r io.Reader) *pruner { return &pruner{in: bufio.NewReader(r)} }

// restart begins another stream on the same connection.
func (p *pruner) restart() { p.unit, p.next, p.depth, p.hidden, p.room = nil, 0, 0, 0, maxStanza }

// Read implements io.Reader.
func (p *pruner) Read(b []byte) (int, error) {
	for i := range b {
		c, err := p.ReadByte()
		if err != nil {
			return i, err
		}
		b[i] = c
	}
	return len(b), nil
}

// ReadByte implements io.ByteReader.
func (p *pruner) ReadByte() (byte, error) {
	for p.next == len(p.unit) {
		if err := p.advance(); err != nil {
			return 0, err
		}
	}
	p.next++
	return p.unit[p.next-1], nil
}

// advance reads the next tag or text, and decides whether it passes.
func (p *pruner) advance() error {
	p.unit, p.next = p.unit[:0], 0
	if p.depth <= 1 && p.hidden == 0 {
		p.room = maxStanza
	}
	first, err := p.in.ReadByte()
	if err != nil {
		return err
	}
	if first != '<' {
		return p.text(first)
	}
	return p.tag()
}

// keep adds a byte to the unit, unless it is too long already. It reports whether it fits.
func (p *pruner) keep(c byte, limit int) bool {
	if len(p.unit) >= limit {
		return false
	}
	p.unit = append(p.unit, c)
	return true
}

// text reads up to the next tag. Between stanzas it must be white space, which keeps connections alive, and nobody needs it.
func (p *pruner) text(c byte) error {
	fits := true
	for {
		outside := p.depth <= 1 && p.hidden == 0
		switch {
		case outside && !bytes.ContainsRune([]byte(" \t\r\n"), rune(c)):
			return errOutside
		case !outside:
			fits = p.keep(c, p.room) && fits
		}
		next, err := p.in.Peek(1)
		if err != nil || next[0] == '<' {
			p.pass(fits)
			return err
		}
		if c, err = p.in.ReadByte(); err != nil {
			return err
		}
	}
}

// pass hands the unit to the decoder, or drops it.
func (p *pruner) pass(fits bool) {
	if !fits || p.hidden > 0 {
		p.unit = p.unit[:0]
		return
	}
	p.room -= len(p.unit)
}

// How a CDATA section begins and ends.
var (
	cdataBegin = []byte("<![CDATA[")
	cdataEnd   = []byte("]]>")
)

var errOutside = failure.Errorf(failure.Malformed, "text outside of a stanza")

var errRestricted = failure.Errorf(failure.Malformed,
	"XML that XMPP does not allow: a comment, a document type or a processing instruction")

// tag reads a tag whose first character is read.
func (p *pruner) tag() error {
	second, err := p.in.ReadByte()
	if err != nil {
		return err
	}
	p.unit = append(p.unit, '<', second)
	switch second {
	case '!':
		return p.cdata()
	case '?':
		if p.depth > 0 || p.hidden > 0 {
			return errRestricted
		}
	}
	limit := p.room
	if second == '/' {
		limit = maxStanza
	}
	fits, quote, last := true, byte(0), second
	for {
		c, err := p.in.ReadByte()
		if err != nil {
			return err
		}
		fits = p.keep(c, limit) && fits
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'', c == '"':
			quote = c
		case c == '>':
			return p.element(second, last == '/', fits)
		}
		last = c
	}
}

// element decides on a tag.
func (p *pruner) element(second byte, empty, fits bool) error {
	switch {
	case second == '?':
		p.pass(fits)
	case second == '/' && p.hidden > 0:
		p.hidden--
		p.unit = p.unit[:0]
	case second == '/' && !fits:
		return failure.Errorf(failure.Malformed, "the name of an element has more than %d bytes", maxStanza)
	case second == '/':
		p.depth--
	case p.depth == 0 && !fits:
		return failure.Errorf(failure.TooLarge, "the server opens its stream with more than %d bytes", maxStanza)
	case p.hidden > 0 || !fits || p.depth >= maxDepth:
		p.unit = p.unit[:0]
		if !empty {
			p.hidden++
		}
	default:
		p.pass(true)
		if !empty {
			p.depth++
		}
	}
	return nil
}

// cdata reads a text in which a tag means nothing.
func (p *pruner) cdata() error {
	fits := true
	var end [3]byte
	for n := len("<!"); n < len(cdataBegin)+len(cdataEnd) || !bytes.Equal(end[:], cdataEnd); n++ {
		c, err := p.in.ReadByte()
		if err != nil {
			return err
		}
		if n < len(cdataBegin) && c != cdataBegin[n] {
			return errRestricted
		}
		fits = p.keep(c, p.room) && fits
		end = [3]byte{end[1], end[2], c}
	}
	if p.depth <= 1 && p.hidden == 0 {
		return errOutside
	}
	p.pass(fits)
	return nil
}
