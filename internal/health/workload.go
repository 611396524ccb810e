package health

import (
	"maps"
	"slices"
	"time"
)

// joinWorkloads moves what is remembered of containers to the shared workloads that continue them. It returns an event for each, once.
func (j *Judge) joinWorkloads(f *Facts) (joined []Event) {
	for i := range f.Engines {
		e := &f.Engines[i]
		if !e.Read {
			continue
		}
		for k := range e.Containers {
			c := &e.Containers[k]
			names := c.newlyShared(j.restarts[c.Subject()])
			for _, name := range names {
				j.moveContainer(ContainerSubject(c.Host, name), c.Subject())
				joined = append(joined, Event{Of: Key(c.Subject()), Was: Key(ContainerSubject(c.Host, name))})
			}
			if len(names) > 0 {
				j.restarts[c.Subject()].limitNew(c.Restarts)
			}
		}
	}
	return joined
}

// newlyShared returns the names of containers that a shared workload continues and that have not moved to it yet.
func (c *Container) newlyShared(known *restarts) (names []string) {
	if !c.Shared {
		return nil
	}
	for _, name := range c.Was {
		if known == nil || !slices.Contains(known.Was, name) {
			names = append(names, name)
		}
	}
	return names
}

// move moves what is remembered of a subject to another one that continues it. What that has already stays.
func (j *Judge) move(from, to Subject) {
	j.changed = true
	for _, known := range j.problems {
		known.rename(from, to)
	}
	for key, known := range maps.Clone(j.problems) {
		if key.Subject == from {
			moved := key
			moved.Subject, known.Was = to, from.Name
			moveKey(j.problems, key, moved, known)
		}
	}
	for key, known := range maps.Clone(j.told) {
		if key.of == Key(from) {
			known.Of = Key(to)
			moveKey(j.told, key, toldKey{Key(to), key.alert, key.part}, known)
		}
	}
	if state, known := j.states[from]; known {
		moveKey(j.states, from, to, state)
	}
	if span := j.unavailable[from]; span != nil {
		moveKey(j.unavailable, from, to, span)
	}
	if past := j.past[from]; past != nil {
		moveKey(j.past, from, to, past)
	}
}

// rename replaces a subject that explains the problem, or did, by the one that continues it.
func (r *record) rename(from, to Subject) {
	if r.Excuse.Root == from {
		r.Excuse.Root = to
		if r.Excuse.Cause == from.Name {
			r.Excuse.Cause = to.Name
		}
	}
	if TargetSubject(r.Loss.Engine) == from {
		r.Loss.Engine = to.Name
	}
}

// moveContainer moves what is remembered of a container to the workload that continues it.
func (j *Judge) moveContainer(from, to Subject) {
	j.move(from, to)
	old, known := j.restarts[from], j.restarts[to]
	delete(j.restarts, from)
	if known == nil {
		known = &restarts{}
		j.restarts[to] = known
	}
	known.Was = append(known.Was, from.Name)
	if old != nil {
		known.Recent, known.Killed = joinEvents(known.Recent, old.Recent), joinEvents(known.Killed, old.Killed)
		known.measured = laterOf(known.measured, old.measured)
		if known.last == nil { // the workload goes on where its containers were
			known.Count, known.Kills, known.Known = known.Count+old.Count, known.Kills+old.Kills, known.Known || old.Known
		}
		known.unwell.join(&old.unwell)
	}
}

// limitNew counts at most one restart as new: that of the container that has just followed another one. The others may be old.
func (r *restarts) limitNew(count uint64) { r.Count = max(r.Count, count-min(count, 1)) }

// moveKey moves a value to another key, unless that has one.
func moveKey[K comparable, V any](in map[K]V, from, to K, v V) {
	delete(in, from)
	if _, taken := in[to]; !taken {
		in[to] = v
	}
}

// joinEvents joins two lists of events, oldest first.
func joinEvents(a, b events) events {
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(a, b eventCount) int { return a.At.Compare(b.At) })
	return all
}

func laterOf(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// names returns all names by which others may call what is judged as this container.
func (c *Container) names() []string {
	if c.Shared {
		return slices.Concat([]string{c.Name, c.Workload}, c.Members, c.Was)
	}
	return []string{c.Name}
}

// callByNames finds which container, or shared workload, each name on an engine means. That of a container itself takes precedence.
func (s *scene) callByNames() {
	for _, shared := range []bool{true, false} {
		for _, c := range s.containers {
			if c.Shared == shared {
				for _, name := range c.names() {
					s.byName[ContainerSubject(c.Host, name)] = c
				}
			}
		}
	}
}

// subjectOf returns what the container with that name is judged as.
func (s *scene) subjectOf(host, name string) Subject {
	named := ContainerSubject(host, name)
	if c := s.byName[named]; c != nil {
		return c.Subject()
	}
	return named
}

// CoveredBy reports whether the maintenance of a container or workload of that name covers it, on whatever engine: that of a workload
// covers its containers, and that of a container its workload.
func (c *Container) CoveredBy(kind, name string) bool {
	return kind == KindWorkload && c.Workload == name || kind == KindContainer && slices.Contains(c.names(), name)
}

// coverWorkloads puts containers under the maintenance of their workload, and shared workloads under that of their containers. Until an
// engine is read, these are the containers of the former process.
func (s *scene) coverWorkloads(f *Facts) {
	if len(s.maintained) == 0 {
		return
	}
	covered := func(c *Container) bool {
		return slices.ContainsFunc(f.Maintenance, func(by Subject) bool { return c.CoveredBy(by.Kind, by.Name) })
	}
	cover := func(of Subject) {
		of.Host = ""
		s.maintained[of] = true
	}
	for _, c := range s.containers {
		if covered(c) {
			cover(c.Subject())
		}
	}
	for subject, known := range s.judge.restarts {
		if c := known.saved(subject); s.judge.unread[subject.Host] && covered(c) {
			cover(subject)
			for _, name := range c.names() {
				cover(ContainerSubject("", name))
			}
		}
	}
}

// saved returns a container as far as its names were saved.
func (r *restarts) saved(as Subject) *Container {
	return &Container{
		Host:     as.Host,
		Name:     as.Name,
		Workload: r.Workload,
		Shared:   as.Kind == KindWorkload,
		Members:  r.Members,
		Was:      r.Was,
	}
}
