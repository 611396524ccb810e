package status

import (
	"bytes"
	"math"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// sample is one series of a family with its value.
type sample struct {
	labels []label
	value  float64
}

type label struct{ name, value string }

// label returns the value of a label, or "".
func (s *sample) label(name string) string {
	for i := range s.labels {
		if s.labels[i].name == name {
			return s.labels[i].value
		}
	}
	return ""
}

// family is what was read of an exposition.Family, and the lines that it was read of.
type family struct {
	text    []byte
	samples []sample
}

// families are those of a target by the name that they have in text format. Only those that somebody asks for are read,
// and only when their lines have changed.
type families struct {
	given map[string][]byte
	read  map[string]*family
}

// renew takes a target's families of a new snapshot.
func (f *families) renew(given []exposition.Family) {
	if f.read == nil {
		f.read = map[string]*family{}
	}
	f.given = make(map[string][]byte, len(given))
	for i := range given {
		if wanted[given[i].TextName()] {
			f.given[given[i].TextName()] = given[i].Text
		}
	}
	for name := range f.read {
		if f.given[name] == nil {
			delete(f.read, name)
		}
	}
}

// of returns the samples of a family, none where the target does not have it. The name must be one of wanted.
func (f *families) of(name string) []sample {
	text, ok := f.given[name]
	if !ok {
		return nil
	}
	known := f.read[name]
	if known == nil || !same(known.text, text) {
		known = &family{text: text, samples: parse(text)}
		known.makePrintable()
		f.read[name] = known
	}
	return known.samples
}

// maxName bounds what a person sees of a label's value, which is a name. An engine's own names are no longer.
const maxName = 255

// makePrintable makes names that somebody else gave fit to be shown. It is the one way of labels to people.
func (f *family) makePrintable() {
	for i := range f.samples {
		for j := range f.samples[i].labels {
			l := &f.samples[i].labels[j]
			l.value = failure.Printable(l.value, maxName)
		}
	}
}

// value returns the value of the first series of a family.
func (f *families) value(name string) (float64, bool) {
	samples := f.of(name)
	if len(samples) == 0 {
		return 0, false
	}
	return samples[0].value, true
}

// sum adds all series of a family up.
func (f *families) sum(name string) (sum float64, ok bool) {
	samples := f.of(name)
	for i := range samples {
		sum += samples[i].value
	}
	return sum, len(samples) > 0 && finite(sum)
}

// finite reports whether v is a number that JSON can tell.
func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// same reports whether two texts are equal, at once where they are the same memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

// parse reads sample lines that this process has written. What it cannot read it leaves out, and so it does what is no
// finite number: others' pages may hold NaN and Inf, which JSON cannot.
func parse(text []byte) []sample {
	rest := string(text)
	lines := strings.Count(rest, "\n")
	samples := make([]sample, 0, lines)
	labels := make([]label, 0, 3*lines)
	for line := range strings.Lines(rest) {
		line = strings.TrimSuffix(line, "\n")
		from := len(labels)
		var ok bool
		if open := strings.IndexByte(line, '{'); open >= 0 {
			if labels, line, ok = parseLabels(labels, line[open+1:]); !ok {
				labels = labels[:from]
				continue
			}
		} else if _, line, ok = strings.Cut(line, " "); !ok {
			continue
		}
		value, _, _ := strings.Cut(strings.TrimLeft(line, " "), " ")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || !finite(v) {
			labels = labels[:from]
			continue
		}
		samples = append(samples, sample{labels[from:len(labels):len(labels)], v})
	}
	return samples
}

var unescape = strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n")

// parseLabels appends the labels at the beginning of text to labels and returns what follows the closing brace.
func parseLabels(labels []label, text string) ([]label, string, bool) {
	for {
		text = strings.TrimLeft(text, ", ")
		if rest, done := strings.CutPrefix(text, "}"); done {
			return labels, rest, true
		}
		name, rest, ok := strings.Cut(text, `="`)
		if !ok {
			return labels, "", false
		}
		end, escaped := 0, false
		for end < len(rest) && rest[end] != '"' {
			if rest[end] == '\\' {
				escaped = true
				end++
			}
			end++
		}
		if end >= len(rest) {
			return labels, "", false
		}
		value := rest[:end]
		if escaped {
			value = unescape.Replace(value)
		}
		labels = append(labels, label{name, value})
		text = rest[end+1:]
	}
}

// observed are a target's families and its verdict, at one moment.
type observed struct {
	poll.Status
	families *families
}
