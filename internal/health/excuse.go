package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// excuseTolerance is how long before its cause a problem may have begun and still be excused: a reading may detect the consequence
// before the engine reports the cause.
const excuseTolerance = time.Minute

// causes finds what explains problems at one moment.
type causes struct {
	judge      *Judge
	now        time.Time
	containers map[Subject]*Container
	// engines are the targets that are engines, by docker_host.
	engines    map[string]*Target
	maintained map[Subject]bool
	servers    Directory
	// The following are computed on demand.
	cycles map[*Container]int
	blamed map[*Container]cause
}

func newCauses(j *Judge, f *Facts) causes {
	x := causes{
		judge:      j,
		now:        f.Now,
		containers: make(map[Subject]*Container, len(j.restarts)),
		maintained: map[Subject]bool{},
		engines:    map[string]*Target{},
		blamed:     map[*Container]cause{},
	}
	for _, s := range f.Maintenance {
		x.maintained[s] = true
	}
	for i := range f.Targets {
		if t := &f.Targets[i]; t.Engine != "" {
			x.engines[t.Engine] = t
		}
	}
	for _, e := range j.engines {
		for i := range e.containers {
			c := &e.containers[i]
			x.containers[c.subject()] = c
		}
	}
	for s, known := range j.restarts {
		if x.containers[s] == nil && known.last != nil && j.engines[s.Host] != nil {
			c := *known.last
			c.vanished = true
			x.containers[s] = &c
		}
	}
	return x
}

// cause is an unavailable container or engine, or maintenance, with the excuse that it gives.
type cause struct {
	Excuse
	// since is when it began; zero for maintenance, which explains every problem. ended says that it ended within the lookback.
	since time.Time
	ended bool
}

// explains reports whether the cause explains a problem that began at since.
func (c *cause) explains(since time.Time) bool { return !since.Before(c.since.Add(-excuseTolerance)) }

// underMaintenance reports whether the subject is under maintenance, whatever its engine.
func (x *causes) underMaintenance(s Subject) bool {
	s.Host = ""
	return x.maintained[s]
}

// ofContainer returns the cause of a container's problem that began at since.
func (x *causes) ofContainer(c *Container, since time.Time) (cause, bool) {
	switch {
	case x.underMaintenance(c.subject()):
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Root: c.subject()}}, true
	case c.WaitsFor != "":
		return cause{Excuse: Excuse{ReasonStarting, c.WaitsFor, ContainerSubject(c.Host, c.WaitsFor)}}, true
	}
	return x.ofDependencies(c, since, map[*Container]bool{})
}

// ofDependencies follows the dependencies of a container to the cause of its problem. Containers that need each other do not explain each
// other, but a dependency of one of them outside the cycle explains them all. The search skips the containers in seen.
func (x *causes) ofDependencies(c *Container, since time.Time, seen map[*Container]bool) (cause, bool) {
	seen[c] = true
	for _, name := range c.DependsOn {
		d := x.containers[ContainerSubject(c.Host, name)]
		if d == nil || seen[d] {
			continue
		}
		var found cause
		var ok bool
		if x.cycleOf(d) != x.cycleOf(c) {
			if found, ok = x.blame(d); !found.explains(since) {
				continue
			}
		}
		if !ok {
			found, ok = x.ofDependencies(d, since, seen)
			found.Reason = dependencyOr(found.Reason)
		}
		if ok {
			found.Cause = name
			return found, true
		}
	}
	return cause{}, false
}

// blame returns the container as a cause if it is unavailable, with the end of the chain of its own causes as the root.
func (x *causes) blame(c *Container) (found cause, ok bool) {
	if found, ok = x.blamed[c]; ok {
		return found, found.Holds()
	}
	if s := x.judge.unavailable[c.subject()]; s != nil && s.lately(x.now, x.judge.rules.Lookback) {
		found = cause{Excuse{ReasonDependency, c.Name, c.subject()}, s.Began, !s.Ended.IsZero()}
		if x.underMaintenance(c.subject()) {
			found.Reason = ReasonMaintenance
		} else if further, ok := x.ofDependencies(c, s.Began, map[*Container]bool{}); ok {
			found.Reason, found.Root = dependencyOr(further.Reason), further.Root
		}
	}
	x.blamed[c] = found
	return found, found.Holds()
}

// dependencyOr passes maintenance on as the reason along a chain, since maintenance excuses for any time; other reasons become dependency.
func dependencyOr(reason string) string {
	if reason == ReasonMaintenance {
		return reason
	}
	return ReasonDependency
}

// cycleOf returns the number of the container's dependency cycle: containers that need each other, directly or indirectly, have the same
// number. These are the strongly connected components of the dependencies, by Tarjan's algorithm.
func (x *causes) cycleOf(c *Container) int {
	if x.cycles != nil {
		return x.cycles[c]
	}
	x.cycles = make(map[*Container]int, len(x.containers))
	order := make(map[*Container]int, len(x.containers))
	var stack []*Container
	var visit func(c *Container) int
	visit = func(c *Container) int {
		own := len(order) + 1
		order[c] = own
		stack = append(stack, c)
		lowest := own
		for _, name := range c.DependsOn {
			switch d := x.containers[ContainerSubject(c.Host, name)]; {
			case d == nil || x.cycles[d] > 0:
			case order[d] > 0:
				lowest = min(lowest, order[d])
			default:
				lowest = min(lowest, visit(d))
			}
		}
		if lowest == own {
			i := slices.Index(stack, c)
			for _, member := range stack[i:] {
				x.cycles[member] = own
			}
			stack = stack[:i]
		}
		return lowest
	}
	for _, other := range x.containers {
		if order[other] == 0 {
			visit(other)
		}
	}
	return x.cycles[c]
}

// ofTarget returns the cause of a target's outage that began at since. There is none while a container that may serve the target works. If
// the engine is unknown, containers of that name on any engine count.
func (x *causes) ofTarget(t *Target, since time.Time) (cause, bool) {
	if x.underMaintenance(TargetSubject(t.Name)) {
		return cause{Excuse: Excuse{Reason: ReasonMaintenance}}, true
	}
	if t.Container == "" {
		return cause{}, false
	}
	if x.underMaintenance(Subject{Kind: KindContainer, Name: t.Container}) {
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Cause: t.Container}}, true
	}
	var found cause
	containers := x.servers.candidates(t)
	if len(containers) == 0 {
		return x.ofEngine(t, t.ContainerHost, since)
	}
	for _, c := range containers {
		one, ok := cause{}, false
		if !t.inferred || x.downLately(c) {
			one, ok = x.ofOwnContainer(c, since)
		}
		if !ok {
			one, ok = x.ofEngine(t, c.Host, since)
		}
		if !ok {
			return cause{}, false
		}
		if !found.Holds() {
			found = one
		}
	}
	return found, found.Holds()
}

// downLately reports whether the container is down, or was within the lookback.
func (x *causes) downLately(c *Container) bool {
	s := x.judge.unavailable[c.subject()]
	return s != nil && x.now.Sub(s.Down) <= x.judge.rules.Lookback
}

// ofOwnContainer returns how the container that serves a target explains the target's outage that began at since.
func (x *causes) ofOwnContainer(c *Container, since time.Time) (cause, bool) {
	found, unavailable := x.blame(c)
	if !unavailable {
		return x.ofDependencies(c, since, map[*Container]bool{})
	}
	if found.Root == c.subject() {
		found.Reason = ReasonContainer
		if c.State == Running || c.WaitsFor != "" {
			found.Reason = ReasonStarting
		}
	}
	return found, found.explains(since)
}

func compareSubjects(a, b Subject) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Host, b.Host), strings.Compare(a.Name, b.Name))
}
