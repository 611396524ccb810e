package exposition

import (
	"iter"
	"strconv"
	"strings"
)

// Line is one sample of finished text.
type Line struct {
	Name   string
	Labels []Label
	Value  float64
}

// Label returns the value of a label, "" without it.
func (l *Line) Label(name string) string {
	for i := range l.Labels {
		if l.Labels[i].Name == name {
			return l.Labels[i].Value
		}
	}
	return ""
}

// Lines reads the samples of a family's Text or OpenMetrics, which callers may keep. It skips what is not a sample, and
// ignores exemplars.
func Lines(text []byte) iter.Seq[Line] {
	return func(yield func(Line) bool) {
		all := string(text)
		// No line moves the labels of one before, since there is room for all of them.
		labels := make([]Label, 0, strings.Count(all, `"`)/2)
		var set LabelReader[string]
		for line := range strings.Lines(all) {
			n := MetricNameLen(line)
			name, rest := line[:n], line[n:]
			from := len(labels)
			if n > 0 && strings.HasPrefix(rest, "{") {
				set = LabelReader[string]{Set: rest}
				for key, value, more := set.Next(); more; key, value, more = set.Next() {
					labels = append(labels, Label{key, Unescape(value)})
				}
				rest = rest[set.Pos:]
				if set.Fault != "" {
					n = 0
				}
			}
			number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
			value, err := strconv.ParseFloat(number, 64)
			if n == 0 || err != nil {
				labels = labels[:from]
				continue
			}
			if !yield(Line{name, labels[from:len(labels):len(labels)], value}) {
				return
			}
		}
	}
}
