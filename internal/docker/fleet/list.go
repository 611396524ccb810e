package fleet

import (
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Listing is an engine's list, and how it was made.
type Listing struct {
	// All are the containers in it, Chosen those of them that may be watched.
	All, Chosen []container.Summary
	// Made is when the engine has made it, which was after the mark.
	Made Span
	Mark uint64
	// Full has all of the chosen inspected. Following says that events flow, which should have told of any change.
	Full, Following bool
}

// strict reports whether a change that no event has told of speaks against the stream.
func (l *Listing) strict() bool { return l.Following && !l.Full }

// recallHeld takes in what was kept of an engine at another address if a container of it is in the list: such as one that
// is asked through a proxy now. Another engine's containers are others, whatever their names.
func (f *Fleet) recallHeld(l *Listing, now time.Time) {
	if f.held == nil {
		return
	}
	held := *f.held
	f.held = nil
	for _, kept := range held.Containers {
		if slices.ContainsFunc(l.All, func(c container.Summary) bool { return c.ID == kept.ID }) {
			held.Host = f.Rules.Host
			f.Recall(held, now)
			return
		}
	}
}

// ApplyList applies a list and returns the containers to inspect: all of a full list, else those that the list describes
// differently, those that may change without an event, and a few in turn.
func (f *Fleet) ApplyList(l *Listing, now time.Time) []container.Summary {
	f.recallHeld(l, now)
	f.leaveOut()
	f.compareNames(l, now)
	var wanted []container.Summary
	f.quick.next(len(l.Chosen), quickTurn)
	f.slow.next(len(l.Chosen), slowLists(now.Sub(f.listedAt)))
	f.listedAt = now
	for i := range l.Chosen {
		one := &l.Chosen[i]
		c := f.Member(one.ID)
		if !l.Full && c != nil && c.present && !c.Unsure && !f.mayDiffer(c, l, i) {
			continue
		}
		if l.strict() && !f.ChangedSince(l.Mark, one.ID) && f.surprising(c, one) {
			f.expectEvent(one.ID, true, now)
		}
		wanted = append(wanted, *one)
	}
	return wanted
}

// Inspection is what became of the inspection of a container: Status is nil where the container is gone, or where the engine
// has stumbled over it.
type Inspection struct {
	Status *Status
	Failed bool
	// Made is when it was made by the engine's clock, at the earliest; zero where that does not tell.
	Made time.Time
}

// compareNames takes in which containers exist.
func (f *Fleet) compareNames(l *Listing, now time.Time) {
	exist := make(map[string]bool, len(l.All))
	for i := range l.All {
		exist[l.All[i].ID] = true
	}
	for id := range f.names {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			f.expectEvent(id, l.strict(), now)
			f.MarkGone(id, now)
		}
	}
	for id := range f.newborn {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			f.dropID(id)
		}
	}
	for id := range f.touched {
		if !exist[id] && !f.ChangedSince(l.Mark, id) {
			delete(f.touched, id)
		}
	}
}

// mayDiffer reports whether there may be more to know of a member, the i-th of those that are chosen, than what is known.
func (f *Fleet) mayDiffer(c *Member, all *Listing, i int) bool {
	l := &all.Chosen[i]
	age := c.CompareAge(l, all.Made)
	hasTurn := f.slow.has(i)
	if age == ageUntold {
		hasTurn = f.quick.has(i)
	}
	// A list that is older than what is known knows less.
	c.ages.compare(age == ageDiffers && !f.ChangedSince(all.Mark, l.ID) &&
		c.Status.Started.Before(all.Made.From) && c.Status.Ended.Before(all.Made.From))
	switch {
	case age == ageDiffers, wordsOf(l) != c.Status.said, c.Status.Name != LastingName(OwnName(l.Names)):
		return true
	case age == AgeTooCoarse, hasTurn:
		return true
	case l.State != container.StateRunning && l.State != container.StateExited && l.State != container.StateCreated:
		return true
	default:
		return c.Status.said.health == container.Unhealthy // the streak grows without events
	}
}

// surprising reports whether a list tells of a change that an event should have told of before.
func (f *Fleet) surprising(c *Member, l *container.Summary) bool {
	switch {
	case c == nil:
		_, coming := f.newborn[l.ID]
		return !coming && temporaryName.FindString(OwnName(l.Names)) == ""
	case l.State == container.StateRemoving, l.State == container.StateDead:
		return false // no event tells of these
	default:
		return wordsOf(l) != c.Status.said
	}
}

func (f *Fleet) expectEvent(id string, following bool, now time.Time) {
	if _, already := f.doubtful[id]; following && !already {
		f.doubtful[id] = now
	}
}

// leaveOut forgets containers that are there, and of which there are too many: they are not missed.
func (f *Fleet) leaveOut() {
	for _, id := range f.Displaced {
		if f.Member(id) != nil {
			delete(f.Members, f.names[id])
		}
		f.dropID(id)
	}
	f.Displaced = nil
}
