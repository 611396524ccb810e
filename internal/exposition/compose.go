package exposition

import (
	"cmp"
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

// part is what one source has of a family.
type part struct {
	*Family
	source int
	// headed says that the family's metadata stands before it.
	headed bool
}

// metadataSize bounds the metadata of the part, in either format.
func (p *part) metadataSize() int {
	if !p.headed {
		return 0
	}
	const fixed = len("# HELP _total \n# TYPE _total gaugehistogram\n# UNIT  \n")
	return fixed + 3*len(p.Name) + 2*len(p.Help) + len(p.Unit)
}

// Clashes returns the families of several sources that a page of them leaves out; see Compose.
func Clashes(sources ...[]Family) (clashes []Clash) {
	claimAll(sources, func(int, *Family) {}, func(c Clash) { clashes = append(clashes, c) })
	return clashes
}

// Compose makes a page of families from several sources. It merges families of the same name in the order of the sources,
// with the metadata of the first, and sorts families by name, except Late. A family that clashes with an earlier one, by
// its type or by a possible sample name (histogram x and gauge x_count), is left out and reported. The caller must ensure
// that no series is in two sources. The page keeps the families.
func Compose(sources ...[]Family) (*Page, []Clash) {
	var (
		p       Page
		clashes []Clash
	)
	claimAll(sources, func(source int, f *Family) {
		p.parts = append(p.parts, part{Family: f, source: source})
		p.Series += f.Series
	}, func(c Clash) { clashes = append(clashes, c) })
	late := func(p *part) int {
		if p.Name == Late {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(p.parts, func(a, b part) int {
		return cmp.Or(late(&a)-late(&b), strings.Compare(a.Name, b.Name), a.source-b.source)
	})
	for i := range p.parts {
		p.parts[i].headed = i == 0 || p.parts[i-1].Name != p.parts[i].Name
	}
	return &p, clashes
}

// claimAll calls keep for each family that a page of the sources has, and drop for the others.
func claimAll(sources [][]Family, keep func(source int, f *Family), drop func(Clash)) {
	taken := names{byName: map[string]model.MetricType{}}
	for source, families := range sources {
		for i := range families {
			if f := &families[i]; taken.claim(f) {
				keep(source, f)
			} else {
				drop(Clash{Source: source, Family: f.Name, Series: f.Series})
			}
		}
	}
}
