package state

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/url"
	"strconv"
	"strings"
)

// version is the version of the file's format. Version 1 was one JSON object. A new version must change how lines are checked too: a
// header of another version before lines of this one is damaged.
const version = 2

const headerStart = "chatstack_exporter state "

// header is the first line.
var header = fmt.Sprintf("%s%d\n", headerStart, version)

// operation is what a line does.
type operation byte

const (
	// replaces gives a name a value, removes takes it away, and adds gives the name one more.
	replaces operation = '='
	removes  operation = '-'
	adds     operation = '+'
)

// record is a line: CHECKSUM NAME OPERATION DATA.
type record struct {
	name string
	op   operation
	data []byte
}

func sumOf(text []byte) string {
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(text))
	return hex.EncodeToString(sum[:])
}

// appendTo appends the line.
func (r *record) appendTo(lines []byte) []byte {
	start := len(lines)
	lines = append(lines, "xxxxxxxx "...)
	lines = append(lines, strings.ReplaceAll(url.PathEscape(r.name), "%2F", "/")...)
	lines = append(append(append(lines, ' ', byte(r.op), ' '), r.data...), '\n')
	copy(lines[start:], sumOf(lines[start+len("xxxxxxxx "):len(lines)-1]))
	return lines
}

// parseRecord parses a line without its end.
func parseRecord(line []byte) (r record, ok bool) {
	sum, rest, _ := bytes.Cut(line, []byte(" "))
	if string(sum) != sumOf(rest) {
		return r, false
	}
	name, rest, _ := bytes.Cut(rest, []byte(" "))
	op, data, found := bytes.Cut(rest, []byte(" "))
	unescaped, err := url.PathUnescape(string(name))
	if !found || err != nil || len(op) != 1 || !strings.Contains("=-+", string(op)) {
		return r, false
	}
	return record{unescaped, operation(op[0]), data}, true
}

// content is what a file has.
type content struct {
	records []record // oldest first
	// damaged is how many lines were left out.
	damaged int
}

// decode reads a journal. Lines that are no valid records count as damaged. What follows the last line end was cut off.
func decode(raw []byte) (c content, err error) {
	for first := true; len(raw) > 0; first = false {
		line, rest, whole := bytes.Cut(raw, []byte("\n"))
		raw = rest
		switch {
		case first && !whole && strings.HasPrefix(header, string(line)), !first && !whole:
		case first:
			if string(line)+"\n" != header {
				err = newerThan(line)
				c.damaged++
			}
		default:
			if r, ok := parseRecord(line); ok {
				err = nil // so the header is damaged
				c.records = append(c.records, r)
			} else {
				c.damaged++
			}
		}
	}
	return c, err
}

// newer means that a file belongs to a newer version of the exporter.
func newer(n int) error {
	return fmt.Errorf("of version %d, this program supports up to %d: run the newer program", n, version)
}

// newerThan returns an error if a first line is that of a newer version.
func newerThan(line []byte) error {
	number, ours := strings.CutPrefix(string(line), headerStart)
	if n, err := strconv.Atoi(number); ours && err == nil && n > version {
		return newer(n)
	}
	return nil
}
