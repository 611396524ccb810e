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

// blocks compresses b to deflate blocks that can follow any others: they end at a byte boundary, refer to nothing before
// them, and none is marked as the last.
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

// The frame of a gzip member, by RFC 1952: a header without name and time, and a trailer.
const (
	memberHeader  = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
	memberTrailer = 8
	storedHeader  = 5
)

// member joins the blocks of segments and a last few bytes, which are not compressed, to one gzip member. The blocks that
// the segments have afterwards are the member's own. size is that of the segments before compression, sum their checksum.
func member(segments []segment, in func(*segment) *piece, last string, sum uint32, size int) []byte {
	n := len(memberHeader) + storedHeader + len(last) + memberTrailer
	for i := range segments {
		n += len(in(&segments[i]).blocks)
	}
	b := append(make([]byte, 0, n), memberHeader...)
	for i := range segments {
		from := len(b)
		s := in(&segments[i])
		b = append(b, s.blocks...)
		s.blocks = b[from:len(b):len(b)]
	}
	return appendLast(b, []byte(last), sum, uint32(size))
}

// appendLast ends a gzip member with a few bytes, which are not compressed, behind size bytes that have the checksum.
func appendLast(b, last []byte, sum, size uint32) []byte {
	// A stored block, the last one: RFC 1951, section 3.2.4.
	b = append(b, 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(last)))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(len(last)))
	b = append(b, last...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(sum, crc32.IEEETable, last))
	return binary.LittleEndian.AppendUint32(b, size+uint32(len(last)))
}
