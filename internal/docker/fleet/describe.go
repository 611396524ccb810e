package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// clockTolerance is how much clocks may differ before the difference counts: a description takes at most this long.
const clockTolerance = 10 * time.Second

// Describe applies a description that was requested at the mark. The engine made it at the time made or later, by its own clock.
func (f *Fleet) Describe(s Status, mark uint64, made, now time.Time) {
	if f.ChangedSince(mark, s.id) {
		return
	}
	if s.Name == "" { // in a list, a half-removed container has no name
		c := f.Member(s.id)
		if c == nil || !c.present {
			return
		}
		s.Name, s.Labels, s.chosen = f.names[s.id], c.Labels, true
	}
	if temporaryName.MatchString(s.Name) {
		if _, known := f.names[s.id]; !known {
			f.pendingFor(s.id).replaces = LastingName(s.Name)
		}
		if c := f.Member(s.id); c != nil && c.present { // its replacement is about to take the lasting name
			c.markGone(now)
		}
		return
	}
	if !s.chosen {
		f.stopWatching(s.id, now)
		return
	}
	f.begin(now)
	f.leavePodsApart(&s)
	c := f.bindMember(&s, now)
	old := c.Status
	starts, runsAgain := c.Starts.Total, c.runsAgain()
	if !s.fromList {
		if c.clockAhead = made.Sub(now); made.IsZero() || c.clockAhead.Abs() <= clockTolerance {
			c.clockAhead = 0
		}
	}
	switch {
	case s.fromList:
		s.fillFrom(&old)
	case c.OnlyListed:
		c.Starts.describeFirst(s.Started, s.policyRestarts)
		c.OnlyListed = false
	default:
		c.Starts.describe(s.Started, s.policyRestarts)
	}
	if s.killedForMemory {
		began := s.Started
		if !s.Stopped {
			began = time.Time{}
		}
		c.OOMs.describeKill(began, s.Ended)
	}
	s.refineUnhealthySince(&old, now)
	if c.Starts.Total > starts {
		c.countRun(runsAgain)
	}
	if s.alive() {
		c.markStarted(s.Started)
		c.LastExit = exit{}
	}
	c.markPresent()
	if f.rules.Roles[s.Name] == "" {
		s.Role = cmp.Or(f.roleOf(s.Workload), s.Role)
	}
	c.Status, c.Stale, c.Labels, c.DependsOn, c.HostNames = s, s.fromList, s.Labels, s.dependsOn, s.hostNames
	c.AutoRemove = s.autoRemove
	endSeen := c.knowsEnd(&s)
	if !s.fromList { // a list says neither when a run began nor when it ended
		c.noteExit(&s)
	}
	c.setExpected(f.shouldRun(c, &old, endSeen) || f.expects(s.Name, c))
}

// roleOf returns the role that the configuration gives to an instance of the workload by name, or "".
func (f *Fleet) roleOf(workload string) string {
	for _, name := range slices.Sorted(maps.Keys(f.rules.Roles)) {
		if m := f.members[name]; m != nil && m.workloadOf(name) == workload || f.workloads[workload].had(name) {
			return f.rules.Roles[name]
		}
	}
	return ""
}

// leavePodsApart makes the containers of a unit workloads of their own once it owns different ones: they are those of a pod, not
// instances of one service. They stay so when the pod is created anew.
func (f *Fleet) leavePodsApart(s *Status) {
	if s.unit == "" || s.Workload != s.unit {
		return
	}
	if c := f.members[s.Name]; c != nil && c.InPod == s.unit {
		s.Workload, s.InPod = s.Name, s.unit
		return
	}
	for _, c := range f.members {
		if o := &c.Status; c.present && o.unit == s.unit && o.Name != s.Name && o.Image != s.Image {
			s.Workload, s.InPod = s.Name, s.unit
		}
	}
	if s.InPod == "" {
		return
	}
	for name, c := range f.members {
		if c.Workload == s.unit {
			c.Workload, c.InPod = name, s.unit
			c.Status.Labels = c.Labels
		}
	}
}

// rests reports whether the container has done its work, and its next start is another run.
func (c *Member) rests() bool {
	e, s := &c.LastExit, &c.Status
	return !e.At.IsZero() && e.Code == 0 && !e.Asked && !c.StoppedByHand && s.id == c.ID && !s.staysUp() && !s.autoRemove
}

// runsAgain reports whether the next start is another run and no restart: after work that was done, or that failed where nothing starts
// it again but a person.
func (c *Member) runsAgain() bool {
	e, s := &c.LastExit, &c.Status
	failed := c.OneShot && !e.At.IsZero() && !e.Asked && s.id == c.ID && (s.restartPolicy == "" || s.restartPolicy == "no")
	return failed || c.rests()
}

// countRun leaves a start out of the restarts if it is another run.
func (c *Member) countRun(another bool) {
	if another {
		c.Runs++
	}
}

// knowsEnd reports whether the end of the last run was seen, by this process or the one before.
func (c *Member) knowsEnd(s *Status) bool { return s.Ended.Sub(c.LastExit.At) <= maxStampDelay }

// noteExit records how the last run ended if no event has.
func (c *Member) noteExit(s *Status) {
	// Without an event, somebody may have stopped it.
	known := c.knowsEnd(s)
	if s.Stopped && !known {
		c.LastExit = exit{s.Ended, s.ExitCode, askedFor(c.AskedAt, s.Ended)}
	}
	short := s.Ended.Sub(s.Started) <= longestWork
	c.OneShot = c.OneShot || known && short && s.State == container.StateExited && c.rests()
}

// longestWork is how long a run may take that is taken for work that ends; a longer one is that of a service.
const longestWork = time.Hour

// begin notes when this process first looked at the engine.
func (f *Fleet) begin(now time.Time) {
	if f.began.IsZero() {
		f.began = now
	}
}

// shouldRun decides whether the container should be running. Old is its status before the last description. EndSeen is true if the end of
// its run was seen before.
func (f *Fleet) shouldRun(c *Member, old *Status, endSeen bool) bool {
	switch s := &c.Status; {
	case c.SetAside:
		return false
	case s.autoRemove:
		return f.supervised(s.Name, c)
	case s.State == container.StateCreated && c.Recreations > 0:
		return c.Expected || s.expected(c.StoppedByHand) // a failed deploy is an outage of the container that it replaced
	case s.beingRemoved():
		return c.Expected && old.id == s.id
	case s.Stopped && !s.Ended.IsZero() && s.Ended.Before(f.began.Add(c.clockAhead)) && !s.staysUp():
		return f.shouldHaveRun(c, endSeen)
	default:
		return s.expected(c.StoppedByHand)
	}
}

// shouldHaveRun decides whether a container should be running that had ended when this process first looked. What the process before
// knew stays so. Nobody saw why any other ended.
func (f *Fleet) shouldHaveRun(c *Member, endSeen bool) bool {
	s := &c.Status
	switch ran := s.Ended.Sub(s.Started); {
	case !c.restored:
		ago := f.began.Add(c.clockAhead).Sub(s.Ended)
		failed := s.ExitCode != 0 && s.ExitCode != exitTerminated && (s.ExitCode != exitKilled || s.killedForMemory)
		return c.StoppedByHand || failed && ran > shortestService && ago <= longestAbsence
	case endSeen:
		return c.Expected
	default:
		return s.expected(c.StoppedByHand) || c.Expected && ran > longestWork
	}
}

const (
	// A container that ended this long before the start of the exporter, after a run of more than that, was a service that failed.
	longestAbsence  = time.Hour
	shortestService = 10 * time.Minute
	// The exit codes of processes that a signal ended: a stop or kill, unless memory ran out.
	exitTerminated = 128 + 15
	exitKilled     = 128 + 9
)

// fillFrom copies what a list lacks from the last status of the same container.
func (s *Status) fillFrom(old *Status) {
	if old.id != s.id {
		return
	}
	s.Created, s.restartPolicy, s.autoRemove, s.memoryLimit = old.Created, old.restartPolicy, old.autoRemove, old.memoryLimit
	s.dependsOn, s.networkOf, s.hostNames, s.streak = old.dependsOn, old.networkOf, old.hostNames, old.streak
	if s.State == old.State {
		s.Started, s.Ended, s.PID = old.Started, old.Ended, old.PID
	}
	if s.State == old.State && s.reported.health == "" { // a Podman's list shows none
		s.Checks, s.reported = old.Checks, old.reported
	}
}

// bindMember makes the container the one of the member with its name, and returns that member.
func (f *Fleet) bindMember(s *Status, now time.Time) *Member {
	before, known := f.names[s.id]
	var former *Member // the member of the container's former name
	if known && before != s.Name {
		former = f.members[before]
		f.releaseName(s.id, before, now)
	}
	f.names[s.id] = s.Name
	c := f.members[s.Name]
	if c != nil && c.ID == s.id {
		if known && before != s.Name {
			if former == nil || former.ID != s.id {
				c.Starts.describeFirst(s.Started, s.policyRestarts)
			} else {
				c.resume(&former.counters)
				c.OnlyListed = former.OnlyListed
			}
		}
		return c
	}
	f.setAsideReplaced(s, former, before, now)
	n := f.pending[s.id]
	delete(f.pending, s.id)
	fresh := c == nil
	if fresh {
		c = &Member{}
		f.members[s.Name] = c
	}
	c.OnlyListed = false
	switch {
	case c.ID != "": // another container had the name
		f.recordEnd(s.Name, c, s.Created, now)
		c.replaceContainer(c.restartedBy(s.Created, &s.Labels))
		switch {
		case n != nil:
			c.addEvents(n)
		case known: // an old container under a new name
			c.startFrom(s)
			c.OnlyListed = s.fromList
		}
	case n != nil && n.creationSeen, f.madeWhileFollowing(s):
		c.addEvents(n)
	case s.fromList:
		c.OnlyListed = true
	default:
		c.startFrom(s)
	}
	c.ID, c.Status, c.startable = s.id, Status{}, false
	c.LastExit, c.OneShot = exit{}, false
	c.resetHistory()
	if n != nil {
		c.LastExit, c.AskedAt = n.exit, n.askedAt
	}
	if former != nil {
		// Under a known name it is in service as the successor, so it is not set aside.
		c.markRenamed(before, now, fresh && (former.ID != s.id || former.SetAside))
	}
	return c
}

// madeWhileFollowing reports whether a container is younger than the stream of events. If the stream was cut at its creation, events
// may still arrive, and all of its restarts count. A list gives whole seconds, and followedSince is one.
func (f *Fleet) madeWhileFollowing(s *Status) bool {
	return !f.followedSince.IsZero() && !s.Created.Before(f.followedSince)
}

// maxReplaceDelay is how soon after a rename another container must take the former name to count as the same deploy.
const maxReplaceDelay = 10 * time.Minute

// setAsideReplaced marks the container whose former name a new container has taken. Somebody renamed it to remove it or to
// return to it later, so only the configuration can still expect it. Before is the former name of the new one, if former is not nil.
func (f *Fleet) setAsideReplaced(s *Status, former *Member, before string, now time.Time) {
	for name, c := range f.members {
		swapped := name == before || former != nil && former.ID == s.id && name == former.RenamedFrom // each has the other's name
		if c.RenamedFrom == s.Name && c.ID != s.id && !swapped && now.Sub(c.RenamedAt) < maxReplaceDelay {
			f.recordEnd(name, c, time.Time{}, now)
			c.markSetAside(f.rules.expects(name))
		}
	}
}

// releaseName records that a container has left its lasting name. Counters belong to names, so they stay with the old one. The
// rename was deliberate, so only the configuration can still expect the old name.
func (f *Fleet) releaseName(id, from string, now time.Time) {
	if c := f.members[from]; c != nil && c.ID == id {
		c.markGone(now)
		c.setExpected(f.rules.expects(from))
	}
}

// stopWatching forgets a container that is not chosen. A known one has got another name.
func (f *Fleet) stopWatching(id string, now time.Time) {
	if name, known := f.names[id]; known {
		f.releaseName(id, name, now)
	}
	f.dropID(id)
}

// MarkGone records that a container no longer exists.
func (f *Fleet) MarkGone(id string, now time.Time) {
	if c := f.Member(id); c != nil && c.present {
		c.markGone(now)
	}
	f.dropID(id)
}

func (f *Fleet) dropID(id string) {
	delete(f.names, id)
	delete(f.pending, id)
}
