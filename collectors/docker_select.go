package collectors

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// What is read of other people's containers is bounded, so that no engine can fill the memory.
const (
	// maxContainerName is the longest name of a file, which engines make of a container's name.
	maxContainerName = 255
	// maxContainerLabel bounds the project, the service and the image of a container, and maxDependsOn what compose says of
	// its dependencies. Longer ones are left out.
	maxContainerLabel = 512
	maxDependsOn      = 4096
	// maxDependencies bounds how many containers one container depends on.
	maxDependencies = 32
)

// validContainerName reports whether an engine could have given a container this name.
func validContainerName(name string) bool {
	return len(name) <= maxContainerName && containerName.MatchString(name)
}

// selection chooses the containers of a list while that is read, so that no more than max_containers take memory.
type selection struct {
	settings *Docker
	// served are the names of the containers that serve targets, by the configuration.
	served []string
	// known are the ids of the containers that the fleet knows, and displaced those of them that are left out.
	known     map[string]bool
	displaced []string

	// named are those that the configuration names. They come first, then kept, which are known, so that a new one displaces
	// none of them.
	named, kept, fresh []container.Summary
	// listed counts all containers, beyond the watched ones that max_containers leaves out, misnamed those whose names no
	// engine gives.
	listed, beyond, misnamed int
}

// take decides about one container.
func (s *selection) take(l *container.Summary) {
	s.listed++
	own := ownName(l.Names)
	if own != "" && !validContainerName(own) {
		s.misnamed++
		return
	}
	// One with a temporary name may bear its lasting one a moment later, so it is judged once it is inspected.
	name, known := lastingName(own), s.known[l.ID]
	if !known && own != "" && !s.settings.watches(name, l.Labels) {
		return
	}
	into := &s.fresh
	switch {
	case slices.Contains(s.settings.Expected, name), s.settings.Roles[name] != "", slices.Contains(s.served, name):
		into = &s.named
	case known:
		into = &s.kept
	}
	if len(*into) >= s.settings.MaxContainers {
		s.leaveOut(l.ID)
		return
	}
	*into = append(*into, container.Summary{
		ID: l.ID, Names: []string{"/" + own}, Image: l.Image, Created: l.Created, Labels: s.settings.neededLabels(l.Labels),
		State: l.State, Status: l.Status,
	})
}

// containers returns those that were chosen.
func (s *selection) containers() []container.Summary {
	chosen := slices.Concat(s.named, s.kept, s.fresh)
	most := min(len(chosen), s.settings.MaxContainers)
	for i := range chosen[most:] {
		s.leaveOut(chosen[most+i].ID)
	}
	return chosen[:most]
}

// leaveOut takes in that there are too many for a container.
func (s *selection) leaveOut(id string) {
	s.beyond++
	if s.known[id] {
		s.displaced = append(s.displaced, id)
	}
}

// neededLabels returns those of a container's labels that anybody looks at, and what else is asked for.
func (s *Docker) neededLabels(all map[string]string, others ...string) map[string]string {
	needed := map[string]string{}
	keep := func(key string) {
		if value, ok := all[key]; ok && len(value) <= maxDependsOn {
			needed[key] = value
		}
	}
	for _, key := range []string{composeProject, composeService, composeOneOff, composeDepends, roleLabel} {
		keep(key)
	}
	for _, label := range s.Labels {
		key, _, _ := strings.Cut(label, "=")
		keep(key)
	}
	for _, key := range others {
		keep(key)
	}
	return needed
}

// shorten leaves of a description what is used of it: those of all containers are in the memory at once.
func (s *Docker) shorten(c *container.InspectResponse) {
	if base := c.ContainerJSONBase; base != nil {
		c.ContainerJSONBase = &container.ContainerJSONBase{
			ID: base.ID, Name: base.Name, Created: base.Created, RestartCount: base.RestartCount, State: base.State,
		}
		if h := base.HostConfig; h != nil {
			c.HostConfig = &container.HostConfig{
				RestartPolicy: h.RestartPolicy, AutoRemove: h.AutoRemove, NetworkMode: h.NetworkMode, Resources: container.Resources{Memory: h.Memory},
			}
		}
		if base.State != nil && base.State.Health != nil {
			for _, result := range base.State.Health.Log {
				if result != nil {
					result.Output = ""
				}
			}
		}
	}
	if all := c.Config; all != nil {
		c.Config = &container.Config{Image: all.Image, Labels: s.neededLabels(all.Labels), Healthcheck: all.Healthcheck}
	}
	c.Mounts, c.NetworkSettings, c.ImageManifestDescriptor = nil, nil, nil
}

// bounded returns the value of a label, or "" and false where it is too long.
func bounded(value string, limit int) (kept string, ok bool) {
	if len(value) > limit {
		return "", false
	}
	return value, true
}

// leftOut takes in what a list left out, and logs when it leaves out something for the first time. The caller holds the lock.
func (c *docker) leftOut(s *selection) {
	if s.beyond > 0 && c.beyond == 0 || s.misnamed > 0 && c.misnamed == 0 {
		c.log.Warn("containers are not watched", "beyond_max_containers", s.beyond, "with_impossible_names", s.misnamed)
	}
	c.listed, c.beyond, c.misnamed, c.fleet.displaced = s.listed, s.beyond, s.misnamed, s.displaced
}

// tellLeftOut says which containers, and what of them, are not on the page. The caller holds the lock.
func (c *docker) tellLeftOut(b *Batch) {
	if c.beyond > 0 {
		b.Impair(failure.Count(c.beyond, "container") + " beyond max_containers")
		b.Note(fmt.Sprintf("%s beyond max_containers (%d): choose those of the stack with projects, labels, names or exclude, or raise it",
			failure.Count(c.beyond, "container"), c.settings.MaxContainers))
	}
	if c.misnamed > 0 {
		b.Impair(failure.Count(c.misnamed, "container") + " with impossible names")
		b.Note(fmt.Sprintf("%s left out, whose names are longer than %d bytes or hold more than letters, digits, '_', '.' and '-'",
			failure.Count(c.misnamed, "container"), maxContainerName))
	}
	cut := 0
	for _, m := range c.fleet.members {
		if m.here && m.status.cut {
			cut++
		}
	}
	if cut > 0 {
		b.Impair("labels of " + failure.Count(cut, "container") + " are too long")
		b.Note(fmt.Sprintf("the project, service or image of %s is left out: longer than %d bytes, or depends_on than %d",
			failure.Count(cut, "container"), maxContainerLabel, maxDependsOn))
	}
}

// leaveOut forgets containers that are there, and of which there are too many: they are not missed.
func (f *fleet) leaveOut() {
	for _, id := range f.displaced {
		if f.member(id) != nil {
			delete(f.members, f.names[id])
		}
		f.forget(id)
	}
	f.displaced = nil
}

// knownIDs are the ids of all containers of which something is known.
func (f *fleet) knownIDs() map[string]bool {
	known := make(map[string]bool, len(f.names)+len(f.newborn))
	for id := range f.names {
		known[id] = true
	}
	for id := range f.newborn {
		known[id] = true
	}
	for id := range f.touched {
		known[id] = true
	}
	if f.held != nil {
		for _, kept := range f.held.Containers {
			known[kept.ID] = true
		}
	}
	return known
}

// full reports whether no more containers may be heard of before the next list chooses among them.
func (f *fleet) full() bool {
	return len(f.names)+len(f.newborn) >= f.settings.MaxContainers || len(f.touched) >= maxTouched*f.settings.MaxContainers
}

// maxTouched bounds of how many containers events may tell between two lists, as a multiple of max_containers.
const maxTouched = 10

// admissible returns what may be recalled of what was kept: an earlier version may have kept what is left out now.
func (s *Docker) admissible(kept map[string]memberRecord) map[string]memberRecord {
	admitted := make(map[string]memberRecord, len(kept))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if len(admitted) >= s.MaxContainers+maxGone {
			break
		}
		c := kept[name]
		if !validContainerName(name) {
			continue
		}
		c.Project, _ = bounded(c.Project, maxContainerLabel)
		c.Service, _ = bounded(c.Service, maxContainerLabel)
		c.Image, _ = bounded(c.Image, maxContainerLabel)
		c.DependsOn, _ = bounded(c.DependsOn, maxDependsOn)
		admitted[name] = c
	}
	return admitted
}
