package openmetrics

import (
	"cmp"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// finish makes families of what was read.
func (r *reader) finish() *Page {
	r.fullNames()
	r.foldCreated()
	r.sortByFamily()
	for _, f := range r.order {
		if len(f.samples) > 0 {
			r.settle(f)
			r.group(f)
			r.rename(f)
		}
	}
	// Those at home on the page come first, so that a family that gets its name here gives way to them.
	claims := map[uint64]struct{}{}
	for _, renamed := range []bool{false, true} {
		for _, f := range r.order {
			if len(f.samples) > 0 && f.renamed == renamed && !r.claim(claims, f) {
				r.dropFamily(f, Clash, "name belongs to another family")
			}
		}
		for _, f := range r.order {
			if len(f.samples) > 0 && f.renamed == renamed && f.kind == model.MetricTypeCounter && !r.claimBase(claims, f) {
				f.count(exposition.Total, exposition.Bare)
				f.name += exposition.Total.Suffix()
				r.makeUnknown(f)
			}
		}
	}
	r.write()
	return r.page
}

// fullNames makes the samples of displaced counters what they are to the names that these are declared by now.
func (r *reader) fullNames() {
	if !r.displaced {
		return
	}
	for i := range r.samples {
		s := &r.samples[i]
		if f := r.order[s.family]; f.displaced && s.role == exposition.Total {
			s.role = exposition.Bare
			f.seen[exposition.Total]--
			f.seen[exposition.Bare]++
		}
	}
}

// foldCreated gives the samples of a gauge X_created to the counter, histogram or summary X, where each belongs to a
// metric of it. Text format 0.0.4 has no other place for them, and in OpenMetrics the two families clash.
func (r *reader) foldCreated() {
	var homes map[int32]*family
	for _, f := range r.order {
		base, ok := strings.CutSuffix(f.declared, exposition.Created.Suffix())
		if !ok || f.seen[exposition.Bare] == 0 || f.roles != rolesOf(model.MetricTypeGauge) || f.kind == model.MetricTypeStateset {
			continue
		}
		for _, name := range []string{base, base + exposition.Total.Suffix()} {
			if home := r.families[name]; home != nil && r.takesCreated(home) {
				if homes == nil {
					homes = map[int32]*family{}
				}
				homes[f.index] = home
				break
			}
		}
	}
	if homes == nil {
		return
	}
	type metric struct {
		family int32
		group  uint64
	}
	known := map[metric]struct{}{}
	wanted := map[int32]bool{}
	for _, home := range homes {
		wanted[home.index] = true
	}
	for i := range r.samples {
		if s := &r.samples[i]; wanted[s.family] && s.role != exposition.Created {
			known[metric{s.family, s.group}] = struct{}{}
		}
	}
	for i := range r.samples {
		s := &r.samples[i]
		if home := homes[s.family]; home != nil {
			if _, ok := known[metric{home.index, s.group}]; !ok {
				delete(homes, s.family)
			}
		}
	}
	for i := range r.samples {
		s := &r.samples[i]
		if home := homes[s.family]; home != nil {
			r.order[s.family].seen[exposition.Bare]--
			home.seen[exposition.Created]++
			s.family, s.role = home.index, exposition.Created
			r.scattered = true
		}
	}
}

// takesCreated reports whether `_created` can stand in a family, once it is settled.
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

// totalBase is the name that OpenMetrics has for a counter that is declared with _total, as text format 0.0.4 does; ""
// where it has none, or where another family goes by it.
func (r *reader) totalBase(f *family) string {
	base, ok := strings.CutSuffix(f.declared, exposition.Total.Suffix())
	if other := r.families[base]; !ok || other != nil && other.series() > 0 {
		return ""
	}
	return base
}

// settle decides what a family is, now that its samples are known, and takes out those that do not fit.
func (r *reader) settle(f *family) {
	f.name = f.declared
	if f.roles&(1<<exposition.Bare) == 0 && f.has(exposition.Bare) {
		proper := f.series() - f.seen[exposition.Bare]
		switch {
		case proper > 0:
			r.dropRole(f, exposition.Bare)
		case f.kind == model.MetricTypeCounter && r.totalBase(f) != "":
			// Text format 0.0.4, or a page that names its counters as that does.
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

// count makes samples of one role those of another, of which there are none.
func (f *family) count(from, to exposition.Role) {
	for i := range f.samples {
		if f.samples[i].role == from {
			f.samples[i].role = to
		}
	}
	f.seen[to], f.seen[from] = f.seen[from], 0
}

// makeUnknown makes a family unknown, whose samples are called as it is.
func (r *reader) makeUnknown(f *family) {
	f.setKind(model.MetricTypeUnknown)
	r.dropRole(f, exposition.Created)
	if !unitFits(f.name, f.unit, f.kind) {
		f.unit = ""
	}
}

// dropRole takes the samples of a role out of a family.
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
		r.dropped(f, Malformed, role, n, "sample does not fit its family's type")
	}
}

// compact forgets samples that are dropped.
func (f *family) compact() {
	f.samples = slices.DeleteFunc(f.samples, func(s sample) bool {
		if s.dropped {
			f.seen[s.role]--
		}
		return s.dropped
	})
}

// dropped counts and tells samples of a family that were left out after reading.
func (r *reader) dropped(f *family, reason Reason, role exposition.Role, n int, what string) {
	if role != exposition.Created {
		r.page.Dropped[reason] += n
	}
	r.tell(reason, f.line, what, []byte(f.declared))
}

func (r *reader) dropFamily(f *family, reason Reason, what string) {
	r.page.Dropped[reason] += f.series()
	r.tell(reason, f.line, what, []byte(f.declared))
	f.samples, f.seen = nil, [exposition.Roles]int{}
}

// group brings the samples of each metric together, in order, and takes out metrics that are not whole.
func (r *reader) group(f *family) {
	if !f.grouped() {
		if f.kind == model.MetricTypeCounter && !f.has(exposition.Total) {
			r.dropFamily(f, Malformed, "counter without a value")
		}
		return
	}
	places := map[uint64]uint64{}
	var last, place uint64
	for i := range f.samples {
		s := &f.samples[i]
		if i == 0 || s.group != last {
			var known bool
			last = s.group
			if place, known = places[last]; !known {
				place = uint64(len(places))
				places[last] = place
			}
		}
		s.group = place
	}
	if !slices.IsSortedFunc(f.samples, compareSamples) {
		slices.SortStableFunc(f.samples, compareSamples)
	}
	r.complete(f)
}

func compareSamples(a, b sample) int {
	return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(a.role, b.role), cmp.Compare(a.bound, b.bound))
}

// complete goes through a family metric by metric. A histogram without the bucket +Inf gets it from its count, and the
// other way round where there is a sum, since these are one number by definition. A metric that has nothing but
// `_created`, or a sum, is dropped.
func (r *reader) complete(f *family) {
	histogram := f.kind == model.MetricTypeHistogram || f.kind == model.MetricTypeGaugeHistogram
	var added []sample
	broken := false
	for from := 0; from < len(f.samples); {
		to := from + 1
		for to < len(f.samples) && f.samples[to].group == f.samples[from].group {
			to++
		}
		metric := f.samples[from:to]
		from = to
		whole := metric[0].role != exposition.Created
		if histogram {
			var extra *sample
			if extra, whole = r.missing(metric); extra != nil {
				added = append(added, *extra)
			}
		}
		if !whole {
			broken = true
			r.dropMetric(f, metric)
		}
	}
	if broken {
		f.compact()
	}
	if len(added) > 0 {
		for _, s := range added {
			f.seen[s.role]++
		}
		f.samples = append(slices.Clip(f.samples), added...)
		slices.SortStableFunc(f.samples, compareSamples)
	}
}

func (r *reader) dropMetric(f *family, metric []sample) {
	reason, what := Malformed, "metric is not whole"
	if f.truncated {
		reason, what = Limit, "metric is not whole within the limits"
	}
	n := 0
	for i := range metric {
		metric[i].dropped = true
		if metric[i].role != exposition.Created {
			n++
		}
	}
	r.dropped(f, reason, exposition.Bare, n, what)
}

// missing finds what a histogram's metric lacks: the sample to add, and whether the metric is whole then.
func (r *reader) missing(metric []sample) (extra *sample, whole bool) {
	var inf, number, amount *sample
	for i := range metric {
		switch s := &metric[i]; {
		case s.role == exposition.Bucket && math.IsInf(s.bound, 1):
			inf = s
		case s.role == exposition.Count || s.role == exposition.GCount:
			number = s
		case s.role == exposition.Sum || s.role == exposition.GSum:
			amount = s
		}
	}
	switch {
	case inf == nil && number == nil:
		return nil, false
	case inf == nil:
		return &sample{
			labels: r.withBound(number.labels), group: number.group, bound: math.Inf(1), value: number.value,
			family: number.family, role: exposition.Bucket,
		}, true
	case number == nil && amount != nil:
		kind := exposition.Count
		if amount.role == exposition.GSum {
			kind = exposition.GCount
		}
		return &sample{labels: amount.labels, group: amount.group, value: inf.value, family: amount.family, role: kind}, true
	default:
		return nil, true
	}
}

// withBound is a label set with le="+Inf" added.
func (r *reader) withBound(set []byte) []byte {
	out := append(make([]byte, 0, len(set)+len(`{,le="+Inf"}`)), '{')
	if len(set) > 0 {
		out = append(append(out[:0], set[:len(set)-1]...), ',')
	}
	return append(out, `le="+Inf"}`...)
}

// rename gives a family the name that the options have for it.
func (r *reader) rename(f *family) {
	if len(f.samples) == 0 {
		return
	}
	f.own = f.name
	name, ok := r.newName(f)
	if !ok || !exposition.IsMetricName(name) {
		r.dropFamily(f, Clash, "name is not the upstream's to use")
		return
	}
	if name == f.name {
		return
	}
	f.name, f.renamed = name, true
	if !unitFits(f.name, f.unit, f.kind) {
		f.unit = ""
	}
	if f.kind == model.MetricTypeStateset {
		r.renameState(f)
	}
}

// renameState renames the label of a state set, which is called like its family.
func (r *reader) renameState(f *family) {
	for i := range f.samples {
		s := &f.samples[i]
		l := exposition.LabelReader[[]byte]{Set: s.labels}
		out := make([]byte, 0, len(s.labels)+len(f.name))
		open := byte('{')
		clash := false
		for {
			name, value, more := l.Next()
			if !more {
				break
			}
			if string(name) == f.declared {
				name = []byte(f.name)
			} else if string(name) == f.name {
				clash = true
			}
			out = exposition.AppendLabel(append(out, open), name, exposition.Unescape(value))
			open = ','
		}
		s.labels = append(out, '}')
		s.dropped = clash || !exposition.IsLabelName(f.name)
		if s.dropped {
			r.dropped(f, Clash, exposition.Bare, 1, "label of the state set cannot be renamed")
		}
	}
	f.compact()
}

// claim takes the names that a family may write samples under, and its own, but for a counter. It returns false if one of
// them is taken.
func (r *reader) claim(claims map[uint64]struct{}, f *family) bool {
	var scratch [256]byte
	var hashes [exposition.Roles]uint64
	list := exposition.RolesOf(f.kind)
	for i, role := range list {
		hashes[i] = maphash.Bytes(r.seed, append(append(scratch[:0], f.name...), role.Suffix()...))
	}
	n := len(list)
	if list[0] != exposition.Bare && f.kind != model.MetricTypeCounter {
		hashes[n] = maphash.Bytes(r.seed, append(scratch[:0], f.name...))
		n++
	}
	for _, h := range hashes[:n] {
		if _, taken := claims[h]; taken {
			return false
		}
	}
	for _, h := range hashes[:n] {
		claims[h] = struct{}{}
	}
	return true
}

// claimBase takes the name that a counter has without _total, which none of its samples has. It returns false if that is
// taken.
func (r *reader) claimBase(claims map[uint64]struct{}, f *family) bool {
	h := maphash.String(r.seed, f.name)
	if _, taken := claims[h]; taken {
		return false
	}
	claims[h] = struct{}{}
	return true
}

// span is a stretch of a buffer that may still move.
type span struct{ from, to int }

// write writes out the families that are left. Where text and OpenMetrics do not differ they share their bytes.
func (r *reader) write() {
	extra := r.extraLabels()
	size, textSize := 0, 0
	for _, f := range r.order {
		n := 0
		for i := range f.samples {
			n += len(f.name) + len(f.samples[i].role.Suffix()) + len(f.samples[i].labels) + len(extra) + numberGuess
		}
		size += n
		if r.differs(f) {
			textSize += n
		}
	}
	out, text := make([]byte, 0, size), make([]byte, 0, textSize)
	spans := make([][2]span, 0, len(r.order))
	for _, f := range r.order {
		if len(f.samples) == 0 {
			continue
		}
		var both [2]span
		both[0].from = len(out)
		out = r.appendSamples(out, f, extra, true)
		both[0].to = len(out)
		if r.differs(f) {
			both[1].from = len(text)
			text = r.appendSamples(text, f, extra, false)
			both[1].to = len(text)
		}
		spans = append(spans, both)
		series := f.series()
		r.page.Families = append(r.page.Families, exposition.Family{
			Name: f.name, Type: f.kind, Help: f.help, Unit: f.unit, Series: series,
		})
		r.page.Names = append(r.page.Names, f.own)
		r.page.Series += series
	}
	for i, both := range spans {
		family := &r.page.Families[i]
		family.OpenMetrics = out[both[0].from:both[0].to:both[0].to]
		family.Text = family.OpenMetrics
		if both[1].to > 0 {
			family.Text = text[both[1].from:both[1].to:both[1].to]
		}
	}
}

// numberGuess is how long a value is, with what stands around it, on most pages at most.
const numberGuess = 12

// extraLabels are the labels that the options add, ready to stand before a closing brace.
func (r *reader) extraLabels() []byte {
	var extra []byte
	for i, label := range r.opts.Labels {
		if i > 0 {
			extra = append(extra, ',')
		}
		extra = exposition.AppendLabel(extra, label.Name, strings.ToValidUTF8(label.Value, "\uFFFD"))
	}
	return extra
}

// differs reports whether a family is not written the same in both formats.
func (r *reader) differs(f *family) bool {
	return f.has(exposition.Created) || len(r.exemplars) > 0 && (f.has(exposition.Total) || f.has(exposition.Bucket))
}

func (r *reader) appendSamples(dst []byte, f *family, extra []byte, openMetrics bool) []byte {
	for i := range f.samples {
		s := &f.samples[i]
		if !openMetrics && s.role == exposition.Created {
			continue
		}
		dst = append(dst, f.name...)
		dst = append(dst, s.role.Suffix()...)
		switch {
		case len(extra) == 0:
			dst = append(dst, s.labels...)
		case len(s.labels) == 0:
			dst = append(append(append(dst, '{'), extra...), '}')
		default:
			dst = append(append(dst, s.labels[:len(s.labels)-1]...), ',')
			dst = append(append(dst, extra...), '}')
		}
		dst = exposition.AppendPlainValue(append(dst, ' '), s.value)
		if openMetrics && s.exemplar > 0 && (s.role == exposition.Total || s.role == exposition.Bucket) {
			dst = append(append(dst, " # "...), r.exemplars[s.exemplar-1]...)
		}
		dst = append(dst, '\n')
	}
	return dst
}
