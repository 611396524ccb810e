// Package fleet tracks the containers of an engine from its lists, descriptions and events. It does no I/O and has no clock:
// the time is an argument.
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Fleet holds the state of an engine's containers. It is not safe for concurrent use.
//
// Events arrive while the engine answers a call. So the caller saves Mark before a call and passes it with the answer. Fleet
// ignores an answer about a container with a later event, because that event triggers another inspection.
type Fleet struct {
	rules *Rules
	// members are the watched containers by name, including removed ones.
	members map[string]*Member
	// workloads are what the members are instances of, by key. listed is true once the containers of
	// a list were described.
	workloads map[string]*workload
	listed    bool
	// names are the lasting names of existing containers, by id.
	names map[string]string
	// pending are containers without a member, by id: another container still has their lasting name, or they were not yet
	// described.
	pending map[string]*pendingContainer
	// lastEventMark is the mark of a container's last event, by id. It outlives the container until a list lacks that, since
	// an older answer may still describe it.
	lastEventMark map[string]uint64
	mark          uint64
	// followedSince is when the stream of events began, by the engine's clock; zero without a stream.
	followedSince time.Time
	// overdueEvents is when a list first showed a change of a container whose event has not arrived, by id.
	overdueEvents map[string]time.Time
	// listedAt is when the last list was applied.
	listedAt time.Time
	// displaced are the ids of known containers that the next ApplyList drops, because there are too many.
	displaced []string
	// unverified is the memory of an engine at another address, until a list shows whether it is the same engine.
	unverified *Memory
	// savedCounts are the counters by name as last saved. Reports show these; nil without a state file.
	savedCounts map[string]Counts
}

// New returns an empty fleet.
func New(r *Rules) *Fleet {
	return &Fleet{
		rules:         r,
		members:       map[string]*Member{},
		workloads:     map[string]*workload{},
		names:         map[string]string{},
		pending:       map[string]*pendingContainer{},
		lastEventMark: map[string]uint64{},
		overdueEvents: map[string]time.Time{},
	}
}

// Rules returns the rules of New.
func (f *Fleet) Rules() *Rules { return f.rules }

// JoinNetworks sets the exporter's networks on which containers have names. Call it before the first description.
func (f *Fleet) JoinNetworks(networks []string) { f.rules.Networks = networks }

// Mark returns how many events were applied.
func (f *Fleet) Mark() uint64 { return f.mark }

// FollowFrom records that the stream of events is open. The first call says since when, by the engine's clock.
func (f *Fleet) FollowFrom(since time.Time) {
	if f.followedSince.IsZero() {
		f.followedSince = since
	}
}

// FollowedSince returns when the stream of events began; zero without a stream.
func (f *Fleet) FollowedSince() time.Time { return f.followedSince }

// Displace has the next ApplyList drop these containers.
func (f *Fleet) Displace(ids []string) { f.displaced = ids }

// Described reports whether every member was described since its last event.
func (f *Fleet) Described() bool {
	for _, c := range f.members {
		if c.Stale {
			return false
		}
	}
	return true
}

// Expect adds the containers that the configuration names as expected.
func (f *Fleet) Expect(now time.Time) {
	for _, name := range f.rules.Expected {
		c := f.members[name]
		if c == nil {
			c = &Member{Record: Record{lifecycle: lifecycle{GoneSince: now}, Labels: f.labelsOf(name)}}
			f.members[name] = c
		}
		c.setExpected(true)
	}
	for _, key := range f.rules.ExpectedServices {
		if f.listed && f.workloads[key] == nil && !f.hasInstance(key) {
			f.workloads[key] = &workload{Shared: true, Gone: now}
		}
	}
}

// hasInstance reports whether a member is an instance of the workload.
func (f *Fleet) hasInstance(key string) bool {
	for name, c := range f.members {
		if c.workloadOf(name) == key {
			return true
		}
	}
	return false
}

// labelsOf returns what is known of a container that only the configuration names. It may be an instance of a compose service, whose
// other instances exist.
func (f *Fleet) labelsOf(name string) Labels {
	l := Labels{Workload: name}
	for _, m := range f.members {
		if composeNameOf(&m.Labels, name) {
			l = Labels{Project: m.Project, Service: m.Service, Workload: m.Workload}
		}
	}
	l.Role = cmp.Or(f.rules.Roles[name], inferRole(l.Service, "", name))
	return l
}

// EventActions are the events that change a number or a state.
var EventActions = []events.Action{
	events.ActionCreate, events.ActionStart, events.ActionRestart, events.ActionKill, events.ActionStop, events.ActionDie,
	events.ActionOOM, events.ActionPause, events.ActionUnPause, events.ActionRename, events.ActionUpdate, events.ActionDestroy,
	events.ActionHealthStatus, podmanDied, podmanRemove,
}

// Podman's words for die and destroy, and its attribute for the exit code.
const (
	podmanDied     events.Action = "died"
	podmanRemove   events.Action = "remove"
	podmanExitCode               = "containerExitCode"
)

// EventAttributes are the attributes of events that ApplyEvent uses, beside the labels in NeededLabels.
var EventAttributes = []string{"name", "image", "exitCode", podmanExitCode, "signal"}

// ApplyEvent applies an event, and reports whether to inspect the container now.
func (f *Fleet) ApplyEvent(e *events.Message, now time.Time) (inspect bool) {
	id, name := e.Actor.ID, e.Actor.Attributes["name"]
	if !ValidName(id) {
		return false // the id becomes part of a request's path
	}
	if _, known := f.names[id]; !known && (!f.rules.Watches(LastingName(name), e.Actor.Attributes) || f.pending[id] == nil && f.atLimit()) {
		return false
	}
	f.mark++
	f.lastEventMark[id] = f.mark
	f.MarkStale(id)
	delete(f.overdueEvents, id)
	at := time.Unix(0, e.TimeNano)
	switch e.Action {
	case events.ActionDestroy, podmanRemove:
		if c := f.lastMember(id, name); c != nil {
			f.endRemoved(id, name, c, now)
			c.markRemoved(f.beingReplaced(c))
		} else if n := f.pending[id]; n != nil {
			f.absorb(id, name, n, now)
		}
		f.countRemoved(id, name, now)
		f.MarkGone(id, now)
		return false
	case events.ActionCreate:
		if f.Member(id) == nil {
			n := f.pendingFor(id)
			n.creationSeen, n.created, n.labels = true, at, labelsOfEvent(e)
		}
	case events.ActionStart:
		f.applyStart(id, at)
	case events.ActionKill:
		if endsRun(e.Actor.Attributes["signal"]) {
			f.ask(id, name, at)
		}
	case events.ActionOOM:
		_, ooms := f.countersOf(id)
		ooms.countEvent(at)
	case events.ActionDie, podmanDied:
		// The container may be removed before it can be inspected.
		if code, err := strconv.Atoi(cmp.Or(e.Actor.Attributes["exitCode"], e.Actor.Attributes[podmanExitCode])); err == nil {
			f.applyExit(id, name, code, at)
		}
	case events.ActionStop:
		f.ask(id, name, at)
		if c := f.lastMember(id, name); c != nil {
			c.markStopped(c.Status.id == id && !c.Status.autoRemove && !c.SetAside)
		}
	default: // the description has the result
	}
	return true
}

// countRemoved keeps the counts of a container that is removed before its first description, if its creation had an event.
func (f *Fleet) countRemoved(id, name string, now time.Time) {
	if n := f.pending[id]; n != nil && n.creationSeen && f.members[name] != nil {
		f.bindMember(&Status{id: id, Name: name}, now).markRemoved(false)
	}
}

// Member returns the member whose current container has this id, or nil.
func (f *Fleet) Member(id string) *Member {
	if c := f.members[f.names[id]]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// lastMember returns the member whose current or last container has this id, or nil.
func (f *Fleet) lastMember(id, name string) *Member {
	if present, ok := f.names[id]; ok {
		name = present
	}
	if c := f.members[name]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// applyStart counts the start of a container.
func (f *Fleet) applyStart(id string, at time.Time) {
	starts, _ := f.countersOf(id)
	before := starts.Total
	starts.countEvent(at)
	c := f.Member(id)
	if c == nil {
		n := f.pending[id]
		n.askedAt, n.exit = time.Time{}, exit{}
		return
	}
	if starts.Total > before { // else the description counts it
		c.countRun(c.runsAgain())
		c.LastExit = exit{}
	}
	c.markStarted(at)
}

// ignoredSignals are those that make a process do something else than end: HUP, USR1, USR2, CONT, STOP, TSTP, TTIN, TTOU and WINCH.
var ignoredSignals = []string{"1", "10", "12", "18", "19", "20", "21", "22", "28"}

// endsRun reports whether somebody who sends this signal asks for the end of the run. If a container ends by an ignored one, its stop
// has an event as well.
func endsRun(signal string) bool { return !slices.Contains(ignoredSignals, signal) }

// ask records that somebody has asked for the end of a run. The event of a stop comes after that of the end.
func (f *Fleet) ask(id, name string, at time.Time) {
	if c := f.lastMember(id, name); c != nil {
		c.AskedAt = at
		c.LastExit.Asked = c.LastExit.Asked || !c.LastExit.At.IsZero()
	} else if n := f.pending[id]; n != nil {
		n.askedAt = at
	}
}

// maxStopTime is how long after a request for its end a run may end because of it.
const maxStopTime = 10 * time.Minute

func askedFor(asked, ended time.Time) bool { return !asked.IsZero() && ended.Sub(asked) <= maxStopTime }

// applyExit applies the exit code of a container's last run.
func (f *Fleet) applyExit(id, name string, code int, at time.Time) {
	if n := f.pending[id]; n != nil {
		n.exit = exit{at, code, askedFor(n.askedAt, at)}
	}
	c := f.lastMember(id, name)
	if c == nil {
		return
	}
	c.LastExit = exit{at, code, askedFor(c.AskedAt, at)}
	if c.Status.id != id || c.SetAside {
		return
	}
	ended := c.Status
	ended.State, ended.Stopped, ended.ExitCode = container.StateExited, true, code
	if ended.autoRemove {
		c.setExpected(f.supervised(ended.Name, c))
	} else {
		c.setExpected(ended.expected(c.StoppedByHand) || f.expects(ended.Name, c))
	}
}

// labelsOfEvent returns the labels of a container in an event.
func labelsOfEvent(e *events.Message) Labels {
	attributes := e.Actor.Attributes
	return Labels{
		Project:    attributes[ComposeProject],
		Service:    attributes[ComposeService],
		Image:      withoutDigest(attributes["image"]),
		Workload:   WorkloadOf(attributes, LastingName(attributes["name"])),
		ConfigHash: attributes[composeHash],
	}
}

// absorb counts a container that was removed before its first description as one of its name, or as an instance of its workload.
func (f *Fleet) absorb(id, name string, n *pendingContainer, now time.Time) {
	c := f.members[name]
	if c == nil && n.labels.Workload != name && !n.exit.At.IsZero() {
		c = &Member{Record: Record{
			ID:         id,
			Labels:     n.labels,
			LastExit:   n.exit,
			AutoRemove: true, // else it would still exist
			RanAs:      id,
		}}
		c.addEvents(n)
		c.markGone(now)
		f.members[name] = c
		return
	}
	if c == nil || c.present || c.ID == "" || !n.creationSeen {
		return
	}
	f.noteFollowed(c, n.created)
	c.replaceContainer(c.restartedBy(n.created, &n.labels))
	c.addEvents(n)
	c.ID, c.Status, c.LastExit = id, Status{}, n.exit
	c.resetHistory()
	c.markGone(now)
	c.markRemoved(false)
	if c.AutoRemove {
		c.setExpected(f.supervised(name, c))
	}
}

// restartedBy reports whether a new container of the member's name restarts the last one: else it is a deploy.
func (c *Member) restartedBy(created time.Time, l *Labels) bool {
	e := runEnd{exit: c.LastExit, Image: c.Image, ConfigHash: c.ConfigHash}
	return e.restarts(created, l)
}

// endRemoved records that somebody has removed an instance that was missed: it is not wanted any more, unless another one starts.
func (f *Fleet) endRemoved(id, name string, c *Member, now time.Time) {
	w := f.workloads[c.workloadOf(name)]
	if w != nil && c.Expected && c.RanAs == "" && !c.AutoRemove && w.Runs < w.wants() {
		w.Ends = append(w.Ends, runEnd{
			ID:   id,
			Name: name,
			Seen: now,
			exit: exit{Asked: true},
		})
	}
}

// noteFollowed records that a container that removed itself was followed by another one: something starts it again.
func (f *Fleet) noteFollowed(c *Member, created time.Time) {
	if w := f.workloads[c.Workload]; w != nil && c.AutoRemove && !c.LastExit.Asked && followsSoon(c.LastExit.At, created) {
		w.Followed = true
	}
}

// supervised reports whether a container that removes itself is an outage when it is gone: something has to start it again, and it has
// neither done its work nor was ended by somebody.
func (f *Fleet) supervised(name string, c *Member) bool {
	w := f.workloads[c.workloadOf(name)]
	owned := c.Status.unit != "" || f.named(name, c) || w != nil && w.Followed
	done := !c.LastExit.At.IsZero() && (c.LastExit.Code == 0 || c.LastExit.Asked)
	return owned && !done
}

// expects reports whether the configuration says that the member must run.
func (f *Fleet) expects(name string, c *Member) bool {
	return f.rules.expects(name) || slices.Contains(f.rules.ExpectedServices, c.workloadOf(name))
}

// named reports whether the configuration names the member, or what it is an instance of.
func (f *Fleet) named(name string, c *Member) bool {
	key := c.workloadOf(name)
	if w := f.workloads[key]; w != nil && slices.ContainsFunc(w.Was, f.rules.mentions) {
		return true // it names an earlier instance
	}
	return f.rules.mentions(name) || slices.Contains(f.rules.ExpectedServices, key) || slices.Contains(f.rules.ServedServices, key)
}

// beingReplaced reports whether another container is about to take the member's name.
func (f *Fleet) beingReplaced(c *Member) bool {
	for _, n := range f.pending {
		if n.replaces != "" && f.members[n.replaces] == c {
			return true
		}
	}
	return false
}

func (f *Fleet) pendingFor(id string) *pendingContainer {
	n := f.pending[id]
	if n == nil {
		n = &pendingContainer{}
		f.pending[id] = n
	}
	return n
}

func (f *Fleet) countersOf(id string) (*startCounter, *oomCounter) {
	if c := f.Member(id); c != nil {
		return &c.Starts, &c.OOMs
	}
	n := f.pendingFor(id)
	return &n.starts, &n.ooms
}

// ChangedSince reports whether an event of the container has arrived since the mark.
func (f *Fleet) ChangedSince(mark uint64, id string) bool { return f.lastEventMark[id] > mark }

// ResetOverdueEvents forgets overdue events. Call it when a new stream of events begins.
func (f *Fleet) ResetOverdueEvents() { clear(f.overdueEvents) }

// HasOverdueEvent reports whether any event has been overdue for at least patience.
func (f *Fleet) HasOverdueEvent(now time.Time, patience time.Duration) bool {
	for _, since := range f.overdueEvents {
		if now.Sub(since) >= patience {
			return true
		}
	}
	return false
}

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
		f.markBeingReplaced(s.id, now)
		return
	}
	if !s.chosen {
		f.MarkGone(s.id, now)
		return
	}
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
	if s.State == container.StateRunning || s.State == container.StatePaused {
		c.markStarted(s.Started)
		c.LastExit = exit{}
	}
	c.markPresent()
	if w := f.workloads[s.Workload]; w != nil && w.Role != "" && f.rules.Roles[s.Name] == "" {
		s.Role = w.Role
	}
	c.Status, c.Stale, c.Labels, c.DependsOn, c.HostNames = s, s.fromList, s.Labels, s.dependsOn, s.hostNames
	c.AutoRemove = s.autoRemove
	c.noteExit(&s)
	c.setExpected(f.shouldRun(c, &old) || f.expects(s.Name, c))
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

// noteExit records how the last run ended if no event has.
func (c *Member) noteExit(s *Status) {
	// Without an event, somebody may have stopped it.
	known := s.Ended.Sub(c.LastExit.At) <= maxStampDelay
	if s.Stopped && !known {
		c.LastExit = exit{s.Ended, s.ExitCode, askedFor(c.AskedAt, s.Ended)}
	}
	short := s.Ended.Sub(s.Started) <= longestWork
	c.OneShot = c.OneShot || known && short && s.State == container.StateExited && c.rests()
}

// longestWork is how long a run may take that is taken for work that ends; a longer one is that of a service.
const longestWork = time.Hour

// shouldRun decides whether the container should be running. Old is its status before the last description.
func (f *Fleet) shouldRun(c *Member, old *Status) bool {
	switch s := &c.Status; {
	case c.SetAside:
		return false
	case s.autoRemove:
		return f.supervised(s.Name, c)
	case s.State == container.StateCreated && c.Recreations > 0:
		return c.Expected || s.expected(c.StoppedByHand) // a failed deploy is an outage of the container that it replaced
	case !s.beingRemoved():
		return s.expected(c.StoppedByHand)
	default:
		return c.Expected && old.id == s.id
	}
}

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
		f.noteFollowed(c, s.Created)
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

// markBeingReplaced records that a container has a temporary name: its replacement is about to take the lasting one.
func (f *Fleet) markBeingReplaced(id string, now time.Time) {
	if c := f.Member(id); c != nil && c.present {
		c.markGone(now)
	}
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

// removed reports whether somebody has removed the container, and the configuration does not name it.
func (f *Fleet) removed(name string, c *Member) bool {
	return c.Removed && !f.named(name, c) && !c.LastExit.byItself()
}

// Tidy settles what has happened to workloads, and forgets members that have been gone for long enough. It keeps those that the
// configuration expects, and the last of a workload.
func (f *Fleet) Tidy(now time.Time) {
	f.settle(now)
	for name, c := range f.members {
		if c.present || f.rules.expects(name) {
			continue
		}
		age, forgotten := now.Sub(c.GoneSince), f.rules.ForgetAfter
		unexpected := age >= max(f.rules.MissingAfter, maxRestartGap) && (!c.Expected || f.replaced(name, c, age))
		if unexpected || forgotten > 0 && age >= forgotten && !f.expects(name, c) {
			delete(f.members, name)
		}
	}
	f.limitGone()
	f.tidyWorkloads()
	maps.DeleteFunc(f.overdueEvents, func(_ string, since time.Time) bool { return now.Sub(since) > time.Hour })
}

// replaced reports whether other instances do what a member did that has been gone for that long.
func (f *Fleet) replaced(name string, c *Member, gone time.Duration) bool {
	w := f.workloads[c.workloadOf(name)]
	return w != nil && w.Shared && w.Runs >= w.wants() && gone >= maxReplaceDelay
}

// Forget forgets a member that no longer exists, or a workload without any instance. An error wraps ErrUnknown or ErrNeeded.
func (f *Fleet) Forget(name string) error {
	if w := f.workloads[name]; w != nil && (w.Shared || f.members[name] == nil) {
		return f.forgetWorkload(name)
	}
	switch c := f.members[name]; {
	case f.rules.expects(name):
		return fmt.Errorf("%w: expected names %q; remove it there and reload", ErrNeeded, name)
	case c == nil:
		return fmt.Errorf("%w: %q on docker_host %q", ErrUnknown, failure.OneLine(name), f.rules.Label)
	case c.present:
		return fmt.Errorf("%w: %q exists; to stop watching it, add it to exclude", ErrNeeded, name)
	}
	if w := f.workloads[f.members[name].workloadOf(name)]; w != nil && w.Runs < w.wants() {
		w.Wanted-- // it is what was missed
	}
	delete(f.members, name)
	f.tidyWorkloads()
	return nil
}

// maxGone bounds how many removed containers are remembered: names that are never used twice must not pile up.
const maxGone = 500

// limitGone forgets the containers that were removed first.
func (f *Fleet) limitGone() {
	var gone []string
	for name, c := range f.members {
		if !c.present && !f.rules.expects(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int { return f.members[b].GoneSince.Compare(f.members[a].GoneSince) })
	for _, name := range gone[maxGone:] {
		delete(f.members, name)
	}
}

// MarkStale makes the next ApplyList return the container for inspection.
func (f *Fleet) MarkStale(id string) {
	if c := f.Member(id); c != nil {
		c.Stale = true
	}
}

// Counts returns the counters of all members by name, and those of workloads by workloadCounts and their key.
func (f *Fleet) Counts() map[string]Counts {
	all := make(map[string]Counts, len(f.members))
	for name, c := range f.members {
		all[name] = c.counts()
	}
	for key, w := range f.workloads {
		all[workloadCounts+key] = Counts{w.Restarts, w.Recreations, w.OOMs}
	}
	return all
}

// workloadCounts precedes the keys of workloads where names of containers are keys, too: no name has a slash.
const workloadCounts = "workload/"

// ShowSaved has reports show these counters, which were saved, from now on.
func (f *Fleet) ShowSaved(saved map[string]Counts) { f.savedCounts = saved }

// Unsaved reports whether counters have changed since they were saved.
func (f *Fleet) Unsaved() bool { return f.savedCounts != nil && !maps.Equal(f.savedCounts, f.Counts()) }

// shownCounts returns the counters as saved, or the present ones without a state file.
func (f *Fleet) shownCounts(key string, present Counts) Counts {
	if f.savedCounts == nil {
		return present
	}
	return f.savedCounts[key]
}

// missing reports whether the container is expected and has been gone for longer than a deploy takes.
func (f *Fleet) missing(c *Member, now time.Time) bool {
	return !c.present && c.Expected && now.Sub(c.GoneSince) >= f.rules.MissingAfter
}

// Why a container cannot be forgotten.
var (
	// ErrUnknown means that no container of that name is remembered.
	ErrUnknown = errors.New("no such container is known")
	// ErrNeeded means that the container exists, or that the configuration expects it.
	ErrNeeded = errors.New("the container cannot be forgotten")
)

// KnownIDs returns the ids of all containers that the fleet has seen.
func (f *Fleet) KnownIDs() map[string]bool {
	known := make(map[string]bool, len(f.names)+len(f.pending))
	for id := range f.names {
		known[id] = true
	}
	for id := range f.pending {
		known[id] = true
	}
	for id := range f.lastEventMark {
		known[id] = true
	}
	if f.unverified != nil {
		for _, kept := range f.unverified.Containers {
			known[kept.ID] = true
		}
	}
	return known
}

// atLimit reports whether the fleet ignores events of new containers until the next list.
func (f *Fleet) atLimit() bool {
	return len(f.names)+len(f.pending) >= f.rules.MaxContainers || len(f.lastEventMark) >= maxEventIDs*f.rules.MaxContainers
}

// maxEventIDs bounds how many containers may have events between two lists, as a multiple of max_containers.
const maxEventIDs = 10
