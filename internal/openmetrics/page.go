package openmetrics

import (
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// Reason is why a series was dropped.
type Reason string

// The reasons.
const (
	// Clash is a duplicate series, or one whose family's name belongs to another family.
	Clash Reason = "clash"
	// Limit is a series over one of the limits.
	Limit Reason = "limit"
	// Malformed is a line that is not a sample, or an invalid sample.
	Malformed Reason = "malformed"
	// Secret is a series with a name or label that Options.HoldsSecret refuses.
	Secret Reason = "secret"
)

// Reasons are all reasons.
var Reasons = []Reason{Clash, Limit, Malformed, Secret}

// Options say how a page is read. The zero Options keep everything, under its own name.
type Options struct {
	// Keep decides once per family with samples, by declared name and type, whether to keep it. Other families are skipped and
	// count only towards Families. Nil keeps all.
	Keep func(family string, kind model.MetricType) bool
	// Series and Families bound how many are kept, LabelBytes the written labels of a series and the name of a metric.
	// Families without samples count, too. 0 means no limit.
	Series, Families, LabelBytes int
	// Rename returns a family's new name, in OpenMetrics' spelling, before Name is called. Nil renames none.
	Rename func(family string, kind model.MetricType) string
	// Name maps the name of a family, in OpenMetrics' spelling, to its final name, of [a-zA-Z0-9_:]. False refuses the family
	// as a clash. Nil keeps every name. A renamed family gives way to a family that has the name originally.
	Name func(family string) (string, bool)
	// Labels are added to every series and replace labels of the same names. The names must be classic ones.
	Labels []exposition.Label
	// DropLabels are the names of labels to remove from every series. Series that become equal are a clash.
	DropLabels []string
	// HoldsSecret reports whether a text holds a secret. A series is dropped if its name or one of its labels does; help texts and
	// exemplars are left out. Numbers are not asked about. Nil refuses nothing.
	HoldsSecret func(text []byte) bool
}

// Page is the valid content of a page.
type Page struct {
	// Families are valid in OpenMetrics and in text format 0.0.4, in the order of the page. They share no memory with the page
	// that was read. Families without samples are left out.
	Families []exposition.Family
	// Names are the original names of Families, in OpenMetrics' spelling: before Rename and Name.
	Names []string
	// Series counts the series kept, `_created` aside.
	Series int
	// Dropped counts the dropped series, without `_created` and metadata. Every reason is present.
	Dropped map[Reason]int
	// Drops are the first few dropped things, including metadata.
	Drops []Drop
	// Complete is false for an OpenMetrics page that does not end in `# EOF`: what came after is unknown.
	Complete bool
}

// Drop is something that was dropped from a page.
type Drop struct {
	Reason Reason
	// Line is its line number, from 1; for a whole family, that of its first line.
	Line int
	// What describes it. It may name metrics, but never contains a label's value.
	What string
}

// maxDrops is how many drops of each reason are reported.
const maxDrops = 3
