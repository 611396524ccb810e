package openmetrics

import (
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// write writes the remaining families. Text and OpenMetrics share their bytes if they do not differ.
func (r *reader) write() {
	extra := r.extraLabels()
	size := 0
	for _, f := range r.order {
		n := 0
		for i := range f.samples {
			n += len(f.name) + len(f.samples[i].role.Suffix()) + len(f.samples[i].labels) + len(extra) + numberGuess
		}
		size += n
		if r.differs(f) {
			size += n
		}
	}
	out := make([]byte, 0, size)
	ends := make([]int, 0, 2*len(r.order)) // of each family's lines in OpenMetrics, then in text
	for _, f := range r.order {
		if len(f.samples) == 0 {
			continue
		}
		out = r.appendSamples(out, f, extra, true)
		ends = append(ends, len(out))
		if r.differs(f) {
			out = r.appendSamples(out, f, extra, false)
		}
		ends = append(ends, len(out))
		series := f.series()
		r.page.Families = append(r.page.Families, exposition.Family{
			Name:   f.name,
			Type:   f.kind,
			Help:   f.help,
			Unit:   f.unit,
			Series: series,
		})
		r.page.Names = append(r.page.Names, f.own)
		r.page.Series += series
	}
	from := 0
	for i := range r.page.Families {
		family, middle, end := &r.page.Families[i], ends[2*i], ends[2*i+1]
		family.OpenMetrics = out[from:middle:middle]
		family.Text = family.OpenMetrics
		if end > middle {
			family.Text = out[middle:end:end]
		}
		from = end
	}
}

// numberGuess is the usual maximum length of a value with the characters around it.
const numberGuess = 12

// extraLabels returns the labels that the options add, without braces.
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
