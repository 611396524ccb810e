package config

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minRedacted is the length from which on a secret is looked for in texts; a shorter one would mask words.
	minRedacted = 4
	// maxSpelled bounds the pattern of a secret. A longer one fits into no header and is looked for as it is.
	maxSpelled = 4096
)

// Redactor returns a function that masks a target's secrets in a text, in every spelling that servers and programs use:
// quoted, as JSON, in HTML or a URL, in other letter case, and as HTTP Basic sends them. It is nil where there are none.
func Redactor(settings Settings) func(string) string {
	v := reflect.ValueOf(settings).Elem()
	fields := map[string]reflect.Value{}
	collectFields(v, fields)
	var forms []string
	eachSecret(v, func(_ string, s Secret) {
		secret := s.Reveal()
		if len(secret) < minRedacted {
			return
		}
		forms = append(forms, secret)
		for _, key := range []string{"user", "username"} {
			if user, ok := fields[key]; ok && user.Kind() == reflect.String {
				forms = append(forms, base64.StdEncoding.EncodeToString([]byte(user.String()+":"+secret)))
			}
		}
	})
	if len(forms) == 0 {
		return nil
	}
	// The longest first, so that one which another begins with does not leave the other's rest.
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) })
	patterns := make([]*regexp.Regexp, len(forms))
	for i, form := range forms {
		// Names of headers come in a letter case of their own, and so do the digits of escapes.
		patterns[i] = regexp.MustCompile("(?i)" + spellings(form))
	}
	return func(text string) string {
		for _, p := range patterns {
			text = p.ReplaceAllLiteralString(text, mask)
		}
		return text
	}
}

// spellings is a pattern for a text of which each character may be written in any of its ways.
func spellings(text string) string {
	if len(text) > maxSpelled {
		return regexp.QuoteMeta(strings.ToValidUTF8(text, "\uFFFD"))
	}
	var b strings.Builder
	for len(text) > 0 {
		_, size := utf8.DecodeRuneInString(text)
		b.WriteString(spelling(text[:size]))
		text = text[size:]
	}
	return b.String()
}

// neverEscaped are the characters that no encoding writes in another way.
var neverEscaped = regexp.MustCompile("^[A-Za-z0-9._~-]$")

// spelling is a pattern for one character, or one byte that is not valid UTF-8, in any of the ways it may be written.
func spelling(char string) string {
	r, _ := utf8.DecodeRuneInString(char) // of an invalid byte U+FFFD, which matches that byte too
	literal := string(r)
	if neverEscaped.MatchString(char) {
		return regexp.QuoteMeta(literal)
	}
	ways := []string{regexp.QuoteMeta(literal), regexp.QuoteMeta(html.EscapeString(literal)), percentEncoded(char)}
	asJSON, err := json.Marshal(char)
	if err != nil {
		asJSON = []byte(`""`) // a string always encodes
	}
	for _, quoted := range []string{strconv.Quote(char), strconv.QuoteToASCII(char), string(asJSON)} {
		inner := quoted[1 : len(quoted)-1]
		if escape := strings.TrimLeft(inner, `\`); escape != inner {
			ways = append(ways, `\\+`+regexp.QuoteMeta(escape)) // what is quoted twice has more backslashes
		}
	}
	if r == ' ' {
		ways = append(ways, `\+`, percentEncoded("+")) // in a query
	}
	if !unicode.IsPrint(r) {
		ways = append(ways, " ") // in a text that was made printable
	}
	return "(?:" + strings.Join(ways, "|") + ")"
}

// percentEncoded is a pattern for a character as it stands in a URL, or in one that is part of another.
func percentEncoded(char string) string {
	var b strings.Builder
	for i := range len(char) {
		fmt.Fprintf(&b, "%%(?:25)*%02x", char[i])
	}
	return b.String()
}
