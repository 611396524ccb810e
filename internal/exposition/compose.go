package exposition

import (
	"bytes"
	"cmp"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
)

// Late is the family that is always the last on a page, so that Body.With can append its sample.
const Late = "chatstack_exporter_time_seconds"

// Clash is a family that is left out because an earlier family may write samples of the same name.
type Clash struct {
	// Source is the index of the source that lost the family.
	Source int
	Family string
	Series int
}

// Compose makes a page of families from several sources. It merges families of the same name in the order of the sources,
// with the metadata of the first, and sorts families by name, except Late. A family that clashes with an earlier one, by
// its type or by a possible sample name (histogram x and gauge x_count), is left out and reported. The caller must ensure
// that no series is in two sources.
func Compose(sources ...[]Family) (*Page, []Clash, error) { return new(Composer).Compose(sources...) }

// Composer makes pages as Compose does, but compresses only what has changed since its last page, whose families it keeps.
// It is for one goroutine at a time; the zero Composer is ready.
type Composer struct {
	segments []segment
	deflater deflater
	choices  *choices
}

// Compose makes a page; see the function of that name.
func (c *Composer) Compose(sources ...[]Family) (*Page, []Clash, error) {
	parts, clashes := arrange(sources)
	segments := divide(parts, c.segments)
	if len(segments) > fragments(parts) {
		segments = divide(parts, nil)
	}
	p, err := c.write(segments)
	if err != nil {
		return nil, nil, err
	}
	c.segments = segments
	return p, clashes, nil
}

// arrange sorts the families of all sources in the order of the page, without clashes.
func arrange(sources [][]Family) ([]part, []Clash) {
	n := 0
	for _, families := range sources {
		n += len(families)
	}
	var (
		parts   = make([]part, 0, n)
		clashes []Clash
		taken   = names{byName: make(map[string]model.MetricType, n)}
	)
	for source, families := range sources {
		for i := range families {
			f := &families[i]
			if !taken.claim(f) {
				clashes = append(clashes, Clash{Source: source, Family: f.Name, Series: f.Series})
				continue
			}
			parts = append(parts, part{Family: *f, source: source})
		}
	}
	late := func(p *part) int {
		if p.Name == Late {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Or(late(&a)-late(&b), strings.Compare(a.Name, b.Name), a.source-b.source)
	})
	for i := range parts {
		parts[i].headed = i == 0 || parts[i-1].Name != parts[i].Name
	}
	return parts, clashes
}

// write writes a page. It copies the segments that are already written and writes the others.
func (c *Composer) write(segments []segment) (*Page, error) {
	var textSize, openMetricsSize int
	for i := range segments {
		text, openMetrics := segments[i].size()
		textSize += text
		openMetricsSize += openMetrics
	}
	if c.choices == nil {
		c.choices = &choices{}
	}
	p := &Page{
		text: make([]byte, 0, textSize), openMetrics: make([]byte, 0, openMetricsSize+len(end)), choices: c.choices,
	}
	for i := range segments {
		s := &segments[i]
		text, openMetrics := len(p.text), len(p.openMetrics)
		if s.text.blocks != nil {
			p.text = append(p.text, s.text.plain...)
			p.openMetrics = append(p.openMetrics, s.openMetrics.plain...)
		} else {
			p.write(s.parts)
		}
		s.text.plain, s.openMetrics.plain = p.text[text:], p.openMetrics[openMetrics:]
		if err := c.compress(s); err != nil {
			return nil, err
		}
		for _, part := range s.parts {
			p.Series += part.Series
		}
	}
	// A checksum of the whole page is so fast that combining checksums of segments gains nothing.
	p.textSum, p.openMetricsSum = crc32.ChecksumIEEE(p.text), crc32.ChecksumIEEE(p.openMetrics)
	p.textGzip = member(segments, func(s *segment) *piece { return &s.text }, "", p.textSum, len(p.text))
	p.openMetricsGzip = member(segments, func(s *segment) *piece { return &s.openMetrics }, end, p.openMetricsSum, len(p.openMetrics))
	p.openMetrics = append(p.openMetrics, end...)
	return p, nil
}

// compress makes the blocks of a segment that has none.
func (c *Composer) compress(s *segment) (err error) {
	if s.text.blocks != nil {
		return nil
	}
	if s.text.blocks, err = c.deflater.blocks(s.text.plain); err != nil {
		return err
	}
	if bytes.Equal(s.text.plain, s.openMetrics.plain) {
		s.openMetrics.blocks = s.text.blocks
		return nil
	}
	s.openMetrics.blocks, err = c.deflater.blocks(s.openMetrics.plain)
	return err
}

// end is the last line of an OpenMetrics page.
const end = "# EOF\n"

func (p *Page) write(parts []part) {
	for i := range parts {
		f := &parts[i].Family
		if parts[i].headed {
			p.text = f.appendTextHeader(p.text)
			p.openMetrics = f.appendOpenMetricsHeader(p.openMetrics)
		}
		p.text = append(p.text, f.Text...)
		p.openMetrics = append(p.openMetrics, f.OpenMetrics...)
	}
}
