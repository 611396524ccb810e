package health

import (
	"maps"
	"slices"
	"time"
)

// kindRelay is the kind of the targets that send messages over a bridge.
const kindRelay = "relay"

// ofPorts returns why no target for clients of that side, irc or xmpp, works. If one of them works, ok is false.
func (r *round) ofPorts(side string, since time.Time) (found cause, ok bool) {
	for i := range r.targets {
		t := &r.targets[i]
		if !slices.Contains(clientPorts[side], t.Kind) {
			continue
		}
		if found, ok = r.ofOtherTarget(t, since); !ok {
			break
		}
	}
	return found, ok
}

// clientPorts are the kinds of targets that show whether clients can reach a side of a bridge.
var clientPorts = map[string][]string{
	"irc":  {"irc_tls", "irc_rpc", "irc_login"},
	"xmpp": {"xmpp_c2s", "xmpp_status", "xmpp_login"},
}

// coversRelay reports whether a problem of a relay check covers its failures, because it is alerted or excused.
func (r *round) coversRelay(s Subject) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && (known.Excuse.Holds() || FailsReadings(key.alert) && known.Alerted > Pending) {
			return true
		}
	}
	return false
}

// ofAnyPort returns why no client reaches one of the sides.
func (r *round) ofAnyPort(since time.Time) (cause, bool) {
	for _, side := range slices.Sorted(maps.Keys(clientPorts)) {
		if c, ok := r.ofPorts(side, since); ok {
			return c, true
		}
	}
	return cause{}, false
}

// sessionAlerted reports whether an alert says that a relay check has no session on one side.
func (r *round) sessionAlerted(s Subject) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && key.alert == AlertRelaySessionDown && known.Alerted > Pending {
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
		if key.Subject == s && key.alert == AlertBridgeNotRelaying && known.Alerted > Pending &&
			known.Since.Sub(since).Abs() <= sameOutage {
			return true
		}
	}
	return false
}
