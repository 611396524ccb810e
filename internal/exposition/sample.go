package exposition

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/model"
)

// Sample is one gauge or counter as it is known at one moment. It implements prometheus.Metric, and an Encoder writes it
// out without what a registry needs for that. What is wrong with it is told when it is written, not when it is made.
type Sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

// NewSample makes a sample with values of the descriptor's variable labels, in their order. It keeps labels.
func NewSample(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) *Sample {
	return &Sample{desc: desc, kind: kind, value: value, labels: labels}
}

// Desc implements prometheus.Metric.
func (s *Sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric. Its error says which label is wrong.
func (s *Sample) Write(out *dto.Metric) error {
	m, err := prometheus.NewConstMetric(s.desc, s.kind, s.value, s.labels...)
	if err != nil {
		return err
	}
	return m.Write(out)
}

// Samples are many samples in few pieces of memory. The zero value is ready.
type Samples struct {
	all []Sample
	// labels is where the labels of the last samples are.
	labels []string
}

// labelsAtOnce is how many labels get memory together, once there are so many.
const labelsAtOnce = 4096

// Add adds a sample; see NewSample. It does not keep labels.
func (s *Samples) Add(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	if cap(s.labels)-len(s.labels) < len(labels) {
		s.labels = make([]string, 0, max(len(labels), min(max(2*cap(s.labels), 16), labelsAtOnce)))
	}
	from := len(s.labels)
	s.labels = append(s.labels, labels...)
	s.all = append(s.all, Sample{desc: desc, kind: kind, value: value, labels: s.labels[from:len(s.labels):len(s.labels)]})
}

// AppendTo appends the samples, which stay as they are when more are added.
func (s *Samples) AppendTo(metrics []prometheus.Metric) []prometheus.Metric {
	metrics = slices.Grow(metrics, len(s.all))
	for i := range s.all {
		metrics = append(metrics, &s.all[i])
	}
	return metrics
}

// Encoder writes out metrics of one source, again and again. It remembers families, so that one that has not changed is the
// same memory as before. It is for one goroutine at a time; the zero Encoder is ready.
type Encoder struct {
	layouts map[*prometheus.Desc]*layout
	buffer  []byte
	// round counts calls, so that what was not met in one is forgotten.
	round uint64
}

// layout is how samples of one descriptor are written.
type layout struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	// name is what each line begins with; keys are `name="` of the labels in the order in which they are written, and order
	// is where their values are among a sample's.
	name  string
	keys  []string
	order []int
	round uint64
	// samples are those of this call.
	samples []*Sample
	// family is what was written last; one without lines before that.
	family Family
}

// Encode writes metrics out. The families are sorted by name, and their lines by the values of their labels. The same rules
// hold as in a pedantic registry: what breaks one of them is an error, and nothing is written.
func (e *Encoder) Encode(metrics []prometheus.Metric) ([]Family, error) {
	if families, ok := e.encode(metrics); ok {
		return families, nil
	}
	// Either a rule is broken, which the registry tells best, or there are metrics of another sort.
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

// sort puts samples to their layouts, and returns those sorted by name.
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

// tidy forgets the samples, and descriptors that were not met.
func (e *Encoder) tidy() {
	for desc, l := range e.layouts {
		if l.round != e.round {
			delete(e.layouts, desc)
		}
		clear(l.samples)
		l.samples = l.samples[:0]
	}
}

// newLayout finds out how samples are written that are like this one: it has a registry make a family of it, with marks in
// place of labels. It reports false where that is not all that there is to it.
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

// arrange sorts the samples, and reports whether they keep the rules: no labels twice, and all of them UTF-8.
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

// encodeGathered writes metrics out through a registry of their own, so that a bad one fails alone.
func encodeGathered(metrics []prometheus.Metric) ([]Family, error) {
	gathered, err := gather(metrics)
	if err != nil {
		return nil, err
	}
	return FromGathered(gathered)
}

func gather(metrics []prometheus.Metric) ([]*dto.MetricFamily, error) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(batch(metrics)); err != nil {
		return nil, err
	}
	return registry.Gather()
}

// batch collects metrics that are made already. It describes each, so that a pedantic registry checks them.
type batch []prometheus.Metric

// Describe implements prometheus.Collector.
func (c batch) Describe(ch chan<- *prometheus.Desc) {
	seen := map[*prometheus.Desc]bool{}
	for _, m := range c {
		if d := m.Desc(); !seen[d] {
			seen[d] = true
			ch <- d
		}
	}
}

// Collect implements prometheus.Collector.
func (c batch) Collect(ch chan<- prometheus.Metric) {
	for _, m := range c {
		ch <- m
	}
}
