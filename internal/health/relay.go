package health

import (
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
		if found, ok = r.ofTargetOrOutage(t, since); !ok {
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

// explainsItself reports whether the target is a relay check whose own alerts say why it fails.
func (t *Target) explainsItself() bool {
	return t.Kind == kindRelay && slices.ContainsFunc(t.Conditions, func(c Condition) bool { return c.Holds })
}

// ofAlertedBridge returns a bridge that does not relay, once its alert fires. A disconnected component is part of that, and no second page.
func (r *round) ofAlertedBridge(t *Target) (cause, bool) {
	for i := range r.targets {
		relay := &r.targets[i]
		if s := TargetSubject(relay.Name); (t.WarnOnly || !relay.WarnOnly) && r.bridgeAlerted(s) {
			return cause{Excuse: Excuse{ReasonDependency, relay.Name, s}}, true
		}
	}
	return cause{}, false
}

// bridgeAlerted reports whether an alert says that messages do not cross that target.
func (r *round) bridgeAlerted(s Subject) bool {
	for key, known := range r.judge.problems {
		if key.Subject == s && key.alert == AlertBridgeNotRelaying && known.Alerted > Pending {
			return true
		}
	}
	return false
}
