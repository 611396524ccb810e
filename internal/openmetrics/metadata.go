package openmetrics

import (
	"slices"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// unescapeTextHelp undoes the escapes of a help text in text format 0.0.4, which does not escape quotes.
var unescapeTextHelp = strings.NewReplacer(`\\`, `\`, `\n`, "\n")

// metadata reads a line that begins with #. Invalid metadata is reported, but drops no series.
func (r *reader) metadata(line []byte) {
	keyword, rest := word(line[1:])
	if len(keyword) > 0 {
		return // #HELP is a comment
	}
	keyword, rest = word(rest)
	name, text := word(rest)
	legal := exposition.IsMetricName(name)
	switch string(keyword) {
	case "EOF":
		r.page.Complete = r.page.Complete || len(rest) == 0
		return
	case "HELP":
		help := r.help(text)
		if help == "" || r.holdsSecret([]byte(help)) {
			return
		}
		if legal {
			r.declareHelp(name, help)
		}
	case "TYPE":
		kind, known := r.typeOf(text)
		if legal = legal && known; legal {
			r.declareType(name, kind)
		}
	case "UNIT":
		if !r.openMetrics || len(text) == 0 {
			return
		}
		if legal = legal && unitFits(string(name), string(text), ""); legal {
			if f := r.declare(name); f != nil && f.unit == "" {
				f.unit = string(text)
			}
		}
	default:
		return
	}
	if !legal {
		r.drop(Malformed, r.line, 0, "invalid metadata", nil)
	}
}

// help returns a help text without escapes and invalid characters.
func (r *reader) help(text []byte) string {
	help := strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "")
	switch {
	case r.openMetrics:
		help = exposition.Unescape(help)
	case strings.Contains(help, `\`):
		help = unescapeTextHelp.Replace(help)
	}
	return strings.TrimSpace(help)
}

// types are the types of both formats.
var types = []model.MetricType{
	model.MetricTypeCounter, model.MetricTypeGauge, model.MetricTypeUnknown, model.MetricTypeStateset,
	model.MetricTypeInfo, model.MetricTypeHistogram, model.MetricTypeGaugeHistogram, model.MetricTypeSummary,
}

// typeOf returns the type that a word means in the page's format.
func (r *reader) typeOf(word []byte) (kind model.MetricType, known bool) {
	if strings.EqualFold(string(word), "untyped") {
		return model.MetricTypeUnknown, true
	}
	i := slices.IndexFunc(types, func(t model.MetricType) bool { return strings.EqualFold(string(word), string(t)) })
	switch {
	case i < 0:
		return "", false
	case r.openMetrics:
		return types[i], true
	case types[i] == model.MetricTypeStateset:
		return model.MetricTypeGauge, true
	default:
		return types[i], types[i] != model.MetricTypeInfo && types[i] != model.MetricTypeGaugeHistogram
	}
}

func (r *reader) addFamily(name []byte) *family {
	if r.opts.Families > 0 && len(r.order) >= r.opts.Families {
		return nil
	}
	f := &family{names: names{declared: string(name)}, line: r.line, index: int32(len(r.order))}
	r.families[f.declared] = f
	r.order = append(r.order, f)
	return f
}

// declare finds or makes the family of a metadata line; nil if that exceeds the limit.
func (r *reader) declare(name []byte) *family {
	if r.current != nil && (r.current.declared == string(name) || r.current.known == string(name)) {
		return r.current
	}
	if r.current = r.families[string(name)]; r.current == nil {
		r.current = r.addFamily(name)
	}
	return r.current
}

func (r *reader) declareHelp(name []byte, help string) {
	f := r.declare(name)
	if f == nil {
		return
	}
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

// second returns the family for a name that is declared again with another type than f. A counter can share its name with
// any other type, because its samples have other names: Go programs have a gauge and a counter of one name. The counter is
// then declared with _total, as in text format 0.0.4, whichever of the two comes first.
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
		}
	}
	if made == nil {
		made = &family{names: names{declared: name}, line: r.line, rejected: true}
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
