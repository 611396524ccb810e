package fleet

import (
	"slices"

	"github.com/docker/docker/api/types/container"
)

// Selection chooses the containers of a list while that is read, so that no more than max_containers take memory.
type Selection struct {
	Rules *Rules
	// Known are the ids of the containers that the fleet knows, and displaced those of them that are left out.
	Known     map[string]bool
	Displaced []string

	// named are those that the configuration names. They come first, then kept, which are known, so that a new one displaces
	// none of them.
	named, kept, fresh []container.Summary
	// Listed counts all containers, beyond the watched ones that max_containers leaves out, misnamed those whose names no
	// engine gives.
	Listed, Beyond, Misnamed int
}

// Take decides about one container.
func (s *Selection) Take(l *container.Summary) {
	s.Listed++
	own := OwnName(l.Names)
	if own != "" && !ValidName(own) {
		s.Misnamed++
		return
	}
	// One with a temporary name may bear its lasting one a moment later, so it is judged once it is inspected.
	name, known := LastingName(own), s.Known[l.ID]
	if !known && own != "" && !s.Rules.Watches(name, l.Labels) {
		return
	}
	into := &s.fresh
	switch {
	case s.Rules.mentions(name):
		into = &s.named
	case known:
		into = &s.kept
	}
	if len(*into) >= s.Rules.MaxContainers {
		s.leaveOut(l.ID)
		return
	}
	*into = append(*into, container.Summary{
		ID: l.ID, Names: []string{"/" + own}, Image: l.Image, Created: l.Created, Labels: s.Rules.NeededLabels(l.Labels),
		State: l.State, Status: l.Status,
	})
}

// Containers returns those that were chosen.
func (s *Selection) Containers() []container.Summary {
	chosen := slices.Concat(s.named, s.kept, s.fresh)
	most := min(len(chosen), s.Rules.MaxContainers)
	for i := range chosen[most:] {
		s.leaveOut(chosen[most+i].ID)
	}
	return chosen[:most]
}

// leaveOut takes in that there are too many for a container.
func (s *Selection) leaveOut(id string) {
	s.Beyond++
	if s.Known[id] {
		s.Displaced = append(s.Displaced, id)
	}
}
