package exposition

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// deflater compresses pieces of pages. The zero deflater is ready.
type deflater struct {
	w   *flate.Writer
	out bytes.Buffer
	// fed counts the bytes that were compressed.
	fed int
}

// blocks compresses b to whole deflate blocks, of which none is the last one. They end at a byte and refer to nothing
// before them, so that they can stand behind any others.
func (d *deflater) blocks(b []byte) ([]byte, error) {
	d.fed += len(b)
	d.out.Reset()
	if d.w == nil {
		w, err := flate.NewWriter(&d.out, flate.BestSpeed)
		if err != nil {
			return nil, fmt.Errorf("compress page: %w", err)
		}
		d.w = w
	}
	d.w.Reset(&d.out)
	if _, err := d.w.Write(b); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	if err := d.w.Flush(); err != nil {
		return nil, fmt.Errorf("compress page: %w", err)
	}
	return bytes.Clone(d.out.Bytes()), nil
}

// What stands around the blocks of a gzip member, by RFC 1952: a header without name and time, and a trailer.
const (
	memberHeader  = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
	memberTrailer = 8
	storedHeader  = 5
)

// member joins the blocks of segments and a last few bytes, which are not compressed, to one gzip member. The blocks that
// the segments have afterwards are the member's own. plain is all that is in it.
func member(segments []segment, in func(*segment) *piece, last string, plain []byte) []byte {
	size := len(memberHeader) + storedHeader + len(last) + memberTrailer
	for i := range segments {
		size += len(in(&segments[i]).blocks)
	}
	b := append(make([]byte, 0, size), memberHeader...)
	for i := range segments {
		from := len(b)
		s := in(&segments[i])
		b = append(b, s.blocks...)
		s.blocks = b[from:len(b):len(b)]
	}
	// A stored block, the last one: RFC 1951, section 3.2.4.
	b = append(b, 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(last)))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(len(last)))
	b = append(b, last...)
	// A checksum of the whole page is read at the speed of memory: nothing to gain by combining those of segments.
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(plain))
	return binary.LittleEndian.AppendUint32(b, uint32(len(plain)))
}
