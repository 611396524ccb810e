package status

import (
	"bytes"
	"maps"
	"math"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// family is what was read of an exposition.Family's lines.
type family struct {
	text    []byte
	samples []exposition.Line
}

// families are those of a target, by their names in text format. A family is read when it is needed, and again when its
// lines have changed.
type families struct {
	given map[string][]byte
	read  map[string]*family
}

// renew takes the wanted families of a new snapshot.
func (f *families) renew(given []exposition.Family, wanted func(name string) bool) {
	if f.read == nil {
		f.read = map[string]*family{}
	}
	f.given = make(map[string][]byte, len(given))
	for i := range given {
		if name := given[i].TextName(); wanted(name) {
			f.given[name] = given[i].Text
		}
	}
	maps.DeleteFunc(f.read, func(name string, _ *family) bool { return f.given[name] == nil })
}

// of returns the samples of a wanted family, none where the target does not have it.
func (f *families) of(name string) []exposition.Line {
	text, ok := f.given[name]
	if !ok {
		return nil
	}
	known := f.read[name]
	if known == nil || !same(known.text, text) {
		known = &family{text, parse(text)}
		f.read[name] = known
	}
	return known.samples
}

// maxName bounds what a person sees of a label's value, which is a name. An engine's own names are no longer.
const maxName = 255

// finite reports whether v is a number that JSON can tell.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// same reports whether two texts are equal, at once where they are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

// parse reads the samples that are finite numbers: others' pages may hold NaN and Inf, which JSON cannot. It is the one way
// of labels to people, so it makes names that somebody else gave fit to be shown.
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

// observed are a target's families and its verdict, at one moment.
type observed struct {
	poll.Status
	families *families
}
