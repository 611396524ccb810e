package openmetrics

import (
	"bytes"
	"errors"
	"math"
	"strconv"
)

// trimBlanks cuts the blanks off the front of s.
func trimBlanks(s []byte) []byte {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// word cuts the first word off s, and the blanks behind it.
func word(s []byte) (first, rest []byte) {
	for i, c := range s {
		if c == ' ' || c == '\t' {
			return s[:i], trimBlanks(s[i:])
		}
	}
	return s, nil
}

var errNumber = errors.New("not a valid number")

// parseFloat parses a number of the formats: Go's syntax without hexadecimals and underscores.
func parseFloat(s []byte) (float64, error) {
	if len(s) == 0 || bytes.ContainsAny(s, "xXpP_") {
		return 0, errNumber
	}
	return strconv.ParseFloat(string(s), 64)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
