// Package exposition writes metric pages: families as finished sample lines, merged, sorted and compressed once,
// in every encoding that a scraper may ask for.
package exposition

import (
	"bytes"
	"fmt"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Family is one metric family whose samples are already written out. It is immutable once it is in a page or a
// snapshot: share it, do not change it.
type Family struct {
	// Name is the family's name in OpenMetrics: a counter's has no _total, an info's no _info.
	Name string
	// Type is the OpenMetrics type; TextType says what becomes of it in text format 0.0.4.
	Type model.MetricType
	// Help and Unit are unescaped. An empty one is left out of the page. Unit, where set, ends Name.
	Help, Unit string
	// Series counts the series in Text: the lines, `_created` and exemplars aside.
	Series int
	// OpenMetrics and Text hold the sample lines, each with its line feed, without metadata.
	OpenMetrics, Text []byte
}

// TextName is the family's name in text format 0.0.4, where the suffix of a counter or an info belongs to the name.
func (f *Family) TextName() string {
	switch f.Type {
	case model.MetricTypeCounter:
		return f.Name + suffixes[Total]
	case model.MetricTypeInfo:
		return f.Name + suffixes[Info]
	default:
		return f.Name
	}
}

// TextType is the family's type in text format 0.0.4, which knows neither info, stateset, unknown nor gauge histograms.
func (f *Family) TextType() string {
	switch f.Type {
	case model.MetricTypeCounter, model.MetricTypeGauge, model.MetricTypeHistogram, model.MetricTypeSummary:
		return string(f.Type)
	case model.MetricTypeInfo, model.MetricTypeStateset:
		return string(model.MetricTypeGauge)
	default:
		return "untyped"
	}
}

// escapeTextHelp escapes a help text for the text format, where quotes stand as they are.
var escapeTextHelp = strings.NewReplacer(`\`, `\\`, "\n", `\n`)

func (f *Family) appendTextHeader(b []byte) []byte {
	name := f.TextName()
	if f.Help != "" {
		b = fmt.Appendf(b, "# HELP %s %s\n", name, escapeTextHelp.Replace(f.Help))
	}
	return fmt.Appendf(b, "# TYPE %s %s\n", name, f.TextType())
}

func (f *Family) appendOpenMetricsHeader(b []byte) []byte {
	if f.Help != "" {
		b = append(appendEscaped(fmt.Appendf(b, "# HELP %s ", f.Name), f.Help), '\n')
	}
	b = fmt.Appendf(b, "# TYPE %s %s\n", f.Name, f.Type)
	if f.Unit != "" {
		b = fmt.Appendf(b, "# UNIT %s %s\n", f.Name, f.Unit)
	}
	return b
}

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
		f := Family{Name: mf.GetName(), Type: typeOf(mf), Help: mf.GetHelp(), Text: lines, OpenMetrics: lines}
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
