// Package exposition writes metric pages: families as finished sample lines, merged, sorted and compressed once,
// in every encoding that a scraper may ask for.
package exposition

import (
	"fmt"
	"strings"

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
