package exposition

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// coding is the compression of a page. The end of a page is not compressed, so that it can be replaced in an encoded page.
type coding uint8

const (
	identity coding = iota
	gzipCoding
	zstdCoding
	codings
)

// String is the value of the header Content-Encoding.
func (c coding) String() string {
	return [codings]string{"", "gzip", "zstd"}[c]
}

// compressor compresses. What was written before Flush can be decompressed without what follows.
type compressor interface {
	io.Writer
	Flush() error
}

// uncompressed is the compressor that does nothing.
type uncompressed struct{ io.Writer }

// Flush implements compressor.
func (uncompressed) Flush() error { return nil }

// zstdFrame writes one frame, which Flush ends.
type zstdFrame struct{ *zstd.Encoder }

// Flush implements compressor.
func (f zstdFrame) Flush() error { return f.Close() }

const (
	// gzipHeader begins a gzip member without name and time, by RFC 1952.
	gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
	// zstdHeader begins a frame without checksum and with a window of 1 KiB, by RFC 8878, section 3.1.1.
	zstdHeader = "\x28\xb5\x2f\xfd\x00\x00"
	// zstdWindow is how far back zstd looks for repetitions: little memory, and larger ones hardly compress a page better.
	zstdWindow = 256 << 10
)

// writer returns a compressor to out.
func (c coding) writer(out *bytes.Buffer) compressor {
	switch c {
	case gzipCoding:
		out.WriteString(gzipHeader)
		w, err := flate.NewWriter(out, flate.BestSpeed)
		if err != nil {
			panic(err) // the level is invalid
		}
		return w
	case zstdCoding:
		w, err := zstd.NewWriter(out, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithWindowSize(zstdWindow), zstd.WithLowerEncoderMem(true))
		if err != nil {
			panic(err) // an option is invalid
		}
		return zstdFrame{w}
	default:
		return uncompressed{out}
	}
}

// finish encodes the last few bytes of a page after size bytes with the checksum sum.
func (c coding) finish(last []byte, sum, size uint32) []byte {
	if c == identity {
		return last
	}
	if c == zstdCoding {
		// A frame of its own: one raw block, the last one (RFC 8878, section 3.1.1.2).
		block := binary.LittleEndian.AppendUint32([]byte(zstdHeader), uint32(len(last))<<3|1)
		return append(block[:len(zstdHeader)+3], last...)
	}
	// One stored block, the last one (RFC 1951, section 3.2.4), and the trailer of the member.
	b := append(make([]byte, 0, len(last)+16), 1)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(last)))
	b = binary.LittleEndian.AppendUint16(b, ^uint16(len(last)))
	b = append(b, last...)
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(sum, crc32.IEEETable, last))
	return binary.LittleEndian.AppendUint32(b, size+uint32(len(last)))
}
