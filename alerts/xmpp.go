package alerts

import (
	"fmt"
	"regexp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on the XMPP server.

var xmppAuthFailureRate = row{
	name: health.AlertAuthFailureRate,
	AlertKind: kind("xmpp_auth_failure_rate",
		config.Keys("window", "warning", "over", "for", "keep_firing_for", "critical", "over", "for", "keep_firing_for"),
		config.AlertSettings{Window: 2 * minute, Warning: over(10, 5*minute, 5*minute), Critical: over(50, 5*minute, 5*minute)},
		config.ScrapesFit, config.Amounts),
	timed:  true,
	judged: excusedBy(health.ByMaintenance),
	evidence: evidence{
		// Lost scrapes lower a rate, so the highest of the last values counts.
		expr: func(a *config.Alerts, t *alert) string {
			return fmt.Sprintf("%s > %d",
				unexcusedLogins(a, fmt.Sprintf("max_over_time(%s[%s])", authFailureRate, seconds(a.Interval*5/2))), t.Over)
		},
		trials: loginTrials,
	},
	page:   Words{"too many logins fail", "The XMPP server's log shows where they come from."},
	gauge:  Gauge{Title: "Failed XMPP logins", Unit: "per_minute"},
	panels: []string{"overview/Failed logins per minute", "xmpp/Failed logins per minute", "xmpp/Failed logins"},
	texts: []message{
		{
			Warning,
			loginsWhen,
			loginsSummary,
			loginsText,
		},
		{
			Critical,
			loginsWhen,
			loginsSummary,
			loginsText,
		},
	},
}

const (
	loginsWhen    = "over <over> a minute<held>"
	loginsSummary = "Over <over> XMPP logins fail per minute."
	loginsText    = `The rate is {{ $value | printf "%.1f" }} per minute, and has been over <over><held>. ` +
		`Either somebody tries passwords, or people cannot log in. First try to log in yourself.`
)

// unexcusedLogins is the highest number of failed logins of all exporters, without maintenance.
func unexcusedLogins(a *config.Alerts, number string) string {
	return acrossExporters("max", number+" unless "+latest(a, "chatstack_xmpp_auth_failures_excused"), nil)
}

var xmppAuthFailuresSustained = row{
	name: "XMPPAuthFailuresSustained",
	AlertKind: kind("xmpp_auth_failures_sustained", config.Keys("over", "window", "keep_firing_for"),
		config.AlertSettings{Level: over(10, 0, 15*minute), Window: hour}, func(c *config.AlertCheck) {
			c.Number("over", c.Over, config.MaxCount)
			c.AtLeast("window", c.Window, 2*c.Alerts.Of(xmppAuthFailureRate.Key).Window, "twice xmpp_auth_failure_rate.window")
		}),
	evidence: evidence{
		expr: func(a *config.Alerts, t *alert) string {
			n, within := rounds(a, t.settings.Window)
			return fmt.Sprintf("%s > %d",
				unexcusedLogins(a, fmt.Sprintf("sum_over_time(%s[%s]) / %d", authFailureRate, seconds(within), n)), t.Over)
		},
		trials: short(sustainedTrials),
	},
	texts: []message{
		{
			Warning,
			"over <over> a minute, averaged over <window>",
			"Over <over> XMPP logins per minute have failed, averaged over <window>.",
			`The average is {{ $value | printf "%.1f" }} per minute. Somebody may be trying passwords, slowly or in bursts. ` +
				`First find the addresses in the server's log.`,
		},
	},
}

var xmppAuthSourceMissing = row{
	name:      health.AlertAuthSourceMissing,
	AlertKind: flat("xmpp_auth_source_missing", 15*minute, 0),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"failed logins are not counted", "Load the module from deploy/prosody, or set auth_failure_log."},
	panels:    []string{"xmpp/Metric sources"},
	texts: []message{
		{
			Warning,
			"",
			"Failed logins at the XMPP server are not counted.",
			"The server does not count xmpp_c2s_auth_failure_total, so XMPPAuthFailureRate cannot fire. Load mod_measure_chatstack, " +
				"or have the exporter count log lines.",
		},
	},
}

var xmppModuleProblem = row{
	name: health.AlertModuleProblem,
	AlertKind: kind("xmpp_module_problem", config.Keys("for", "keep_firing_for", "ignore"),
		config.AlertSettings{Level: lasting(5*minute, 0)}, func(c *config.AlertCheck) {
			c.Names("ignore", c.Ignore, regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`), "module names from /status")
		}),
	judged:   excusedBy(health.ByServer),
	evidence: problem,
	page:     Words{"modules of %s are in error", "The XMPP server's log and its page /status say which."},
	panels:   []string{"xmpp/Modules in error", "xmpp/Worst module by host"},
	texts: []message{
		{
			Warning,
			"",
			"XMPP modules are in error on {{ $labels.of }}.",
			"The server has reported errors" + forValue +
				" What these modules do is missing. With storage in error, nobody can log in. The server's /status names them.",
		},
	},
}

var xmppComponentDisconnected = row{
	name:      health.AlertComponentDisconnected,
	AlertKind: flat("xmpp_component_disconnected", 5*minute, 2*minute),
	judged: &health.Rule{
		Pages:      true,
		BeginsAnew: true,
		Excuses:    []health.Excuser{health.ByServer, health.ByBridge, health.ByAlertedBridge},
	},
	evidence: problem,
	page: Words{
		"the component %s is not connected",
		"Read the component's log. If it is the bridge, messages no longer pass between the networks.",
	},
	panels: []string{"xmpp/Components"},
	texts: []message{
		{
			Warning,
			insteadOfCritical,
			"Component {{ $labels.of }} is disconnected from the XMPP server.",
			disconnectedText,
		},
		{
			Critical,
			"",
			"Component {{ $labels.of }} has been disconnected from the XMPP server for over <for>.",
			disconnectedText,
		},
	},
}

const disconnectedText = "Disconnected" + forValue +
	" If it is the bridge, no message passes between the networks. First read the logs of both sides."

var xmppSessionsGone = row{
	name:      health.AlertSessionsGone,
	AlertKind: gone("xmpp_sessions_gone"),
	timed:     true,
	on:        someAreTypical,
	off:       offByTypical,
	evidence:  leaving(xmppSessions, "chatstack_xmpp_sessions", "chatstack_xmpp_sessions_excused"),
	texts: []message{
		{
			Warning,
			goneWhen,
			"Nobody is logged in at the XMPP server.",
			goneText + "Clients may not reach the server, or cannot log in. First log in with a client of your own.",
		},
	},
}
