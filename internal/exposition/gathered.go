package exposition

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// baseUnits are the units that a name of ours may end in.
var baseUnits = []string{"seconds", "bytes", "ratio"}

// FromGathered writes out gathered families. Counters must be called …_total. The unit is read off the name's end,
// as Prometheus' naming rules put it there. Both formats share the lines of the text format, which are OpenMetrics as
// well: so le and quantile are spelled the same, and a series keeps its name whichever format a scraper asks for.
// Exemplars and creation times are left out.
func FromGathered(gathered []*dto.MetricFamily) ([]Family, error) {
	families := make([]Family, 0, len(gathered))
	var text bytes.Buffer
	for _, mf := range gathered {
		text.Reset()
		if _, err := expfmt.MetricFamilyToText(&text, mf); err != nil {
			return nil, fmt.Errorf("write family %s as text: %w", mf.GetName(), err)
		}
		lines := withoutMetadata(text.Bytes())
		f := Family{
			Name:        mf.GetName(),
			Type:        typeOf(mf),
			Help:        mf.GetHelp(),
			Text:        lines,
			OpenMetrics: lines,
		}
		if f.Type == model.MetricTypeCounter {
			base, ok := strings.CutSuffix(f.Name, suffixes[Total])
			if !ok {
				return nil, fmt.Errorf("counter %s does not end in _total", f.Name)
			}
			f.Name = base
		}
		for _, unit := range baseUnits {
			if strings.HasSuffix(f.Name, "_"+unit) {
				f.Unit = unit
			}
		}
		f.Series = bytes.Count(f.Text, []byte{'\n'})
		families = append(families, f)
	}
	return families, nil
}

func typeOf(mf *dto.MetricFamily) model.MetricType {
	switch mf.GetType() {
	case dto.MetricType_COUNTER:
		return model.MetricTypeCounter
	case dto.MetricType_GAUGE:
		return model.MetricTypeGauge
	case dto.MetricType_HISTOGRAM:
		return model.MetricTypeHistogram
	case dto.MetricType_GAUGE_HISTOGRAM:
		return model.MetricTypeGaugeHistogram
	case dto.MetricType_SUMMARY:
		return model.MetricTypeSummary
	case dto.MetricType_UNTYPED:
		return model.MetricTypeUnknown
	}
	return model.MetricTypeUnknown
}

// withoutMetadata returns a copy of a page's lines after its leading comment lines.
func withoutMetadata(page []byte) []byte {
	for len(page) > 0 && page[0] == '#' {
		end := bytes.IndexByte(page, '\n')
		if end < 0 {
			return nil
		}
		page = page[end+1:]
	}
	return bytes.Clone(page)
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
