package exposition

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Sample is one gauge or counter at one moment. It implements prometheus.Metric, and an Encoder writes it faster than a
// registry. An invalid sample causes an error when it is encoded, not when it is made.
type Sample struct {
	desc   *prometheus.Desc
	kind   prometheus.ValueType
	value  float64
	labels []string
}

// NewSample makes a sample with values of the descriptor's variable labels, in their order. It keeps labels.
func NewSample(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) *Sample {
	return &Sample{
		desc:   desc,
		kind:   kind,
		value:  value,
		labels: labels,
	}
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
	s.all = append(s.all, Sample{
		desc:   desc,
		kind:   kind,
		value:  value,
		labels: s.labels[from:len(s.labels):len(s.labels)],
	})
}

// AppendTo appends the samples, which stay as they are when more are added.
func (s *Samples) AppendTo(metrics []prometheus.Metric) []prometheus.Metric {
	metrics = slices.Grow(metrics, len(s.all))
	for i := range s.all {
		metrics = append(metrics, &s.all[i])
	}
	return metrics
}
