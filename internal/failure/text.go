package failure

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxLine limits how many characters of an untrusted text OneLine keeps. The poller masks secrets first and then cuts further:
// cutting earlier could leave half a secret, which no mask matches.
const MaxLine = 64 << 10

// OneLine makes untrusted text printable on one line. It keeps up to MaxLine characters.
func OneLine(s string) string { return Printable(s, MaxLine) }

// Printable makes untrusted text printable on one line. Unprintable characters, such as control characters and zero-width
// spaces, become spaces; invalid UTF-8 becomes U+FFFD; text longer than limit characters is cut.
func Printable(s string, limit int) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		s = string([]rune(s)[:limit]) + "…"
	}
	return s
}
