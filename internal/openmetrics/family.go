package openmetrics

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// rolesOf are the roles that samples of a type can have, as bits.
func rolesOf(t model.MetricType) (bits uint16) {
	for _, r := range exposition.RolesOf(t) {
		bits |= 1 << r
	}
	return bits
}

// names are a family's names on its page and on ours.
type names struct {
	// declared is the name in the page's metadata, or in the samples if there is none.
	declared string
	// known is the name in the metadata of a counter that is declared with _total because another family has its name.
	known string
	// name is the final name, once settled; own is the name before renaming.
	name, own string
}

// family is the state of a family while its page is read.
type family struct {
	names
	kind       model.MetricType // "" until a TYPE line or a sample settles it
	roles      uint16           // bits of rolesOf(kind)
	help, unit string
	line       int
	index      int32
	// rejected families are declared a second time, as another type: their samples are a clash.
	rejected bool
	// displaced counters lost their name to a later family: their samples end in _total.
	displaced bool
	// truncated families lost a sample to a limit.
	truncated bool
	renamed   bool
	// unwanted is true if the family is skipped; valid once judged is set.
	judged, unwanted bool

	seen    [exposition.Roles]int
	samples []sample
}

func (f *family) setKind(t model.MetricType) {
	f.kind, f.roles = t, rolesOf(t)
}

// has reports whether samples of this role were read.
func (f *family) has(r exposition.Role) bool { return f.seen[r] > 0 }

// series counts the samples, `_created` aside.
func (f *family) series() int {
	n := 0
	for r, seen := range f.seen {
		if exposition.Role(r) != exposition.Created {
			n += seen
		}
	}
	return n
}

// roleOf returns the role of a sample of this name in the family, if it can belong to it. Every family accepts samples of
// its own name, because sloppy pages have counters without _total.
func (f *family) roleOf(name []byte) (exposition.Role, bool) {
	if len(name) < len(f.declared) || string(name[:len(f.declared)]) != f.declared {
		return 0, false
	}
	if len(name) == len(f.declared) {
		return exposition.Bare, true
	}
	r, ok := exposition.RoleOf(name[len(f.declared):])
	return r, ok && f.roles&(1<<r) != 0
}

// special returns the label that distinguishes the samples of one metric: of a bucket, a quantile or a state.
func (f *family) special(r exposition.Role) string {
	switch f.kind {
	case model.MetricTypeHistogram, model.MetricTypeGaugeHistogram:
		if r != exposition.Bare {
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
func (f *family) needsSpecial(r exposition.Role) bool {
	return r == exposition.Bucket || r == exposition.Bare && (f.kind == model.MetricTypeSummary || f.kind == model.MetricTypeStateset)
}

// grouped reports whether a metric of the family can have several samples, which must stand together.
func (f *family) grouped() bool {
	switch f.kind {
	case model.MetricTypeCounter:
		return f.has(exposition.Created)
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
	role     exposition.Role
	dropped  bool
}

// count changes the role of samples.
func (f *family) count(from, to exposition.Role) {
	for i := range f.samples {
		if f.samples[i].role == from {
			f.samples[i].role = to
		}
	}
	f.seen[to] += f.seen[from]
	f.seen[from] = 0
}

// compact removes dropped samples.
func (f *family) compact() {
	f.samples = slices.DeleteFunc(f.samples, func(s sample) bool {
		if s.dropped {
			f.seen[s.role]--
		}
		return s.dropped
	})
}
