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

// sample keeps the sample of one line: series is its name and labels, rest what stands behind them.
func (r *reader) sample(series, rest []byte, value float64) {
	series = trimBlanks(series)
	name := series[:exposition.MetricNameLen(series)]
	if len(name) == 0 {
		r.drop(Malformed, "metric name outside [a-zA-Z0-9_:]", nil)
		return
	}
	f, role := r.familyOf(name)
	if f != nil && r.passesOver(f) {
		return
	}
	set := trimBlanks(series[len(name):])
	if limit := r.opts.LabelBytes; limit > 0 && (len(set) > limit || len(name) > limit) {
		if f != nil {
			f.truncated = true
		}
		r.drop(Limit, "labels or name too long", name)
		return
	}
	if f == nil {
		r.drop(Limit, "family beyond the limit", name)
		return
	}
	if f.rejected {
		r.drop(Clash, "family is declared before as another type", name)
		return
	}
	if f.kind == "" {
		f.setKind(model.MetricTypeUnknown)
	}
	s := sample{value: value, role: role, family: f.index}
	hash, fault := r.readLabels(&s, f, set)
	if fault != "" {
		r.drop(Malformed, fault, name)
		return
	}
	hash += maphash.Bytes(r.seed, name)
	if r.full(role) {
		f.truncated = true
		r.dropSample(Limit, role, "series beyond the limit", name)
		return
	}
	before := len(r.known)
	if r.known[hash] = struct{}{}; len(r.known) == before {
		r.dropSample(Clash, role, "series stands there twice", name)
		return
	}
	if r.openMetrics && (role == exposition.Total || role == exposition.Bucket || role == exposition.Bare && f.kind == model.MetricTypeCounter) {
		s.exemplar = r.exemplar(rest)
	}
	r.keep(f, s)
}

func (r *reader) keep(f *family, s sample) {
	r.scattered = r.scattered || len(r.samples) > 0 && r.samples[len(r.samples)-1].family > f.index
	r.samples = append(r.samples, s)
	f.seen[s.role]++
	if s.role == exposition.Created {
		r.created++
	}
}

// full reports whether the page has as many series as it may. Those of `_created` are no series, but bounded too.
func (r *reader) full(role exposition.Role) bool {
	n := len(r.samples) - r.created
	if role == exposition.Created {
		n = r.created
	}
	return r.opts.Series > 0 && n >= r.opts.Series
}

// readLabels reads the labels of a sample, drops those that the options name, and returns the hash of those that
// remain, in which their order does not count.
func (r *reader) readLabels(s *sample, f *family, set []byte) (hash uint64, fault string) {
	special := f.special(s.role)
	var group, own uint64
	has := false
	l := exposition.LabelReader[[]byte]{Set: set}
	r.names = r.names[:0]
	for len(set) > 0 {
		name, value, more := l.Next()
		if !more {
			if l.Fault != "" {
				return 0, l.Fault
			}
			if !l.Loose {
				break
			}
			set = r.canonical(set)
			l = exposition.LabelReader[[]byte]{Set: set}
			r.names, group, has = r.names[:0], 0, false
			continue
		}
		if r.dropsLabel(name) {
			l.Loose = true
			continue
		}
		r.names = append(r.names, name)
		if special == "" || string(name) != special {
			group += maphash.Bytes(r.seed, l.Set[l.Start:l.End])
			continue
		}
		has = true
		if own, fault = r.readSpecial(s, f, value); fault != "" {
			return 0, fault
		}
	}
	if hasDuplicate(r.names) {
		return 0, "label stands there twice"
	}
	if special != "" && has != f.needsSpecial(s.role) {
		return 0, "label " + special + " is missing or out of place"
	}
	for _, name := range r.names {
		if string(name) == model.MetricNameLabel {
			return 0, "label " + model.MetricNameLabel
		}
	}
	s.labels, s.group = set, group
	return group + bits.RotateLeft64(own, 1), ""
}

// readSpecial reads the label that tells the samples of one metric apart. Numbers count by value: le="1" is le="1.0".
func (r *reader) readSpecial(s *sample, f *family, value []byte) (hash uint64, fault string) {
	if f.kind == model.MetricTypeStateset {
		return maphash.Bytes(r.seed, value), ""
	}
	bound, err := parseFloat(value)
	if err != nil || math.IsNaN(bound) {
		return 0, "bound is no number"
	}
	if f.kind == model.MetricTypeSummary && (bound < 0 || bound > 1) {
		return 0, "quantile outside 0 to 1"
	}
	s.bound = bound
	return maphash.Comparable(r.seed, bound), ""
}

// dropsLabel reports whether a label of the upstream is taken off: by name, or because the options set it.
func (r *reader) dropsLabel(name []byte) bool {
	return slices.ContainsFunc(r.opts.DropLabels, func(drop string) bool { return drop == string(name) }) ||
		slices.ContainsFunc(r.opts.Labels, func(l exposition.Label) bool { return l.Name == string(name) })
}

// sideChunk is how much room for rewritten label sets is made at once.
const sideChunk = 64 << 10

// room makes room for n bytes more in side, without moving what is there.
func (r *reader) room(n int) {
	if cap(r.side)-len(r.side) < n {
		r.side = make([]byte, 0, max(n, sideChunk))
	}
}

// canonical writes a label set that can be read anew.
func (r *reader) canonical(set []byte) []byte {
	r.room(2 * len(set))
	from := len(r.side)
	r.side, _, _ = appendLabelSet(r.side, set, r.dropsLabel)
	return r.side[from:len(r.side):len(r.side)]
}

// maxExemplarRunes is how long the labels of an exemplar may be together, by the specification.
const maxExemplarRunes = 128

// exemplar keeps the exemplar behind a sample, if there is one and it is legal, and returns its place in the list.
func (r *reader) exemplar(rest []byte) int32 {
	_, rest, found := bytes.Cut(rest, []byte(" # "))
	if !found || len(rest) == 0 || rest[0] != '{' {
		return 0
	}
	runes := 0
	l := exposition.LabelReader[[]byte]{Set: rest}
	r.names = r.names[:0]
	for name, value, more := l.Next(); more; name, value, more = l.Next() {
		r.names = append(r.names, name)
		runes += len(name) + utf8.RuneCount(value)
	}
	if l.Fault != "" || runes > maxExemplarRunes || hasDuplicate(r.names) {
		return 0
	}
	value, timestamp := word(trimBlanks(rest[l.Pos:]))
	number, err := parseFloat(value)
	if err != nil {
		return 0
	}
	// The set may need an escape for each of its bytes; two numbers have up to 50 digits.
	r.room(2*l.Pos + 64)
	from := len(r.side)
	out, _, _ := appendLabelSet(r.side, rest[:l.Pos], nil)
	if len(out) == from {
		out = append(out, '{', '}')
	}
	out = exposition.AppendPlainValue(append(out, ' '), number)
	if len(timestamp) > 0 {
		observed, err := parseFloat(timestamp)
		if err != nil || !isFinite(observed) {
			return 0
		}
		out = exposition.AppendPlainValue(append(out, ' '), observed)
	}
	r.side = out
	r.exemplars = append(r.exemplars, out[from:len(out):len(out)])
	return int32(len(r.exemplars))
}
