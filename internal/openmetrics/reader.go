package openmetrics

import (
	"bytes"
	"hash/maphash"

	"github.com/prometheus/common/model"

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

func (c *cursor) skipLine() {
	c.pos += bytes.IndexByte(c.buf[c.pos:], '\n') + 1
	c.line++
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

// passesOver reports whether the samples of a family are not wanted. It is decided at the first of them, when the
// family's type is known.
func (r *reader) passesOver(f *family) bool {
	if !f.judged {
		f.judged = true
		kind := f.kind
		if kind == "" {
			kind = model.MetricTypeUnknown
		}
		f.unwanted = r.opts.Keep != nil && !r.opts.Keep(f.declared, kind)
	}
	return f.unwanted
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
