package openmetrics

import (
	"bytes"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// trimBlanks cuts the blanks off the front of s.
func trimBlanks(s []byte) []byte {
	for len(s) > 0 && isBlank(s[0]) {
		s = s[1:]
	}
	return s
}

// appendLabelSet writes the labels of a set, without those that drop names, in the one canonical way. An empty set is
// nothing at all. It returns how much of set was read; where that cannot be read, it says why.
func appendLabelSet(dst, set []byte, drop func([]byte) bool) (out []byte, n int, fault string) {
	l := exposition.LabelReader[[]byte]{Set: set}
	open := byte('{')
	for name, value, more := l.Next(); more; name, value, more = l.Next() {
		if drop != nil && drop(name) {
			continue
		}
		dst = exposition.AppendLabel(append(dst, open), name, exposition.Unescape(value))
		open = ','
	}
	if l.Fault != "" {
		return dst, 0, l.Fault
	}
	if open == ',' {
		dst = append(dst, '}')
	}
	return dst, l.Pos, ""
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

// word cuts the first word off s, and the blanks behind it.
func word(s []byte) (first, rest []byte) {
	i := bytes.IndexAny(s, " \t")
	if i < 0 {
		return s, nil
	}
	return s[:i], trimBlanks(s[i:])
}

var errNumber = errors.New("no number of the formats")

// parseFloat reads a number as the formats have it: Go's syntax without hexadecimals and underscores.
func parseFloat(s []byte) (float64, error) {
	if len(s) == 0 || bytes.ContainsAny(s, "xXpP_") {
		return 0, errNumber
	}
	return strconv.ParseFloat(string(s), 64)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
