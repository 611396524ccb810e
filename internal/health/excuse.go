package health

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// earlier is how long before its cause a problem may have begun and still be excused: a reading may see the consequence
// before the engine tells of the cause.
const earlier = time.Minute

// causes finds what explains problems at one moment.
type causes struct {
	judge      *Judge
	now        time.Time
	containers map[Subject]*Container
	maintained map[Subject]bool
}

func newCauses(j *Judge, f *Facts) causes {
	x := causes{judge: j, now: f.Now, containers: map[Subject]*Container{}, maintained: map[Subject]bool{}}
	for _, s := range f.Maintenance {
		x.maintained[s] = true
	}
	for _, e := range j.engines {
		for i := range e.containers {
			c := &e.containers[i]
			x.containers[c.subject()] = c
		}
	}
	return x
}

// cause is a container that is not available, or maintenance, and what it explains.
type cause struct {
	Excuse
	// since is when it began; zero for maintenance, which explains whatever begins during it.
	since time.Time
}

// underMaintenance reports whether the operator has put the subject under maintenance, on whatever engine.
func (x *causes) underMaintenance(s Subject) bool {
	s.Host = ""
	return x.maintained[s]
}

// ofContainer returns what explains a problem of the container that began at since. grace is how long a cause that has
// ended still counts.
func (x *causes) ofContainer(c *Container, since time.Time, grace time.Duration) (cause, bool) {
	if x.underMaintenance(c.subject()) {
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Root: c.subject()}}, true
	}
	return x.ofDependencies(c, since, grace, visited{})
}

// visited are the containers that a search has seen: it ends, also in a circle.
type visited map[Subject]bool

// ofDependencies follows the chain of dependencies to the container that is to blame.
func (x *causes) ofDependencies(c *Container, since time.Time, grace time.Duration, seen visited) (cause, bool) {
	seen[c.subject()] = true
	for _, name := range c.DependsOn {
		d := x.containers[ContainerSubject(c.Host, name)]
		if d == nil || seen[d.subject()] || x.needs(d, c.subject(), visited{}) {
			continue // containers that need each other do not explain each other
		}
		began, unavailable := x.judge.unavailableSince(d.subject(), x.now, grace)
		switch {
		case unavailable && since.Before(began.Add(-earlier)):
			continue
		case unavailable:
			return x.rooted(d, name, began, grace, seen), true
		}
		if found, ok := x.ofDependencies(d, since, grace, seen); ok {
			found.Reason, found.Cause = dependencyOr(found.Reason), name
			return found, true
		}
	}
	return cause{}, false
}

// rooted is the cause that d is, with what explains d itself as its root.
func (x *causes) rooted(d *Container, name string, began time.Time, grace time.Duration, seen visited) cause {
	found := cause{Excuse{ReasonDependency, name, d.subject()}, began}
	if x.underMaintenance(d.subject()) {
		found.Reason = ReasonMaintenance
		return found
	}
	if further, ok := x.ofDependencies(d, began, grace, seen); ok {
		found.Reason, found.Root = dependencyOr(further.Reason), further.Root
	}
	return found
}

// dependencyOr keeps maintenance, which is without a bound, as the reason along a chain.
func dependencyOr(reason string) string {
	if reason == ReasonMaintenance {
		return reason
	}
	return ReasonDependency
}

// needs reports whether c depends on the other container, directly or through others.
func (x *causes) needs(c *Container, other Subject, seen visited) bool {
	seen[c.subject()] = true
	for _, name := range c.DependsOn {
		s := ContainerSubject(c.Host, name)
		if s == other {
			return true
		}
		if d := x.containers[s]; d != nil && !seen[s] && x.needs(d, other, seen) {
			return true
		}
	}
	return false
}

// ofTarget returns what explains that the target has been down since then. While a container of that name serves, on
// whatever engine, the target itself is to blame.
func (x *causes) ofTarget(t *Target, since time.Time) (cause, bool) {
	if x.underMaintenance(TargetSubject(t.Name)) {
		return cause{Excuse: Excuse{Reason: ReasonMaintenance}}, true
	}
	if t.Container == "" {
		return cause{}, false
	}
	if x.underMaintenance(Subject{Kind: config.MaintenanceContainer, Name: t.Container}) {
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Cause: t.Container}}, true
	}
	var found cause
	for _, c := range x.named(t.Container) {
		if t.Inferred && c.State == Running {
			return cause{}, false
		}
		one, ok := x.ofOwnContainer(c, since)
		if !ok {
			return cause{}, false
		}
		if !found.Holds() {
			found = one
		}
	}
	return found, found.Holds()
}

// ofOwnContainer returns how the container that serves a target explains that the target has been down since then.
func (x *causes) ofOwnContainer(c *Container, since time.Time) (cause, bool) {
	if c.available() {
		return x.ofDependencies(c, since, 0, visited{})
	}
	began, _ := x.judge.unavailableSince(c.subject(), x.now, 0)
	if since.Before(began.Add(-earlier)) {
		return cause{}, false
	}
	found := x.rooted(c, c.Name, began, 0, visited{})
	if found.Reason == ReasonDependency && found.Root == c.subject() {
		found.Reason = ReasonContainer
		if !c.down() {
			found.Reason = ReasonStarting
		}
	}
	return found, true
}

// named are the containers of that name, in the order of their engines.
func (x *causes) named(name string) []*Container {
	var list []*Container
	for s, c := range x.containers {
		if s.Name == name {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b *Container) int { return strings.Compare(a.Host, b.Host) })
	return list
}

func compareSubjects(a, b Subject) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Host, b.Host), strings.Compare(a.Name, b.Name))
}
