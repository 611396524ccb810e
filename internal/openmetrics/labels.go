package openmetrics

import (
	"bytes"
	"slices"
)

// The classic alphabets of names, as bits of a table.
const (
	metricStart = 1 << iota
	metricRest
	labelStart
	labelRest
)

// alphabet says of each byte where in a name it may stand.
var alphabet = func() (table [256]uint8) {
	for c := range 256 {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_':
			table[c] = metricStart | metricRest | labelStart | labelRest
		case c == ':':
			table[c] = metricStart | metricRest
		case '0' <= c && c <= '9':
			table[c] = metricRest | labelRest
		}
	}
	return table
}()

// nameLen is the length of the name that s begins with, 0 where there is none.
func nameLen(s []byte, start, rest uint8) int {
	if len(s) == 0 || alphabet[s[0]]&start == 0 {
		return 0
	}
	n := 1
	for n < len(s) && alphabet[s[n]]&rest != 0 {
		n++
	}
	return n
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// trimBlanks cuts the blanks off the front of s.
func trimBlanks(s []byte) []byte {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	return s
}

// labelReader walks a label set from its opening brace on. It takes blanks and loose commas.
type labelReader struct {
	s []byte
	// i is where the reader stands: behind the closing brace once next has returned false.
	i int
	// loose is set when the set is not written in the one canonical way.
	loose bool
	// fault, where set, says why the set cannot be read.
	fault string
	// start and end enclose the label that next returned last.
	start, end int

	begun bool
}

func (l *labelReader) skipBlanks() {
	for l.i < len(l.s) && isBlank(l.s[l.i]) {
		l.i++
		l.loose = true
	}
}

func (l *labelReader) fail(fault string) ([]byte, []byte, bool) {
	l.fault = fault
	return nil, nil, false
}

// next returns the next label, the value as it stands between its quotes, or false at the end of the set or at a fault.
func (l *labelReader) next() (name, value []byte, more bool) {
	if !l.begun {
		l.i++ // the brace
	}
	l.skipBlanks()
	comma := false
	if l.begun && l.i < len(l.s) && l.s[l.i] == ',' {
		comma = true
		l.i++
		l.skipBlanks()
	}
	if l.i >= len(l.s) {
		return l.fail("label set without an end")
	}
	if l.s[l.i] == '}' {
		l.i++
		l.loose = l.loose || comma || !l.begun
		return nil, nil, false
	}
	l.loose = l.loose || (l.begun && !comma)
	l.begun = true
	l.start = l.i
	n := nameLen(l.s[l.i:], labelStart, labelRest)
	if n == 0 {
		return l.fail("label name outside [a-zA-Z0-9_]")
	}
	name = l.s[l.i : l.i+n]
	l.i += n
	l.skipBlanks()
	if l.i >= len(l.s) || l.s[l.i] != '=' {
		return l.fail("label without a value")
	}
	l.i++
	l.skipBlanks()
	if l.i >= len(l.s) || l.s[l.i] != '"' {
		return l.fail("label value without quotes")
	}
	l.i++
	from := l.i
	for ; l.i < len(l.s); l.i++ {
		switch l.s[l.i] {
		case '"':
			value = l.s[from:l.i]
			l.i++
			l.end = l.i
			return name, value, true
		case '\\':
			l.i++
			if l.i < len(l.s) && l.s[l.i] != 'n' && l.s[l.i] != '"' && l.s[l.i] != '\\' {
				l.loose = true
			}
		case '\n', 0:
			return l.fail("control character in a label value")
		}
	}
	return l.fail("label value without an end")
}

// appendLabel writes a label in the one canonical way: a backslash that escapes nothing is escaped itself.
func appendLabel(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, '=', '"')
	for i := 0; i < len(value); i++ {
		dst = append(dst, value[i])
		if value[i] != '\\' {
			continue
		}
		i++
		switch {
		case i == len(value):
			dst = append(dst, '\\')
		case value[i] == 'n' || value[i] == '"' || value[i] == '\\':
			dst = append(dst, value[i])
		default:
			dst = append(dst, '\\', value[i])
		}
	}
	return append(dst, '"')
}

// appendEscaped writes a label whose value is plain.
func appendEscaped(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, '=', '"')
	for i := range len(value) {
		switch value[i] {
		case '\n':
			dst = append(dst, '\\', 'n')
		case '"', '\\':
			dst = append(dst, '\\', value[i])
		default:
			dst = append(dst, value[i])
		}
	}
	return append(dst, '"')
}

// appendLabelSet writes the labels of a set, without those that drop names, in the one canonical way. An empty set is
// nothing at all. It returns how much of set was read; where that cannot be read, it says why.
func appendLabelSet(dst, set []byte, drop func([]byte) bool) (out []byte, n int, fault string) {
	l := labelReader{s: set}
	open := byte('{')
	for {
		name, value, more := l.next()
		if !more {
			break
		}
		if drop != nil && drop(name) {
			continue
		}
		dst = append(dst, open)
		dst = appendLabel(dst, name, value)
		open = ','
	}
	if l.fault != "" {
		return dst, 0, l.fault
	}
	if open == ',' {
		dst = append(dst, '}')
	}
	return dst, l.i, ""
}

// fewNames is up to how many names comparing each with each is the fastest way to find one that stands twice.
const fewNames = 12

// hasDuplicate reports whether a name stands in names twice. It may reorder them.
func hasDuplicate(names [][]byte) bool {
	if len(names) > fewNames {
		slices.SortFunc(names, bytes.Compare)
		for i := 1; i < len(names); i++ {
			if bytes.Equal(names[i-1], names[i]) {
				return true
			}
		}
		return false
	}
	for i := 1; i < len(names); i++ {
		for j := range i {
			if bytes.Equal(names[i], names[j]) {
				return true
			}
		}
	}
	return false
}
