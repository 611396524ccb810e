package fleet

import (
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Listing is an engine's list of containers.
type Listing struct {
	// All has every container, Chosen the ones to watch.
	All, Chosen []container.Summary
	// Made is when the engine made the list, after Mark.
	Made Span
	Mark uint64
	// Full requests an inspection of every chosen container. Following means that events flow, so that each change in the
	// list should have had an event.
	Full, Following bool
}

// eventsShouldMatch reports whether a change without an event means that the stream has lost one.
func (l *Listing) eventsShouldMatch() bool { return l.Following && !l.Full }

// restoreUnverified restores the memory of an engine at another address if the list has a container of it: then it is the
// same engine, for example behind a proxy. Ids decide, since another engine may use the same names.
func (f *Fleet) restoreUnverified(l *Listing, now time.Time) {
	if f.unverified == nil {
		return
	}
	held := *f.unverified
	f.unverified = nil
	for _, kept := range held.Containers {
		if slices.ContainsFunc(l.All, func(c container.Summary) bool { return c.ID == kept.ID }) {
			held.Host = f.Rules.Host
			f.Restore(held, now)
			return
		}
	}
}

// ApplyList applies a list and returns the containers to inspect. For a full list these are all chosen ones; otherwise the new
// and changed ones, those that may change without an event, and a few routine inspections.
func (f *Fleet) ApplyList(l *Listing, now time.Time) []container.Summary {
	f.restoreUnverified(l, now)
	f.listed = true
	f.dropDisplaced()
	f.removeMissing(l, now)
	var wanted []container.Summary
	f.quick.advance(len(l.Chosen), minRotation)
	f.slow.advance(len(l.Chosen), slowRotation(now.Sub(f.listedAt)))
	f.listedAt = now
	for i := range l.Chosen {
		one := &l.Chosen[i]
		c := f.Member(one.ID)
		if !l.Full && c != nil && c.present && !c.Stale && !f.needsInspection(c, l, i) {
			continue
		}
		if l.eventsShouldMatch() && !f.ChangedSince(l.Mark, one.ID) && f.changedWithoutEvent(c, one) {
			f.recordOverdueEvent(one.ID, true, now)
		}
		wanted = append(wanted, *one)
	}
	return wanted
}

// Inspection is the result of inspecting a container. Status is nil if the container no longer exists, or if Failed: the engine
// could not describe it.
type Inspection struct {
	Status *Status
	Failed bool
	// Made is the earliest time at which the engine made it, by the engine's clock; zero if unknown.
	Made time.Time
}

// removeMissing marks the containers that are not in the list as gone.
func (f *Fleet) removeMissing(l *Listing, now time.Time) {
	exist := make(map[string]bool, len(l.All))
	for i := range l.All {
		exist[l.All[i].ID] = true
	}
	for id := range f.names {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			f.recordOverdueEvent(id, l.eventsShouldMatch(), now)
			f.MarkGone(id, now)
		}
	}
	for id := range f.pending {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			f.dropID(id)
		}
	}
	for id := range f.lastEventMark {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			delete(f.lastEventMark, id)
		}
	}
}

// needsInspection reports whether the status of a member may be outdated. The member is all.Chosen[i].
func (f *Fleet) needsInspection(c *Member, all *Listing, i int) bool {
	l := &all.Chosen[i]
	age := c.CompareAge(l, all.Made)
	hasTurn := f.slow.includes(i)
	if age == ageUnknown {
		hasTurn = f.quick.includes(i)
	}
	// An older list than the member's status proves nothing.
	c.listAges.recordComparison(age == ageDiffers && !f.ChangedSince(all.Mark, l.ID) &&
		c.Status.Started.Before(all.Made.From) && c.Status.Ended.Before(all.Made.From))
	switch {
	case age == ageDiffers, stateAndHealthOf(l) != c.Status.reported, c.Status.Name != LastingName(OwnName(l.Names)):
		return true
	case age == AgeTooCoarse, hasTurn:
		return true
	case l.State != container.StateRunning && l.State != container.StateExited && l.State != container.StateCreated:
		return true
	default:
		return c.Status.reported.health == container.Unhealthy // the streak grows without events
	}
}

// changedWithoutEvent reports whether a list shows a change that should have had an event.
func (f *Fleet) changedWithoutEvent(c *Member, l *container.Summary) bool {
	switch {
	case c == nil:
		_, coming := f.pending[l.ID]
		return !coming && temporaryName.FindString(OwnName(l.Names)) == ""
	case l.State == container.StateRemoving, l.State == container.StateDead:
		return false // these have no event
	default:
		return stateAndHealthOf(l) != c.Status.reported
	}
}

func (f *Fleet) recordOverdueEvent(id string, following bool, now time.Time) {
	if _, already := f.overdueEvents[id]; following && !already {
		f.overdueEvents[id] = now
	}
}

// dropDisplaced forgets the displaced containers. They still exist, so they must not be reported as missing.
func (f *Fleet) dropDisplaced() {
	for _, id := range f.Displaced {
		if f.Member(id) != nil {
			delete(f.Members, f.names[id])
		}
		f.dropID(id)
	}
	f.Displaced = nil
}
