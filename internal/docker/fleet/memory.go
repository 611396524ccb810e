package fleet

import (
	"maps"
	"slices"
	"time"
)

// Remember returns what is to be kept. Before the first list, that is what was kept of an engine at another address.
func (f *Fleet) Remember() Memory {
	if f.held != nil {
		return *f.held
	}
	m := Memory{Host: f.Rules.Host, Labels: f.Rules.Labels, Containers: make(map[string]Record, len(f.Members))}
	for name, c := range f.Members {
		m.Containers[name] = c.Record
	}
	return m
}

// Recall takes in what was kept. Whether the containers still exist is not known yet.
func (f *Fleet) Recall(m Memory, now time.Time) {
	m.Containers = admissible(f.Rules, m.Containers)
	if len(m.Containers) == 0 {
		return
	}
	if m.Host != f.Rules.Host {
		f.held = &m
		return
	}
	for name, kept := range m.Containers {
		c := &Member{Record: kept}
		c.Starts = c.Starts.resumed()
		if c.Gone.IsZero() {
			c.vanish(now)
		}
		if !f.Rules.watchesStill(name, kept.Project, m.Labels) {
			c.expect(false) // it may be none of ours any more
		}
		f.Members[name] = c
		// One that was renamed has its former name beside its present one.
		if _, taken := f.names[kept.ID]; kept.ID != "" && (!taken || kept.Gone.IsZero()) {
			f.names[kept.ID] = name
		}
	}
}

// admissible returns what may be recalled of what was kept: an earlier version may have kept what is left out now.
func admissible(r *Rules, kept map[string]Record) map[string]Record {
	admitted := make(map[string]Record, len(kept))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if len(admitted) >= r.MaxContainers+maxGone {
			break
		}
		c := kept[name]
		if !ValidName(name) {
			continue
		}
		c.Project, _ = bounded(c.Project, MaxLabel)
		c.Service, _ = bounded(c.Service, MaxLabel)
		c.Image, _ = bounded(c.Image, MaxLabel)
		c.DependsOn, _ = bounded(c.DependsOn, MaxDependsOn)
		c.HostNames, _ = bounded(c.HostNames, maxHostNames)
		admitted[name] = c
	}
	return admitted
}
