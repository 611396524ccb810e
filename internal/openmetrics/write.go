package openmetrics

import (
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

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
