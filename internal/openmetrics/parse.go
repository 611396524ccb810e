package openmetrics

import (
	"bytes"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// parse reads on until the page ends. It returns false before a line that cannot be read.
func (r *reader) parse() bool {
	p := r.parser()
	for r.pos < len(r.buf) {
		line := r.buf[r.pos : r.pos+bytes.IndexByte(r.buf[r.pos:], '\n')]
		switch {
		case r.openMetrics && string(line) == "# EOF":
			r.skipLine()
			r.page.Complete = true
			r.afterEnd()
			return true
		case !r.openMetrics && len(trimBlanks(line)) == 0:
			// The text parser passes over it by itself.
		default:
			entry, err := p.Next()
			if err != nil || !r.entry(p, entry, line) {
				return false
			}
		}
		r.pos += len(line) + 1
		r.line++
	}
	return true
}

func (r *reader) parser() textparse.Parser {
	if r.openMetrics {
		return textparse.NewOpenMetricsParser(r.buf[r.pos:], labels.NewSymbolTable())
	}
	return textparse.NewPromParser(r.buf[r.pos:], labels.NewSymbolTable(), false)
}

// afterEnd drops the lines behind # EOF: two pages were thrown together, and the second may repeat the first.
func (r *reader) afterEnd() {
	for r.pos < len(r.buf) {
		if line := bytes.TrimSpace(r.buf[r.pos : r.pos+bytes.IndexByte(r.buf[r.pos:], '\n')]); len(line) > 0 && line[0] != '#' {
			r.drop(Malformed, "line behind # EOF", nil)
		}
		r.skipLine()
	}
}

// entry takes what the parser found. It returns false where that is not just the line, since a quoted string can run
// over the end of one, and where the line cannot be read after all.
func (r *reader) entry(p textparse.Parser, entry textparse.Entry, line []byte) bool {
	switch entry {
	case textparse.EntrySeries:
		series, _, value := p.Series()
		if !bytes.HasPrefix(line, series) {
			return false
		}
		r.sample(series, line[len(series):], value)
	case textparse.EntryType:
		name, kind := p.Type()
		if !exposition.IsMetricName(name) {
			return false
		}
		r.declareType(name, kind)
	case textparse.EntryHelp:
		name, text := p.Help()
		if !exposition.IsMetricName(name) {
			return false
		}
		r.declareHelp(name, text)
	case textparse.EntryUnit:
		name, unit := p.Unit()
		if !exposition.IsMetricName(name) {
			return false
		}
		if f := r.declare(name); f != nil && f.unit == "" {
			f.unit = string(unit)
		}
	case textparse.EntryComment:
	case textparse.EntryInvalid, textparse.EntryHistogram:
		return false
	}
	return true
}

// declare finds or makes the family that a line of metadata speaks of; nil where that would be one too many.
func (r *reader) declare(name []byte) *family {
	if r.current != nil && (r.current.declared == string(name) || r.current.known == string(name)) {
		return r.current
	}
	if r.current = r.families[string(name)]; r.current == nil {
		r.current = r.addFamily(name)
	}
	return r.current
}

func (r *reader) declareHelp(name, text []byte) {
	f := r.declare(name)
	if f == nil {
		return
	}
	help := strings.TrimSpace(string(text))
	if f.help == "" {
		f.help = help
		return
	}
	r.spare.family, r.spare.help = f, help
}

func (r *reader) declareType(name []byte, kind model.MetricType) {
	f := r.declare(name)
	if f == nil {
		return
	}
	if f.rejected || f.declared != string(name) {
		f = r.families[string(name)]
	}
	switch f.kind {
	case "":
		f.setKind(kind)
	case kind:
	default:
		f = r.second(f, kind)
	}
	r.current = f
}

// second is the family for a name that is declared again, as another type than f. The samples of a counter have names
// of their own, so it can stand beside any other type: Go programs have a gauge and a counter of one name. It is declared
// with _total then, as in text format 0.0.4, whichever of the two comes first.
func (r *reader) second(f *family, kind model.MetricType) *family {
	name := f.declared
	full := r.families[name+exposition.Total.Suffix()]
	var made *family
	switch {
	case kind == model.MetricTypeCounter && full != nil:
		if full.kind == "" || full.kind == model.MetricTypeUnknown || full.kind == model.MetricTypeCounter {
			made = full
		}
	case kind == model.MetricTypeCounter:
		made = r.addFamily([]byte(name + exposition.Total.Suffix()))
	case f.kind == model.MetricTypeCounter && full == nil && !f.has(exposition.Bare):
		if made = r.addFamily([]byte(name)); made != nil {
			f.declared, f.known, f.displaced = name+exposition.Total.Suffix(), name, true
			r.families[f.declared] = f
			r.displaced = true
		}
	}
	if made == nil {
		made = &family{names: names{declared: name}, line: r.lineNumber(), rejected: true}
	}
	if made.kind == "" {
		made.setKind(kind)
	}
	if kind == model.MetricTypeCounter && !made.rejected {
		made.known = name
	}
	if made.help == "" && r.spare.family == f {
		made.help = r.spare.help
	}
	return made
}
