package fleet

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

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

// ignoredSignals usually do not end a process: HUP, USR1, USR2, CONT, STOP, TSTP, TTIN, TTOU and WINCH.
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
	ran := !n.exit.At.IsZero()
	c := f.members[name]
	switch {
	case c == nil && n.labels.Workload != name && ran:
		c = &Member{Record: Record{Labels: n.labels, AutoRemove: true}} // else it would still exist
		f.members[name] = c
	case c == nil || c.present || c.ID == "" || !n.creationSeen:
		return
	default:
		f.recordEnd(name, c, n.created, now)
		c.replaceContainer(c.restartedBy(n.created, &n.labels))
	}
	c.addEvents(n)
	c.ID, c.Status, c.LastExit = id, Status{}, n.exit
	c.resetHistory()
	c.markGone(now)
	c.markRemoved(false)
	if ran && f.listed {
		f.workloadOf(name, c).run(namedMember{name, c}, n.created, now)
	}
	if c.AutoRemove {
		c.setExpected(f.supervised(name, c))
	}
}

// restartedBy reports whether a new container of the member's name restarts the last one: else it is a deploy.
func (c *Member) restartedBy(created time.Time, l *Labels) bool {
	e := instance{exit: c.LastExit, Image: c.Image, ConfigHash: c.ConfigHash}
	return e.restarts(created, l)
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
