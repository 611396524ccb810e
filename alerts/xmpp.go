package alerts

import (
	"fmt"
	"regexp"
	"slices"

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
	server: ofKind("xmpp_metrics"),
	timed:  true,
	judged: &health.Rule{
		Measured:  true,
		OwnSeries: true,
		ExcusedIn: "chatstack_xmpp_auth_failures_excused",
		Excuses:   []health.Excuser{health.ByMaintenance},
	},
	evidence: evidence{
		// Lost scrapes lower a rate, so the highest of the last values counts.
		expr: func(a *config.Alerts, t *alert) string {
			return fmt.Sprintf("%s > %d",
				unexcusedLogins(a, fmt.Sprintf("max_over_time(%s[%s])", authFailureRate, seconds(a.Interval*5/2))), t.Over)
		},
		trials: loginTrials,
	},
	page: Words{"too many logins fail", "The XMPP server's log shows where they come from."},
	gauge: Gauge{
		Place:   2,
		Title:   "Failed XMPP logins",
		Unit:    "per_minute",
		Figure:  "failed logins",
		Chart:   "auth_failures",
		Problem: "<number> logins per minute fail",
	},
	panels:   []string{"overview/Failed logins per minute", "xmpp/Failed logins per minute", "xmpp/Failed logins"},
	warning:  message{loginsWhen, loginsSummary, loginsText},
	critical: message{loginsWhen, loginsSummary, loginsText},
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

// loginTrials judge a rate: it is a little above or below its limit, comes in bursts, or is shared by two hosts.
func loginTrials(a *config.Alerts, t *alert) []trial {
	limit, window := float64(t.Over), t.settings.Window
	hold, keep := t.rounds()
	// each is by how much the counter increases in a round, at a number per minute.
	each := func(perMinute float64) float64 { return perMinute * t.time(1) / 60 }
	below, beyond := each(limit*0.995), each(max(limit*1.005, 0.5))
	count := func(exporter int, host string, steps ...step) input {
		return from(exporter, "xmpp_c2s_auth_failure_total", map[string]string{"host": host}, steps...)
	}
	begin := t.ceil(window) + 2
	// burst is enough for the whole window at once.
	burst := beyond * float64(t.ceil(window)+1)
	rising := func(by float64) []step { return []step{{value: 0}, {from: begin, value: burst * by / beyond, by: by}} }
	fires := begin + hold
	excuse := func(steps ...step) input { return from(0, "chatstack_xmpp_auth_failures_excused", nil, steps...) }
	change := fires + 2
	trials := []trial{
		try("below the limit", []input{count(0, "x", step{by: below})}, check{fires + 5, false}),
		try("above the limit", []input{count(0, "x", rising(beyond)...)},
			check{fires - 1, false}, check{fires, true}, check{fires + begin + keep, true}),
		try("two hosts together", []input{count(0, "x", rising(beyond/2)...), count(0, "y", rising(beyond/2)...)}, check{fires, true}),
		try("one of two exporters finds it", []input{count(0, "x", rising(beyond)...), count(1, "x", steady(0)...)}, check{fires, true}),
		try("both exporters find it", []input{count(0, "x", rising(beyond)...), count(1, "x", rising(beyond)...)}, check{fires, true}),
		try("each of two exporters is below", []input{count(0, "x", step{by: below}), count(1, "x", step{by: below})},
			check{fires + 5, false}),
		try("maintenance begins", []input{count(0, "x", rising(beyond)...), excuse(step{value: lost}, step{from: change, value: 1})},
			check{change - 1, true}, check{change + keep - 1, true}, check{change + keep, false}),
		try("maintenance ends",
			[]input{count(0, "x", rising(beyond)...), excuse(step{value: 1}, step{from: change, value: lost})},
			t.forgotten(change, hold, a.Lookback, false)...),
	}
	// Prometheus 3 and 2 see a burst for this long: in the window, and in what the alert remembers.
	least, most := t.ceil(window)+1, t.floor(window)+2
	// Bursts that are as far apart as that, and a little further.
	bursts := func(every int) []input {
		var steps []step
		for n, last := 0, fires+2*every; n <= last; n += every {
			steps = append(steps, step{from: n, value: burst * 10 * float64(n/every)})
		}
		return []input{count(0, "x", steps...)}
	}
	at := begin + t.ceil(window) + 2
	interrupted := count(0, "x", step{value: 0}, step{from: begin, value: burst, by: beyond}, step{from: at, value: lost},
		step{from: at + 2, value: burst + beyond*float64(at+2-begin), by: beyond})
	return slices.Concat(trials,
		when(hold < least, try("one burst", []input{count(0, "x", step{value: 0}, step{from: begin, value: burst * 10})},
			check{begin + least - 1 + keep, true}, check{begin + most + keep, false})),
		[]trial{try("bursts that the window bridges", bursts(least), check{fires + t.ceil(window), true})},
		when(hold >= most, try("bursts that it does not", bursts(most+1),
			check{fires + most + 1, false}, check{fires + most, false})),
		when(at+2 < fires, try("two scrapes are lost", []input{interrupted}, check{fires - 1, false}, check{fires, true})))
}

var xmppAuthFailuresSustained = row{
	name: "XMPPAuthFailuresSustained",
	AlertKind: kind("xmpp_auth_failures_sustained", config.Keys("over", "window", "keep_firing_for"),
		config.AlertSettings{Level: over(10, 0, 15*minute), Window: hour}, func(c *config.AlertCheck) {
			c.Number("over", c.Over, config.MaxCount)
			c.AtLeast("window", c.Window, 2*c.Alerts.Of(xmppAuthFailureRate.Key).Window, "twice xmpp_auth_failure_rate.window")
		}),
	server: ofKind("xmpp_metrics"),
	evidence: evidence{
		// One flood is one message: the alert on the rate is first, and it has said enough for as long as the average remembers.
		expr: func(_ *config.Alerts, t *alert) string {
			told := fmt.Sprintf(" unless on (%s) ", list(environment))
			return fmt.Sprintf("%s > %d%sALERTS{alertname=%q}%[3]smax_over_time(ALERTS{alertname=%[4]q,alertstate=\"firing\"}[%[5]s])",
				authAverage, t.Over, told, xmppAuthFailureRate.name, seconds(t.settings.Window))
		},
		records: func(a *config.Alerts, s *config.AlertSettings) []rule {
			n, within := rounds(a, s.Window)
			average := fmt.Sprintf("sum_over_time(%s[%s]) / %d", authFailureRate, seconds(within), n)
			return []rule{{Record: authAverage, Expr: unexcusedLogins(a, average)}}
		},
		trials: short(sustainedTrials),
	},
	warning: message{
		"over <over> a minute, averaged over <window>",
		"Over <over> XMPP logins per minute have failed, averaged over <window>.",
		`The average is {{ $value | printf "%.1f" }} per minute. Somebody may be trying passwords, slowly or in bursts. ` +
			`First find the addresses in the server's log.`,
	},
}

// sustainedTrials have bursts and slow rates that XMPPAuthFailureRate does not report.
func sustainedTrials(a *config.Alerts, t *alert) []trial {
	n, _ := rounds(a, t.settings.Window)
	_, keep := t.rounds()
	count := func(exporter int, host string, steps ...step) input {
		return from(exporter, "xmpp_c2s_auth_failure_total", map[string]string{"host": host}, steps...)
	}
	const before = 1e6 // a counter that is far above 0
	// total is how many logins fail in the window, if it is exactly the limit.
	total := max(float64(t.Over), 0.5) * t.time(n) / 60
	rate := a.Of(xmppAuthFailureRate.Key)
	// A burst is seen for so many rounds, and remembered by the alert on the rate for two more.
	seen := t.ceil(rate.Window) + 1
	patience := t.ceil(min(rate.Warning.For, rate.Critical.For))
	begin := seen + 2
	bursts := func(exporter int, host string, share float64, at ...int) input {
		steps := steady(before)
		for i, round := range at {
			steps = append(steps, step{from: round, value: before + share*total*float64(i+1)/float64(len(at))})
		}
		return count(exporter, host, steps...)
	}
	const many = 5
	spreadOver := func(span float64) (at []int) {
		for i := range many {
			at = append(at, begin+int(span*float64(n)*float64(i)/(many-1)))
		}
		return at
	}
	short, long := spreadOver(0.8), spreadOver(1.3)
	last := short[many-1]
	fires := last + seen + 3 // until then, the alert on the rate is pending
	flood := patience + seen + 6
	excuse := func(steps ...step) []input {
		return []input{bursts(0, "x", 1.005, short...), from(0, "chatstack_xmpp_auth_failures_excused", nil, steps...)}
	}
	// An excuse may be remembered for so long that the first burst leaves the window,
	// so maintenance ends before the last burst is counted.
	ends := fires + 1 - t.within(a.Lookback)
	each := total / float64(n)
	return slices.Concat(
		[]trial{try("nobody fails", []input{count(0, "x", steady(before)...)}, check{n + begin, false})},
		when(patience >= seen+4 && short[1]-short[0] > seen+4,
			try("bursts below the limit", []input{bursts(0, "x", 0.995, short...)}, check{fires, false}, check{begin + n, false}),
			try("bursts above the limit", []input{bursts(0, "x", 1.005, short...)},
				check{last - 1, false}, check{fires, true}, check{begin + n - 1 + keep, true}, check{begin + n + keep, false}),
			try("bursts over a longer time", []input{bursts(0, "x", 1.005, long...)},
				check{long[many-1] + seen, false}, check{long[many-1] + n, false}),
			try("bursts on two hosts", []input{bursts(0, "x", 0.505, short...), bursts(0, "y", 0.5, short...)}, check{fires, true}),
			try("one of two exporters sees bursts", []input{bursts(0, "x", 1.005, short...), count(1, "x", steady(before)...)},
				check{fires, true}),
			try("both exporters see bursts", []input{bursts(0, "x", 1.005, short...), bursts(1, "x", 1.005, short...)},
				check{fires, true}),
			try("each of two exporters sees few", []input{bursts(0, "x", 0.6, short...), bursts(1, "x", 0.6, short...)},
				check{fires, false}),
			try("the server restarts its counter", []input{count(0, "x", slices.Concat(
				bursts(0, "x", 0.995, short...).steps[:many], []step{{from: last - 2, value: 0}, {from: last, value: 1.5 * total / many}},
			)...)}, check{last - 1, false}, check{fires, true}),
			try("maintenance begins", excuse(step{value: lost}, step{from: fires + 2, value: 1}),
				check{fires + keep + 1, true}, check{fires + keep + 2, false}),
			try("maintenance ends", excuse(step{value: 1}, step{from: ends, value: lost}),
				t.forgotten(ends, 0, a.Lookback, false)...)),
		when(begin+flood+seen+6 < n, try("a flood, of which the alert on the rate tells",
			[]input{count(0, "x", step{value: before}, step{from: begin, value: before + 2*total, by: 2 * total},
				step{from: begin + flood, value: before + 2*total*float64(flood)})},
			check{begin, false}, check{begin + 2, false}, check{begin + patience + seen, false}, check{begin + flood + seen + 6, false},
			check{begin + n - 2, false})),
		when(t.Over < rate.Warning.Over && t.Over > 0,
			try("a little below the limit", []input{count(0, "x", step{value: before, by: each * 0.99})}, check{2 * n, false}),
			try("a little above the limit", []input{count(0, "x", step{value: before, by: each * 1.01})},
				check{n - 10, false}, check{2 * n, true})))
}

var xmppAuthSourceMissing = row{
	name:      health.AlertAuthSourceMissing,
	AlertKind: flat("xmpp_auth_source_missing", 15*minute, 0),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"failed logins are not counted", "Load the module from deploy/prosody, or set auth_failure_log."},
	panels:    []string{"xmpp/Metric sources"},
	warning: message{
		"", "Failed logins at the XMPP server are not counted.",
		"The server does not count xmpp_c2s_auth_failure_total, so XMPPAuthFailureRate cannot fire. Load mod_measure_chatstack, " +
			"or have the exporter count log lines.",
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
	warning: message{
		"", "XMPP modules are in error on {{ $labels.of }}.",
		"The server has reported errors" + sinceThen +
			" What these modules do is missing. With storage in error, nobody can log in. The server's /status names them.",
	},
}

var xmppModuleMissing = row{
	name:      health.AlertModuleMissing,
	AlertKind: flat("xmpp_module_missing", 15*minute, 0),
	judged:    excusedBy(health.ByServer),
	evidence:  problem,
	page: Words{
		"modules of %s are missing since the server's restart",
		"Read the XMPP server's log of its start. If somebody removed a module, forget it: " +
			"`curl -X DELETE http://EXPORTER:PORT/api/v1/modules/HOST/MODULE` (requires --web.enable-lifecycle).",
	},
	panels: []string{"xmpp/Modules missing"},
	warning: message{
		"", "XMPP modules are missing on {{ $labels.of }} since the server's restart.",
		"The server had loaded {{ range $i, $r := query (printf `count by (module) (chatstack_xmpp_module_missing{host=%q," + sameEnvironment +
			"})` $labels.of " + sameEnvironmentArgs + ") | sortByLabel \"module\" }}{{ if $i }}, {{ end }}{{ $r.Labels.module }}" +
			"{{ else }}them{{ end }} before it was restarted. What they do is missing. First read the server's log of its start.",
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
	together: withCause,
	evidence: problem,
	page: Words{
		"the component %s is not connected",
		"Read the component's log. If it is the bridge, messages no longer pass between the networks.",
	},
	panels:   []string{"xmpp/Components"},
	warning:  message{insteadOfCritical, "Component {{ $labels.of }} is disconnected from the XMPP server.", disconnectedText},
	critical: message{"", "Component {{ $labels.of }} has been disconnected from the XMPP server for over <for>.", disconnectedText},
}

const disconnectedText = "Disconnected" + sinceThen +
	" If it is the bridge, no message passes between the networks. First read the logs of both sides."

var xmppSessionsGone = row{
	name:      health.AlertSessionsGone,
	AlertKind: gone("xmpp_sessions_gone"),
	server:    server{name: "xmpp"},
	timed:     true,
	on:        someAreTypical,
	off:       offByTypical,
	judged:    &health.Rule{ExcusedIn: "chatstack_xmpp_sessions_excused"},
	fewest:    fewest{"chatstack:xmpp_sessions", "chatstack_xmpp_sessions", "chatstack_xmpp_sessions_excused"},
	evidence:  leaving,
	warning: message{
		goneWhen, "Nobody is logged in at the XMPP server.",
		goneText + "Clients may not reach the server, or cannot log in. First log in with a client of your own.",
	},
}
