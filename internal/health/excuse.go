package health

import (
	"cmp"
	"slices"
	"time"
)

// excuseTolerance is how long before its cause a problem may have begun and still be excused: a reading may detect the consequence
// before the engine reports the cause.
const excuseTolerance = time.Minute

// cause is an unavailable container or engine, or maintenance, with the excuse that it gives. The zero cause explains nothing.
type cause struct {
	Excuse
	// since is when it began; zero for maintenance, which explains every problem. ended says that it ended within the lookback.
	since time.Time
	ended bool
	// past is true of an engine that explains a problem no longer, or never did: it is only named beside it.
	past bool
}

// Holds reports whether the cause explains the problem.
func (c cause) Holds() bool { return c.Excuse.Holds() && !c.past }

// explains reports whether the cause explains a problem that began at since.
func (c *cause) explains(since time.Time) bool { return !since.Before(c.since.Add(-excuseTolerance)) }

// explaining returns the cause if it explains a problem that began at since.
func (c cause) explaining(since time.Time) cause {
	if !c.explains(since) {
		return cause{}
	}
	return c
}

// ofContainer returns the cause of a container's problem that began at since.
func (s *scene) ofContainer(c *Container, since time.Time) cause {
	switch {
	case s.underMaintenance(c.Subject()):
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Root: c.Subject()}}
	case c.WaitsFor != "":
		return cause{Excuse: Excuse{ReasonStarting, c.WaitsFor, s.subjectOf(c.Host, c.WaitsFor)}}
	}
	return s.ofDependencies(c, since, map[*Container]bool{})
}

// ofDependencies follows the dependencies of a container to the cause of its problem. Containers that need each other do not explain each
// other, but a dependency of one of them outside the cycle explains them all. The search skips the containers in seen.
func (s *scene) ofDependencies(c *Container, since time.Time, seen map[*Container]bool) cause {
	seen[c] = true
	for _, name := range c.DependsOn {
		d := s.byName[ContainerSubject(c.Host, name)]
		if d == nil || seen[d] {
			continue
		}
		var found cause
		if s.cycleOf(d) != s.cycleOf(c) {
			if found = s.blame(d); !found.explains(since) {
				continue
			}
		}
		if !found.Holds() {
			found = s.ofDependencies(d, since, seen)
		}
		if found.Holds() {
			found.Cause = name
			return found
		}
	}
	return cause{}
}

// blame returns the container as a cause if it is unavailable, with the end of the chain of its own causes as the root. What the root
// explains counts, whenever the container itself became unavailable. Maintenance of any of them is the reason, since it excuses for
// any time.
func (s *scene) blame(c *Container) cause {
	found, known := s.graph.blamed[c]
	if known {
		return found
	}
	if found = s.ofLoss(c.Subject()); found.Reason == ReasonDependency {
		if further := s.ofDependencies(c, found.since, map[*Container]bool{}); further.Holds() {
			further.Cause = found.Cause
			found = further
		}
	}
	s.graph.blamed[c] = found
	return found
}

// ofLoss returns a container or engine as a cause if it is unavailable, or was within the lookback.
func (s *scene) ofLoss(subject Subject) cause {
	known := s.judge.unavailable[subject]
	if known == nil || !known.Ended.IsZero() && s.now.Sub(known.Ended) > s.judge.rules.Lookback {
		return cause{}
	}
	found := cause{
		Excuse: Excuse{ReasonDependency, subject.Name, subject},
		since:  known.Began,
		ended:  !known.Ended.IsZero(),
	}
	if s.underMaintenance(subject) {
		found.Reason = ReasonMaintenance
	}
	return found
}

// dependencies are what is computed on demand of the containers that need each other.
type dependencies struct {
	blamed map[*Container]cause
	// cycles has the number of each container's cycle, order when the search came to it, and stack those whose cycle is not complete.
	cycles, order map[*Container]int
	stack         []*Container
}

func newDependencies() dependencies {
	return dependencies{blamed: map[*Container]cause{}, cycles: map[*Container]int{}, order: map[*Container]int{}}
}

// cycleOf returns the number of the container's dependency cycle: containers that need each other, directly or indirectly, have the same
// number. These are the strongly connected components of the dependencies, by Tarjan's algorithm.
func (s *scene) cycleOf(c *Container) int {
	if s.graph.order[c] == 0 {
		s.visit(c)
	}
	return s.graph.cycles[c]
}

// visit finds the cycle of a container, and of all that it needs. It returns the first of them that belongs to the container's cycle.
func (s *scene) visit(c *Container) int {
	g := &s.graph
	own := len(g.order) + 1
	g.order[c] = own
	g.stack = append(g.stack, c)
	lowest := own
	for _, name := range c.DependsOn {
		switch d := s.byName[ContainerSubject(c.Host, name)]; {
		case d == nil || g.cycles[d] > 0:
		case g.order[d] > 0:
			lowest = min(lowest, g.order[d])
		default:
			lowest = min(lowest, s.visit(d))
		}
	}
	if lowest == own {
		i := slices.Index(g.stack, c)
		for _, member := range g.stack[i:] {
			g.cycles[member] = own
		}
		g.stack = g.stack[:i]
	}
	return lowest
}

// ofTarget returns the cause of a target's outage that began at since. There is none while a container that may serve the target works. If
// the engine is unknown, containers of that name on any engine count.
func (s *scene) ofTarget(t *target, since time.Time) (found cause) {
	switch {
	case s.underMaintenance(t.subject):
		return cause{Excuse: Excuse{Reason: ReasonMaintenance}}
	case t.Container == "" && t.Service == "":
		return cause{}
	case s.containerMaintained(t):
		return cause{Excuse: Excuse{Reason: ReasonMaintenance, Cause: t.Container}}
	}
	containers := s.names.candidates(&t.Target)
	if len(containers) == 0 {
		return s.ofEngine(t, t.ContainerHost, since)
	}
	for _, c := range containers {
		var one cause
		if !t.server.Inferred || s.downLately(c) {
			one = s.ofOwnContainer(c, since)
		}
		if !one.Holds() {
			one = s.ofEngine(t, c.Host, since)
		}
		if !one.Holds() {
			return one
		}
		found = cmp.Or(found, one)
	}
	return found
}

// isAtFault reports whether a target fails for a reason that nothing explains that it needs, since its server runs and answers.
func (s *scene) isAtFault(t *target) bool {
	servers := s.names.candidates(&t.Target)
	return t.OwnFault && (len(servers) == 0 || slices.ContainsFunc(servers, (*Container).available))
}

// isMaintained reports whether maintenance explains that a target does not work now.
func (s *scene) isMaintained(t *target) bool {
	return len(s.maintained) != 0 && s.ofTarget(t, s.now).Reason == ReasonMaintenance
}

// containerMaintained reports whether the container that serves a target is under maintenance, known or not.
func (s *scene) containerMaintained(t *target) bool {
	return s.underMaintenance(t.servedBy) || s.maintained[ContainerSubject("", t.Container)]
}

// downLately reports whether the container is down, or was within the lookback.
func (s *scene) downLately(c *Container) bool {
	known := s.judge.unavailable[c.Subject()]
	return known != nil && s.now.Sub(known.Down) <= s.judge.rules.Lookback
}

// ofOwnContainer returns how the container that serves a target explains the target's outage that began at since.
func (s *scene) ofOwnContainer(c *Container, since time.Time) cause {
	found := s.blame(c)
	switch {
	case !found.Holds():
		return s.ofDependencies(c, since, map[*Container]bool{})
	case found.Root != c.Subject():
	case c.State == Running || c.WaitsFor != "":
		found.Reason = ReasonStarting
	default:
		found.Reason = ReasonContainer
	}
	return found.explaining(since)
}

// ofEngine returns the engine of the target's container as a cause, if it cannot be read and explains the target's outage that began at
// since. That is one that began about when the engine was lost, for as long as an outage may last before its critical alert: the target's
// own probe says more than the engine's silence. An engine explains nothing if only the target pages.
func (s *scene) ofEngine(t *target, host string, since time.Time) cause {
	e := s.engines[host]
	if e == nil || e.Name == t.Name || e.WarnOnly && !t.WarnOnly {
		return cause{}
	}
	found := s.ofLoss(e.subject)
	if found.Reason != ReasonMaintenance {
		found.past = since.Sub(found.since) > excuseTolerance || s.now.Sub(found.since) > s.judge.targetDue()
	} else if t.memory.lastUp.Sub(found.since) > s.judge.rules.Lookback {
		return cause{}
	}
	return found.explaining(since)
}

// ofOutage returns the outage of the target as a cause.
func (s *scene) ofOutage(t *target, since time.Time) cause {
	known := s.judge.outage(t.subject)
	if known == nil {
		return cause{}
	}
	found := cause{Excuse: Excuse{ReasonDependency, t.Name, t.subject}, since: known.Since}
	if known.Excuse.Reason == ReasonCertificate {
		found.Root = known.Excuse.Root
	}
	return found.explaining(since)
}

// ofOtherTarget returns why that target does not work, as the cause of another target's problem. One that only limits this address works.
func (s *scene) ofOtherTarget(t *target, since time.Time) cause {
	if c := s.ofTarget(t, since); c.Holds() || t.Throttled {
		return c
	}
	return s.ofOutage(t, since)
}

// ofServices returns why the IRC services do not work.
func (s *scene) ofServices(t *target, since time.Time) cause {
	for _, services := range s.targets {
		if services.Role == "irc_services" && (t.WarnOnly || !services.WarnOnly) {
			if c := s.ofOtherTarget(services, since); c.Holds() {
				return c
			}
		}
	}
	return s.ofRole("irc_services", since)
}

// ofRole returns why no container with that role works, if none does.
func (s *scene) ofRole(role string, since time.Time) (found cause) {
	for _, c := range s.containers {
		if c.Role != role {
			continue
		}
		one := cause{Excuse: Excuse{ReasonMaintenance, c.Subject().Name, c.Subject()}}
		if !s.underMaintenance(c.Subject()) {
			one = s.ofOwnContainer(c, since)
		}
		if !one.Holds() {
			return cause{}
		}
		found = cmp.Or(found, one)
	}
	return found
}

// ofPorts returns why no target for clients of that side works, if none does.
func (s *scene) ofPorts(side string, since time.Time) (found cause) {
	for _, t := range s.targets {
		if t.Side != side {
			continue
		}
		if found = s.ofOtherTarget(t, since); !found.Holds() {
			break
		}
	}
	return found
}

// The names of the alerts on bridges and their check because of which its readings fail.
const (
	AlertBridgeNotRelaying = "BridgeNotRelaying"
	AlertRelaySessionDown  = "RelaySessionDown"
	AlertRelayUnwatched    = "RelayUnwatched"
	AlertBridgeDuplicates  = "BridgeDuplicates"
)

// The causes that the check of a bridge sees on the two sides, as label values.
const (
	BridgeHangs    = "hangs"
	BridgeLeft     = "left"
	BridgeSplit    = "netsplit"
	BridgeKilled   = "killed"
	BridgeKicked   = "kicked"
	BridgeBanned   = "banned"
	BridgeSilenced = "silenced"
	BridgeAbsent   = "absent"
	BridgeUnknown  = "unknown"
)

var relayAlerts = []string{AlertBridgeNotRelaying, AlertRelaySessionDown, AlertRelayUnwatched, AlertBridgeDuplicates}

// relayAlerted reports whether an alert says that a bridge does not relay, since about then, or that its check has no session.
func (j *Judge) relayAlerted(s Subject, since time.Time) bool {
	return j.alerted(s, AlertBridgeNotRelaying, since) || j.alerted(s, AlertRelaySessionDown, time.Time{})
}

// ofAlertedBridge returns a bridge that does not relay, once its alert fires. A component that disconnected at about the same time is
// part of that, and no second page.
func (s *scene) ofAlertedBridge(t *target, since time.Time) cause {
	for _, relay := range s.targets {
		if (t.WarnOnly || !relay.WarnOnly) && s.judge.alerted(relay.subject, AlertBridgeNotRelaying, since) {
			return cause{Excuse: Excuse{ReasonDependency, relay.Name, relay.subject}}
		}
	}
	return cause{}
}

// ofSession returns the session that the check of a bridge has not, once its alert fires.
func (s *scene) ofSession(t *target) cause {
	if s.judge.alerted(t.subject, AlertRelaySessionDown, time.Time{}) {
		return cause{Excuse: Excuse{ReasonDependency, t.Name, t.subject}}
	}
	return cause{}
}

// alerted reports whether the alert on a part of the subject fires, for a problem that began at about since, or ever if that is zero.
func (j *Judge) alerted(s Subject, alert string, since time.Time) bool {
	for key, known := range j.problems {
		if key.Subject == s && key.Alert == alert && known.fires() &&
			(since.IsZero() || known.Since.Sub(since).Abs() <= sameOutage) {
			return true
		}
	}
	return false
}

// ofCondition returns what explains that a condition of the target, or of a part of it, has held since then.
func (s *scene) ofCondition(t *target, key problemKey, since time.Time) cause {
	for _, by := range s.judge.rule(key.Alert).Excuses {
		if c := s.of(by, t, key.Of, since); c.Holds() {
			return c
		}
	}
	return cause{}
}

// of returns how an excuser explains that.
func (s *scene) of(by Excuser, t *target, part string, since time.Time) (found cause) {
	switch by {
	case ByMaintenance:
		if found = s.ofTarget(t, since); found.Reason != ReasonMaintenance {
			return cause{}
		}
	case ByServer:
		return s.ofTarget(t, since)
	case ByOutage:
		return s.ofOutage(t, since)
	case ByBridge:
		return s.ofRole("bridge", since)
	case ByAlertedBridge:
		return s.ofAlertedBridge(t, since)
	case ByServices:
		return s.ofServices(t, since)
	case ByPort:
		return s.ofPorts(part, since)
	case ByAnyPort:
		return cmp.Or(s.ofPorts(SideIRC, since), s.ofPorts(SideXMPP, since))
	case BySession:
		return s.ofSession(t)
	}
	return found
}
