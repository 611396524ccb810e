// Package fleet tracks the containers of an engine from its lists, descriptions and events. It does no I/O and has no clock:
// the time is an argument.
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

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
	// began is when this process first looked, listedAt when the last list was applied.
	began, listedAt time.Time
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
		if !f.listed || f.hasInstance(key) {
			continue
		}
		if f.workloads[key] == nil {
			f.workloads[key] = &workload{Gone: now}
		}
		w := f.workloads[key] // an alert about it has no container, and goes on until it has one
		w.Shared = w.Shared || !w.Gone.IsZero() && now.Sub(w.Gone) >= f.rules.MissingAfter
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
	if w := f.workloads[key]; w != nil && slices.ContainsFunc(w.Named, f.rules.mentions) {
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
		unexpected := age >= max(f.rules.MissingAfter, maxRestartGap) && (!c.Expected || age >= maxReplaceDelay && f.replaced(name, c))
		if unexpected || forgotten > 0 && age >= forgotten && !f.expects(name, c) {
			delete(f.members, name)
		}
	}
	f.limitGone()
	f.tidyWorkloads()
	maps.DeleteFunc(f.overdueEvents, func(_ string, since time.Time) bool { return now.Sub(since) > time.Hour })
}

// replaced reports whether other instances do what a member did that does not run.
func (f *Fleet) replaced(name string, c *Member) bool {
	w := f.workloads[c.workloadOf(name)]
	return w != nil && w.Shared && w.Runs >= w.wants() && !c.running()
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
		all[workloadCounts+key] = w.Counts
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

// missing reports whether the container is expected and has been gone for longer than a deploy takes, and none has replaced it.
func (f *Fleet) missing(name string, c *Member, now time.Time) bool {
	return !c.present && c.Expected && now.Sub(c.GoneSince) >= f.rules.MissingAfter && !f.replaced(name, c)
}

// Why a container cannot be forgotten.
var (
	// ErrUnknown means that no container of that name is remembered.
	ErrUnknown = errors.New("no such container is known")
	// ErrNeeded means that the container exists, or that the configuration expects it.
	ErrNeeded = errors.New("the container cannot be forgotten")
)

// atLimit reports whether the fleet ignores events of new containers until the next list.
func (f *Fleet) atLimit() bool {
	return len(f.names)+len(f.pending) >= f.rules.MaxContainers || len(f.lastEventMark) >= maxEventIDs*f.rules.MaxContainers
}

// maxEventIDs bounds how many containers may have events between two lists, as a multiple of max_containers.
const maxEventIDs = 10
