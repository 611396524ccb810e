package collectors

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

	heard     int       // starts since Started that came as events
	heardLast time.Time // the stamp of the last of all events
	// owed is true while the event of the start at Started, which is counted, is still to come; owedBefore is how many
	// events of earlier starts are.
	owed       bool
	owedBefore int
	// floor is the start that the ledger began with: what was before does not count, even if the engine tells of it.
	floor time.Time
}

// sightedLedger begins with a container of whose starts nothing was heard: they do not count, but later ones do.
func sightedLedger(started time.Time, policy int) startLedger {
	return startLedger{Started: started, Policy: policy, owed: true, floor: started}
}

// resumed is a ledger that was kept: all starts until the last one that it knows are accounted for.
func (l startLedger) resumed() startLedger {
	l.owed, l.floor = true, l.Started
	return l
}

// event takes in that the engine has started the container.
func (l *startLedger) event(at time.Time) {
	l.heardLast = at
	if at.Before(l.floor) {
		return
	}
	if at.Before(l.Started) {
		if l.owedBefore > 0 {
			l.owedBefore--
			return
		}
	} else {
		l.owedBefore = 0 // events come in order: what is owed from before is lost
		if l.owed {
			l.owed = false
			return
		}
	}
	l.heard++
	l.Starts++
}

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
	ownHeard := !l.heardLast.Before(started)
	total := l.heard
	if !ownHeard {
		total++
	}
	total = max(total, least)
	missed := total - l.heard
	l.Starts += uint64(missed) //nolint:gosec // not negative: total is heard at least
	l.owedBefore += missed
	if l.owed {
		l.owedBefore++
	}
	l.owed = !ownHeard
	if l.owed {
		l.owedBefore-- // missed is 1 at least, since the last start was not heard of
	} else {
		l.owedBefore = 0
	}
	l.heard, l.Started, l.Policy = 0, started, policy
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
	if l.owed && !at.After(l.Settled) {
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
	l.owed = !heard
	l.Settled = ended
}
