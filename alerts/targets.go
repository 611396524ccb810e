package alerts

import (
	"fmt"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// The alerts on any target, and on what only some targets have.

var targetDown = row{
	name:      health.AlertTargetDown,
	AlertKind: holds("target_down", lasting(2*minute, 2*minute), lasting(5*minute, 2*minute), config.NotShorter),
	together:  withCause,
	judged:    &health.Rule{},
	evidence: evidence{
		expr:    targetDownExpr,
		trials:  targetTrials,
		lasts:   true,
		held:    true,
		records: targetDownRecords,
	},
	page: Words{"is down", ""},
	gauge: Gauge{
		Place:   8,
		Title:   "Target down",
		Unit:    "seconds",
		Lasts:   true,
		Unknown: "no target is down without an excuse",
	},
	panels:   []string{"overview/Targets down"},
	warning:  message{"", targetDownSummary(" down: "), targetDownText},
	critical: message{"", targetDownSummary(" down for over <for>: "), targetDownText},
}

// criticalAfter is how long a target is down before that is critical, but at least as long as a reading counts.
func criticalAfter(a *config.Alerts) time.Duration {
	return max(a.Of("target_down").Critical.For, a.Lookback).Std()
}

// flaps is one text if the subject of the alert, which the labels with their own arguments find, was down again and again, another one if
// it is up after some of that, else the last. Once it is down for good, the outages before are forgotten after 90 minutes.
func flaps(subject, labels, own, again, up, otherwise string) string {
	of := func(gauge, limit string) string {
		return "{{ range " + ask("max(chatstack_"+subject+gauge+labels+")"+limit, own) + " }}"
	}
	return of("_recent_outages", " > 2") + again + "{{ else }}" + of("_calm_seconds", "") + up + "{{ else }}" + otherwise +
		"{{ end }}{{ end }}"
}

func targetFlaps(again, up, otherwise string) string {
	return flaps("target", "{target=%q,ENV}", "$labels.target", again, up, otherwise)
}

func targetDownSummary(down string) string {
	return aTarget + targetFlaps(flapSummary+downAgain, upAgain, down+reasons+unanswered) + "."
}

const (
	flapSummary = " has been down {{ .Value }} times in the last 90 minutes"
	upAgain     = " is up again"
	flapText    = "This is one alert until it has been up for 15 minutes, or for longer than in between."
)

// downAgain is said while it is down.
var downAgain = failing(", and is down now: ", "")

var reasons = failing("", "reason unknown")

// failing are the reasons for which the target fails now, after some words, or what is said without one. They are queried when the text is
// rendered: as a label, a change of the reason would start another alert.
func failing(before, otherwise string) string {
	return "{{ range $i, $r := " + ask("count by (reason) (chatstack_probe_failing{target=%q,ENV})", "$labels.target") +
		" | sortByLabel \"reason\" }}{{ if $i }}, {{ else }}" + before + "{{ end }}{{ with $r.Labels.reason }}" + reasonInWords() +
		"{{ end }}{{ else }}" + otherwise + "{{ end }}"
}

// reasonInWords is a reason in words; a newer exporter may have others.
func reasonInWords() string {
	var text strings.Builder
	for _, r := range failure.Reasons {
		fmt.Fprintf(&text, "{{ if eq . %q }}%s{{ else ", r, failure.InWords(r))
	}
	return strings.ReplaceAll(text.String(), "{{ else {{ if", "{{ else if") + "}}{{ . }}{{ end }}"
}

// unanswered is how many services are down whose containers run on an engine.
const unanswered = "{{ range query (printf `max(chatstack_docker_targets_down{target=%q," + sameEnvironment + "}) > 0` $labels.target " +
	sameEnvironmentArgs + ") }}; services on it that do not answer: {{ .Value }}{{ end }}"

// nextTry is when a target that waits on purpose is probed again.
var nextTry = "{{ range " + ask("min(chatstack_target_retry_timestamp_seconds{target=%q,ENV})", "$labels.target") +
	" }} The exporter waits until {{ (toTime .Value).Format `15:04` }} UTC for its next try, so that the server does not ban it.{{ end }}"

// halfReaches is what it means that one exporter of a pair reaches a target, and otherwise.
func halfReaches(otherwise string) string {
	of := func(success string) string {
		return ask("count by (instance) (chatstack_probe_success{target=%q,ENV} == "+success+")", "$labels.target") + ` | sortByLabel "instance"`
	}
	return "{{ $down := " + of("0") + " }}{{ with " + of("1") + " }}Exporter {{ . | first | label \"instance\" }} reaches it, only" +
		"{{ range $down }} {{ .Labels.instance }}{{ end }} does not, so users may be well.{{ else }}" + otherwise + "{{ end }}"
}

var targetDownText = usersMayBeWell("chatstack_probe_failing%s", halfReaches(lostByUsers)) + " " +
	targetFlaps(flapText, flapText, "Every check has failed"+sinceThen) + nextTry + checkTarget

// unexplained are the recorded downtimes of targets that the alert of a severity compares.
var unexplained = map[string]string{Warning: targetWarning, Critical: targetCritical}

func targetDownExpr(_ *config.Alerts, t *alert) string {
	return unexplained[t.severity] + aboveSeconds(t.For)
}

// targetDownRecords leave out what a container on another exporter's engine excuses: a target that went down after it, or less than a
// minute before it, unless the alert already fired.
func targetDownRecords(a *config.Alerts, s *config.AlertSettings) []rule {
	alone := func(down string, level config.Level) string {
		return fmt.Sprintf("%s unless %[1]s - %s < %s", down, targetElsewhere, number(max(1, min(60, level.For.Std().Seconds()))))
	}
	return []rule{
		// TLSChainInvalid replaces the warning. The critical alert still fires.
		{Record: targetWarning, Expr: fmt.Sprintf("%s unless ignoring (alert, kind, of, severity) %s{alert=%q}%s",
			alone(targetDownAny, s.Warning), warningsAny, tlsChainInvalid.name, aboveSeconds(a.Of(tlsChainInvalid.Key).For))},
		{Record: targetCritical, Expr: alone(targetDownAll, s.Critical) + " unless ignoring (kind) " + targetPages + " == 0"},
	}
}

func targetTrials(a *config.Alerts, t *alert) []trial {
	limit := t.For.Std().Seconds()
	long, earlier := limit+61, max(1, min(60, limit))
	s := newSubject(a, t, "target_down_seconds", map[string]string{"target": "web", "kind": "http"}, limit)
	s.all = t.severity == Critical
	web := map[string]string{"target": "web"}
	s.heldBackBy(a, "target_excused", 0).labels = web
	if t.severity == Critical {
		s.gates = append(s.gates, gate{
			name:     "chatstack_target_pages",
			labels:   web,
			open:     1,
			shut:     0,
			optional: true,
			lookback: a.Lookback,
		})
	}
	// pages sets target_pages to 0 at one exporter and to a value at the other.
	pages := func(other float64) []input {
		return []input{
			from(0, s.name, s.labels, steady(long)...), from(0, "chatstack_target_pages", web, steady(0)...),
			from(1, s.name, s.labels, steady(long)...), from(1, "chatstack_target_pages", web, steady(other)...),
		}
	}
	info := func(exporter int, container string, steps ...step) input {
		labels := map[string]string{"target": "web", "kind": "http", "container": container, "docker_host": "far"}
		return from(exporter, "chatstack_target_info", labels, steps...)
	}
	downFor := func(exporter int, container string, steps ...step) input {
		labels := map[string]string{"container": container, "docker_host": "far"}
		return from(exporter, "chatstack_container_down_seconds", labels, steps...)
	}
	// on puts the target's container on the other exporter's engine.
	on := func(down, container []step) []input {
		return append(s.series(0, down...), info(0, "c", steady(1)...), downFor(1, "c", container...))
	}
	recent := t.forgotten(rise, 0, a.Lookback, false)
	// both lets both exporters know the target and its container, which one of them found down later.
	both := func(first, later float64) []input {
		return append(on(steady(long), steady(first)), downFor(0, "c", steady(later)...), info(1, "c", steady(1)...))
	}
	// again is a container that has been up for so long, and was down too often.
	again := func(calm float64) []input {
		return append(on(steady(long), steady(long)), from(1, "chatstack_container_calm_seconds",
			map[string]string{"container": "c", "docker_host": "far"}, steady(calm)...))
	}
	lookback := a.Lookback.Std().Seconds()
	two := append(on(steady(long), steady(long)), info(1, "d", steady(1)...), downFor(1, "d", steady(1)...))
	// known replaces what is known of the target's container.
	known := func(container input) []input {
		return append(s.series(0, steady(long)...), container, downFor(1, "c", steady(long)...))
	}
	nowhere := info(0, "c", steady(1)...)
	delete(nowhere.labels, "docker_host")
	trials := append(s.trials(),
		try("no exporter pages about it", pages(0), check{rise, t.severity == Warning}),
		try("one of two exporters pages about it", pages(1), check{rise, true}),
		try("a container of the same name is down on another host", known(nowhere), check{rise, true}),
		try("its container elsewhere went down soon after it", on(steady(long), steady(long-earlier+1)), check{rise, false}),
		try("its container elsewhere went down later", on(steady(long), steady(long-earlier)), check{rise, true}),
		try("its container elsewhere runs", on(steady(s.bad), steady(0)), check{rise, true}),
		try("its container elsewhere was started", on(steady(long), []step{{value: long}, {from: rise, value: 0}}),
			recent...),
		try("its container elsewhere goes down", on(steady(long), []step{{value: 0}, {from: rise, value: long}}),
			check{rise - 1, true}, check{rise + s.pace.ceil(s.keep), false}),
		try("its container elsewhere has just come back again", again(lookback), check{rise, false}),
		try("its container elsewhere came back again a while ago", again(above(lookback)), check{rise, true}),
		try("two exporters know its container", both(long-earlier+1, 1), check{rise, false}),
		try("two exporters know its container, which went down later", both(long-earlier, long-earlier), check{rise, true}),
		try("one of its two containers has been down for long", two, check{rise, false}),
		try("the other exporter is lost", on(steady(long), []step{{value: long}, {from: rise, value: lost}}), recent...),
		try("its container is forgotten", known(info(0, "c", step{value: 1}, step{from: rise, value: lost})), recent...))
	if t.severity == Critical {
		return trials
	}
	refused := func(alert string, seconds float64) []input {
		labels := map[string]string{"alert": alert, "target": "web", "severity": "warning", "of": "x"}
		return append(s.series(0, steady(long)...), from(0, "chatstack_problem_seconds", labels, steady(seconds)...))
	}
	chain := a.Of(tlsChainInvalid.Key).For.Std().Seconds()
	return append(trials,
		try("its certificate is refused", refused(tlsChainInvalid.name, above(chain)), check{rise, false}),
		try("its certificate has not been refused for long", refused(tlsChainInvalid.name, chain), check{rise, true}),
		try("something else is wrong with it", refused(upstreamSeriesDropped.name, above(chain)), check{rise, true}))
}

var targetUnstable = row{
	name:       health.AlertTargetUnstable,
	nowAndThen: true,
	AlertKind: kind("target_unstable", config.Keys("warning", "over", "keep_firing_for", "critical", "over", "keep_firing_for"),
		config.AlertSettings{Warning: over(10, 0, 15*minute), Critical: over(50, 0, 15*minute)}, config.Percents,
		func(c *config.AlertCheck) {
			if c.Warning.Over == 0 {
				c.Faultf("warning.over", "is 0, must be at least 1")
			}
		}),
	percent:  true,
	judged:   &health.Rule{Own: true, Excuses: []health.Excuser{health.ByMaintenance}},
	evidence: problem,
	page: Words{
		"many of its probes fail",
		"Its last probes show the failures. Look for an overloaded server, or for one broken server among several behind one name.",
	},
	gauge: Gauge{Unit: "ratio", Problem: "<value> of its probes failed in the last hour"},
	warning: message{
		"over <over> % of the probes failed, both in the last hour and in the last 5 minutes", unstableSummary,
		unstableText + " " + usersMayBeWell("increase(chatstack_probe_failures_total%s[1h]) > 0", unstableMeaning) + openPage,
	},
	critical: message{
		"at least <over> % of them, or two thirds in the last 12 minutes", aTarget + " fails at least <over> % of its probes.",
		"At least <over> % of its probes have failed in the last hour, or far more than that in the last 12 minutes. " + unstableMeaning +
			openPage,
	},
}

const (
	unstableText    = "In the last hour and in the last 5 minutes, over <over> % of its probes have failed."
	unstableMeaning = "It is not down, but its users get an error or wait now and then."
)

var unstableSummary = aTarget + " fails over <over> % of its probes."

var targetSlow = row{
	name:      health.AlertTargetSlow,
	AlertKind: flat("target_slow", 10*minute, 5*minute),
	judged:    &health.Rule{Own: true, Excuses: []health.Excuser{health.ByServer}},
	evidence:  problem,
	page: Words{
		"answers slowly",
		"Its last probes show which phase takes long. Look for load on it, or on what it waits for.",
	},
	gauge:  Gauge{Unit: "seconds", Problem: "answers slowly: its last probe took <value>"},
	panels: []string{"exporter/Probe duration"},
	warning: message{
		"successful probes that take over `slow`, by default 3 s or half of their deadline: <after>",
		aTarget + " answers slowly" + probeTook + ".",
		"Its probes succeed, but have taken over its limit (slow in the exporter's configuration)" + sinceThen +
			" Its users wait as long." + openPage,
	},
}

// probeTook is how long the last probe took, if that is known.
var probeTook = "{{ range " + ask("max(chatstack_probe_duration_seconds{target=%q,ENV})", "$labels.target") +
	" }}: the last probe took {{ .Value | humanizeDuration }}{{ end }}"

var mostTargetsDown = row{
	name: health.AlertMostTargetsDown,
	AlertKind: kind("most_targets_down", config.Keys("over", "warning", "for", "keep_firing_for", "critical", "for", "keep_firing_for"),
		config.AlertSettings{Level: config.Level{Over: 50}, Warning: lasting(minute, 5*minute), Critical: lasting(5*minute, 2*minute)},
		config.NotShorter, func(c *config.AlertCheck) {
			if c.Over < 1 || c.Over > 99 {
				c.Faultf("over", "is %d, must be 1 to 99", c.Over)
			}
		}),
	server:   server{name: wholeStack},
	judged:   &health.Rule{},
	evidence: problem,
	page: Words{
		"most targets are down, and no container explains it",
		"Check the host, its network, and whether the exporter can reach anything. If another exporter of a pair reaches them, only this one " +
			"has lost its network.",
	},
	warning:  message{"over <over> % of the targets for <for>", halfIsCutOff(cutOff, mostDown+"."), halfIsCutOff(cutOffText, mostText)},
	critical: message{"for <for>", mostDown + " for over <for>.", mostText},
}

const (
	mostText = "Over <over> % of the targets are down, and no single container explains it. Most of the chat stack does not " +
		"answer, at least not to the exporter. First check the host, its network, and the exporter's own network."
	cutOffText = "Another exporter reaches the stack, so users notice nothing. Until this is fixed, only that one watches. " +
		"First check the network of that exporter's machine."
)

// mostDown is how many targets of the alert's environment are down, such as "11 of 13 targets down".
var mostDown = "{{ range " + ask("count(max by (target) (chatstack_probe_success{ENV}) == 0)", "") + " }}{{ .Value }}{{ else }}Most{{ end }} of " +
	"{{ range " + ask("count(max by (target) (chatstack_probe_success{ENV}))", "") + " }}{{ .Value }}{{ else }}the{{ end }} targets down"

// cutOff says how much each exporter reaches.
var cutOff = "{{ range $off }}Exporter {{ .Labels.instance }} has lost most of its network: it reaches " + reached + "; {{ end }}" +
	"{{ range $i, $one := $on }}{{ if $i }}, {{ end }}{{ with $one }}exporter {{ .Labels.instance }} reaches " + reached + "{{ end }}{{ end }}."

// reached is how many targets the exporter of a sample reaches, such as "2 of 13 targets".
var reached = "{{ range " + ask("sum(chatstack_probe_success{instance=%q,ENV})", ".Labels.instance") + " }}{{ .Value }}{{ end }} of {{ range " +
	ask("count(chatstack_probe_success{instance=%q,ENV})", ".Labels.instance") + " }}{{ .Value }}{{ end }} targets"

// halfIsCutOff is a text for one exporter of a pair that reaches hardly any target while another one has no such problem, and otherwise.
func halfIsCutOff(text, otherwise string) string {
	of := func(seconds string) string {
		return ask(`count by (instance) (chatstack_problem_seconds{alert="MostTargetsDown",severity="warning",ENV} `+seconds+")", "") +
			` | sortByLabel "instance"`
	}
	return "{{ $off := " + of("> 0") + " }}{{ $on := " + of("== 0") + " }}{{ if and $off $on }}" + text + "{{ else }}" + otherwise + "{{ end }}"
}

// withCause is for alerts on targets whose value is how long the problem has lasted. They belong to MostTargetsDown if both began within
// ten rounds, 5 minutes as in incidents, and to their container's engine if within two. MostTargetsDown inhibits their warnings.
var withCause = together{
	critical: withMost,
	all: withEngine + "(last_over_time(chatstack_docker_targets_down{<env>}[<range>]) and on (docker_host) " +
		`last_over_time(chatstack_target_info{target=%[5]q,docker_host!="",<env>}[<range>]))`,
}

const (
	withMost = "label_replace(" + criticalAll + `{alert="` + health.AlertMostTargetsDown +
		`",<env>} > %[4]f - <apart> < %[4]f + <apart> > 0` + inWholeStack
	// withEngine is followed by a query for engines.
	withEngine = anyServer + ` and on (target) (<down>{kind="docker",<env>} > %[4]f - <near> < %[4]f + <near> > 0) and on (target) `
)

var plantStoreOrphans = row{
	name:      health.AlertOrphans,
	AlertKind: flat("plant_store_orphans", 15*minute, 0),
	judged:    excusedBy(health.ByServer, health.ByOutage),
	evidence:  problem,
	page:      Words{"test records were not deleted", "Every probe tries again to delete them. Find out why the store refuses."},
	panels:    []string{"irc/Test records left behind"},
	warning: message{
		"", "The plant store refuses to delete test records.",
		"The exporter created them to check the store, and could not delete them" + sinceThen +
			" Users notice nothing. First read the log of the store.",
	},
}

var identityCacheExhausted = row{
	name:      health.AlertCacheExhausted,
	AlertKind: flat("identity_cache_exhausted", 0, 2*minute),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"the bridge's identity cache has expired; users appear under made-up nicks", "Repair the identity API."},
	panels:    []string{"irc/Identity cache left"},
	warning: message{
		"", "The bridge's identity cache has expired; users appear under made-up nicks.",
		"The identity API is down, and the cache expired {{ $value | humanizeDuration }} ago. Messages still pass. " +
			"First check the identity application.",
	},
}

var upstreamSeriesDropped = row{
	name:      health.AlertSeriesDropped,
	AlertKind: flat("upstream_series_dropped", 15*minute, 0),
	judged:    excusedBy(health.ByMaintenance),
	evidence:  problem,
	page:      Words{"some of its series are dropped", "Its last probes list them."},
	panels:    []string{"exporter/Dropped series"},
	warning: message{
		"", "The exporter drops series of " + named("target", "") + ".",
		"They clash with others, are malformed or exceed a limit. Dashboards and alerts lack them." + openPage,
	},
}

var placeholderCredential = row{
	name:      health.AlertPlaceholder,
	AlertKind: flat("placeholder_credential", 5*minute, 0),
	judged:    &health.Rule{},
	evidence:  problem,
	ahead:     true,
	page:      Words{"a secret is a publicly known placeholder", "Change it in the service and in the exporter's configuration."},
	panels:    []string{"exporter/Placeholder secrets"},
	warning: message{
		"", "A secret of " + named("target", "") + " is a placeholder.",
		"It comes from an example, so everybody knows it. Whoever reaches the service can use it. Change it in the service, " +
			"then in the exporter's configuration.",
	},
}
