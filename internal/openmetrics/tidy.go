package openmetrics

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// tidy replaces what is left of the page by the same in the grammar's one true spelling, without the lines that have
// none. It drops what no kindness makes a sample.
func (r *reader) tidy() {
	rest := r.buf[r.pos:]
	line := r.line
	out := make([]byte, 0, len(rest)+2)
	r.origins = make([]int32, 0, min(bytes.Count(rest, []byte{'\n'}), len(rest)/lineGuess)+1)
	for len(rest) > 0 {
		raw, after, _ := bytes.Cut(rest, []byte{'\n'})
		rest = after
		line++
		from := len(out)
		var fault string
		if out, fault = r.tidyLine(out, bytes.Trim(raw, " \t\r")); fault != "" {
			out = out[:from]
			if fault != faultMetadata {
				r.page.Dropped[Malformed]++
			}
			r.tell(Malformed, line, fault, metricName(trimBlanks(raw)))
		}
		if len(out) > from {
			r.origins = append(r.origins, int32(line))
		}
	}
	r.buf, r.pos, r.line = out, 0, 0
}

const (
	faultMetadata = "metadata that cannot be read"
	faultLine     = "no sample line"
)

// metricName is the name that a broken sample line begins with, if it is one beyond doubt.
func metricName(line []byte) []byte {
	if n := exposition.MetricNameLen(line); n < len(line) && line[n] == '{' {
		return line[:n]
	}
	return nil
}

// tidyLine writes one line, which has no blanks around it, or nothing, if nothing is lost without it.
func (r *reader) tidyLine(dst, line []byte) (out []byte, fault string) {
	switch {
	case len(line) == 0:
		return dst, ""
	case line[0] == '#':
		return r.tidyMetadata(dst, line)
	case !utf8.Valid(line):
		return dst, "bytes that are no UTF-8"
	default:
		return r.tidySample(dst, line)
	}
}

func (r *reader) tidyMetadata(dst, line []byte) (out []byte, fault string) {
	keyword, rest := word(line[1:])
	if len(keyword) > 0 {
		return dst, "" // #HELP is a comment
	}
	keyword, rest = word(rest)
	name, text := word(rest)
	switch string(keyword) {
	case "EOF":
		if r.openMetrics && len(rest) == 0 {
			dst = append(dst, "# EOF\n"...)
		}
		return dst, ""
	case "HELP":
		text = bytes.ReplaceAll(bytes.ToValidUTF8(text, []byte("\uFFFD")), []byte{0}, nil)
		if text = bytes.Trim(text, " \t\r"); len(text) == 0 {
			return dst, ""
		}
	case "TYPE":
		kind, ok := r.typeWord(strings.ToLower(string(text)))
		if !ok {
			return dst, faultMetadata
		}
		text = []byte(kind)
	case "UNIT":
		if !r.openMetrics || len(text) == 0 {
			return dst, ""
		}
		if !unitFits(string(name), string(text), "") {
			return dst, faultMetadata
		}
	default:
		return dst, ""
	}
	if !exposition.IsMetricName(name) {
		return dst, faultMetadata
	}
	dst = append(dst, '#', ' ')
	dst = append(dst, keyword...)
	dst = append(dst, ' ')
	dst = append(dst, name...)
	dst = append(dst, ' ')
	dst = append(dst, text...)
	return append(dst, '\n'), ""
}

// typeWord spells a type as the page's own format does.
func (r *reader) typeWord(kind string) (string, bool) {
	const untyped = "untyped"
	if kind == untyped {
		kind = string(model.MetricTypeUnknown)
	}
	if exposition.RolesOf(model.MetricType(kind)) == nil {
		return "", false
	}
	if r.openMetrics {
		return kind, true
	}
	switch t := model.MetricType(kind); t {
	case model.MetricTypeUnknown:
		return untyped, true
	case model.MetricTypeStateset:
		return string(model.MetricTypeGauge), true
	case model.MetricTypeInfo, model.MetricTypeGaugeHistogram:
		return "", false
	default:
		return kind, true
	}
}

func (r *reader) tidySample(dst, line []byte) (out []byte, fault string) {
	n := exposition.MetricNameLen(line)
	if n == 0 {
		return dst, faultLine
	}
	dst = append(dst, line[:n]...)
	line = trimBlanks(line[n:])
	if len(line) > 0 && line[0] == '{' {
		if dst, n, fault = appendLabelSet(dst, line, nil); fault != "" {
			return dst, fault
		}
		line = trimBlanks(line[n:])
	}
	value, rest := word(line)
	if _, err := parseFloat(value); err != nil {
		return dst, faultLine
	}
	dst = append(dst, ' ')
	dst = append(dst, value...)
	if len(rest) > 0 && rest[0] != '#' {
		var timestamp []byte
		if timestamp, rest = word(rest); len(timestamp) > 0 {
			if _, err := parseFloat(timestamp); err != nil {
				return dst, faultLine
			}
		}
	}
	if len(rest) > 0 && rest[0] != '#' {
		return dst, faultLine
	}
	if r.openMetrics && len(rest) > 0 {
		dst = tidyExemplar(dst, trimBlanks(rest[1:]))
	}
	return append(dst, '\n'), ""
}

// tidyExemplar writes an exemplar, or nothing if it cannot be read: the sample counts without it.
func tidyExemplar(dst, rest []byte) []byte {
	from := len(dst)
	if len(rest) == 0 || rest[0] != '{' {
		return dst
	}
	dst = append(dst, " # "...)
	set := len(dst)
	dst, n, fault := appendLabelSet(dst, rest, nil)
	if fault != "" {
		return dst[:from]
	}
	if len(dst) == set {
		dst = append(dst, '{', '}')
	}
	numbers := bytes.Fields(rest[n:])
	if len(numbers) == 0 || len(numbers) > 2 {
		return dst[:from]
	}
	for i, number := range numbers {
		if v, err := parseFloat(number); err != nil || i == 1 && !isFinite(v) {
			return dst[:from]
		}
		dst = append(dst, ' ')
		dst = append(dst, number...)
	}
	return dst
}
