package openmetrics

import (
	"strings"

	"github.com/prometheus/common/model"
)

// role is what a sample is to its family; each has a suffix of its own.
type role uint8

const (
	bare role = iota // the family's own name: a gauge, a quantile
	bucket
	sum
	count
	gsum
	gcount
	total
	info
	created // after the samples that it belongs to
	roles
)

// suffixes are what the roles add to the name of a family.
var suffixes = [roles]string{
	bare: "", bucket: "_bucket", sum: "_sum", count: "_count", gsum: "_gsum", gcount: "_gcount", total: "_total",
	info: "_info", created: "_created",
}

// rolesOf are the samples that a family of each type may write.
var rolesOf = map[model.MetricType][]role{
	model.MetricTypeCounter:        {total, created},
	model.MetricTypeGauge:          {bare},
	model.MetricTypeUnknown:        {bare},
	model.MetricTypeStateset:       {bare},
	model.MetricTypeInfo:           {info},
	model.MetricTypeHistogram:      {bucket, sum, count, created},
	model.MetricTypeGaugeHistogram: {bucket, gsum, gcount},
	model.MetricTypeSummary:        {bare, sum, count, created},
}

// allowed is rolesOf as bits.
var allowed = func() map[model.MetricType]uint16 {
	bits := map[model.MetricType]uint16{}
	for t, list := range rolesOf {
		for _, r := range list {
			bits[t] |= 1 << r
		}
	}
	return bits
}()

// family is what is known of a family while its page is read.
type family struct {
	// declared is the name in the page's metadata, or that of the samples where there is none.
	declared string
	// known is the name in the metadata of a counter that is declared with _total because another family has its name.
	known string
	// name is the one that it is written under, once it is settled; own is that before it is renamed.
	name, own  string
	kind       model.MetricType // "" until a TYPE line or a sample settles it
	roles      uint16           // bits of allowed, for kind
	help, unit string
	line       int
	index      int32
	// rejected families are declared a second time, as another type: their samples are a clash.
	rejected bool
	// displaced counters had their name until another family was declared by it: their samples say total.
	displaced bool
	// truncated families lost a sample to a limit.
	truncated bool
	renamed   bool
	// unwanted says whether the family is passed over, once judged is set.
	judged, unwanted bool

	seen    [roles]int
	samples []sample
}

func (f *family) setKind(t model.MetricType) {
	f.kind, f.roles = t, allowed[t]
}

// has reports whether samples of this role were read.
func (f *family) has(r role) bool { return f.seen[r] > 0 }

// series counts the samples, `_created` aside.
func (f *family) series() int {
	n := 0
	for r, seen := range f.seen {
		if role(r) != created {
			n += seen
		}
	}
	return n
}

// roleOf is what a sample of this name would be to the family, if it can belong to it. Every family takes samples of
// its own name: sloppy pages have counters without _total.
func (f *family) roleOf(name []byte) (role, bool) {
	if len(name) < len(f.declared) || string(name[:len(f.declared)]) != f.declared {
		return 0, false
	}
	if len(name) == len(f.declared) {
		return bare, true
	}
	r, ok := roleOfSuffix(name[len(f.declared):])
	return r, ok && f.roles&(1<<r) != 0
}

func roleOfSuffix(suffix []byte) (role, bool) {
	switch string(suffix) {
	case "_bucket":
		return bucket, true
	case "_sum":
		return sum, true
	case "_count":
		return count, true
	case "_gsum":
		return gsum, true
	case "_gcount":
		return gcount, true
	case "_total":
		return total, true
	case "_info":
		return info, true
	case "_created":
		return created, true
	default:
		return 0, false
	}
}

// special is the label that tells the samples of one metric apart: that of a bucket, a quantile or a state.
func (f *family) special(r role) string {
	switch f.kind {
	case model.MetricTypeHistogram, model.MetricTypeGaugeHistogram:
		if r != bare {
			return model.BucketLabel
		}
	case model.MetricTypeSummary:
		return model.QuantileLabel
	case model.MetricTypeStateset:
		return f.declared
	default:
	}
	return ""
}

// needsSpecial reports whether a sample of the role has the special label, or must not have it.
func (f *family) needsSpecial(r role) bool {
	return r == bucket || r == bare && (f.kind == model.MetricTypeSummary || f.kind == model.MetricTypeStateset)
}

// grouped reports whether a metric of the family can have several samples, which must stand together.
func (f *family) grouped() bool {
	switch f.kind {
	case model.MetricTypeCounter:
		return f.has(created)
	case model.MetricTypeHistogram, model.MetricTypeGaugeHistogram, model.MetricTypeSummary, model.MetricTypeStateset:
		return true
	default:
		return false
	}
}

// unitFits reports whether a unit is one that OpenMetrics allows a family of this name and type.
func unitFits(name, unit string, t model.MetricType) bool {
	return unit != "" && strings.HasSuffix(name, "_"+unit) && len(name) > len(unit)+1 &&
		t != model.MetricTypeInfo && t != model.MetricTypeStateset
}

// sample is one sample line, as short as it can be kept.
type sample struct {
	// labels is the canonical label set, with its braces; empty without labels.
	labels []byte
	// group is the hash of the labels without the special one; once sorted, the place of the metric in its family.
	group uint64
	// bound is the upper bound of a bucket or the quantile.
	bound float64
	value float64
	// exemplar is the place of the exemplar in the reader's list, from 1.
	exemplar int32
	family   int32
	role     role
	dropped  bool
}
