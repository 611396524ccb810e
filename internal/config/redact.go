package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// minRedacted is the minimum length of a secret to mask. A shorter one would mask ordinary words.
	minRedacted = 4
	// maxSpelled bounds the pattern of a secret, in bytes. A longer secret fits no header and is masked only verbatim.
	maxSpelled = 4096
	// maxLettersSpelled is the same for the spellings of letters and digits: each adds a hundred bytes to the pattern.
	maxLettersSpelled = 256
)

// Redactor returns a function that masks a target's secrets in a text, in every common spelling: quoted, in JSON, HTML or a
// URL, in other letter case, in base64, and as HTTP Basic sends them. It is nil for a target without secrets.
func Redactor(settings Settings) func(string) string {
	return redactor(secretsIn(settings), usersOf(settings))
}

// RedactorOf returns a function that masks a URL in a text, and the parts of it that may be its token: user and password, the parts of its
// path, the values of its query, and what stands for a host, as in pushbullet://TOKEN. It is never nil.
func RedactorOf(address Secret) func(string) string {
	secrets := partsOf(address.Reveal())
	for _, part := range slices.Clone(secrets) {
		if decoded, err := url.PathUnescape(part); err == nil && decoded != part {
			secrets = append(secrets, decoded)
		}
	}
	if redact := redactor(secrets, nil); redact != nil {
		return redact
	}
	return func(text string) string { return text }
}

// partsOf returns a URL, and the parts of it that may be a secret.
func partsOf(raw string) []string {
	scheme, rest, _ := strings.Cut(raw, "://")
	parts := []string{raw, rest}
	rest, query, _ := strings.Cut(rest, "?")
	for pair := range strings.FieldsFuncSeq(query, func(r rune) bool { return strings.ContainsRune("&;#", r) }) {
		_, value, _ := strings.Cut(pair, "=")
		parts = append(parts, value)
	}
	authority, path, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	parts = append(parts, strings.Split(authority[:max(at, 0)], ":")...)
	isWeb := strings.HasSuffix(scheme, "http") || strings.HasSuffix(scheme, "https")
	if host := HostOf(authority[at+1:]); !isWeb && !strings.ContainsAny(host, ".:") && host != scheme {
		parts = append(parts, host)
	}
	for part := range strings.SplitSeq(path, "/") {
		if !plainWord.MatchString(part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// plainWord matches what is in the path of many services, such as webhooks: masked, it would make advice unreadable.
var plainWord = regexp.MustCompile(`^[a-z]{1,8}$`)

// redactor returns a function that masks secrets, also as they are sent with one of these users; nil without a secret.
func redactor(secrets, users []string) func(string) string {
	forms := map[string]*regexp.Regexp{}
	for _, secret := range secrets {
		if len(secret) < minRedacted {
			continue
		}
		forms[secret] = spellings(secret, len(secret) <= maxLettersSpelled)
		for _, form := range encoded(secret, users) {
			forms[form] = spellings(form, false)
		}
	}
	if len(forms) == 0 {
		return nil
	}
	// Longest first: otherwise a secret that is a prefix of another leaves the end of that one visible.
	longest := slices.SortedFunc(maps.Keys(forms), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	return func(text string) string {
		for _, form := range longest {
			text = forms[form].ReplaceAllLiteralString(text, mask)
		}
		return text
	}
}

var (
	anyCharacter = regexp.MustCompile(`(?s).`)
	// punctuation is what most encodings escape.
	punctuation = regexp.MustCompile(`[^A-Za-z0-9]`)
)

// spellings matches a text in which each character may have any of its spellings. Servers change the letter case of header names and
// escapes.
func spellings(text string, letters bool) *regexp.Regexp {
	pattern := regexp.QuoteMeta(strings.ToValidUTF8(text, "\uFFFD"))
	switch {
	case len(text) > maxSpelled:
	case letters:
		pattern = anyCharacter.ReplaceAllStringFunc(text, spelling)
	default:
		pattern = punctuation.ReplaceAllStringFunc(text, spelling)
	}
	return regexp.MustCompile("(?i)" + pattern)
}

// named are the characters with a common HTML entity name.
var named = map[rune]string{'"': "quot", '\'': "apos", '&': "amp", '<': "lt", '>': "gt"}

// spelling is a pattern for all spellings of one character, or of one invalid byte: verbatim, escaped by backslashes, as an
// HTML entity, or as bytes. Double escaping adds backslashes, &amp; or %25.
func spelling(char string) string {
	r, _ := utf8.DecodeRuneInString(char) // U+FFFD for an invalid byte, which it also matches
	literal := regexp.QuoteMeta(string(r))
	switch {
	case r == '\'' || r == '"':
		literal = `(?:\\*` + literal + ")+" // SQL and YAML double a quote, the shell writes '\''
	case r < utf8.RuneSelf && unicode.IsPrint(r) && !unicode.IsLetter(r) && !unicode.IsDigit(r):
		literal = `\\*` + literal
	}
	entity := fmt.Sprintf("#0*%d|#x0*%x", r, r)
	if name, ok := named[r]; ok {
		entity += "|" + name
	}
	ways := []string{literal, "&(?:amp;)*(?:" + entity + ");?", fmt.Sprintf(`\\+(?:[ux]\{?0*%x\}?|%03o)`, r, r), bytewise(char)}
	if high, low := utf16.EncodeRune(r); high != unicode.ReplacementChar {
		ways = append(ways, fmt.Sprintf(`\\+u%x\\+u%x`, high, low))
	}
	if inner := strings.Trim(strconv.Quote(char), `"`); len(inner) == 2 && !unicode.IsPrint(r) {
		ways = append(ways, `\\+`+inner[1:]) // \n
	}
	if r == ' ' {
		ways = append(ways, `\+`, bytewise("+")) // in a query
	}
	if !unicode.IsPrint(r) {
		ways = append(ways, " ") // in a text after failure.Printable
	}
	return "(?:" + strings.Join(ways, "|") + ")"
}

// bytewise is a pattern for a character as hexadecimal bytes, as in a URL.
func bytewise(char string) string {
	var b strings.Builder
	for i := range len(char) {
		fmt.Fprintf(&b, `(?:%%(?:25)*|\\+x)%02x`, char[i])
	}
	return b.String()
}
