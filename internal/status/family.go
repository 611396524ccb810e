package status

import (
	"bytes"
	"maps"
	"math"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// family is a parsed exposition.Family.
type family struct {
	text    []byte
	samples []exposition.Line
}

// families are a target's families, by their names in text format. A family is parsed when it is needed, and again when its
// lines have changed.
type families struct {
	texts  map[string][]byte
	parsed map[string]*family
}

// renew replaces the texts with the wanted families of a new snapshot.
func (f *families) renew(given []exposition.Family, wanted func(name string) bool) {
	if f.parsed == nil {
		f.parsed = map[string]*family{}
	}
	f.texts = make(map[string][]byte, len(given))
	for i := range given {
		if name := given[i].TextName(); wanted(name) {
			f.texts[name] = given[i].Text
		}
	}
	maps.DeleteFunc(f.parsed, func(name string, _ *family) bool { return f.texts[name] == nil })
}

// of returns the samples of a wanted family, none if the target does not have it.
func (f *families) of(name string) []exposition.Line {
	text, ok := f.texts[name]
	if !ok {
		return nil
	}
	known := f.parsed[name]
	if known == nil || !same(known.text, text) {
		known = &family{text, parse(text)}
		f.parsed[name] = known
	}
	return known.samples
}

// finite reports whether JSON can represent v.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// same reports whether two texts are equal; it is fast if they share memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

// parse returns the samples with finite values: other servers' metrics may hold NaN and Inf, which JSON cannot represent. All
// labels that people see pass through it, so it makes untrusted names printable.
func parse(text []byte) []exposition.Line {
	samples := make([]exposition.Line, 0, bytes.Count(text, []byte{'\n'}))
	for s := range exposition.Lines(text) {
		if !finite(s.Value) {
			continue
		}
		for i := range s.Labels {
			s.Labels[i].Value = failure.Printable(s.Labels[i].Value, maxName)
		}
		samples = append(samples, s)
	}
	return samples
}

// observed is a target's status with its families.
type observed struct {
	poll.Status
	families *families
}
