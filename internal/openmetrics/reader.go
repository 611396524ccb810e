package openmetrics

import (
	"bytes"
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// reader reads one page, once. textparse says line by line what is legal. At the first line that it refuses, the rest
// of the page is tidied, and reading goes on there.
type reader struct {
	opts        Options
	openMetrics bool
	page        *Page
	cursor

	families map[string]*family
	order    []*family
	current  *family
	found

	// spare is a help text that came second, of a family that may turn out to be two.
	spare struct {
		family *family
		help   string
	}
	seed maphash.Seed

	names [][]byte // scratch: the label names of one series
	side  []byte   // holds label sets that had to be written anew
	told  map[Reason]int
}

// cursor is where the reader is on its page.
type cursor struct {
	// buf is what is parsed: the page, or what tidying made of its rest. It ends in a line feed.
	buf []byte
	pos int
	// line counts the lines before pos. Where tidying has left some out, origins holds the numbers of those it kept.
	line    int
	origins []int32
	// cut is the number of a last line without an end, which was left off; 0 where the page ends well.
	cut int
}

// found is what was read of the page.
type found struct {
	samples []sample
	created int
	// scattered is set once a family stands on the page in several pieces, displaced once a counter is.
	scattered, displaced bool
	exemplars            [][]byte
	known                map[uint64]struct{}
}

// lineGuess is how many bytes a line has at least, when room for samples is made. It keeps a page of line feeds from
// asking for many times its own size.
const lineGuess = 16

func newReader(page []byte, openMetrics bool, o Options) *reader {
	page = bytes.TrimPrefix(page, []byte("\xef\xbb\xbf"))
	cut := 0
	if openMetrics && isCutOff(page) {
		cut = bytes.Count(page, []byte{'\n'}) + 1
		page = page[:bytes.LastIndexByte(page, '\n')+1]
	}
	if n := len(page); !openMetrics || n > 0 && page[n-1] != '\n' {
		// The text parser appends a line feed each time that one is made, so it is given room for it.
		page = append(make([]byte, 0, n+2), page...)
		if n > 0 && page[n-1] != '\n' {
			page = append(page, '\n')
		}
	}
	lines := min(bytes.Count(page, []byte{'\n'}), len(page)/lineGuess)
	if o.Series > 0 {
		lines = min(lines, 2*o.Series)
	}
	r := &reader{
		opts:        o,
		openMetrics: openMetrics,
		page:        &Page{Dropped: make(map[Reason]int, len(Reasons)), Complete: !openMetrics},
		cursor:      cursor{buf: page, cut: cut},
		families:    map[string]*family{},
		found:       found{samples: make([]sample, 0, lines), known: make(map[uint64]struct{}, lines)},
		seed:        maphash.MakeSeed(),
		told:        map[Reason]int{},
	}
	for _, reason := range Reasons {
		r.page.Dropped[reason] = 0
	}
	return r
}

// isCutOff reports whether an OpenMetrics page ends in the middle of a sample line, whose value may lack digits then.
func isCutOff(page []byte) bool {
	last := page[bytes.LastIndexByte(page, '\n')+1:]
	return len(last) > 0 && last[0] != '#'
}

func (r *reader) read() {
	if r.cut > 0 {
		r.page.Dropped[Malformed]++
		r.tell(Malformed, r.cut, "line is cut off by the end of the page", nil)
	}
	// A NUL ends the text parser's page without a word.
	if bytes.IndexByte(r.buf, 0) < 0 && r.parse() {
		return
	}
	r.tidy()
	for !r.parse() {
		r.drop(Malformed, "no sample line", nil)
		r.skipLine()
	}
}

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

func (c *cursor) skipLine() {
	c.pos += bytes.IndexByte(c.buf[c.pos:], '\n') + 1
	c.line++
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

func (r *reader) addFamily(name []byte) *family {
	if r.opts.Families > 0 && len(r.order) >= r.opts.Families {
		return nil
	}
	f := &family{names: names{declared: string(name)}, line: r.lineNumber(), index: int32(len(r.order))}
	r.families[f.declared] = f
	r.order = append(r.order, f)
	return f
}

// familyOf finds or makes the family of a sample: the one that was spoken of last, if the name fits it, else any that
// was declared before. It returns nil where a new family would be one too many.
func (r *reader) familyOf(name []byte) (*family, exposition.Role) {
	if r.current != nil {
		if role, ok := r.current.roleOf(name); ok {
			return r.current, role
		}
	}
	if r.current = r.families[string(name)]; r.current != nil {
		return r.current, exposition.Bare
	}
	if i := bytes.LastIndexByte(name, '_'); i > 0 {
		if f := r.families[string(name[:i])]; f != nil {
			if role, ok := f.roleOf(name); ok {
				r.current = f
				return f, role
			}
		}
	}
	r.current = r.addFamily(name)
	return r.current, exposition.Bare
}

// sample keeps the sample of one line: series is its name and labels, rest what stands behind them.
func (r *reader) sample(series, rest []byte, value float64) {
	series = trimBlanks(series)
	name := series[:exposition.MetricNameLen(series)]
	if len(name) == 0 {
		r.drop(Malformed, "metric name outside [a-zA-Z0-9_:]", nil)
		return
	}
	f, role := r.familyOf(name)
	if f != nil && r.passesOver(f) {
		return
	}
	set := trimBlanks(series[len(name):])
	if limit := r.opts.LabelBytes; limit > 0 && (len(set) > limit || len(name) > limit) {
		if f != nil {
			f.truncated = true
		}
		r.drop(Limit, "labels or name too long", name)
		return
	}
	if f == nil {
		r.drop(Limit, "family beyond the limit", name)
		return
	}
	if f.rejected {
		r.drop(Clash, "family is declared before as another type", name)
		return
	}
	if f.kind == "" {
		f.setKind(model.MetricTypeUnknown)
	}
	s := sample{value: value, role: role, family: f.index}
	hash, fault := r.readLabels(&s, f, set)
	if fault != "" {
		r.drop(Malformed, fault, name)
		return
	}
	hash += maphash.Bytes(r.seed, name)
	if r.full(role) {
		f.truncated = true
		r.dropSample(Limit, role, "series beyond the limit", name)
		return
	}
	before := len(r.known)
	if r.known[hash] = struct{}{}; len(r.known) == before {
		r.dropSample(Clash, role, "series stands there twice", name)
		return
	}
	if r.openMetrics && (role == exposition.Total || role == exposition.Bucket || role == exposition.Bare && f.kind == model.MetricTypeCounter) {
		s.exemplar = r.exemplar(rest)
	}
	r.keep(f, s)
}

func (r *reader) keep(f *family, s sample) {
	r.scattered = r.scattered || len(r.samples) > 0 && r.samples[len(r.samples)-1].family > f.index
	r.samples = append(r.samples, s)
	f.seen[s.role]++
	if s.role == exposition.Created {
		r.created++
	}
}

// full reports whether the page has as many series as it may. Those of `_created` are no series, but bounded too.
func (r *reader) full(role exposition.Role) bool {
	n := len(r.samples) - r.created
	if role == exposition.Created {
		n = r.created
	}
	return r.opts.Series > 0 && n >= r.opts.Series
}

// readLabels reads the labels of a sample, drops those that the options name, and returns the hash of those that
// remain, in which their order does not count.
func (r *reader) readLabels(s *sample, f *family, set []byte) (hash uint64, fault string) {
	special := f.special(s.role)
	var group, own uint64
	has := false
	l := exposition.LabelReader[[]byte]{Set: set}
	r.names = r.names[:0]
	for len(set) > 0 {
		name, value, more := l.Next()
		if !more {
			if l.Fault != "" {
				return 0, l.Fault
			}
			if !l.Loose {
				break
			}
			set = r.canonical(set)
			l = exposition.LabelReader[[]byte]{Set: set}
			r.names, group, has = r.names[:0], 0, false
			continue
		}
		if r.dropsLabel(name) {
			l.Loose = true
			continue
		}
		r.names = append(r.names, name)
		if special == "" || string(name) != special {
			group += maphash.Bytes(r.seed, l.Set[l.Start:l.End])
			continue
		}
		has = true
		if own, fault = r.readSpecial(s, f, value); fault != "" {
			return 0, fault
		}
	}
	if hasDuplicate(r.names) {
		return 0, "label stands there twice"
	}
	if special != "" && has != f.needsSpecial(s.role) {
		return 0, "label " + special + " is missing or out of place"
	}
	for _, name := range r.names {
		if string(name) == model.MetricNameLabel {
			return 0, "label " + model.MetricNameLabel
		}
	}
	s.labels, s.group = set, group
	return group + bits.RotateLeft64(own, 1), ""
}

// readSpecial reads the label that tells the samples of one metric apart. Numbers count by value: le="1" is le="1.0".
func (r *reader) readSpecial(s *sample, f *family, value []byte) (hash uint64, fault string) {
	if f.kind == model.MetricTypeStateset {
		return maphash.Bytes(r.seed, value), ""
	}
	bound, err := parseFloat(value)
	if err != nil || math.IsNaN(bound) {
		return 0, "bound is no number"
	}
	if f.kind == model.MetricTypeSummary && (bound < 0 || bound > 1) {
		return 0, "quantile outside 0 to 1"
	}
	s.bound = bound
	return maphash.Comparable(r.seed, bound), ""
}

// dropsLabel reports whether a label of the upstream is taken off: by name, or because the options set it.
func (r *reader) dropsLabel(name []byte) bool {
	return slices.ContainsFunc(r.opts.DropLabels, func(drop string) bool { return drop == string(name) }) ||
		slices.ContainsFunc(r.opts.Labels, func(l exposition.Label) bool { return l.Name == string(name) })
}

// sideChunk is how much room for rewritten label sets is made at once.
const sideChunk = 64 << 10

// room makes room for n bytes more in side, without moving what is there.
func (r *reader) room(n int) {
	if cap(r.side)-len(r.side) < n {
		r.side = make([]byte, 0, max(n, sideChunk))
	}
}

// canonical writes a label set that can be read anew.
func (r *reader) canonical(set []byte) []byte {
	r.room(2 * len(set))
	from := len(r.side)
	r.side, _, _ = appendLabelSet(r.side, set, r.dropsLabel)
	return r.side[from:len(r.side):len(r.side)]
}

// maxExemplarRunes is how long the labels of an exemplar may be together, by the specification.
const maxExemplarRunes = 128

// exemplar keeps the exemplar behind a sample, if there is one and it is legal, and returns its place in the list.
func (r *reader) exemplar(rest []byte) int32 {
	_, rest, found := bytes.Cut(rest, []byte(" # "))
	if !found || len(rest) == 0 || rest[0] != '{' {
		return 0
	}
	runes := 0
	l := exposition.LabelReader[[]byte]{Set: rest}
	r.names = r.names[:0]
	for {
		name, value, more := l.Next()
		if !more {
			break
		}
		r.names = append(r.names, name)
		runes += len(name) + utf8.RuneCount(value)
	}
	if l.Fault != "" || runes > maxExemplarRunes || hasDuplicate(r.names) {
		return 0
	}
	value, timestamp := word(trimBlanks(rest[l.Pos:]))
	number, err := parseFloat(value)
	if err != nil {
		return 0
	}
	// The set may need an escape for each of its bytes; two numbers have up to 50 digits.
	r.room(2*l.Pos + 64)
	from := len(r.side)
	out, _, _ := appendLabelSet(r.side, rest[:l.Pos], nil)
	if len(out) == from {
		out = append(out, '{', '}')
	}
	out = exposition.AppendPlainValue(append(out, ' '), number)
	if len(timestamp) > 0 {
		observed, err := parseFloat(timestamp)
		if err != nil || !isFinite(observed) {
			return 0
		}
		out = exposition.AppendPlainValue(append(out, ' '), observed)
	}
	r.side = out
	r.exemplars = append(r.exemplars, out[from:len(out):len(out)])
	return int32(len(r.exemplars))
}

// lineNumber is the number of the line that is read now, from 1.
func (c *cursor) lineNumber() int {
	if c.line < len(c.origins) {
		return int(c.origins[c.line])
	}
	return c.line + 1
}

// drop counts a line that is left out, and tells of it.
func (r *reader) drop(reason Reason, what string, name []byte) {
	r.page.Dropped[reason]++
	r.tell(reason, r.lineNumber(), what, name)
}

// dropSample is drop for a sample that could have been read.
func (r *reader) dropSample(reason Reason, role exposition.Role, what string, name []byte) {
	if role == exposition.Created {
		r.tell(reason, r.lineNumber(), what, name)
		return
	}
	r.drop(reason, what, name)
}

// maxNameBytes is how much of a metric's name is told.
const maxNameBytes = 120

func (r *reader) tell(reason Reason, line int, what string, name []byte) {
	if r.told[reason] >= maxDrops {
		return
	}
	r.told[reason]++
	if len(name) > 0 {
		what = string(name[:min(len(name), maxNameBytes)]) + ": " + what
	}
	r.page.Drops = append(r.page.Drops, Drop{Reason: reason, Line: line, What: what})
}

var errNumber = errors.New("no number of the formats")

// parseFloat reads a number as the formats have it: Go's syntax without hexadecimals and underscores.
func parseFloat(s []byte) (float64, error) {
	if len(s) == 0 || bytes.ContainsAny(s, "xXpP_") {
		return 0, errNumber
	}
	return strconv.ParseFloat(string(s), 64)
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// sortByFamily brings the samples of each family together, in the order in which they came.
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
