package fleet

import (
	"hash/crc32"
	"slices"
	"time"

	"github.com/docker/docker/api/types/container"
)

// Listing is an engine's list of containers.
type Listing struct {
	// All has every container, Chosen the ones to watch.
	All, Chosen []container.Summary
	Mark        uint64
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
			held.Host = f.rules.Host
			f.Restore(held, now)
			return
		}
	}
}

// ApplyList applies a list and returns the containers to inspect. Those with an event since their last description, or with another
// line in the list, come first. A full list adds all others; any other list adds those that may change without an event, and
// routine inspections.
func (f *Fleet) ApplyList(l *Listing, now time.Time) []container.Summary {
	f.begin(now)
	f.restoreUnverified(l, now)
	f.dropDisplaced()
	f.removeMissing(l, now)
	var urgent, others []container.Summary
	for i := range l.Chosen {
		one := &l.Chosen[i]
		c := f.Member(one.ID)
		if l.eventsShouldMatch() && !f.ChangedSince(l.Mark, one.ID) && f.changedWithoutEvent(c, one) {
			f.recordOverdueEvent(one.ID, true, now)
		}
		switch {
		case c == nil || !c.present || c.Stale || c.differs(one):
			urgent = append(urgent, *one)
		case l.Full || c.Status.reported.health == container.Unhealthy || hasTurn(one.ID, f.listedAt, now):
			others = append(others, *one) // the streak of an unhealthy one grows without events
		}
		if c != nil {
			c.listedImage = one.Image
		}
	}
	f.listedAt = now
	return append(urgent, others...)
}

// routineInterval is how often each container is inspected for what neither events nor lists show, such as a changed limit.
const routineInterval = 10 * time.Minute

// hasTurn reports whether a container's routine inspection was due after the last list. Ids spread the turns over the interval.
func hasTurn(id string, last, now time.Time) bool {
	const seconds = int64(routineInterval / time.Second)
	offset := int64(crc32.ChecksumIEEE([]byte(id))) % seconds
	return (now.Unix()-offset)/seconds > (last.Unix()-offset)/seconds
}

// differs reports whether a list shows another state, health, name or image than known.
func (c *Member) differs(l *container.Summary) bool {
	image := c.listedImage != "" && c.listedImage != l.Image
	return image || c.stateDiffers(l) || c.Status.Name != LastingName(OwnName(l.Names))
}

// stateDiffers reports whether a list shows another state or health than known. A Podman's list never shows a health.
func (c *Member) stateDiffers(l *container.Summary) bool {
	listed := stateAndHealthOf(l)
	return listed.state != c.Status.reported.state || listed.health != "" && listed.health != c.Status.reported.health
}

// CompleteList records that the containers of the last list were described, as far as the engine does so. Until the first time, not all
// instances of a workload are known.
func (f *Fleet) CompleteList() { f.listed = true }

// removeMissing marks the containers that are not in the list as gone, and stops watching those that are not chosen any more.
func (f *Fleet) removeMissing(l *Listing, now time.Time) {
	exist, chosen := make(map[string]bool, len(l.All)), make(map[string]bool, len(l.Chosen))
	for i := range l.All {
		exist[l.All[i].ID] = true
	}
	for i := range l.Chosen {
		chosen[l.Chosen[i].ID] = true
	}
	for id := range f.names {
		switch {
		case chosen[id] || f.ChangedSince(l.Mark, id):
		case exist[id]:
			f.stopWatching(id, now)
		default:
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

// changedWithoutEvent reports whether a list shows a change that should have had an event.
func (f *Fleet) changedWithoutEvent(c *Member, l *container.Summary) bool {
	switch {
	case c == nil:
		_, coming := f.pending[l.ID]
		return !coming && temporaryName.FindString(OwnName(l.Names)) == ""
	case l.State == container.StateRemoving, l.State == container.StateDead:
		return false // these have no event
	default:
		return !c.Stale && c.stateDiffers(l) // the description after an event is still to come
	}
}

func (f *Fleet) recordOverdueEvent(id string, following bool, now time.Time) {
	if _, already := f.overdueEvents[id]; following && !already {
		f.overdueEvents[id] = now
	}
}

// dropDisplaced forgets the displaced containers. They still exist, so they must not be reported as missing.
func (f *Fleet) dropDisplaced() {
	for _, id := range f.displaced {
		if f.Member(id) != nil {
			delete(f.members, f.names[id])
		}
		f.dropID(id)
	}
	f.displaced = nil
}
