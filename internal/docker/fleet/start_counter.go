package fleet

import "time"

// startCounter counts the starts of one container. Each event is one start, and events are exact while they flow. A
// description only has the last start; it makes up for lost events. A late event of a start that a description has
// already counted is not counted again.
//
// The engine stamps the event of a start after the start itself, and delivers events in order.
type startCounter struct {
	// Total counts all known starts.
	Total uint64 `json:"starts"`
	// Started is the start time in the last description; zero before the first.
	Started time.Time `json:"started"`
	// PolicyRestarts is the engine's own count of restarts by policy as of Started. The engine resets it when a person
	// starts the container.
	PolicyRestarts int `json:"policy"`

	// EventsSince counts the start events since Started, LastEvent is the time of the last event ever. Both are saved
	// because the exporter may stop between an event and the description that it triggers.
	EventsSince int       `json:"heard,omitempty"`
	LastEvent   time.Time `json:"heard_last,omitzero"`
	// awaitedEvents are described starts, oldest first, whose events may still arrive. undatedEvents counts further
	// events that may still arrive, for starts before Started at unknown times.
	awaitedEvents []time.Time
	undatedEvents int
	// ignoreBefore is the start that the counter began with: earlier events do not count.
	ignoreBefore time.Time
}

// maxStampDelay is how long after a start the engine stamps its event at the latest; it writes the container's state to the disk in
// between, which takes seconds on a busy machine. A later event belongs to another start.
const maxStampDelay = 10 * time.Second

// startCounterFrom returns a counter that ignores all starts up to the described one.
func startCounterFrom(started time.Time, policy int) startCounter {
	return startCounter{
		Started:        started,
		PolicyRestarts: policy,
		awaitedEvents:  []time.Time{started},
		ignoreBefore:   started,
	}
}

// restored returns a counter read from the state file: it has already counted every start up to the last one it knows.
func (l startCounter) restored() startCounter {
	l.awaitedEvents, l.ignoreBefore = []time.Time{l.Started}, l.Started
	if l.LastEvent.After(l.Started) { // the described start came as an event too, and the engine repeats both
		l.awaitedEvents, l.ignoreBefore = nil, l.LastEvent.Add(1)
	}
	return l
}

// countEvent counts the event of a start, unless a description has counted that start already.
func (l *startCounter) countEvent(at time.Time) {
	if at.Before(l.ignoreBefore) {
		return
	}
	l.LastEvent = at
	// Events arrive in order, so an older event that is still missing is lost.
	for len(l.awaitedEvents) > 0 && at.Sub(l.awaitedEvents[0]) > maxStampDelay {
		l.awaitedEvents = l.awaitedEvents[1:]
	}
	if !at.Before(l.Started) {
		l.undatedEvents = 0
	}
	switch {
	case len(l.awaitedEvents) > 0 && !at.Before(l.awaitedEvents[0]):
		l.awaitedEvents = l.awaitedEvents[1:]
	case l.undatedEvents > 0:
		l.undatedEvents--
	default:
		l.EventsSince++
		l.Total++
	}
}

// describeFirst applies the first description of a container that was already running: only starts with an event count.
func (l *startCounter) describeFirst(started time.Time, policy int) {
	l.Started, l.PolicyRestarts, l.EventsSince, l.awaitedEvents = started, policy, 0, nil
	if l.LastEvent.Before(started) {
		l.awaitedEvents = []time.Time{started}
	}
}

// maxAwaitedEvents bounds awaitedEvents; the oldest are dropped.
const maxAwaitedEvents = 64

// describe applies the start time and the policy's restart count from a description. If the start is new, at least one start,
// and at least as many as the policy has added, have happened since the last description.
func (l *startCounter) describe(started time.Time, policy int) {
	if started.IsZero() || started.Equal(l.Started) {
		return
	}
	least := max(policy-l.PolicyRestarts, 1)
	if l.Started.IsZero() {
		least = policy + 1 // the first start is not a restart
	}
	hasOwnEvent := !l.LastEvent.Before(started)
	total := l.EventsSince
	if !hasOwnEvent {
		total++
	}
	total = max(total, least)
	missed := total - l.EventsSince
	l.Total += uint64(missed) //nolint:gosec // not negative: total is at least EventsSince
	l.undatedEvents += missed
	if !hasOwnEvent {
		l.undatedEvents-- // missed is at least 1
		l.awaitedEvents = append(l.awaitedEvents[max(0, len(l.awaitedEvents)-maxAwaitedEvents+1):], started)
	}
	l.EventsSince, l.Started, l.PolicyRestarts = 0, started, policy
}

// oomCounter counts how often the kernel killed a process of the container for lack of memory. The engine sends an event
// for each; if that ended the container itself, a description shows it too.
type oomCounter struct {
	Count uint64 `json:"count"`
	// LastKill is when the last run ended that a description reported as killed for lack of memory.
	LastKill time.Time `json:"settled"`

	lastEvent   time.Time
	awaitsEvent bool // the event of LastKill may still arrive
}

// countEvent counts an event, unless a description has counted that kill already.
func (l *oomCounter) countEvent(at time.Time) {
	l.lastEvent = at
	if l.awaitsEvent && at.Sub(l.LastKill) <= maxStampDelay { // it may be stamped a moment after the end
		l.awaitsEvent = false
		return
	}
	l.Count++
}

// describeKill counts a run that a description reports as killed for lack of memory, unless its event was counted. began is
// zero if the container runs again.
func (l *oomCounter) describeKill(began, ended time.Time) {
	if ended.IsZero() || !ended.After(l.LastKill) {
		return
	}
	counted := l.lastEvent.After(l.LastKill) && (began.IsZero() || !l.lastEvent.Before(began))
	if !counted {
		l.Count++
	}
	l.awaitsEvent, l.lastEvent = !counted, time.Time{}
	l.LastKill = ended
}
