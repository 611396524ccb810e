package exposition

import "strings"

// Label is a label with its unescaped value.
type Label struct{ Name, Value string }

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

// text is what can be read without a copy.
type text interface{ ~string | ~[]byte }

// MetricNameLen is the length of the metric name that s begins with, 0 without one.
func MetricNameLen[T text](s T) int { return nameLen(s, metricStart, metricRest) }

// IsMetricName reports whether s is a metric name of the classic alphabet.
func IsMetricName[T text](s T) bool { return len(s) > 0 && MetricNameLen(s) == len(s) }

// IsLabelName reports whether s is a label name of the classic alphabet.
func IsLabelName[T text](s T) bool { return len(s) > 0 && nameLen(s, labelStart, labelRest) == len(s) }

func nameLen[T text](s T, start, rest uint8) int {
	if len(s) == 0 || alphabet[s[0]]&start == 0 {
		return 0
	}
	n := 1
	for n < len(s) && alphabet[s[n]]&rest != 0 {
		n++
	}
	return n
}

// LabelReader walks a label set from its opening brace on. It accepts blanks and loose commas.
type LabelReader[T text] struct {
	Set T
	// Pos is where the reader stands: behind the closing brace once Next has returned false.
	Pos int
	// Loose is set when the set is not written in the one canonical way.
	Loose bool
	// Fault, where set, says why the set cannot be read.
	Fault string
	// Start and End enclose the label that Next returned last.
	Start, End int

	begun bool
}

func (l *LabelReader[T]) skipBlanks() {
	for l.Pos < len(l.Set) && (l.Set[l.Pos] == ' ' || l.Set[l.Pos] == '\t') {
		l.Pos++
		l.Loose = true
	}
}

// Next returns the next label, the value as it stands between its quotes, or false at the end of the set or at a fault.
func (l *LabelReader[T]) Next() (name, value T, more bool) {
	if !l.begun {
		l.Pos++ // the brace
	}
	l.skipBlanks()
	comma := false
	if l.begun && l.Pos < len(l.Set) && l.Set[l.Pos] == ',' {
		comma = true
		l.Pos++
		l.skipBlanks()
	}
	if l.Pos >= len(l.Set) {
		l.Fault = "unterminated label set"
		return name, value, false
	}
	if l.Set[l.Pos] == '}' {
		l.Pos++
		l.Loose = l.Loose || comma || !l.begun
		return name, value, false
	}
	l.Loose = l.Loose || (l.begun && !comma)
	l.begun = true
	l.Start = l.Pos
	n := nameLen(l.Set[l.Pos:], labelStart, labelRest)
	if n == 0 {
		l.Fault = "label name outside [a-zA-Z0-9_]"
		return name, value, false
	}
	name = l.Set[l.Pos : l.Pos+n]
	l.Pos += n
	l.skipBlanks()
	if l.Pos >= len(l.Set) || l.Set[l.Pos] != '=' {
		l.Fault = "label without a value"
		return name, value, false
	}
	l.Pos++
	l.skipBlanks()
	if l.Pos >= len(l.Set) || l.Set[l.Pos] != '"' {
		l.Fault = "label value without quotes"
		return name, value, false
	}
	l.Pos++
	from := l.Pos
	for ; l.Pos < len(l.Set); l.Pos++ {
		switch l.Set[l.Pos] {
		case '"':
			value = l.Set[from:l.Pos]
			l.Pos++
			l.End = l.Pos
			return name, value, true
		case '\\':
			if next := l.Pos + 1; next < len(l.Set) && (l.Set[next] == 'n' || l.Set[next] == '"' || l.Set[next] == '\\') {
				l.Pos = next
			} else {
				l.Loose = true
			}
		case '\n', 0:
			l.Fault = "control character in a label value"
			return name, value, false
		}
	}
	l.Fault = "unterminated label value"
	return name, value, false
}

var unescaper = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// Unescape undoes the escapes of a label's value. A backslash that escapes nothing stays.
func Unescape[T text](value T) T {
	for i := range len(value) {
		if value[i] == '\\' {
			return T(unescaper.Replace(string(value)))
		}
	}
	return value
}

// AppendLabel appends name="value", with the value escaped as both formats require.
func AppendLabel[T text](dst []byte, name, value T) []byte {
	dst = append(append(dst, name...), `="`...)
	return append(appendEscaped(dst, value), '"')
}

func appendEscaped[T text](dst []byte, value T) []byte {
	written := 0
	for i := range len(value) {
		switch value[i] {
		case '\n':
			dst = append(append(dst, value[written:i]...), `\n`...)
		case '\\', '"':
			dst = append(append(dst, value[written:i]...), '\\', value[i])
		default:
			continue
		}
		written = i + 1
	}
	return append(dst, value[written:]...)
}
