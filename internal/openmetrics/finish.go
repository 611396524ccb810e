package openmetrics

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// finish makes the families of the page.
func (r *reader) finish() *Page {
	r.sortByFamily()
	for _, f := range r.order {
		if f.displaced {
			// These are the names that it is declared by.
			f.count(exposition.Total, exposition.Bare)
		}
	}
	r.foldCreated()
	for _, f := range r.order {
		if len(f.samples) > 0 {
			r.settle(f)
			r.group(f)
			r.rename(f)
		}
	}
	// Families that keep their names come first, so that renamed ones give way to them.
	claims := map[uint64]struct{}{}
	for _, renamed := range []bool{false, true} {
		for _, f := range r.order {
			if len(f.samples) > 0 && f.renamed == renamed && !r.claimSamples(claims, f) {
				r.dropFamily(f, Clash, "name belongs to another family")
			}
		}
		for _, f := range r.order {
			if len(f.samples) > 0 && f.renamed == renamed && f.kind == model.MetricTypeCounter &&
				!r.claim(claims, f.name, exposition.Bare) {
				f.count(exposition.Total, exposition.Bare)
				f.name += exposition.Total.Suffix()
				r.makeUnknown(f)
			}
		}
	}
	r.write()
	return r.page
}

// foldCreated moves the samples of a gauge X_created to the counter, histogram or summary X if each belongs to one of its
// metrics. Text format 0.0.4 has no other form for creation times, and in OpenMetrics the two families clash.
func (r *reader) foldCreated() {
	for _, f := range r.order {
		base, ok := strings.CutSuffix(f.declared, exposition.Created.Suffix())
		if !ok || !f.has(exposition.Bare) || f.roles != rolesOf(model.MetricTypeGauge) || f.kind == model.MetricTypeStateset {
			continue
		}
		for _, name := range []string{base, base + exposition.Total.Suffix()} {
			if home := r.families[name]; home != nil && r.takesCreated(home) {
				home.takeCreated(f)
				break
			}
		}
	}
}

// takeCreated takes the samples of a gauge for creation times, if each belongs to a metric of the family.
func (f *family) takeCreated(gauge *family) {
	metrics := map[uint64]bool{}
	for i := range f.samples {
		metrics[f.samples[i].group] = metrics[f.samples[i].group] || f.samples[i].role != exposition.Created
	}
	if slices.ContainsFunc(gauge.samples, func(s sample) bool { return !metrics[s.group] }) {
		return
	}
	for _, s := range gauge.samples {
		s.role = exposition.Created
		f.samples = append(f.samples, s)
	}
	f.seen[exposition.Created] += len(gauge.samples)
	gauge.samples, gauge.seen = nil, [exposition.Roles]int{}
}

// takesCreated reports whether a settled family can have `_created`.
func (r *reader) takesCreated(f *family) bool {
	switch f.kind {
	case model.MetricTypeCounter:
		return f.has(exposition.Total) || f.has(exposition.Bare) && r.totalBase(f) != ""
	case model.MetricTypeHistogram, model.MetricTypeSummary:
		return f.series() > f.seen[exposition.Bare] || f.kind == model.MetricTypeSummary && f.has(exposition.Bare)
	default:
		return false
	}
}

// totalBase returns the OpenMetrics name of a counter that is declared with _total, as in text format 0.0.4; "" if it has
// none, or if another family has that name.
func (r *reader) totalBase(f *family) string {
	base, ok := strings.CutSuffix(f.declared, exposition.Total.Suffix())
	if other := r.families[base]; !ok || other != nil && other.series() > 0 {
		return ""
	}
	return base
}

// settle decides a family's type and name from its samples, and drops samples that do not fit.
func (r *reader) settle(f *family) {
	f.name = f.declared
	if f.roles&(1<<exposition.Bare) == 0 && f.has(exposition.Bare) {
		proper := f.series() - f.seen[exposition.Bare]
		switch {
		case proper > 0:
			r.dropRole(f, exposition.Bare)
		case f.kind == model.MetricTypeCounter && r.totalBase(f) != "":
			// Text format 0.0.4, or a page that names counters like it.
			f.name = r.totalBase(f)
			f.count(exposition.Bare, exposition.Total)
		default:
			r.makeUnknown(f)
		}
	}
	if !unitFits(f.name, f.unit, f.kind) {
		f.unit = ""
	}
}

// makeUnknown gives a family type unknown, whose samples have the family's name.
func (r *reader) makeUnknown(f *family) {
	f.setKind(model.MetricTypeUnknown)
	r.dropRole(f, exposition.Created)
	if !unitFits(f.name, f.unit, f.kind) {
		f.unit = ""
	}
}

// dropRole drops the samples of a role.
func (r *reader) dropRole(f *family, role exposition.Role) {
	n := 0
	for i := range f.samples {
		if f.samples[i].role == role {
			f.samples[i].dropped = true
			n++
		}
	}
	f.compact()
	if n > 0 {
		r.drop(Malformed, f.line, n*seriesOf(role), "sample does not fit its family's type", []byte(f.declared))
	}
}

// sortByFamily groups the samples by family, in their original order.
func (r *reader) sortByFamily() {
	if r.scattered {
		slices.SortStableFunc(r.samples, func(a, b sample) int { return int(a.family) - int(b.family) })
	}
	for from := 0; from < len(r.samples); {
		to := from + 1
		for to < len(r.samples) && r.samples[to].family == r.samples[from].family {
			to++
		}
		r.order[r.samples[from].family].samples = r.samples[from:to:to]
		from = to
	}
}
