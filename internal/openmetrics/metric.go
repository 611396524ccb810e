package openmetrics

import (
	"cmp"
	"math"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// group groups the samples by metric, in order, and drops incomplete metrics.
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

// complete completes a family metric by metric. The bucket +Inf and the count of a histogram are equal by definition: each
// replaces the other if it is missing, the count only if there is a sum. A metric with only `_created` or a sum is dropped.
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
	reason, what := Malformed, "metric is incomplete"
	if f.truncated {
		reason, what = Limit, "metric is incomplete because of the limits"
	}
	n := 0
	for i := range metric {
		metric[i].dropped = true
		n += seriesOf(metric[i].role)
	}
	r.drop(reason, f.line, n, what, []byte(f.declared))
}

// missing returns the sample that a histogram's metric lacks, and whether the metric is then complete.
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
			labels: r.withBound(number.labels),
			group:  number.group,
			bound:  math.Inf(1),
			value:  number.value,
			family: number.family,
			role:   exposition.Bucket,
		}, true
	case number == nil && amount != nil:
		kind := exposition.Count
		if amount.role == exposition.GSum {
			kind = exposition.GCount
		}
		return &sample{
			labels: amount.labels,
			group:  amount.group,
			value:  inf.value,
			family: amount.family,
			role:   kind,
		}, true
	default:
		return nil, true
	}
}

// withBound returns a label set with le="+Inf" added.
func (r *reader) withBound(set []byte) []byte {
	out := append(make([]byte, 0, len(set)+len(`{,le="+Inf"}`)), '{')
	if len(set) > 0 {
		out = append(append(out[:0], set[:len(set)-1]...), ',')
	}
	return append(out, `le="+Inf"}`...)
}
