package exposition

import (
	"bytes"
	"hash/crc32"
	"net/http"
	"sync/atomic"
)

// Page is one metrics page. It encodes itself when somebody asks for an encoding, once for each. It is safe for concurrent use; of two
// that ask for a new encoding at once, both make it.
type Page struct {
	// Series counts the series of the page, `_created` and exemplars aside.
	Series int

	parts  []part
	bodies [2 * codings]atomic.Pointer[Body]
}

// Body is one encoding of a page, as it goes over the wire.
type Body struct {
	ContentType     string
	ContentEncoding string // "gzip", "zstd" or empty
	Bytes           []byte

	coding coding
	// end is the last line of the page.
	end string
	// size and sum are the length and the checksum of all before end, uncompressed. tail is how many bytes end takes.
	size, sum uint32
	tail      int
}

// Body returns the page as chosen. made is false if nobody has asked for that encoding before, in which case it is not made here.
func (p *Page) Body(c Choice) (b Body, made bool) {
	kept := p.bodies[c.encoding()].Load()
	if kept == nil {
		return Body{}, false
	}
	b = *kept
	b.ContentType = c.contentType
	return b, true
}

// Encode returns the page as chosen, and makes it unless it is made already.
func (p *Page) Encode(c Choice) Body {
	if b, made := p.Body(c); made {
		return b
	}
	b := &Body{ContentType: c.contentType, ContentEncoding: c.coding.String(), coding: c.coding}
	if c.openMetrics {
		b.end = end
	}
	b.write(p.parts, c.openMetrics)
	p.bodies[c.encoding()].Store(b)
	return *b
}

// Negotiate encodes the page for a request's headers; see Choose.
func (p *Page) Negotiate(h http.Header) Body { return p.Encode(Choose(h)) }

// end is the last line of an OpenMetrics page.
const end = "# EOF\n"

// write encodes the parts of a page.
func (b *Body) write(parts []part, openMetrics bool) {
	var out bytes.Buffer
	if b.coding == identity {
		size := len(end)
		for i := range parts {
			size += parts[i].metadataSize() + max(len(parts[i].Text), len(parts[i].OpenMetrics))
		}
		out.Grow(size)
	}
	w := b.coding.writer(&out)
	add := func(text []byte) {
		w.Write(text) //nolint:errcheck // a buffer takes everything
		b.size += uint32(len(text))
		b.sum = crc32.Update(b.sum, crc32.IEEETable, text)
	}
	var header []byte
	for i := range parts {
		f := &parts[i]
		header = header[:0]
		if f.headed && openMetrics {
			header = f.appendOpenMetricsHeader(header)
		} else if f.headed {
			header = f.appendTextHeader(header)
		}
		add(header)
		if openMetrics {
			add(f.OpenMetrics)
		} else {
			add(f.Text)
		}
	}
	w.Flush() //nolint:errcheck // as above
	before := out.Len()
	out.Write(b.finish(nil))
	b.Bytes, b.tail = out.Bytes(), out.Len()-before
}

// With returns the body with more lines at its end, in two parts to be written one after the other. The first one is the page's own
// bytes. Nothing is compressed: it costs the same for a page of any size.
func (b *Body) With(lines []byte) (kept, last []byte) {
	return b.Bytes[:len(b.Bytes)-b.tail], b.finish(lines)
}

// finish returns the end of the body: more lines and its last one.
func (b *Body) finish(lines []byte) []byte {
	text := append(append(make([]byte, 0, len(lines)+len(b.end)), lines...), b.end...)
	return b.coding.finish(text, b.sum, b.size)
}
