package openmetrics

import (
	"bytes"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// label is a label as written on the page, name="value", and its two parts.
type label struct{ text, name, value []byte }

// sample reads a line that is not metadata. The line has no blanks around it.
func (r *reader) sample(line []byte) {
	name := line[:exposition.MetricNameLen(line)]
	r.labels = r.labels[:0]
	set, rest := []byte(nil), trimBlanks(line[len(name):])
	var size int
	var fault string
	limit := r.opts.LabelBytes
	if !utf8.Valid(line) {
		fault = "bytes that are not UTF-8"
	} else if len(name) > 0 && len(rest) > 0 && rest[0] == '{' {
		set, rest, size, fault = r.readLabels(rest, limit, r.dropsLabel)
	}
	value, rest, isSample := readValue(rest)
	if fault == "" && (len(name) == 0 || !isSample) {
		fault = "not a sample line"
	}
	if fault != "" {
		// Report the first word of a broken line only if it is certainly a metric's name.
		if len(name) == len(line) || line[len(name)] != '{' {
			name = nil
		}
		r.drop(Malformed, r.line, 1, fault, name)
		return
	}
	f, role := r.familyOf(name)
	if f != nil && r.skips(f) {
		return
	}
	if r.holdsSecret(name) || r.hasSecretLabel() {
		r.drop(Secret, r.line, 1, "the name or a label holds a secret of the exporter's configuration", nil)
		return
	}
	if limit > 0 && (size > limit || len(name) > limit) {
		if f != nil {
			f.truncated = true
		}
		r.drop(Limit, r.line, 1, "labels or name too long", name)
		return
	}
	if f == nil {
		r.drop(Limit, r.line, 1, "family beyond the limit", name)
		return
	}
	if f.rejected {
		r.drop(Clash, r.line, 1, "family was declared before as another type", name)
		return
	}
	if f.kind == "" {
		f.setKind(model.MetricTypeUnknown)
	}
	s := sample{
		labels: set,
		value:  value,
		role:   role,
		family: f.index,
	}
	hash, fault := r.identify(&s, f)
	if fault != "" {
		r.drop(Malformed, r.line, 1, fault, name)
		return
	}
	hash += maphash.Bytes(r.seed, name)
	if r.full(role) {
		f.truncated = true
		r.drop(Limit, r.line, seriesOf(role), "series beyond the limit", name)
		return
	}
	before := len(r.known)
	if r.known[hash] = struct{}{}; len(r.known) == before {
		r.drop(Clash, r.line, seriesOf(role), "duplicate series", name)
		return
	}
	if r.openMetrics &&
		(role == exposition.Total || role == exposition.Bucket || role == exposition.Bare && f.kind == model.MetricTypeCounter) {
		s.exemplar = r.exemplar(rest)
	}
	r.keep(f, s)
}

// seriesOf returns how many series a sample of the role counts as: 0 for `_created`, otherwise 1.
func seriesOf(role exposition.Role) int {
	if role == exposition.Created {
		return 0
	}
	return 1
}

// readValue reads the value and the timestamp of a sample. rest is empty or begins with #.
func readValue(text []byte) (value float64, rest []byte, ok bool) {
	number, rest := word(text)
	value, err := parseFloat(number)
	if err == nil && len(rest) > 0 && rest[0] != '#' {
		number, rest = word(rest)
		_, err = parseFloat(number)
	}
	return value, rest, err == nil && (len(rest) == 0 || rest[0] == '#')
}

func (r *reader) keep(f *family, s sample) {
	r.scattered = r.scattered || len(r.samples) > 0 && r.samples[len(r.samples)-1].family > f.index
	r.samples = append(r.samples, s)
	f.seen[s.role]++
	if s.role == exposition.Created {
		r.created++
	}
}

// full reports whether the limit of series is reached. `_created` samples are counted separately, with the same limit.
func (r *reader) full(role exposition.Role) bool {
	n := len(r.samples) - r.created
	if role == exposition.Created {
		n = r.created
	}
	return r.opts.Series > 0 && n >= r.opts.Series
}

// readLabels reads the label set at the beginning of text into r.labels, without the labels that drop refuses. It returns
// the canonical set (nil if empty) and the rest of text. size is the length of the set including dropped labels. A set of
// more than limit bytes is checked, but not kept; 0 means no limit.
func (r *reader) readLabels(text []byte, limit int, drop func([]byte) bool) (set, rest []byte, size int, fault string) {
	r.labels = r.labels[:0]
	size = len("{")
	l := exposition.LabelReader[[]byte]{Set: text}
	for name, value, more := l.Next(); more; name, value, more = l.Next() {
		size += len(name) + len(value) + len(`="",`)
		switch {
		case limit > 0 && size > limit:
		case drop != nil && drop(name):
			l.Loose = true
		default:
			r.labels = append(r.labels, label{text[l.Start:l.End], name, value})
		}
	}
	switch {
	case l.Fault != "":
		return nil, nil, 0, l.Fault
	case limit > 0 && size > limit:
	case l.Loose:
		set = r.canonical(size)
		size = max(size, len(set))
	default:
		set = text[:l.Pos]
	}
	return set, trimBlanks(text[l.Pos:]), size, ""
}

// canonical rewrites the labels, which have at most size bytes without escapes.
func (r *reader) canonical(size int) []byte {
	if len(r.labels) == 0 {
		return nil
	}
	r.room(2 * size)
	from := len(r.side)
	open := byte('{')
	for i := range r.labels {
		l := &r.labels[i]
		r.side = append(r.side, open)
		begin := len(r.side)
		r.side = exposition.AppendLabel(r.side, l.name, exposition.Unescape(l.value))
		l.text = r.side[begin:len(r.side)]
		open = ','
	}
	r.side = append(r.side, '}')
	return r.side[from:len(r.side):len(r.side)]
}

// identify checks the labels of a sample and returns a hash of them that does not depend on their order.
func (r *reader) identify(s *sample, f *family) (hash uint64, fault string) {
	special := f.special(s.role)
	var own uint64
	has := false
	for _, l := range r.labels {
		if special == "" || string(l.name) != special {
			s.group += maphash.Bytes(r.seed, l.text)
			continue
		}
		has = true
		if own, fault = r.readSpecial(s, f, l.value); fault != "" {
			return 0, fault
		}
	}
	if hasDuplicate(r.labels) {
		return 0, "duplicate label"
	}
	if special != "" && has != f.needsSpecial(s.role) {
		return 0, "label " + special + " is missing or out of place"
	}
	for _, l := range r.labels {
		if string(l.name) == model.MetricNameLabel {
			return 0, "label " + model.MetricNameLabel
		}
	}
	return s.group + bits.RotateLeft64(own, 1), ""
}

// readSpecial reads the label that distinguishes the samples of one metric. Numbers are compared by value: le="1" is le="1.0".
func (r *reader) readSpecial(s *sample, f *family, value []byte) (hash uint64, fault string) {
	if f.kind == model.MetricTypeStateset {
		return maphash.Bytes(r.seed, exposition.Unescape(value)), ""
	}
	bound, err := parseFloat(value)
	if err != nil || math.IsNaN(bound) {
		return 0, "bound is not a number"
	}
	if f.kind == model.MetricTypeSummary && (bound < 0 || bound > 1) {
		return 0, "quantile outside 0 to 1"
	}
	s.bound = bound
	return maphash.Comparable(r.seed, bound), ""
}

// fewLabels is the number of labels up to which comparing all pairs is the fastest way to find a duplicate.
const fewLabels = 12

// hasDuplicate reports whether two labels have the same name. It may reorder them.
func hasDuplicate(labels []label) bool {
	if len(labels) > fewLabels {
		slices.SortFunc(labels, func(a, b label) int { return bytes.Compare(a.name, b.name) })
		for i := 1; i < len(labels); i++ {
			if bytes.Equal(labels[i-1].name, labels[i].name) {
				return true
			}
		}
		return false
	}
	for i := 1; i < len(labels); i++ {
		for j := range i {
			if bytes.Equal(labels[i].name, labels[j].name) {
				return true
			}
		}
	}
	return false
}

// dropsLabel reports whether a label is removed: by name, or because the options set it.
func (r *reader) dropsLabel(name []byte) bool {
	return slices.ContainsFunc(r.opts.DropLabels, func(drop string) bool { return drop == string(name) }) ||
		slices.ContainsFunc(r.opts.Labels, func(l exposition.Label) bool { return l.Name == string(name) })
}

// sideChunk is how many bytes for rewritten label sets are allocated at once.
const sideChunk = 64 << 10

// room makes room for n more bytes in side without moving its content.
func (r *reader) room(n int) {
	if cap(r.side)-len(r.side) < n {
		r.side = make([]byte, 0, max(n, sideChunk))
	}
}

const (
	// maxExemplarRunes is the specification's limit for all labels of an exemplar.
	maxExemplarRunes = 128
	// maxExemplarBytes is the resulting limit in bytes: each label has a name, and a rune has up to 4 bytes.
	maxExemplarBytes = (utf8.UTFMax+len(`="",`))*maxExemplarRunes + len("{")
)

// exemplar keeps a valid exemplar and returns its place in the list, or 0.
func (r *reader) exemplar(text []byte) int32 {
	if len(text) == 0 {
		return 0
	}
	text = trimBlanks(text[1:])
	if len(text) == 0 || text[0] != '{' {
		return 0
	}
	set, rest, size, fault := r.readLabels(text, maxExemplarBytes, nil)
	if fault != "" || size > maxExemplarBytes {
		return 0
	}
	runes := 0
	for _, l := range r.labels {
		runes += utf8.RuneCount(l.text) - len(`=""`)
	}
	if runes > maxExemplarRunes || hasDuplicate(r.labels) || r.hasSecretLabel() {
		return 0
	}
	if len(set) == 0 {
		set = []byte("{}")
	}
	// Two numbers have up to 50 digits.
	r.room(len(set) + 64)
	from := len(r.side)
	out := append(r.side, set...)
	numbers := 0
	for number := range bytes.FieldsSeq(rest) {
		v, err := parseFloat(number)
		if numbers++; err != nil || numbers > 2 || numbers > 1 && !isFinite(v) {
			return 0
		}
		out = exposition.AppendPlainValue(append(out, ' '), v)
	}
	if numbers == 0 {
		return 0
	}
	r.side = out
	r.exemplars = append(r.exemplars, out[from:len(out):len(out)])
	return int32(len(r.exemplars))
}
