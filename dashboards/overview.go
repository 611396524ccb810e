package dashboards

import (
	"fmt"
	"strings"
	"time"
)

const (
	noExporter   = "no exporter: see its dashboard"
	noRules      = "load chatstack.rules.yml"
	noRecords    = "load chatstack.recording.yml"
	budgetPeriod = "30d"
	day          = 24 * time.Hour
)

func successOfKinds(kinds string) string {
	return combine("min", ofKind(sel("chatstack_probe_success"), kinds))
}

func targetSuccess() string { return combine("min", sel("chatstack_probe_success")) }

// countMatching counts the series of each environment that meet a condition. It is 0, not empty, if there are series but none matches.
func countMatching(series, condition string) string {
	return perEnvironment("count", series+" "+condition) + " or 0 * " + perEnvironment("count", series)
}

// firing counts the alerts of a severity. It is 0, not empty, if the rules are loaded: then they record how long targets are down.
func firing(severity string) string {
	return perEnvironment("count", "max without (prometheus, prometheus_replica, replica) ("+selAlerts(`alertstate="firing"`, fmt.Sprintf("severity=%q", severity))+")") +
		" or 0 * " + perEnvironment("count", sel("chatstack:target_down_seconds:any"))
}

func positiveSeconds(metric string) string {
	return combineContainers("max", selContainer(metric)) + " > 0"
}

// asHeldBack gives series the labels kind and name of chatstack_excuse_info. The name is the value of the label from.
func asHeldBack(series, kind, from string) string {
	return fmt.Sprintf(`label_replace(label_replace(%s, "name", "$1", %q, "(.+)"), "kind", %q, "", "")`, series, from, kind)
}

// heldBack lists all alerts that the exporter holds back: with reason and cause for targets and containers, otherwise by name.
func heldBack() string {
	return strings.Join([]string{
		combineContainers("max", sel("chatstack_excuse_info")),
		asHeldBack(combine("max", sel("chatstack_problem_excused"))+" == 1", "target", "target"),
		asHeldBack(combineEndpoints("max", sel("chatstack_tls_certificate_excused"))+" == 1", "certificate", "endpoint"),
		asHeldBack(combine("max", sel("chatstack_volume_excused"))+" == 1", "volume", "volume"),
		asHeldBack(combine("max", sel("chatstack_xmpp_auth_failures_excused"))+" == 1", "failed logins", ""),
		asHeldBack(combine("max", sel("chatstack_xmpp_sessions_excused"))+" == 1", "XMPP sessions", ""),
		asHeldBack(combine("max", sel("chatstack_irc_excused"))+" == 1", "IRC network", ""),
	}, " or ")
}

// heldBackFor is how long excused targets and containers have been down, missing or unhealthy. Its labels match the rows of heldBack.
func heldBackFor() string {
	containers := make([]string, 0, 3)
	for _, state := range []string{"down", "missing", "unhealthy"} {
		containers = append(containers, sel("chatstack_container_"+state+"_seconds")+" > 0")
	}
	return perEnvironment("max", asHeldBack(sel("chatstack_target_down_seconds")+" > 0", "target", "target")+" or "+
		asHeldBack("("+strings.Join(containers, " or ")+")", "container", "container"), "docker_host", "kind", "name") +
		" and on (cluster, docker_host, env, kind, name) " + sel("chatstack_excuse_info")
}

// availability is the share of the last 30 days, or of the recorded days, in which a target was up. It omits targets without a
// record in the last day.
func availability() string {
	recorded := sel("chatstack:target_up")
	return "(avg_over_time(" + recorded + "[" + budgetPeriod + "]) and last_over_time(" + recorded + "[1d]))"
}

// budget is the remaining share of the error budget, negative if it is overspent.
func budget() string { return "1 - (1 - " + availability() + ") / (1 - $slo / 100)" }

func (b *builder) overview() Dashboard {
	// While an engine cannot be read, only problems have a duration.
	down := combineContainers("max", sel("chatstack_container_down_seconds")+" unless "+sel("chatstack_container_calm_seconds")) + " > 0 or " + combineContainers("max", sel("chatstack_container_missing_seconds")) + " > 0"
	unhealthy := combineContainers("max", sel("chatstack_container_unhealthy_seconds"))
	runbook := DataLink{Title: "Runbook", URL: b.runbook("${__value.text}"), TargetBlank: true}
	containers := DataLink{Title: "The container", URL: "/d/" + Containers + "?${datasource:queryparam}&${cluster:queryparam}&${env:queryparam}&var-container=${__value.text}&${__url_time_range}"}
	severities := []Property{coloured(), {"mappings", []Mapping{{"value", map[string]Mapped{
		"critical": {Text: "critical", Color: critical}, "warning": {Text: "warning", Color: warning, Index: 1},
	}}}}}
	xmppMemory := sel("chatstack_container_memory_working_set_bytes") + " and on (cluster, container, docker_host, env) " +
		sel("chatstack_container_info", `role="xmpp"`)
	return b.dashboard(
		Overview, "overview", "Whether the chat stack works; if not, what is wrong, since when, and why.", "now-24h", []Variable{budgetVariable()},
		section{title: "Now", panels: []panel{
			stat("Critical alerts", "Firing alerts of the chat stack that page somebody.", query{firing("critical"), "critical"}).thresholds(criticalFrom(1)).emptyText(noRules),
			stat("Warnings", "Firing alerts of the chat stack that can wait for working hours.", query{firing("warning"), "warning"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText(noRules),
			stat("Targets down", "Targets whose last probe failed, at any exporter. Details are below; the status page says what to do.",
				query{countMatching(targetSuccess(), "== 0"), "down"}).thresholds(criticalFrom(1)).emptyText(noExporter),
			stat("Containers down", "Containers that should run but are down or missing. One-shot and one-off containers do not count.",
				query{perEnvironment("count", down) + " or 0 * " + perEnvironment("count", sel("chatstack_container_expected")), "down"}).thresholds(criticalFrom(1)).emptyText("no container engine is read"),
			stat("Containers unhealthy", "Containers whose own health check fails.",
				query{countMatching(unhealthy, "> 0"), "unhealthy"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText("no container engine is read"),
			stat("Error budget left", "The lowest error budget of all targets. The objective chosen above defines how much may fail in 30 days.",
				query{perEnvironment("min", budget()), "left"}).unit("percentunit").decimals(0).thresholds(badBelow(0, 0.25)).emptyText(noRecords),
		}},
		section{title: "Services", panels: []panel{
			table("Every target", "State of each target, how long it has been down, and whether its alert is held back. The reason is empty while the target is up. Pages: whether its alerts may page somebody.",
				[]column{{"target", "Target"}, {"A", "State"}, {"B", "Down for"}, {"reason", "Reason"}, {"E", "Held back"}, {"F", "HTTP status"}, {"kind", "Kind"}, {"G", "Pages"}, {"container", "Container"}},
				query{targetSuccess(), ""}, query{combine("max", sel("chatstack_target_down_seconds"), "kind") + " > 0", ""}, query{combine("max", sel("chatstack_probe_failing")), ""},
				// One exporter of a pair may not know the container.
				query{combineContainers("max", sel("chatstack_target_info", `container!=""`)) + " or on (cluster, env, target) " + combineContainers("max", sel("chatstack_target_info")), ""},
				query{combine("max", sel("chatstack_target_excused")) + " == 1", ""}, query{combine("max", sel("chatstack_probe_http_status_code")), ""},
				query{combine("max", sel("chatstack_target_pages")), ""}).
				field("Pages", textsFor(values(Mapped{Text: "no"}, Mapped{Text: "yes"}))).
				field("State", textsFor(upDown()), coloured(), colouredBy(goodAtOne())).
				field("Down for", inUnit("s")).field("Held back", textsFor(onlyYes())).
				field("Target", dataLinks(DataLink{Title: "Last probes on the status page", URL: "${status_page:raw}/debug/targets/${__value.text}", TargetBlank: true})).
				field("Container", dataLinks(containers)).
				emptyText(noExporter).size(14, 13),
			table("Firing alerts", "Firing alerts of the chat stack, without Watchdog, which always fires.",
				[]column{{"alertname", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"container", "Container"}, {"endpoint", "Endpoint"}, {"volume", "Volume"}, {"instance", "Exporter"}},
				query{"max without (job, node, pod, prometheus, prometheus_replica, replica, service) (" + selAlerts(`alertstate="firing"`, `alertname!="Watchdog"`) + ")", ""}).
				field("Alert", dataLinks(runbook)).field("Container", dataLinks(containers)).
				field("Severity", severities...).emptyText("no alert fires").size(10, 13),
			table("Other problems", "Problems other than being down, and how long they have lasted. An alert fires when a problem lasts longer than its threshold, unless it is held back.",
				[]column{{"alert", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"A", "For"}, {"B", "Held back"}},
				query{combine("max", sel("chatstack_problem_seconds")) + " > 0", ""}, query{combine("max", sel("chatstack_problem_excused")) + " == 1", ""}).
				field("Alert", dataLinks(runbook)).field("Severity", severities...).
				field("For", inUnit("s")).field("Held back", textsFor(onlyYes())).emptyText("nothing is wrong").size(12, 8),
			table("Held back", "Alerts that the exporter holds back, and why: maintenance, a dependency, the target's own container, or starting. Look at the container in Cause. Down for: how long the problem has lasted, if there is one.",
				[]column{{"kind", "Kind"}, {"name", "Name"}, {"docker_host", "Docker host"}, {"reason", "Reason"}, {"cause", "Cause"}, {"B", "Down for"}, {"alert", "Alert"}, {"of", "Part"}},
				query{heldBack(), ""}, query{heldBackFor(), ""}).field("Down for", inUnit("s")).emptyText("nothing is held back").size(12, 8),
			timeline("Targets over time", "State of each target. Gaps: the exporter was not scraped, or the target was not configured.",
				query{targetSuccess(), "{{target}}"}).thresholds(goodAtOne()).valueTexts(upDown()).emptyText(noExporter).size(24, 11),
		}},
		section{title: "Distance to the thresholds", panels: []panel{
			stat("Failed logins per minute", "Failed XMPP logins, as the alert counts them: the rate over the last two minutes.",
				query{perEnvironment("max", sel("chatstack:xmpp_auth_failures_per_minute")), "per minute"}).decimals(1).
				limits(overLimits).emptyText("no source, or rules not loaded: see XMPP"),
			stat("Next certificate to expire", "Time until the first certificate expires, in any server or file. One of a short life alerts later than its colour changes.",
				query{perEnvironment("min", sel("chatstack_tls_certificate_not_after_timestamp_seconds")) + " - time()", "left"}).unit("s").
				limits(secondsLeft).emptyText("no TLS target"),
			stat("Fullest volume", "Used share of the fullest volume, as df counts it.",
				query{perEnvironment("max", sel("chatstack_volume_used_ratio")), "used"}).unit("percentunit").decimals(0).limits(shareLimits).emptyText("no volume is configured"),
			stat("Most restarts in 10 minutes", "The highest count of any container, as the alert counts: without deploys and without excused restarts.",
				query{perEnvironment("max", sel("chatstack_container_recent_restarts")), "restarts"}).limits(countLimits).emptyText("no container engine is read"),
			stat("Memory of the XMPP server", "Working set of the container with the role xmpp.",
				query{perEnvironment("max", xmppMemory), "used"}).unit("decbytes").limits(overLimits).emptyText("no container has the role xmpp"),
			stat("Largest container", "Working set of the container that uses the most memory.",
				query{perEnvironment("max", sel("chatstack_container_memory_working_set_bytes")), "used"}).unit("decbytes").
				limits(criticalLimit).emptyText("no statistics of containers"),
		}},
		section{title: "Availability, 30 days", panels: []panel{
			table("Availability", "Share of the last 30 days, or of the recorded days, in which any exporter saw the target up. Unknown times do not count. Nor does maintenance, unless an alert fired before it. An error budget below 0 means that the objective was missed.",
				[]column{{"target", "Target"}, {"A", "Available"}, {"B", "Error budget left"}, {"C", "Measured for"}},
				query{availability(), ""}, query{budget(), ""},
				query{fmt.Sprintf("count_over_time(%s[%s]) * %.0f", sel("chatstack:target_up"), budgetPeriod, b.alerts.Interval.Std().Seconds()), ""}).
				field("Available", inUnit("percentunit"), Property{"decimals", 3}, colouredBy(badBelow(0.99, 0.999)), coloured()).
				field("Error budget left", inUnit("percentunit"), Property{"decimals", 0}, colouredBy(badBelow(0, 0.25)), coloured()).
				field("Measured for", inUnit("s")).emptyText(noRecords).size(12, 10),
			chart("Availability, hour by hour", "Share of the last hour in which each target was up.",
				query{"avg_over_time(" + sel("chatstack:target_up") + "[1h])", "{{target}}"}).unit("percentunit").upTo(1).emptyText(noRecords).size(12, 10),
		}},
	)
}
