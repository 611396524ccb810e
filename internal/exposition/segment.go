package exposition

import "bytes"

// part is what one source has of a family.
type part struct {
	Family
	source int
	// headed says that the family's metadata stands before it.
	headed bool
}

// same reports whether two parts are written with the same bytes. It does not compare lines that share memory.
func (p *part) same(q *part) bool {
	return p.Name == q.Name && p.Type == q.Type && p.headed == q.headed && p.Help == q.Help && p.Unit == q.Unit &&
		bytes.Equal(p.Text, q.Text) && bytes.Equal(p.OpenMetrics, q.OpenMetrics)
}

// metadataSize bounds the metadata of the part, in either format.
func (p *part) metadataSize() int {
	if !p.headed {
		return 0
	}
	const fixed = len("# HELP _total \n# TYPE _total gaugehistogram\n# UNIT  \n")
	return fixed + 3*len(p.Name) + 2*len(p.Help) + len(p.Unit)
}

// segmentSize is how much of a page is compressed in one piece, unless a family is larger. It is the window of deflate:
// larger segments hardly compress better, and smaller ones make changes cheaper.
const segmentSize = 32 << 10

// segment is a run of parts that is written and compressed in one piece.
type segment struct {
	parts             []part
	text, openMetrics piece
}

// piece is a segment in one format. Both are a page's own bytes once that is written.
type piece struct {
	plain []byte
	// blocks are deflate blocks that need nothing before them; nil until they are made.
	blocks []byte
}

// begins reports whether parts begin with the segment's parts.
func (s *segment) begins(parts []part) bool {
	if len(parts) < len(s.parts) {
		return false
	}
	for i := range s.parts {
		if !s.parts[i].same(&parts[i]) {
			return false
		}
	}
	return true
}

// size returns upper bounds of the segment's size in both formats.
func (s *segment) size() (text, openMetrics int) {
	if s.text.blocks != nil {
		return len(s.text.plain), len(s.openMetrics.plain)
	}
	for i := range s.parts {
		n := s.parts[i].metadataSize()
		text += n + len(s.parts[i].Text)
		openMetrics += n + len(s.parts[i].OpenMetrics)
	}
	return text, openMetrics
}

// divide cuts the parts of a page into segments. It keeps segments of the last page that are unchanged.
func divide(parts []part, last []segment) []segment {
	segments := make([]segment, 0, len(last)+1)
	from, size := 0, 0 // of the parts that are in no segment yet
	for i := 0; i < len(parts); {
		for len(last) > 0 && last[0].parts[0].Name < parts[i].Name {
			last = last[1:]
		}
		kept := known(last, parts[i:])
		n := len(parts[i].Text)
		if i > from && (kept >= 0 || size+n > segmentSize) {
			segments = append(segments, segment{parts: parts[from:i:i]})
			from, size = i, 0
		}
		if kept < 0 {
			i++
			size += n
			continue
		}
		// Use this page's parts: those of the last page would keep its memory alive.
		s := last[kept]
		i += len(s.parts)
		s.parts = parts[from:i:i]
		segments = append(segments, s)
		last = last[kept+1:]
		from = i
	}
	if from < len(parts) {
		segments = append(segments, segment{parts: parts[from:]})
	}
	return segments
}

// known is the index of the segment that the parts begin with, -1 for none. Segments are in the order of the page.
func known(segments []segment, parts []part) int {
	for i := range segments {
		if segments[i].parts[0].Name != parts[0].Name {
			break
		}
		if segments[i].begins(parts) {
			return i
		}
	}
	return -1
}

// fragments is the maximum number of segments, twice as many as a new division can make: small segments, left by families
// that came and went, compress badly.
func fragments(parts []part) int {
	size := 0
	for i := range parts {
		size += len(parts[i].Text)
	}
	return 4*size/segmentSize + 16
}
