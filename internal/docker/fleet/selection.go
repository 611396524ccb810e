package fleet

import (
	"slices"

	"github.com/docker/docker/api/types/container"
)

// Selection chooses the containers to watch while a list is read, so that only max_containers use memory.
type Selection struct {
	Rules *Rules
	// KnownIDs are the ids that the fleet has seen, Displaced the ones of them over the limit.
	KnownIDs  map[string]bool
	Displaced []string

	// Containers in the configuration come first, then known ones, so that an unknown container displaces neither.
	configured, known, unknown []container.Summary
	// Listed counts all containers, OverLimit the ones over max_containers, Misnamed the ones with a name that no engine
	// accepts.
	Listed, OverLimit, Misnamed int
}

// Add chooses or drops one container of a list.
func (s *Selection) Add(l *container.Summary) {
	s.Listed++
	own := OwnName(l.Names)
	if own != "" && !ValidName(own) {
		s.Misnamed++
		return
	}
	// A container with a temporary name may get its lasting one a moment later, so the lasting one decides.
	name, known := LastingName(own), s.KnownIDs[l.ID]
	if !known && own != "" && !s.Rules.Watches(name, l.Labels) {
		return
	}
	into := &s.unknown
	switch {
	case s.Rules.mentions(name):
		into = &s.configured
	case known:
		into = &s.known
	}
	if len(*into) >= s.Rules.MaxContainers {
		s.drop(l.ID)
		return
	}
	*into = append(*into, container.Summary{
		ID:      l.ID,
		Names:   []string{"/" + own},
		Image:   l.Image,
		Created: l.Created,
		Labels:  s.Rules.NeededLabels(l.Labels),
		State:   l.State,
		Status:  l.Status,
	})
}

// Containers returns the chosen containers, at most MaxContainers. Call it once.
func (s *Selection) Containers() []container.Summary {
	chosen := slices.Concat(s.configured, s.known, s.unknown)
	most := min(len(chosen), s.Rules.MaxContainers)
	for i := range chosen[most:] {
		s.drop(chosen[most+i].ID)
	}
	return chosen[:most]
}

// drop counts a container over the limit.
func (s *Selection) drop(id string) {
	s.OverLimit++
	if s.KnownIDs[id] {
		s.Displaced = append(s.Displaced, id)
	}
}
