package fleet

import "time"

// startLedger counts the starts of one container. It hears of them twice: from events, each of which is one start, and
// from descriptions, of which each tells only of the last start. While events flow they are exact. Descriptions make up
// for those that were lost, and a start that was counted from a description is not counted again when its event comes late.
//
// The engine stamps an event of a start after the start itself, and delivers events in their order.
type startLedger struct {
	// Starts counts all starts that are known of.
	Starts uint64 `json:"starts"`
	// Started is when the start was that a description told of last; zero before the first.
	Started time.Time `json:"started"`
	// Policy is the engine's own count of restarts by policy as of Started. It begins anew when a person starts the
	// container.
	Policy int `json:"policy"`

	// Heard are the starts since Started that came as events, HeardLast is the stamp of the last of all events. They are
	// kept because a process may end between an event and the description that it asks for.
	Heard     int       `json:"heard,omitempty"`
	HeardLast time.Time `json:"heard_last,omitzero"`
	// owed are the starts, oldest first, that a description told of and whose events may still come; spare is how many
	// more events of starts before Started may, whose time nobody told.
	owed  []time.Time
	spare int
	// floor is the start that the ledger began with: what was before does not count, even if the engine tells of it.
	floor time.Time
}

// stampedWithin is how long after a start the engine stamps its event at the latest. An event that comes later is of
// another start.
const stampedWithin = 3 * time.Second

// sightedLedger begins with a container of whose starts nothing was heard: they do not count, but later ones do.
func sightedLedger(started time.Time, policy int) startLedger {
	return startLedger{Started: started, Policy: policy, owed: []time.Time{started}, floor: started}
}

// resumed is a ledger that was kept: all starts until the last one that it knows are accounted for.
func (l startLedger) resumed() startLedger {
	l.owed, l.floor = []time.Time{l.Started}, l.Started
	if l.HeardLast.After(l.Started) { // then the start that was described was heard as well, and the engine tells both again
		l.owed, l.floor = nil, l.HeardLast.Add(1)
	}
	return l
}

// event takes in that the engine has started the container.
func (l *startLedger) event(at time.Time) {
	if at.Before(l.floor) {
		return
	}
	l.HeardLast = at
	// Events come in order: what should have come before this one is lost.
	for len(l.owed) > 0 && at.Sub(l.owed[0]) > stampedWithin {
		l.owed = l.owed[1:]
	}
	if !at.Before(l.Started) {
		l.spare = 0
	}
	switch {
	case len(l.owed) > 0 && !at.Before(l.owed[0]):
		l.owed = l.owed[1:]
	case l.spare > 0:
		l.spare--
	default:
		l.Heard++
		l.Starts++
	}
}

// sight takes in the first description of a container that was running before it could be described: what no event told
// of does not count.
func (l *startLedger) sight(started time.Time, policy int) {
	l.Started, l.Policy, l.Heard, l.owed = started, policy, 0, nil
	if l.HeardLast.Before(started) {
		l.owed = []time.Time{started}
	}
}

// maxOwedStarts bounds how many events are waited for: of a container that is started more often than it is heard of, the last.
const maxOwedStarts = 64

// described takes in what a description says: when the container was started last, and how often by policy until then.
// What no event has told of is at least the larger of the policy's count, and one if the last start is a new one.
func (l *startLedger) described(started time.Time, policy int) {
	if started.IsZero() || started.Equal(l.Started) {
		return
	}
	least := max(policy-l.Policy, 1)
	if l.Started.IsZero() {
		least = policy + 1 // the first start is no restart
	}
	ownHeard := !l.HeardLast.Before(started)
	total := l.Heard
	if !ownHeard {
		total++
	}
	total = max(total, least)
	missed := total - l.Heard
	l.Starts += uint64(missed) //nolint:gosec // not negative: total is heard at least
	l.spare += missed
	if !ownHeard {
		l.spare-- // missed is one at least
		l.owed = append(l.owed[max(0, len(l.owed)-maxOwedStarts+1):], started)
	}
	l.Heard, l.Started, l.Policy = 0, started, policy
}

// oomLedger counts how often the kernel ended a process of the container for want of memory. Each is an event; of one
// that ended the container itself, a description tells as well.
type oomLedger struct {
	Count uint64 `json:"count"`
	// Settled is when the last run ended that a description said was ended so.
	Settled time.Time `json:"settled"`

	heardLast time.Time
	owed      bool // the event of the end at Settled is still to come
}

// event takes in an event.
func (l *oomLedger) event(at time.Time) {
	l.heardLast = at
	if l.owed && at.Sub(l.Settled) <= stampedWithin { // it may be stamped a moment after the end
		l.owed = false
		return
	}
	l.Count++
}

// described takes in that the run that began and ended then was ended for want of memory. began is zero where the
// container runs again.
func (l *oomLedger) described(began, ended time.Time) {
	if ended.IsZero() || !ended.After(l.Settled) {
		return
	}
	heard := l.heardLast.After(l.Settled) && (began.IsZero() || !l.heardLast.Before(began))
	if !heard {
		l.Count++
	}
	l.owed, l.heardLast = !heard, time.Time{}
	l.Settled = ended
}
