package alerts

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on bridges and their check.

var bridgeNotRelaying = row{
	name:      health.AlertBridgeNotRelaying,
	AlertKind: flat("bridge_not_relaying", 0, 2*minute),
	judged:    &health.Rule{Pages: true, Excuses: []health.Excuser{health.ByServer, health.ByBridge}},
	evidence:  problem,
	page:      Words{"messages do not arrive from %s", "Read the bridge's log, then restart it."},
	panels:    []string{"irc/Messages cross"},
	texts: []message{
		{
			Warning,
			insteadOfCritical,
			"Messages do not cross {{ $labels.target }} from {{ $labels.of }}.",
			notRelayingText,
		},
		{
			Critical,
			"",
			"Messages no longer cross {{ $labels.target }} from {{ $labels.of }}.",
			notRelayingText,
		},
	},
}

const (
	notRelayingText = "Three of the check's messages in a row, or half of the last hour's, were lost or late; they stop at: " + brokenAt +
		". " +
		"People on the two networks do not see each other's messages." + openPage
	// brokenAt is where messages of the alert's direction stop: irc, xmpp or bridge.
	brokenAt = "{{ range $i, $r := query (printf `count by (at) (chatstack_relay_broken_at{target=%q,from=%q," + sameEnvironment +
		"})` $labels.target (reReplaceAll ` to .*` `` $labels.of) " + sameEnvironmentArgs +
		") | sortByLabel \"at\" }}{{ if $i }}, {{ end }}{{ $r.Labels.at }}{{ else }}unknown{{ end }}"
)

var bridgeSlow = row{
	name:      health.AlertBridgeSlow,
	AlertKind: flat("bridge_slow", 5*minute, 15*minute),
	judged:    excusedBy(health.ByServer, health.ByBridge),
	evidence:  problem,
	page:      Words{"messages arrive late from %s", "Look for load on the bridge, or a limit on how fast it may send."},
	panels:    []string{"irc/Delivery time"},
	texts: []message{
		{
			Warning,
			"",
			"Messages cross {{ $labels.target }} slowly from {{ $labels.of }}.",
			"At least half of the check's messages of the last hour were slow or lost. People's messages arrive late or not at all. " +
				"First read the log of the bridge.",
		},
	},
}

var relaySessionDown = row{
	name:      health.AlertRelaySessionDown,
	AlertKind: flat("relay_session_down", 5*minute, 2*minute),
	judged:    &health.Rule{BeginsAnew: true, Excuses: []health.Excuser{health.ByMaintenance, health.ByPort}},
	evidence:  problem,
	page:      Words{"the check has no session on %s", blindHint},
	panels:    []string{"irc/Sessions"},
	texts: []message{
		{
			Warning,
			"",
			"The check of {{ $labels.target }} cannot speak on {{ $labels.of }}.",
			"This has lasted" + forValue +
				" Until it can, nothing shows whether messages cross the bridge. The target's last error says why." + openPage,
		},
	},
}

const blindHint = "The error says why. Nobody notices meanwhile if the bridge stops relaying."

var relayUnwatched = row{
	name:      health.AlertRelayUnwatched,
	AlertKind: flat("relay_unwatched", 15*minute, 0),
	timed:     true,
	judged:    &health.Rule{BeginsAnew: true, Excuses: []health.Excuser{health.ByMaintenance, health.BySession, health.ByAnyPort}},
	evidence: evidence{
		expr: func(_ *config.Alerts, t *alert) string {
			return relayLeft + " or " + warningsAny + `{alert="` + t.name + `"} > 0`
		},
		trials: relayTrials,
	},
	page: Words{"the check cannot tell whether messages cross the bridge", blindHint},
	texts: []message{
		{
			Warning,
			"",
			"Nobody knows whether messages cross {{ $labels.target }}.",
			"{{ if $labels.alert }}The check has said nothing about the bridge for over <for>" +
				"{{ else }}An exporter leaves the check to the first of the pair, which does not make it: start the first one, " +
				"or set pair: first in this one{{ end }}." + openPage,
		},
	},
}
