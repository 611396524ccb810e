package openmetrics

import (
	"bytes"
	"hash/maphash"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// reader reads one page, once, line by line.
type reader struct {
	opts        Options
	openMetrics bool
	page        *Page
	// line is the number of the current line, from 1.
	line int

	families map[string]*family
	order    []*family
	current  *family
	found

	// spare is the second help text of a family that may turn out to be two.
	spare struct {
		family *family
		help   string
	}
	seed maphash.Seed

	labels   []label // of the current line
	side     []byte  // holds rewritten label sets
	reported map[Reason]int
}

// found is what was read of the page.
type found struct {
	samples []sample
	created int
	// scattered is set once a family is in several pieces.
	scattered bool
	exemplars [][]byte
	known     map[uint64]struct{}
}

// lineGuess is how many bytes a line has at least, when room for samples is made. It keeps a page of line feeds from
// asking for many times its own size.
const lineGuess = 16

func newReader(size, lines int, openMetrics bool, o Options) *reader {
	lines = min(lines, size/lineGuess)
	if o.Series > 0 {
		lines = min(lines, 2*o.Series)
	}
	r := &reader{
		opts:        o,
		openMetrics: openMetrics,
		page:        &Page{Dropped: make(map[Reason]int, len(Reasons)), Complete: !openMetrics},
		families:    map[string]*family{},
		found:       found{samples: make([]sample, 0, lines), known: make(map[uint64]struct{}, lines)},
		seed:        maphash.MakeSeed(),
		reported:    map[Reason]int{},
	}
	for _, reason := range Reasons {
		r.page.Dropped[reason] = 0
	}
	return r
}

func (r *reader) read(page []byte) {
	for whole := true; whole; {
		var line []byte
		line, page, whole = bytes.Cut(page, []byte{'\n'})
		line = bytes.Trim(line, " \t\r")
		r.line++
		switch {
		case len(line) == 0:
		case r.openMetrics && r.page.Complete:
			// These may be two concatenated pages, and the second may repeat the first.
			if line[0] != '#' {
				r.drop(Malformed, r.line, 1, "line after # EOF", nil)
			}
		case line[0] == '#':
			r.metadata(line)
		case r.openMetrics && !whole:
			// The value may lack digits.
			r.drop(Malformed, r.line, 1, "line is cut off at the end of the page", nil)
		default:
			r.sample(line)
		}
	}
}

// familyOf finds or makes the family of a sample. It prefers the last family if the name fits, then any declared one. It
// returns nil if a new family would exceed the limit.
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

// maxNameBytes bounds a metric's name in a report.
const maxNameBytes = 120

// drop counts and reports dropped series.
func (r *reader) drop(reason Reason, line, series int, what string, name []byte) {
	r.page.Dropped[reason] += series
	if r.reported[reason] >= maxDrops {
		return
	}
	r.reported[reason]++
	if len(name) > 0 && !r.holdsSecret(name) {
		what = string(name[:min(len(name), maxNameBytes)]) + ": " + what
	}
	r.page.Drops = append(r.page.Drops, Drop{Reason: reason, Line: line, What: what})
}

// holdsSecret reports whether a text without escapes holds a secret.
func (r *reader) holdsSecret(text []byte) bool {
	return r.opts.HoldsSecret != nil && r.opts.HoldsSecret(text)
}

// hasSecretLabel reports whether a label that was read holds a secret. A bound is a number, whose digits may be anything.
func (r *reader) hasSecretLabel() bool {
	return r.opts.HoldsSecret != nil && slices.ContainsFunc(r.labels, func(l label) bool {
		if _, err := parseFloat(l.value); err == nil && (string(l.name) == model.BucketLabel || string(l.name) == model.QuantileLabel) {
			return false
		}
		return r.holdsSecret(l.name) || r.holdsSecret(exposition.Unescape(l.value))
	})
}

// skips reports whether Keep refuses a family. It is decided at the first sample, when the family's type is known.
func (r *reader) skips(f *family) bool {
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

func (r *reader) dropFamily(f *family, reason Reason, what string) {
	r.drop(reason, f.line, f.series(), what, []byte(f.declared))
	f.samples, f.seen = nil, [exposition.Roles]int{}
}
