package exposition

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
)

// Encoder encodes the metrics of one source repeatedly. Unchanged families keep their memory. It is for one goroutine at a
// time; the zero Encoder is ready.
type Encoder struct{ last []Family }

// layout is how samples of one descriptor are written. It is immutable.
type layout struct {
	kind prometheus.ValueType
	// family has no lines. name begins each line; keys are `name="` of the labels in written order, and order has the indexes of
	// their values in a sample.
	family Family
	name   string
	keys   []string
	order  []int
}

// layouts are known by descriptor. All descriptors are package variables, so there are few.
var layouts sync.Map // *prometheus.Desc -> *layout

// scratch is the memory of one call of Encode.
type scratch struct {
	groups map[*prometheus.Desc]*group
	used   []*group
	buffer []byte
}

var scratches = sync.Pool{New: func() any { return &scratch{groups: map[*prometheus.Desc]*group{}} }}

// group is the samples of one descriptor.
type group struct {
	*layout
	samples []*Sample
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
	s := scratches.Get().(*scratch)
	defer s.release()
	if !s.sort(metrics) {
		return nil, false
	}
	families := make([]Family, 0, len(s.used))
	for i, g := range s.used {
		if i > 0 && s.used[i-1].name == g.name || !g.arrange() {
			return nil, false
		}
		s.buffer = s.buffer[:0]
		for _, sample := range g.samples {
			s.buffer = g.appendLine(s.buffer, sample)
		}
		f := g.family
		f.Text, f.Series = e.keep(f.Name, s.buffer), len(g.samples)
		f.OpenMetrics = f.Text
		families = append(families, f)
	}
	e.last = families
	return families, true
}

// keep returns a copy of a family's lines, or those of the last call if they are the same.
func (e *Encoder) keep(family string, lines []byte) []byte {
	for i := range e.last {
		if e.last[i].Name == family && bytes.Equal(e.last[i].Text, lines) {
			return e.last[i].Text
		}
	}
	return bytes.Clone(lines)
}

// sort assigns samples to groups, and sorts the used ones by name.
func (s *scratch) sort(metrics []prometheus.Metric) (ok bool) {
	var g *group
	var desc *prometheus.Desc
	for _, m := range metrics {
		sample, ok := m.(*Sample)
		if !ok {
			return false
		}
		if g == nil || desc != sample.desc {
			desc = sample.desc
			if g = s.groups[desc]; g == nil {
				l, ok := layoutOf(sample)
				if !ok {
					return false
				}
				g = &group{layout: l}
				s.groups[desc] = g
			}
		}
		if g.kind != sample.kind || len(g.order) != len(sample.labels) {
			return false
		}
		if len(g.samples) == 0 {
			s.used = append(s.used, g)
		}
		g.samples = append(g.samples, sample)
	}
	slices.SortFunc(s.used, func(a, b *group) int { return strings.Compare(a.name, b.name) })
	return true
}

// release makes the scratch ready for another call, without the samples.
func (s *scratch) release() {
	for _, g := range s.used {
		clear(g.samples)
		g.samples = g.samples[:0]
	}
	s.used = s.used[:0]
	scratches.Put(s)
}

// layoutOf returns the layout of samples like this one, or false if they need the registry.
func layoutOf(like *Sample) (*layout, bool) {
	if l, ok := layouts.Load(like.desc); ok {
		return l.(*layout), true
	}
	l, ok := newLayout(like)
	if ok {
		layouts.Store(like.desc, l)
	}
	return l, ok
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
	l := &layout{kind: like.kind, name: gathered[0].GetName(), family: families[0]}
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
func (g *group) arrange() bool {
	if !slices.IsSortedFunc(g.samples, g.compare) {
		slices.SortFunc(g.samples, g.compare)
	}
	for i, s := range g.samples {
		if i > 0 && g.compare(g.samples[i-1], s) == 0 {
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
