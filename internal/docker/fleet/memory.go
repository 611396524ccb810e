package fleet

import (
	"maps"
	"slices"
	"time"
)

// Memory returns the state to save. While a restored memory is unverified, it returns that.
func (f *Fleet) Memory() Memory {
	if f.unverified != nil {
		return *f.unverified
	}
	m := Memory{Host: f.rules.Host, Labels: f.rules.Labels, Containers: make(map[string]Record, len(f.members))}
	for name, c := range f.members {
		m.Containers[name] = c.Record
	}
	m.Workloads = make(map[string]workload, len(f.workloads))
	for key, w := range f.workloads {
		m.Workloads[key] = w.clone()
	}
	return m
}

// clone returns a copy that shares nothing with the workload.
func (w *workload) clone() workload {
	c := *w
	c.Was, c.Named, c.Instances = slices.Clone(w.Was), slices.Clone(w.Named), slices.Clone(w.Instances)
	return c
}

// restored prepares a saved workload.
func (w *workload) restored(r *Rules, now time.Time) {
	for i := range w.Instances {
		if e := &w.Instances[i]; !e.Ended.IsZero() && len(w.added(e)) == 0 {
			e.Ended = now // the whole machine may have been off, and be about to start it again
		}
	}
	w.Named = slices.DeleteFunc(slices.Concat(w.Was, w.Named), func(name string) bool { return !r.mentions(name) })
	slices.Sort(w.Named)
	w.Named = slices.Compact(w.Named)
}

// Restore applies a saved state. Its containers count as gone until a list or a description shows them.
func (f *Fleet) Restore(m Memory, now time.Time) {
	m.Containers = validRecords(f.rules, m.Containers)
	if len(m.Containers) == 0 {
		return
	}
	if m.Host != f.rules.Host {
		f.unverified = &m
		return
	}
	for key, saved := range m.Workloads {
		if len(key) <= 2*MaxLabel {
			w := saved.clone()
			w.restored(f.rules, now)
			f.workloads[key] = &w
		}
	}
	for name, kept := range m.Containers {
		c := &Member{Record: kept, restored: true}
		c.Workload = c.workloadOf(name)
		c.Starts = c.Starts.restored()
		if m.Workloads == nil { // each container was judged alone, and had the only counters
			c.Counted = c.counts()
			f.workloadOf(name, c).add(c.Counted)
		}
		if c.GoneSince.IsZero() {
			c.markGone(now)
		}
		if !f.rules.stillWatches(name, kept.Project, m.Labels) {
			c.setExpected(false) // the settings may no longer choose it
		}
		f.members[name] = c
		// A renamed container is saved under its former name too; the present one wins.
		if _, taken := f.names[kept.ID]; kept.ID != "" && (!taken || kept.GoneSince.IsZero()) {
			f.names[kept.ID] = name
		}
	}
}

// validRecords applies the current limits to saved records, since an earlier version may have had others.
func validRecords(r *Rules, kept map[string]Record) map[string]Record {
	admitted := make(map[string]Record, len(kept))
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if len(admitted) >= r.MaxContainers+maxGone {
			break
		}
		c := kept[name]
		if !ValidName(name) {
			continue
		}
		c.Project = bounded(c.Project, MaxLabel)
		c.Service = bounded(c.Service, MaxLabel)
		c.Image = bounded(c.Image, MaxLabel)
		c.DependsOn = bounded(c.DependsOn, MaxDependsOn)
		c.HostNames = bounded(c.HostNames, maxHostNames)
		admitted[name] = c
	}
	return admitted
}
