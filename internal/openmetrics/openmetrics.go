// Package openmetrics reads other people's metric pages leniently and writes what can be kept as finished families.
package openmetrics

import (
	"bytes"
	"mime"
	"strings"

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

// Read reads a page of OpenMetrics or of text format 0.0.4, as its content type says, or where that says nothing, as
// it ends or does not end in `# EOF`. It changes nothing of page and keeps nothing of it.
//
// What is read more kindly than the formats have it: carriage returns, blank lines, comments, any run of blanks, a
// byte order mark, a missing `# EOF`, metadata that is wrong (it is left out, the samples stay), families that stand in
// pieces, and samples of one metric in any order. A bad line costs that line alone.
//
// What is written is canonical: families and metrics in one piece, buckets in order and with +Inf (which is the count),
// values in Go's shortest form, escapes in the formats' own. Sample timestamps are left out; `_created` and exemplars,
// with the time at which these were observed, are in OpenMetrics only. Names of metrics and labels outside
// the classic alphabet are malformed. Of two series that are equal, or two families of which one could write a sample
// of the other, the first is kept. A counter whose samples lack `_total`, which OpenMetrics does not know, is unknown. So
// is one whose name another family of the page has, a gauge for example: it is served under the name of its samples,
// with `_total`. A creation time that is read before that shows is left out, since there is no place for it.
func Read(page []byte, contentType string, o Options) *Page {
	r := newReader(page, isOpenMetrics(page, contentType), o)
	r.read()
	return r.finish()
}

// isOpenMetrics reports which of the two grammars a page is in.
func isOpenMetrics(page []byte, contentType string) bool {
	mediaType, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mediaType, _, _ = strings.Cut(contentType, ";")
	}
	switch strings.ToLower(strings.TrimSpace(mediaType)) {
	case "application/openmetrics-text":
		return true
	case "text/plain":
		return false
	default:
		return bytes.HasSuffix(bytes.TrimRight(page, "\r\n\t "), []byte("# EOF"))
	}
}
