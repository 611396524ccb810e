package health

import "time"

// AlertTargetSlow is the name of the alert on a target whose probes succeed, but take long.
const AlertTargetSlow = "TargetSlow"

// slowness is what is remembered of successful readings that took long: how many in a row, since when, and when the last one ended.
type slowness struct {
	inARow    int
	since, at time.Time
}

// observe counts a successful reading.
func (w *slowness) observe(t *Target) {
	switch {
	case t.ReadAt.Equal(w.at):
		return
	case t.Took <= t.Slow:
		w.inARow = 0
	default:
		if w.inARow++; w.inARow == 1 {
			w.since = t.ReadAt
		}
	}
	w.at = t.ReadAt
}

// judgeSlow finds which targets are slow: two successful readings in a row were, and none since was not. A failed reading says nothing of
// that. TargetDown and BridgeSlow say more.
func (s *scene) judgeSlow() (found findings) {
	for _, t := range s.targets {
		key, slow := t.key(AlertTargetSlow, "", Warning), &t.memory.slow
		known, works := s.judge.problems[key] != nil, t.Read && t.Up
		if works {
			slow.observe(&t.Target)
		}
		switch {
		case t.Slow == 0, !works && !known, s.judge.outage(t.subject).fires(), s.judge.slowBridge(t.subject):
			continue
		}
		p := found.conclude(s, t, &check{
			key:     key,
			holds:   !works || slow.inARow > 1 || slow.inARow == 1 && known,
			unknown: !works,
			since:   slow.since,
		})
		if p != nil {
			found.values = append(found.values, Value{Subject: t.subject, Alert: AlertTargetSlow, Number: t.Took.Seconds()})
		}
	}
	return found
}
