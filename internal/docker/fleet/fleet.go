// Package fleet knows an engine's containers, put together of lists, descriptions and events. It does no I/O and has no clock:
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

// Fleet is what is known of an engine's containers. It is not safe for concurrent use.
//
// Events arrive while the engine answers a call. So the caller notes Mark before a call, and passes it with the answer. An
// answer about a container with a later event is ignored, because that event has the container inspected again.
type Fleet struct {
	Rules *Rules
	// Members are the watched containers by name, those that are gone among them.
	Members map[string]*Member
	// names are the lasting names of existing containers, by id.
	names map[string]string
	// newborn are containers without a member: their lasting name is still another's, or they were not yet described.
	newborn map[string]*newborn
	// touched is the mark of the last event of a container, by id. Those of a container that is gone stay until a list
	// without it shows that nobody can speak of it any more.
	touched map[string]uint64
	Mark    uint64
	// FollowedSince is since when events are followed, by the engine's clock; zero before.
	FollowedSince time.Time
	// doubtful are containers that a list knew otherwise than their last event left them, by id, and since when.
	doubtful map[string]time.Time
	// quick and slow are where the two rounds of inspections go on that nothing has given a reason for, listedAt is when a
	// list was taken in last.
	quick, slow turn
	listedAt    time.Time
	// Displaced are the ids of known containers that the next list to apply leaves out, because there are too many.
	Displaced []string
	// held is the memory of an engine at another address, until a list shows whether it is the same engine.
	held *Memory
	// SavedCounts are the counters by name as they were last saved, and the ones shown; nil where nothing is saved.
	SavedCounts map[string]Counts
}

// New returns an empty fleet.
func New(r *Rules) *Fleet {
	return &Fleet{
		Rules: r, Members: map[string]*Member{}, names: map[string]string{}, newborn: map[string]*newborn{},
		touched: map[string]uint64{}, doubtful: map[string]time.Time{},
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
			c = &Member{Record: Record{lifecycle: lifecycle{Gone: now}, Labels: Labels{Role: role}}}
			f.Members[name] = c
		}
		c.expect(true)
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
		return false // an id becomes part of a request's path
	}
	if _, known := f.names[id]; !known && (!f.Rules.Watches(LastingName(name), e.Actor.Attributes) || f.newborn[id] == nil && f.atLimit()) {
		return false
	}
	f.Mark++
	f.touched[id] = f.Mark
	delete(f.doubtful, id)
	at := time.Unix(0, e.TimeNano)
	switch e.Action {
	case events.ActionDestroy:
		if c := f.lastMember(id, name); c != nil {
			c.remove(f.beingReplaced(c))
		}
		f.MarkGone(id, now)
		return false
	case events.ActionCreate:
		if f.Member(id) == nil {
			f.newbornOf(id).seen = true
		}
	case events.ActionStart:
		starts, _ := f.ledgers(id)
		starts.event(at)
		if c := f.Member(id); c != nil {
			c.start()
		}
	case events.ActionOOM:
		_, ooms := f.ledgers(id)
		ooms.event(at)
	case events.ActionDie:
		// It may be removed before anybody can ask how it ended.
		if code, err := strconv.Atoi(e.Actor.Attributes["exitCode"]); err == nil {
			f.applyExit(id, name, code)
		}
	case events.ActionStop:
		if c := f.lastMember(id, name); c != nil {
			c.stop(c.Status.id == id && !c.Status.autoRemove && !c.SetAside)
		}
	default: // what it means is in the description
	}
	return true
}

// Member returns the member with this present container, or nil.
func (f *Fleet) Member(id string) *Member {
	if c := f.Members[f.names[id]]; c != nil && c.ID == id {
		return c
	}
	return nil
}

// lastMember is the member whose container this is, or was when it was there last; nil if there is none.
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
	c.expect(ended.expected(c.ByHand) || f.Rules.expects(c.Status.Name))
}

// beingReplaced reports whether another container is there to take the member's name, so that the name is wanted.
func (f *Fleet) beingReplaced(c *Member) bool {
	for _, n := range f.newborn {
		if n.replaces != "" && f.Members[n.replaces] == c {
			return true
		}
	}
	return false
}

func (f *Fleet) newbornOf(id string) *newborn {
	n := f.newborn[id]
	if n == nil {
		n = &newborn{}
		f.newborn[id] = n
	}
	return n
}

func (f *Fleet) ledgers(id string) (*startLedger, *oomLedger) {
	if c := f.Member(id); c != nil {
		return &c.Starts, &c.OOMs
	}
	n := f.newbornOf(id)
	return &n.starts, &n.ooms
}

// ChangedSince reports whether an event of the container has arrived since the mark.
func (f *Fleet) ChangedSince(mark uint64, id string) bool { return f.touched[id] > mark }

// TrustEvents forgets what speaks against the stream of events, since another one begins.
func (f *Fleet) TrustEvents() { clear(f.doubtful) }

// MissesEvents reports whether an event that should have come has not done so for that long.
func (f *Fleet) MissesEvents(now time.Time, patience time.Duration) bool {
	for _, since := range f.doubtful {
		if now.Sub(since) >= patience {
			return true
		}
	}
	return false
}

// clockTolerance is how much clocks may differ before it counts: a description takes that long at most.
const clockTolerance = 10 * time.Second

// Describe applies a description that was requested after the mark, and made at the time made or later, by the engine's clock.
func (f *Fleet) Describe(s Status, mark uint64, made, now time.Time) {
	if f.ChangedSince(mark, s.id) {
		return
	}
	if s.Name == "" { // lists name no container that is half removed
		c := f.Member(s.id)
		if c == nil || !c.present {
			return
		}
		s.Name, s.Labels, s.chosen = f.names[s.id], c.Labels, true
	}
	if temporaryName.MatchString(s.Name) {
		if _, known := f.names[s.id]; !known {
			f.newbornOf(s.id).replaces = LastingName(s.Name)
		}
		f.stepAside(s.id, now)
		return
	}
	if !s.chosen {
		f.MarkGone(s.id, now)
		return
	}
	c := f.bind(&s, now)
	old := c.Status
	if !s.listed {
		c.ages.describe(made, s.sameRun(&old))
		if c.ahead = made.Sub(now); made.IsZero() || c.ahead.Abs() <= clockTolerance {
			c.ahead = 0
		}
	}
	switch {
	case s.listed:
		s.takeOver(&old)
	case c.Blind:
		c.Starts.sight(s.Started, s.policyRestarts)
		c.Blind = false
	default:
		c.Starts.described(s.Started, s.policyRestarts)
	}
	if s.killedForMemory {
		began := s.Started
		if !s.Stopped {
			began = time.Time{}
		}
		c.OOMs.described(began, s.Ended)
	}
	s.settleUnhealthySince(&old, now)
	if s.State == container.StateRunning || s.State == container.StatePaused {
		c.start()
	}
	c.appear()
	c.Status, c.Unsure, c.Labels, c.DependsOn, c.HostNames = s, s.listed, s.Labels, s.dependsOn, s.hostNames
	c.expect(c.wanted(&old) || f.Rules.expects(s.Name))
}

// wanted decides whether the container should be running that has just been described, as it was old before.
func (c *Member) wanted(old *Status) bool {
	switch s := &c.Status; {
	case c.SetAside:
		return false
	case s.State == container.StateCreated && !s.autoRemove && c.Recreations > 0:
		return c.Wanted || s.expected(c.ByHand) // a deploy that does not come up is an outage of what was there before
	case !s.going():
		return s.expected(c.ByHand)
	default:
		return c.Wanted && old.id == s.id
	}
}

// takeOver fills in what a list does not tell from what was known of the same container before.
func (s *Status) takeOver(old *Status) {
	if old.id != s.id {
		return
	}
	s.Created, s.restartPolicy, s.autoRemove, s.memoryLimit = old.Created, old.restartPolicy, old.autoRemove, old.memoryLimit
	s.dependsOn, s.networkOf, s.hostNames, s.streak = old.dependsOn, old.networkOf, old.hostNames, old.streak
	if s.State == old.State {
		s.Started, s.PID = old.Started, old.PID
	}
}

// bind returns the member of the container's name, which the container is from now on.
func (f *Fleet) bind(s *Status, now time.Time) *Member {
	before, known := f.names[s.id]
	var former *Member // of the name that it had before
	if known && before != s.Name {
		former = f.Members[before]
		f.markRenamed(s.id, before, now)
	}
	f.names[s.id] = s.Name
	c := f.Members[s.Name]
	if c != nil && c.ID == s.id {
		if known && before != s.Name {
			if former == nil || former.ID != s.id {
				c.Starts.sight(s.Started, s.policyRestarts)
			} else {
				c.takeBack(&former.tally)
				c.Blind = former.Blind
			}
		}
		return c
	}
	f.markSetAside(s, now)
	n := f.newborn[s.id]
	delete(f.newborn, s.id)
	fresh := c == nil
	if fresh {
		c = &Member{}
		f.Members[s.Name] = c
	}
	switch {
	case c.ID != "": // another container bore the name
		c.recreate()
		switch {
		case n != nil:
			c.adopt(n)
		case known: // it is an old one under a new name
			c.sight(s)
			c.Blind = s.listed
		}
	case n != nil && n.seen:
		c.adopt(n)
	case !f.FollowedSince.IsZero() && s.Created.After(f.FollowedSince) && !s.listed:
		// It was made while the stream was cut: its events may still come, and all of its restarts are news.
		c.Starts, c.Born = startLedger{}, true
	case s.listed:
		c.Blind = true
	default:
		c.sight(s)
	}
	c.ID, c.Status, c.startable = s.id, Status{}, false
	c.become()
	if former != nil {
		// Under a name that is known already, it serves as what had that before.
		c.rename(before, now, fresh && (former.ID != s.id || former.SetAside))
	}
	return c
}

// replacedWithin is how soon after a rename another container takes the former name if that is one deploy.
const replacedWithin = 10 * time.Minute

// markSetAside takes in that a container bears the former name of another one, which is not missed from then on: somebody has
// put it out of the way, to be removed or gone back to.
func (f *Fleet) markSetAside(s *Status, now time.Time) {
	for name, c := range f.Members {
		if c.RenamedFrom == s.Name && c.ID != s.id && now.Sub(c.RenamedAt) < replacedWithin {
			c.setAside(f.Rules.expects(name))
		}
	}
}

// markRenamed takes in that a container has another lasting name. Numbers belong to names, so they stay with the old one, which
// is not missed: somebody meant that.
func (f *Fleet) markRenamed(id, from string, now time.Time) {
	if c := f.Members[from]; c != nil && c.ID == id {
		c.vanish(now)
		c.expect(f.Rules.expects(from))
	}
}

// stepAside takes in that a container bears a temporary name: whoever replaces it is about to have its lasting one.
func (f *Fleet) stepAside(id string, now time.Time) {
	if c := f.Member(id); c != nil && c.present {
		c.vanish(now)
	}
}

// MarkGone records that a container no longer exists.
func (f *Fleet) MarkGone(id string, now time.Time) {
	if c := f.Member(id); c != nil && c.present {
		c.vanish(now)
	}
	f.dropID(id)
}

func (f *Fleet) dropID(id string) {
	delete(f.names, id)
	delete(f.newborn, id)
}

// removedShownFor is how long a container is missing that somebody has removed.
const removedShownFor = time.Hour

// removed reports whether somebody has removed the container, and nothing in the configuration wants it to exist.
func (f *Fleet) removed(name string, c *Member) bool {
	return c.Removed && !f.Rules.mentions(name)
}

// Tidy forgets members that are gone and no longer expected.
func (f *Fleet) Tidy(now time.Time) {
	for name, c := range f.Members {
		if c.present || f.Rules.expects(name) {
			continue
		}
		age := now.Sub(c.Gone)
		forgotten := f.Rules.ForgetAfter
		if f.removed(name, c) && (forgotten == 0 || forgotten > removedShownFor) {
			forgotten = removedShownFor
		}
		if c.Status.autoRemove || age >= f.Rules.MissingAfter && !c.Wanted || forgotten > 0 && age >= forgotten {
			delete(f.Members, name)
		}
	}
	f.limitGone()
	maps.DeleteFunc(f.doubtful, func(_ string, since time.Time) bool { return now.Sub(since) > time.Hour })
}

// Forget forgets a member that is gone. An error wraps ErrUnknown or ErrNeeded.
func (f *Fleet) Forget(name string) error {
	switch c := f.Members[name]; {
	case f.Rules.expects(name):
		return fmt.Errorf("%w: expected names %q; take it out there and reload", ErrNeeded, name)
	case c == nil:
		return fmt.Errorf("%w: %q on docker_host %q", ErrUnknown, failure.OneLine(name), f.Rules.Label)
	case c.present:
		return fmt.Errorf("%w: %q exists; to leave it out, add it to exclude", ErrNeeded, name)
	}
	delete(f.Members, name)
	return nil
}

// maxGone bounds how many containers are remembered that are gone: names that are never used twice must not pile up.
const maxGone = 500

// limitGone forgets those that have been gone the longest.
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
	slices.SortFunc(gone, func(a, b string) int { return f.Members[b].Gone.Compare(f.Members[a].Gone) })
	for _, name := range gone[maxGone:] {
		delete(f.Members, name)
	}
}

// Doubt has a container inspected after the next list.
func (f *Fleet) Doubt(id string) {
	if c := f.Member(id); c != nil {
		c.Unsure = true
	}
}

// Counts are the counters of all members.
func (f *Fleet) Counts() map[string]Counts {
	all := make(map[string]Counts, len(f.Members))
	for name, c := range f.Members {
		all[name] = c.counts()
	}
	return all
}

// missing reports whether the container is expected and has been gone for so long that it is no deploy.
func (f *Fleet) missing(c *Member, now time.Time) bool {
	return !c.present && c.Wanted && now.Sub(c.Gone) >= f.Rules.MissingAfter
}

// Why a container cannot be forgotten.
var (
	// ErrUnknown means that none of that name is remembered.
	ErrUnknown = errors.New("no such container is known")
	// ErrNeeded means that it exists, or that the configuration expects it.
	ErrNeeded = errors.New("the container cannot be forgotten")
)

// KnownIDs returns the ids of all containers of which something is known.
func (f *Fleet) KnownIDs() map[string]bool {
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

// atLimit reports whether no more containers may be heard of before the next list chooses among them.
func (f *Fleet) atLimit() bool {
	return len(f.names)+len(f.newborn) >= f.Rules.MaxContainers || len(f.touched) >= maxTouched*f.Rules.MaxContainers
}

// maxTouched bounds of how many containers events may tell between two lists, as a multiple of max_containers.
const maxTouched = 10
