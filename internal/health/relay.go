package health

import (
	"slices"
	"strings"
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

// explainsItself reports whether the target is a relay check that fails because of a problem with an alert of its own, once that alert
// fires or something excuses the problem. A bridge that is slow loses nothing.
func (r *round) explainsItself(t *Target) bool {
	if t.Kind != kindRelay {
		return false
	}
	for key, known := range r.judge.problems {
		if key.Subject == TargetSubject(t.Name) && (key.alert == AlertBridgeNotRelaying || key.alert == AlertRelaySessionDown) && (known.Alerted > Pending || known.Excuse.Holds()) {
			return true
		}
	}
	return false
}

// mute reports whether the target is a relay check without one of its sessions.
func (t *Target) mute() bool {
	return slices.ContainsFunc(t.Conditions, func(c Condition) bool { return c.Alert == AlertRelaySessionDown && c.Holds })
}

// ofAlertedBridge returns the bridge whose component that is, if it does not relay and its alert fires: then it is no second page.
func (r *round) ofAlertedBridge(t *Target, component string) (cause, bool) {
	for i := range r.targets {
		relay := &r.targets[i]
		if s := TargetSubject(relay.Name); strings.EqualFold(relay.Component, component) && (t.WarnOnly || !relay.WarnOnly) && r.bridgeAlerted(s) {
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
