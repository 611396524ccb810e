package health

import (
	"time"
)

// ofPorts returns why no target for clients of that side works. If one of them works, ok is false.
func (r *round) ofPorts(side string, since time.Time) (found cause, ok bool) {
	for i := range r.targets {
		t := &r.targets[i]
		if t.Side != side {
			continue
		}
		if found, ok = r.ofOtherTarget(t, since); !ok {
			break
		}
	}
	return found, ok
}

// coversRelay reports whether a problem of a relay check covers its failures, because it is alerted or excused.
func (r *round) coversRelay(s Subject) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && (known.Excuse.Holds() || FailsReadings(key.Alert) && known.Alerted > Pending) {
			return true
		}
	}
	return false
}

// ofAnyPort returns why no client reaches one of the sides.
func (r *round) ofAnyPort(since time.Time) (cause, bool) {
	for _, side := range []string{SideIRC, SideXMPP} {
		if c, ok := r.ofPorts(side, since); ok {
			return c, true
		}
	}
	return cause{}, false
}

// sessionAlerted reports whether an alert says that a relay check has no session on one side.
func (r *round) sessionAlerted(s Subject) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && key.Alert == AlertRelaySessionDown && known.Alerted > Pending {
			return true
		}
	}
	return false
}

// ofAlertedBridge returns a bridge that does not relay, once its alert fires. A component that disconnected at about the same time is
// part of that, and no second page.
func (r *round) ofAlertedBridge(t *Target, since time.Time) (cause, bool) {
	for i := range r.targets {
		relay := &r.targets[i]
		if s := TargetSubject(relay.Name); (t.WarnOnly || !relay.WarnOnly) && r.bridgeAlerted(s, since) {
			return cause{Excuse: Excuse{ReasonDependency, relay.Name, s}}, true
		}
	}
	return cause{}, false
}

// bridgeAlerted reports whether an alert says that messages do not cross that target, since about then.
func (r *round) bridgeAlerted(s Subject, since time.Time) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && key.Alert == AlertBridgeNotRelaying && known.Alerted > Pending &&
			known.Since.Sub(since).Abs() <= sameOutage {
			return true
		}
	}
	return false
}
