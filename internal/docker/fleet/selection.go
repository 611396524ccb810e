package fleet

import (
	"slices"

	"github.com/docker/docker/api/types/container"
)

// Choice is what the rules choose of an engine's list.
type Choice struct {
	// All has the containers that are known or watched, Chosen the ones to watch.
	All, Chosen []container.Summary
	ListCounts
}

// ListCounts count all containers of a list, the ones over max_containers, and those with a name that no engine accepts.
type ListCounts struct{ Listed, OverLimit, Misnamed int }

// Choose chooses at most max_containers. The next ApplyList drops known ones over the limit.
func (f *Fleet) Choose(listed []container.Summary) Choice {
	c := Choice{ListCounts: ListCounts{Listed: len(listed)}}
	// Containers in the configuration come first, then known ones, so that an unknown container displaces neither.
	var configured, known, unknown []*container.Summary
	for i := range listed {
		l := &listed[i]
		own := OwnName(l.Names)
		switch isKnown := f.knows(l.ID); {
		case own != "" && !ValidName(own):
			c.Misnamed++
		case !isKnown && !f.watches(l):
		case f.rules.mentions(LastingName(own)):
			configured = append(configured, l)
		case isKnown:
			known = append(known, l)
		default:
			unknown = append(unknown, l)
		}
	}
	f.displaced = nil
	for _, l := range slices.Concat(configured, known, unknown) {
		if len(c.All) >= f.rules.MaxContainers {
			if c.OverLimit++; f.knows(l.ID) {
				f.displaced = append(f.displaced, l.ID)
			}
			continue
		}
		c.All = append(c.All, container.Summary{
			ID:      l.ID,
			Names:   []string{"/" + OwnName(l.Names)},
			Image:   l.Image,
			Created: l.Created,
			Labels:  f.rules.NeededLabels(l.Labels),
			State:   l.State,
			Status:  l.Status,
		})
		if f.watches(l) {
			c.Chosen = append(c.Chosen, c.All[len(c.All)-1])
		}
	}
	return c
}

// watches reports whether a container of a list may be watched. One with a temporary name may get its lasting one a moment later, so
// the lasting one decides; one without a name is decided by its description.
func (f *Fleet) watches(l *container.Summary) bool {
	own := OwnName(l.Names)
	return own == "" || f.rules.Watches(LastingName(own), l.Labels)
}

// knows reports whether the fleet has seen a container.
func (f *Fleet) knows(id string) bool {
	_, named := f.names[id]
	return named || f.pending[id] != nil || f.lastEventMark[id] > 0
}
