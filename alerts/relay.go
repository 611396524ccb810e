package alerts

import (
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on bridges and their check.

var bridgeNotRelaying = row{
	name:      health.AlertBridgeNotRelaying,
	AlertKind: flat("bridge_not_relaying", 0, 2*minute),
	judged:    &health.Rule{Pages: true, Excuses: []health.Excuser{health.ByServer, health.ByBridge}},
	evidence:  problem,
	state:     "does not relay",
	page:      Words{"messages do not arrive from %s", "Read the bridge's log, then restart it."},
	panels:    []string{"irc/Messages cross"},
	warning:   message{insteadOfCritical, aTarget + " does not relay from " + direction + ".", notRelayingText + brokenBy()},
	critical:  message{"", aTarget + " no longer relays from " + direction + ".", notRelayingText + brokenBy()},
}

// bridgeCauses say what the check has seen of the bridge, and what to do. The status page has the names.
var bridgeCauses = [][2]string{
	{health.BridgeHangs, "The bridge is in the channel and in the room, and passes nothing on: read its log, then restart it."},
	{health.BridgeLeft, "The bridge has left the channel or the room: read its log, then restart it."},
	{health.BridgeAbsent, "The bridge is not in the channel or the room: read its log, then restart it."},
	{health.BridgeKicked, "Somebody kicked the bridge: let it join again, and say in the channel or room what it is for."},
	{health.BridgeBanned, "The bridge is banned: remove the ban, then restart the bridge."},
	{health.BridgeKilled, "An operator or the services of the IRC server ended the bridge's session: ask them."},
	{health.BridgeSilenced, "The bridge may have lost the right to speak: give it voice, or undo the mode."},
	{health.BridgeSplit, "The link between two IRC servers broke, and the bridge is on the other side: mend the link. A restart of the bridge does not help."},
}

// brokenBy is what the check has seen of the bridge.
func brokenBy() string {
	var text strings.Builder
	text.WriteString("{{ with query (printf `count by (cause) (chatstack_relay_broken_cause{cause!=\"unknown\",target=%q,from=%q," + sameEnvironment +
		"})` " + ofDirection + ") | sortByLabel \"cause\" }}{{ range . }}")
	for _, c := range bridgeCauses {
		text.WriteString("{{ if eq .Labels.cause \"" + c[0] + "\" }} " + c[1] + "{{ end }}")
	}
	text.WriteString("{{ end }}{{ else }}" + openPage + "{{ end }}")
	return text.String()
}

// direction is the direction of the alert, or the network, as people write it.
const direction = "{{ $labels.of | reReplaceAll `irc` `IRC` | reReplaceAll `xmpp` `XMPP` }}"

const (
	notRelayingText = "People do not see what is written on the other network. The check's messages get lost " + brokenAt + "."
	// ofDirection are the arguments that select series of the alert's direction.
	ofDirection = "$labels.target (reReplaceAll ` to .*` `` $labels.of) " + sameEnvironmentArgs
	// brokenAt is where messages of the alert's direction stop.
	brokenAt = "{{ range $i, $r := query (printf `count by (at) (chatstack_relay_broken_at{target=%q,from=%q," + sameEnvironment +
		"})` " + ofDirection + ") | sortByLabel \"at\" }}{{ if $i }} and {{ end }}{{ with $r.Labels.at }}{{ if eq . `bridge` }}in the bridge{{ else }}" +
		"on {{ . | toUpper }}{{ end }}{{ end }}{{ else }}on the way{{ end }}"
)

var bridgeSlow = row{
	name:      health.AlertBridgeSlow,
	AlertKind: flat("bridge_slow", 5*minute, 15*minute),
	judged:    excusedBy(health.ByServer, health.ByBridge),
	evidence:  problem,
	page:      Words{"messages arrive late from %s", "Look for load on the bridge, or a limit on how fast it may send."},
	panels:    []string{"irc/Delivery time"},
	warning: message{
		"", aTarget + " relays slowly from " + direction + ".",
		"Three of the check's messages in a row arrived after their deadline, or half of the last hour's were slow or lost. " +
			"People's messages arrive late. First look for load on the bridge, or a limit on how fast it may send.",
	},
}

var bridgeDuplicates = row{
	name:      health.AlertBridgeDuplicates,
	AlertKind: flat("bridge_duplicates", 0, 15*minute),
	judged:    excusedBy(health.ByServer),
	evidence:  problem,
	state:     "repeats messages",
	page:      Words{"messages arrive more than once from %s", "Look for a second bridge in the same channel and room."},
	panels:    []string{"irc/Copies"},
	warning: message{
		"", aTarget + " relays messages more than once from " + direction + ".",
		"People see them again and again if two bridges relay each other's messages. First look which bridges are in the check's " +
			"channel and room, and let only one map them." + openPage,
	},
}

var relaySessionDown = row{
	name:      health.AlertRelaySessionDown,
	AlertKind: flat("relay_session_down", 5*minute, 2*minute),
	judged:    &health.Rule{BeginsAnew: true, Excuses: []health.Excuser{health.ByMaintenance, health.ByPort}},
	evidence:  problem,
	state:     "is not checked",
	page:      Words{"the check has no session on %s", blindHint},
	panels:    []string{"irc/Sessions"},
	warning: message{
		"", "The check of " + named("target", "") + " cannot speak on " + direction + ".",
		"This has lasted" + sinceThen +
			" Until it can, nothing shows whether messages cross the bridge. The target's last error says why." + openPage,
	},
}

const blindHint = "The error says why. Nobody notices meanwhile if the bridge stops relaying."

var relayUnwatched = row{
	name:      health.AlertRelayUnwatched,
	AlertKind: flat("relay_unwatched", 15*minute, 0),
	server:    server{name: "bridge"},
	timed:     true,
	judged:    &health.Rule{BeginsAnew: true, Excuses: []health.Excuser{health.ByMaintenance, health.BySession, health.ByAnyPort}},
	evidence: evidence{
		held: true,
		expr: func(_ *config.Alerts, t *alert) string {
			return relayLeft + " or " + warningsAny + `{alert="` + t.name + `"} > 0`
		},
		trials: relayTrials,
	},
	state: "is not checked",
	page:  Words{"the check cannot tell whether messages cross the bridge", blindHint},
	warning: message{
		"", "Nobody knows whether " + named("target", "") + " relays messages.",
		"{{ if $labels.alert }}The check has said nothing about the bridge for over <for>" +
			"{{ else }}An exporter leaves the check to the first of the pair, which does not make it: start the first one, " +
			"or set pair: first in this one{{ end }}." + openPage,
	},
}

// relayTrials have the series of the first exporter vanish, to which another leaves the check of a bridge.
func relayTrials(a *config.Alerts, t *alert) []trial {
	hold, keep := t.rounds()
	checks := func(side string, steps ...step) input {
		return from(0, "chatstack_relay_session_up", map[string]string{"target": "bridge", "side": side}, steps...)
	}
	leaves := func(exporter int, kind string, steps ...step) input {
		return from(exporter, "chatstack_target_left_to_first", map[string]string{"target": "bridge", "kind": kind}, steps...)
	}
	quiet, fires := rise-1+t.within(a.Lookback)+hold, rise-1+t.beyond(a.Lookback)+hold
	end := fires + 2
	gone := []step{{value: 0}, {from: rise, value: lost}, {from: end, value: 1}}
	silent := []check{{quiet, false}, {fires, false}}
	other := func(label string, series input) input {
		return with(map[string]string{label: "b"}, []input{series})[0]
	}
	trials := []trial{
		try("the first is down", []input{leaves(1, "relay", steady(1)...), checks("irc", gone...), checks("xmpp", gone...)},
			check{quiet, false}, check{fires, true}, check{end + keep - 1, true}, check{end + keep, false}),
		try("the other does not leave it any more",
			[]input{leaves(1, "relay", step{value: 1}, step{from: end, value: lost})},
			append([]check{{hold - 1, false}, {hold, true}}, t.forgotten(end, keep, a.Lookback, true)...)...),
		try("one side of it is checked", []input{leaves(1, "relay", steady(1)...), checks("irc", steady(0)...)}, silent...),
		try("nobody leaves it to another", []input{checks("irc", gone...)}, silent...),
		try("another kind is left", []input{leaves(1, "irc_tls", steady(1)...)}, silent...),
		try("two leave it", []input{leaves(0, "relay", steady(1)...), leaves(1, "relay", steady(1)...)}, check{fires, true}),
		try("another target is checked", []input{leaves(1, "relay", steady(1)...), other("target", checks("irc", steady(1)...))},
			check{fires, true}),
	}
	// An exporter that checks cannot tell whether messages cross.
	problem := func(alert, name string, steps ...step) input {
		return from(0, "chatstack_problem_"+name, map[string]string{"alert": alert, "severity": Warning, "target": "bridge"}, steps...)
	}
	told := rise + hold
	trials = append(trials,
		try("a check finds out nothing",
			[]input{problem(t.name, "seconds", step{value: 0}, step{from: rise, value: 1}, step{from: told + 2, value: 0})},
			between(told, told+2+keep)...),
		try("the check has another problem", []input{problem(relaySessionDown.name, "seconds", steady(1)...)}, check{told + 5, false}),
		try("something explains that a check finds out nothing",
			[]input{problem(t.name, "seconds", steady(1)...), problem(t.name, "excused", steady(1)...)},
			check{told, false}, check{told + 5, false}))
	// While nobody knows, it goes on, as the other alerts do.
	same := newSubject(a, t, "problem_seconds", map[string]string{"alert": t.name, "severity": Warning, "target": "bridge"}, 0)
	same.hold = t.For
	for _, one := range same.trials() {
		if one.held {
			trials = append(trials, one)
		}
	}
	for _, label := range []string{"cluster", "part"} { // env has a value of its own in each trial
		trials = append(trials, try("another "+label+" checks its own",
			[]input{leaves(1, "relay", steady(1)...), other(label, checks("irc", steady(1)...))}, check{fires, true}))
	}
	return trials
}
