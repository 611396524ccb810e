package openmetrics

import (
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// Reason says why a series of a page was left out.
type Reason string

// The reasons.
const (
	// Clash is a series that stands on the page twice, or whose family's name belongs to another family.
	Clash Reason = "clash"
	// Limit is a series beyond one of the limits.
	Limit Reason = "limit"
	// Malformed is a line that is no sample, or a sample that no legal page may hold.
	Malformed Reason = "malformed"
)

// Reasons are all of them.
var Reasons = []Reason{Clash, Limit, Malformed}

// Options say how a page is read. The zero Options keep everything, under its own name.
type Options struct {
	// Keep decides once for each family that has samples, by its declared name and type, whether it is wanted. What is
	// not is passed over as if it did not stand there: it counts as nothing but one of Families. Nil wants all.
	Keep func(family string, kind model.MetricType) bool
	// Series and Families bound what is kept of a page, LabelBytes the labels of one series as they are written, and
	// a metric's name. Families without samples count too. 0 is no bound.
	Series, Families, LabelBytes int
	// Rename gives a family another name, in OpenMetrics' spelling, before Name is asked about it. Nil renames none.
	Rename func(family string, kind model.MetricType) string
	// Name maps the name of a family, in OpenMetrics' spelling, to the one that it is served under, which must be made
	// of [a-zA-Z0-9_:]. With false the family is refused, as a clash. Nil keeps every name. A family that is renamed
	// gives way to one that has the name from home.
	Name func(family string) (string, bool)
	// Labels are added to every series, in place of the upstream's labels of the same names, which must be classic ones.
	Labels []exposition.Label
	// DropLabels are the names of labels that are taken off every series. Series that become equal so are a clash.
	DropLabels []string
}

// Page is what could be kept of a page.
type Page struct {
	// Families are legal in OpenMetrics and in text format 0.0.4, in the order of the page. They are made anew and hold
	// nothing of what was read. A family that is declared but has no samples is none.
	Families []exposition.Family
	// Names are what the page itself calls each of Families, in OpenMetrics' spelling: before Rename and Name.
	Names []string
	// Series counts the series kept, `_created` aside.
	Series int
	// Dropped counts what was left out, `_created` and metadata aside. Every reason is present.
	Dropped map[Reason]int
	// Drops are the first few things that were left out, metadata too.
	Drops []Drop
	// Complete is false for an OpenMetrics page that does not end in `# EOF`: what came after is unknown.
	Complete bool
}

// Drop is something that was left out of a page.
type Drop struct {
	Reason Reason
	// Line is its place on the page, from 1; that of the family's first line for a whole family.
	Line int
	// What says what it was. It names metrics, never a label's value.
	What string
}

// maxDrops is how many drops of each reason are told.
const maxDrops = 3
