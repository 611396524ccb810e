package exposition

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
)

// Encoder encodes the metrics of one source repeatedly. Unchanged families keep their memory. It is for one goroutine at a
// time; the zero Encoder is ready.
type Encoder struct {
	layouts map[*prometheus.Desc]*layout
	buffer  []byte
	// round counts calls, to remove what a call did not use.
	round uint64
}

// layout is how samples of one descriptor are written.
type layout struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// name begins each line; keys are `name="` of the labels in written order, and order has the indexes of their values in a
	// sample.
	name  string
	keys  []string
	order []int
	round uint64
	// samples are the samples of this call.
	samples []*Sample
	// family is the last result; at first, a family without lines.
	family Family
}

// Encode encodes metrics. It sorts families by name, and lines by the values of their labels. The rules of a pedantic
// registry apply: if one is broken, Encode returns an error and no families.
func (e *Encoder) Encode(metrics []prometheus.Metric) ([]Family, error) {
	if families, ok := e.encode(metrics); ok {
		return families, nil
	}
	// A rule is broken, which the registry explains best, or there are metrics of another type.
	return encodeGathered(metrics)
}

// encode writes out samples, or reports false where it cannot, or must not.
func (e *Encoder) encode(metrics []prometheus.Metric) ([]Family, bool) {
	e.round++
	if e.layouts == nil {
		e.layouts = map[*prometheus.Desc]*layout{}
	}
	defer e.tidy()
	used, ok := e.sort(metrics)
	if !ok {
		return nil, false
	}
	families := make([]Family, 0, len(used))
	for i, l := range used {
		if i > 0 && used[i-1].name == l.name || !l.arrange() {
			return nil, false
		}
		e.buffer = e.buffer[:0]
		for _, s := range l.samples {
			e.buffer = l.appendLine(e.buffer, s)
		}
		if !bytes.Equal(e.buffer, l.family.Text) {
			l.family.Text = bytes.Clone(e.buffer)
			l.family.OpenMetrics = l.family.Text
		}
		l.family.Series = len(l.samples)
		families = append(families, l.family)
	}
	return families, true
}

// sort assigns samples to layouts, and returns the used layouts sorted by name.
func (e *Encoder) sort(metrics []prometheus.Metric) (used []*layout, ok bool) {
	var l *layout
	for _, m := range metrics {
		s, ok := m.(*Sample)
		if !ok {
			return nil, false
		}
		if l == nil || l.desc != s.desc {
			if l = e.layouts[s.desc]; l == nil {
				if l, ok = newLayout(s); !ok {
					return nil, false
				}
				e.layouts[s.desc] = l
			}
		}
		if l.kind != s.kind || len(l.order) != len(s.labels) {
			return nil, false
		}
		if l.round != e.round {
			l.round = e.round
			used = append(used, l)
		}
		l.samples = append(l.samples, s)
	}
	slices.SortFunc(used, func(a, b *layout) int { return strings.Compare(a.name, b.name) })
	return used, true
}

// tidy removes the samples and unused descriptors.
func (e *Encoder) tidy() {
	for desc, l := range e.layouts {
		if l.round != e.round {
			delete(e.layouts, desc)
		}
		clear(l.samples)
		l.samples = l.samples[:0]
	}
}

// newLayout derives the layout of samples like this one: a registry encodes a sample with placeholders for the labels. It
// returns false if the layout cannot express the result.
func newLayout(like *Sample) (*layout, bool) {
	marks := make([]string, len(like.labels))
	for i := range marks {
		marks[i] = strconv.Itoa(i)
	}
	gathered, err := gather([]prometheus.Metric{NewSample(like.desc, like.kind, 0, marks...)})
	if err != nil || len(gathered) != 1 || len(gathered[0].GetMetric()) != 1 {
		return nil, false
	}
	families, err := FromGathered(gathered)
	if err != nil {
		return nil, false
	}
	l := &layout{desc: like.desc, kind: like.kind, name: gathered[0].GetName(), family: families[0]}
	l.family.Text, l.family.OpenMetrics = nil, nil
	pairs := gathered[0].GetMetric()[0].GetLabel()
	// Labels that are constant, and names that have to be quoted, are left to the registry.
	if len(pairs) != len(marks) || !model.LegacyValidation.IsValidMetricName(l.name) {
		return nil, false
	}
	for i, pair := range pairs {
		if !model.LegacyValidation.IsValidLabelName(pair.GetName()) {
			return nil, false
		}
		key := "," + pair.GetName() + `="`
		if i == 0 {
			key = "{" + key[1:]
		}
		l.keys = append(l.keys, key)
		l.order = append(l.order, slices.Index(marks, pair.GetValue()))
	}
	return l, true
}

// arrange sorts the samples and reports whether they are valid: no duplicates, and all labels UTF-8.
func (l *layout) arrange() bool {
	if !slices.IsSortedFunc(l.samples, l.compare) {
		slices.SortFunc(l.samples, l.compare)
	}
	for i, s := range l.samples {
		if i > 0 && l.compare(l.samples[i-1], s) == 0 {
			return false
		}
		for _, label := range s.labels {
			if !utf8.ValidString(label) {
				return false
			}
		}
	}
	return true
}

func (l *layout) compare(a, b *Sample) int {
	for _, i := range l.order {
		if c := strings.Compare(a.labels[i], b.labels[i]); c != 0 {
			return c
		}
	}
	return 0
}

func (l *layout) appendLine(b []byte, s *Sample) []byte {
	b = append(b, l.name...)
	for i, key := range l.keys {
		b = append(b, key...)
		b = appendEscaped(b, s.labels[l.order[i]])
		b = append(b, '"')
	}
	if len(l.keys) > 0 {
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = AppendValue(b, s.value)
	return append(b, '\n')
}
