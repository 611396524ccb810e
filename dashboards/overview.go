package dashboards

import (
	"fmt"
	"strings"
	"time"
)

const (
	noExporter = "no exporter: see its dashboard"
	noRules    = "load chatstack.rules.yml"
	noRecords  = "load chatstack.recording.yml"
	// month is the span of the error budget.
	month = "30d"
	day   = 24 * time.Hour
)

// success is the last verdict on each target of some kinds.
func success(kinds string) string { return each("min", ofKind(sel("chatstack_probe_success"), kinds)) }

// verdicts are those on all targets.
func verdicts() string { return each("min", sel("chatstack_probe_success")) }

// failing counts the series of each environment that meet a condition, and is 0, not empty, where there are series but none meets it.
func failing(series, condition string) string {
	return perEnvironment("count", series+" "+condition) + " or 0 * " + perEnvironment("count", series)
}

// firing counts the alerts of a severity. Where targets' durations are recorded, there are rules.
func firing(severity string) string {
	return perEnvironment("count", "max without (prometheus, prometheus_replica, replica) ("+alerts(`alertstate="firing"`, fmt.Sprintf("severity=%q", severity))+")") +
		" or 0 * " + perEnvironment("count", sel("chatstack:target_down_seconds:any"))
}

// lasting is how long something has been wrong with containers, where something is.
func lasting(metric string) string { return eachContainer("max", selContainer(metric)) + " > 0" }

// renamed gives series the labels of chatstack_excuse_info: what kind of thing they are about, and its name, which is another label's.
func renamed(series, kind, from string) string {
	return fmt.Sprintf(`label_replace(label_replace(%s, "name", "$1", %q, "(.+)"), "kind", %q, "", "")`, series, from, kind)
}

// heldBack are all alerts that the exporter holds back, in one list: those on targets and containers with the reason and the cause,
// those on anything else with their names.
func heldBack() string {
	return strings.Join([]string{
		eachContainer("max", sel("chatstack_excuse_info")),
		renamed(each("max", sel("chatstack_problem_excused"))+" == 1", "target", "target"),
		renamed(eachEndpoint("max", sel("chatstack_tls_certificate_excused"))+" == 1", "certificate", "endpoint"),
		renamed(each("max", sel("chatstack_volume_excused"))+" == 1", "volume", "volume"),
		renamed(each("max", sel("chatstack_xmpp_auth_failures_excused"))+" == 1", "failed logins", ""),
		renamed(each("max", sel("chatstack_xmpp_sessions_excused"))+" == 1", "XMPP sessions", ""),
		renamed(each("max", sel("chatstack_irc_excused"))+" == 1", "IRC network", ""),
	}, " or ")
}

// heldBackFor is how long what is held back has been down, missing or unhealthy, with those labels of heldBack that tell its rows apart.
func heldBackFor() string {
	containers := make([]string, 0, 3)
	for _, state := range []string{"down", "missing", "unhealthy"} {
		containers = append(containers, sel("chatstack_container_"+state+"_seconds")+" > 0")
	}
	return perEnvironment("max", renamed(sel("chatstack_target_down_seconds")+" > 0", "target", "target")+" or "+
		renamed("("+strings.Join(containers, " or ")+")", "container", "container"), "docker_host", "kind", "name") +
		" and on (cluster, docker_host, env, kind, name) " + sel("chatstack_excuse_info")
}

// availability is the part of the last 30 days, or of as many as there are, in which each target was up that was configured yesterday.
func availability() string {
	recorded := sel("chatstack:target_up")
	return "(avg_over_time(" + recorded + "[" + month + "]) and last_over_time(" + recorded + "[1d]))"
}

// budget is the part of the error budget that is left: below 0 where more was used than there is.
func budget() string { return "1 - (1 - " + availability() + ") / (1 - $slo / 100)" }

func (b *book) overview() Dashboard {
	a := b.alerts
	// While an engine cannot be read, only what is wrong has a duration.
	down := eachContainer("max", sel("chatstack_container_down_seconds")) + " > 0 or " + eachContainer("max", sel("chatstack_container_missing_seconds")) + " > 0"
	unhealthy := eachContainer("max", sel("chatstack_container_unhealthy_seconds"))
	runbook := DataLink{Title: "Runbook", URL: b.runbook("${__value.text}"), TargetBlank: true}
	containers := DataLink{Title: "The container", URL: "/d/" + Containers + "?${datasource:queryparam}&${cluster:queryparam}&${env:queryparam}&var-container=${__value.text}&${__url_time_range}"}
	severities := []Property{coloured(), {"mappings", []Mapping{{"value", map[string]Mapped{
		"critical": {Text: "critical", Color: critical}, "warning": {Text: "warning", Color: warning, Index: 1},
	}}}}}
	memory := a.ContainerMemory
	xmppMemory := sel("chatstack_container_memory_working_set_bytes") + " and on (cluster, container, docker_host, env) " +
		sel("chatstack_container_info", `role="xmpp"`)
	return b.dashboard(
		Overview, "overview", "Is the chat all right, and if not, since when and why.", "now-24h", []Variable{budgetVariable()},
		section{title: "Now", panels: []panel{
			stat("Critical alerts", "Alerts of the chat stack that fire now and page somebody.", query{firing("critical"), "critical"}).limits(critically(1)).none(noRules),
			stat("Warnings", "Alerts of the chat stack that fire now and can wait for the day.", query{firing("warning"), "warning"}).limits(steps([]string{well, warning}, 1)).none(noRules),
			b.guided(stat("Targets down", "Targets whose last reading failed, at any exporter. Details below, in plain words on the status page.",
				query{failing(verdicts(), "== 0"), "down"}).limits(critically(1)).none(noExporter), "TargetDown"),
			b.guided(stat("Containers down", "Containers that should run and do not, or do not exist. One-shot and one-off containers do not count.",
				query{perEnvironment("count", down) + " or 0 * " + perEnvironment("count", sel("chatstack_container_expected")), "down"}).limits(critically(1)).none("no container engine is read"), "ContainerDown"),
			b.guided(stat("Containers unhealthy", "Containers whose own health check fails.",
				query{failing(unhealthy, "> 0"), "unhealthy"}).limits(steps([]string{well, warning}, 1)).none("no container engine is read"), "ContainerUnhealthy"),
			stat("Error budget left", "Of the target that has the least of it left. The budget is what the objective chosen above allows to fail in 30 days.",
				query{perEnvironment("min", budget()), "left"}).unit("percentunit").decimals(0).limits(below(0, 0.25)).none(noRecords),
		}},
		section{title: "Services", panels: []panel{
			table("Every target", "State of each target, how long it has been down, and whether its alert is held back. The reason is empty while it is up. Pages: whether its own alerts may page somebody.",
				[]column{{"target", "Target"}, {"A", "State"}, {"B", "Down for"}, {"reason", "Reason"}, {"E", "Held back"}, {"F", "HTTP status"}, {"kind", "Kind"}, {"G", "Pages"}, {"container", "Container"}},
				query{verdicts(), ""}, query{each("max", sel("chatstack_target_down_seconds"), "kind") + " > 0", ""}, query{each("max", sel("chatstack_probe_failing")), ""},
				// Of a pair, one exporter may not know the container.
				query{eachContainer("max", sel("chatstack_target_info", `container!=""`)) + " or on (cluster, env, target) " + eachContainer("max", sel("chatstack_target_info")), ""},
				query{each("max", sel("chatstack_target_excused")) + " == 1", ""}, query{each("max", sel("chatstack_probe_http_status_code")), ""},
				query{each("max", sel("chatstack_target_pages")), ""}).
				field("Pages", mapped(values(Mapped{Text: "no"}, Mapped{Text: "yes"}))).
				field("State", mapped(upDown()), coloured(), within(good())).
				field("Down for", inUnit("s")).field("Held back", mapped(onlyYes())).
				field("Target", leadsTo(DataLink{Title: "Last readings on the status page", URL: "${status_page:raw}/debug/targets/${__value.text}", TargetBlank: true})).
				field("Container", leadsTo(containers)).
				none(noExporter).size(14, 13),
			table("Firing alerts", "Alerts of the chat stack that fire now, but for Watchdog, which always does.",
				[]column{{"alertname", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"container", "Container"}, {"endpoint", "Endpoint"}, {"volume", "Volume"}, {"instance", "Exporter"}},
				query{"max without (job, node, pod, prometheus, prometheus_replica, replica, service) (" + alerts(`alertstate="firing"`, `alertname!="Watchdog"`) + ")", ""}).
				field("Alert", leadsTo(runbook)).field("Container", leadsTo(containers)).
				field("Severity", severities...).none("no alert fires").size(10, 13),
			table("Other problems", "What is wrong besides being down, and for how long. An alert fires once that is longer than its threshold, unless it is held back.",
				[]column{{"alert", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"A", "For"}, {"B", "Held back"}},
				query{each("max", sel("chatstack_problem_seconds")) + " > 0", ""}, query{each("max", sel("chatstack_problem_excused")) + " == 1", ""}).
				field("Alert", leadsTo(runbook)).field("Severity", severities...).
				field("For", inUnit("s")).field("Held back", mapped(onlyYes())).none("nothing is wrong").size(12, 8),
			table("Held back", "Alerts that the exporter holds back, and why: maintenance, something that it depends on, its own container, or it is starting. The cause is the container to look at. Down for: how long the problem has lasted, where there is one.",
				[]column{{"kind", "Kind"}, {"name", "Name"}, {"docker_host", "Docker host"}, {"reason", "Reason"}, {"cause", "Cause"}, {"B", "Down for"}, {"alert", "Alert"}, {"of", "Part"}},
				query{heldBack(), ""}, query{heldBackFor(), ""}).field("Down for", inUnit("s")).none("nothing is held back").size(12, 8),
			timeline("Targets over time", "Each target's state. Gaps: the exporter was not scraped, or the target is no longer configured.",
				query{verdicts(), "{{target}}"}).limits(good()).maps(upDown()).none(noExporter).size(24, 11),
		}},
		section{title: "Against the thresholds", panels: []panel{
			b.guided(stat("Failed logins per minute", "At the XMPP server, as the alert sees them: the rate of the last two minutes.",
				query{perEnvironment("max", sel("chatstack:xmpp_auth_failures_per_minute")), "per minute"}).decimals(1).
				limits(above(float64(a.XMPPAuthFailureRate.Warning.Over), float64(a.XMPPAuthFailureRate.Critical.Over))).none("no source, or rules not loaded: see XMPP"), "XMPPAuthFailureRate"),
			b.guided(stat("First certificate to end", "Time left of the certificate that ends first, of all servers and files.",
				query{perEnvironment("min", sel("chatstack_tls_certificate_not_after_timestamp_seconds")) + " - time()", "left"}).unit("s").
				limits(below(a.TLSCertificateExpiry.Critical.Under.Std().Seconds(), a.TLSCertificateExpiry.Warning.Under.Std().Seconds())).none("no TLS target"), "TLSCertificateExpiry"),
			b.guided(stat("Fullest volume", "Used part of the volume that is fullest, as df counts it.",
				query{perEnvironment("max", sel("chatstack_volume_used_ratio")), "used"}).unit("percentunit").decimals(0).limits(b.volumeLimits()).none("no volume is configured"), "DataVolumeUsage"),
			b.guided(stat("Most restarts in 10 minutes", "Of one container, as the alert counts them: without deploys, and without those that something else explains.",
				query{perEnvironment("max", sel("chatstack_container_recent_restarts")), "restarts"}).limits(b.restartLimits()).none("no container engine is read"), "ContainerRestarts"),
			b.guided(stat("Memory of the XMPP server", "Working set of the container with the role xmpp.",
				query{perEnvironment("max", xmppMemory), "used"}).unit("decbytes").limits(above(float64(memory.Warning.Over), float64(memory.Critical.Over))).none("no container has the role xmpp"), "ContainerMemory"),
			b.guided(stat("Largest container", "Working set of the container that uses most memory.",
				query{perEnvironment("max", sel("chatstack_container_memory_working_set_bytes")), "used"}).unit("decbytes").
				limits(critically(float64(memory.Critical.Over))).none("no statistics of containers"), "ContainerMemory"),
		}},
		section{title: "Availability, 30 days", panels: []panel{
			table("Availability", "The part of the last 30 days, or of as many as are recorded, in which each target was up: while any exporter saw it up. What no exporter knows does not count, nor does maintenance, unless an alert fired before it. The error budget is what the objective allows to fail; below 0 the promise is broken.",
				[]column{{"target", "Target"}, {"A", "Available"}, {"B", "Error budget left"}, {"C", "Measured for"}},
				query{availability(), ""}, query{budget(), ""},
				query{fmt.Sprintf("count_over_time(%s[%s]) * %.0f", sel("chatstack:target_up"), month, a.Interval.Std().Seconds()), ""}).
				field("Available", inUnit("percentunit"), Property{"decimals", 3}, within(below(0.99, 0.999)), coloured()).
				field("Error budget left", inUnit("percentunit"), Property{"decimals", 0}, within(below(0, 0.25)), coloured()).
				field("Measured for", inUnit("s")).none(noRecords).size(12, 10),
			chart("Availability, hour by hour", "The part of each last hour in which each target was up.",
				query{"avg_over_time(" + sel("chatstack:target_up") + "[1h])", "{{target}}"}).unit("percentunit").upTo(1).none(noRecords).size(12, 10),
		}},
	)
}
