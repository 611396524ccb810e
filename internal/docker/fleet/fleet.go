// Package fleet tracks the containers of an engine from its lists, descriptions and events. It does no I/O and has no clock:
// the time is an argument.
package fleet

import (
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
	Rules *Rules
	// Members are the watched containers by name, including removed ones.
	Members map[string]*Member
	// names are the lasting names of existing containers, by id.
	names map[string]string
	// pending are containers without a member, by id: another container still has their lasting name, or they were not yet
	// described.
	pending map[string]*pendingContainer
	// lastEventMark is the mark of a container's last event, by id. It outlives the container until a list lacks that, since
	// an older answer may still describe it.
	lastEventMark map[string]uint64
	Mark          uint64
	// FollowedSince is when the stream of events began, by the engine's clock; zero without a stream.
	FollowedSince time.Time
	// overdueEvents is when a list first showed a change of a container whose event has not arrived, by id.
	overdueEvents map[string]time.Time
	// quick and slow choose containers for routine inspections.
	quick, slow rotation
	// listedAt is when the last list was applied.
	listedAt time.Time
	// Displaced are the ids of known containers that the next ApplyList drops, because there are too many.
	Displaced []string
	// unverified is the memory of an engine at another address, until a list shows whether it is the same engine.
	unverified *Memory
	// SavedCounts are the counters by name as last saved. Reports show these; nil without a state file.
	SavedCounts map[string]Counts
}

// New returns an empty fleet.
func New(r *Rules) *Fleet {
	return &Fleet{
		Rules:         r,
		Members:       map[string]*Member{},
		names:         map[string]string{},
		pending:       map[string]*pendingContainer{},
		lastEventMark: map[string]uint64{},
		overdueEvents: map[string]time.Time{},
	}
}

// Expect adds the containers that the configuration names as expected.
func (f *Fleet) Expect(now time.Time) {
	for _, name := range f.Rules.Expected {
		c := f.Members[name]
		if c == nil {
			role := f.Rules.Roles[name]
			if role == "" {
				role = inferRole("", "", name)
			}
			c = &Member{Record: Record{lifecycle: lifecycle{GoneSince: now}, Labels: Labels{Role: role}}}
			f.Members[name] = c
		}
		c.setExpected(true)
	}
}

// EventActions are the events that change a number or a state.
var EventActions = []events.Action{
	events.ActionCreate, events.ActionStart, events.ActionRestart, events.ActionStop, events.ActionDie, events.ActionOOM,
	events.ActionPause, events.ActionUnPause, events.ActionRename, events.ActionUpdate, events.ActionDestroy, events.ActionHealthStatus,
}

// ApplyEvent applies an event, and reports whether to inspect the container now.
func (f *Fleet) ApplyEvent(e *events.Message, now time.Time) (inspect bool) {
	id, name := e.Actor.ID, e.Actor.Attributes["name"]
	if !ValidName(id) {
		return false // the id becomes part of a request's path
	}
	if _, known := f.names[id]; !known && (!f.Rules.Watches(LastingName(name), e.Actor.Attributes) || f.pending[id] == nil && f.atLimit()) {
		return false
	}
	f.Mark++
	f.lastEventMark[id] = f.Mark
	delete(f.overdueEvents, id)
	at := time.Unix(0, e.TimeNano)
	switch e.Action {
	case events.ActionDestroy:
		if c := f.lastMember(id, name); c != nil {
			c.markRemoved(f.beingReplaced(c))
		}
		f.MarkGone(id, now)
		return false
	case events.ActionCreate:
		if f.Member(id) == nil {
			f.pendingFor(id).creationSeen = true
		}
	case events.ActionStart:
		starts, _ := f.countersOf(id)
		starts.countEvent(at)
		if c := f.Member(id); c != nil {
			c.markStarted()
		}
	case events.ActionOOM:
		_, ooms := f.countersOf(id)
		ooms.countEvent(at)
	case events.ActionDie:
		// The container may be removed before it can be inspected.
		if code, err := strconv.Atoi(e.Actor.Attributes["exitCode"]); err == nil {
			f.applyExit(id, name, code)
		}
	case events.ActionStop:
		if c := f.lastMember(id, name); c != nil {
			c.markStopped(c.Status.id == id && !c.Status.autoRemove && !c.SetAside)
		}
	default: // the description has the result
	}
	return true
}

// Member returns the member whose current container has this id, or nil.
func (f *Fleet) Member(id string) *Member {
	if c := f.Members[f.names[id]]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// lastMember returns the member whose current or last container has this id, or nil.
func (f *Fleet) lastMember(id, name string) *Member {
	if present, ok := f.names[id]; ok {
		name = present
	}
	if c := f.Members[name]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// applyExit applies the exit code of a container's last run.
func (f *Fleet) applyExit(id, name string, code int) {
	c := f.lastMember(id, name)
	if c == nil || c.Status.id != id || c.SetAside {
		return
	}
	ended := c.Status
	ended.State, ended.Stopped, ended.ExitCode = container.StateExited, true, code
	c.setExpected(ended.expected(c.StoppedByHand) || f.Rules.expects(c.Status.Name))
}

// beingReplaced reports whether another container is about to take the member's name.
func (f *Fleet) beingReplaced(c *Member) bool {
	for _, n := range f.pending {
		if n.replaces != "" && f.Members[n.replaces] == c {
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
	c := f.bindMember(&s, now)
	old := c.Status
	if !s.fromList {
		c.listAges.recordDescription(made, s.sameRun(&old))
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
	if s.State == container.StateRunning || s.State == container.StatePaused {
		c.markStarted()
	}
	c.markPresent()
	c.Status, c.Stale, c.Labels, c.DependsOn, c.HostNames = s, s.fromList, s.Labels, s.dependsOn, s.hostNames
	c.setExpected(c.shouldRun(&old) || f.Rules.expects(s.Name))
}

// shouldRun decides whether the container should be running. Old is its status before the last description.
func (c *Member) shouldRun(old *Status) bool {
	switch s := &c.Status; {
	case c.SetAside:
		return false
	case s.State == container.StateCreated && !s.autoRemove && c.Recreations > 0:
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
		s.Started, s.PID = old.Started, old.PID
	}
}

// bindMember makes the container the one of the member with its name, and returns that member.
func (f *Fleet) bindMember(s *Status, now time.Time) *Member {
	before, known := f.names[s.id]
	var former *Member // the member of the container's former name
	if known && before != s.Name {
		former = f.Members[before]
		f.releaseName(s.id, before, now)
	}
	f.names[s.id] = s.Name
	c := f.Members[s.Name]
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
	f.setAsideReplaced(s, now)
	n := f.pending[s.id]
	delete(f.pending, s.id)
	fresh := c == nil
	if fresh {
		c = &Member{}
		f.Members[s.Name] = c
	}
	c.OnlyListed = false
	switch {
	case c.ID != "": // another container had the name
		c.replaceContainer()
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
	c.resetHistory()
	if former != nil {
		// Under a known name it is in service as the successor, so it is not set aside.
		c.markRenamed(before, now, fresh && (former.ID != s.id || former.SetAside))
	}
	return c
}

// madeWhileFollowing reports whether a container is younger than the stream of events. If the stream was cut at its creation, events
// may still arrive, and all of its restarts count. A list gives whole seconds, and FollowedSince is one.
func (f *Fleet) madeWhileFollowing(s *Status) bool {
	return !f.FollowedSince.IsZero() && !s.Created.Before(f.FollowedSince)
}

// maxReplaceDelay is how soon after a rename another container must take the former name to count as the same deploy.
const maxReplaceDelay = 10 * time.Minute

// setAsideReplaced marks the container whose former name a new container has taken. Somebody renamed it to remove it or to
// return to it later, so only the configuration can still expect it.
func (f *Fleet) setAsideReplaced(s *Status, now time.Time) {
	for name, c := range f.Members {
		if c.RenamedFrom == s.Name && c.ID != s.id && now.Sub(c.RenamedAt) < maxReplaceDelay {
			c.markSetAside(f.Rules.expects(name))
		}
	}
}

// releaseName records that a container has left its lasting name. Counters belong to names, so they stay with the old one. The
// rename was deliberate, so only the configuration can still expect the old name.
func (f *Fleet) releaseName(id, from string, now time.Time) {
	if c := f.Members[from]; c != nil && c.ID == id {
		c.markGone(now)
		c.setExpected(f.Rules.expects(from))
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

// showRemovedFor is how long a container that somebody has removed is shown as missing.
const showRemovedFor = time.Hour

// removed reports whether somebody has removed the container, and the configuration does not mention it.
func (f *Fleet) removed(name string, c *Member) bool {
	return c.Removed && !f.Rules.mentions(name)
}

// Tidy forgets members that have been gone for long enough. It keeps those that the configuration expects.
func (f *Fleet) Tidy(now time.Time) {
	for name, c := range f.Members {
		if c.present || f.Rules.expects(name) {
			continue
		}
		age := now.Sub(c.GoneSince)
		forgotten := f.Rules.ForgetAfter
		if f.removed(name, c) && (forgotten == 0 || forgotten > showRemovedFor) {
			forgotten = showRemovedFor
		}
		if c.Status.autoRemove || age >= f.Rules.MissingAfter && !c.Expected || forgotten > 0 && age >= forgotten {
			delete(f.Members, name)
		}
	}
	f.limitGone()
	maps.DeleteFunc(f.overdueEvents, func(_ string, since time.Time) bool { return now.Sub(since) > time.Hour })
}

// Forget forgets a member that no longer exists. An error wraps ErrUnknown or ErrNeeded.
func (f *Fleet) Forget(name string) error {
	name = f.onlyInstance(name)
	switch c := f.Members[name]; {
	case f.Rules.expects(name):
		return fmt.Errorf("%w: expected names %q; remove it there and reload", ErrNeeded, name)
	case c == nil:
		return fmt.Errorf("%w: %q on docker_host %q", ErrUnknown, failure.OneLine(name), f.Rules.Label)
	case c.present:
		return fmt.Errorf("%w: %q exists; to stop watching it, add it to exclude", ErrNeeded, name)
	}
	delete(f.Members, name)
	return nil
}

// maxGone bounds how many removed containers are remembered: names that are never used twice must not pile up.
const maxGone = 500

// limitGone forgets the containers that were removed first.
func (f *Fleet) limitGone() {
	var gone []string
	for name, c := range f.Members {
		if !c.present && !f.Rules.expects(name) {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int { return f.Members[b].GoneSince.Compare(f.Members[a].GoneSince) })
	for _, name := range gone[maxGone:] {
		delete(f.Members, name)
	}
}

// MarkStale makes the next ApplyList return the container for inspection.
func (f *Fleet) MarkStale(id string) {
	if c := f.Member(id); c != nil {
		c.Stale = true
	}
}

// Counts returns the counters of all members by name.
func (f *Fleet) Counts() map[string]Counts {
	all := make(map[string]Counts, len(f.Members))
	for name, c := range f.Members {
		all[name] = c.counts()
	}
	return all
}

// missing reports whether the container is expected and has been gone for longer than a deploy takes.
func (f *Fleet) missing(c *Member, now time.Time) bool {
	return !c.present && c.Expected && now.Sub(c.GoneSince) >= f.Rules.MissingAfter
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
	return len(f.names)+len(f.pending) >= f.Rules.MaxContainers || len(f.lastEventMark) >= maxEventIDs*f.Rules.MaxContainers
}

// maxEventIDs bounds how many containers may have events between two lists, as a multiple of max_containers.
const maxEventIDs = 10
