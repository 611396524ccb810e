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

// success is each target's last verdict.
func success(more ...string) string { return each("min", sel("chatstack_probe_success", more...)) }

// failing counts the series that meet a condition, and is 0, not empty, where there are series but none meets it.
func failing(series, condition string) string {
	return fmt.Sprintf("count(%s %s) or 0 * count(%s)", series, condition, series)
}

// firing counts the alerts of a severity. The one that always fires tells that there are rules.
func firing(severity string) string {
	return fmt.Sprintf(`count(max without (prometheus, prometheus_replica, replica) (ALERTS{alertstate="firing",severity=%q})) or 0 * count(ALERTS{alertname="Watchdog",alertstate="firing"})`, severity)
}

// lasting is how long something has been wrong with containers, where something is.
func lasting(metric string) string { return eachContainer("max", selContainer(metric)) + " > 0" }

// heldBack are all alerts that the exporter holds back, in one list: those on targets and containers with the reason and the cause,
// those on anything else with their names.
func heldBack() string {
	list := []string{eachContainer("max", sel("chatstack_excuse_info"))}
	add := func(series, kind, from string) {
		list = append(list, fmt.Sprintf(`label_replace(label_replace(%s == 1, "name", "$1", %q, "(.+)"), "kind", %q, "", "")`, series, from, kind))
	}
	add(each("max", sel("chatstack_problem_excused")), "target", "target")
	add(eachEndpoint("max", sel("chatstack_tls_certificate_excused")), "certificate", "endpoint")
	add(each("max", sel("chatstack_volume_excused")), "volume", "volume")
	add(each("max", sel("chatstack_xmpp_auth_failures_excused")), "failed logins", "")
	return strings.Join(list, " or ")
}

// availability is the part of the last 30 days, or of as many as there are, in which each target that there still is
// answered. All readings count alike, whoever made them: an exporter that lived for an hour decides nothing.
func availability() string {
	window := "(" + sel("chatstack_probe_success") + "[" + month + "])"
	return "(" + each("sum", "sum_over_time"+window) + " / " + each("sum", "count_over_time"+window) + " and " + success() + ")"
}

// budget is the part of the error budget that is left: below 0 where more was used than there is.
func budget() string { return "1 - (1 - " + availability() + ") / (1 - $slo / 100)" }

func (b *book) overview() Dashboard {
	a := b.alerts
	// While an engine cannot be read, only what is wrong has a duration.
	down := eachContainer("max", sel("chatstack_container_down_seconds")) + " > 0 or " + eachContainer("max", sel("chatstack_container_missing_seconds")) + " > 0"
	unhealthy := eachContainer("max", sel("chatstack_container_unhealthy_seconds"))
	runbook := DataLink{Title: "Runbook", URL: b.runbook("${__value.text}"), TargetBlank: true}
	severities := []Property{coloured(), {"mappings", []Mapping{{"value", map[string]Mapped{
		"critical": {Text: "critical", Color: critical}, "warning": {Text: "warning", Color: warning, Index: 1}, "none": {Text: "none", Color: unknown, Index: 2},
	}}}}}
	memory := a.ContainerMemory
	xmppMemory := eachContainer("max", sel("chatstack_container_memory_working_set_bytes")) + " and on (docker_host, container) " +
		sel("chatstack_container_info", `role="xmpp"`)
	return b.dashboard(
		Overview, "overview", "Is the chat all right, and if not, since when and why.", "now-24h", []Variable{budgetVariable()},
		section{"Now", []panel{
			b.guided(stat("Targets down", "Targets whose last reading failed. Details below, in plain words on the status page.",
				query{failing(success(), "== 0"), "down"}).limits(critically(1)).none(noExporter), "TargetDown"),
			b.guided(stat("Containers down", "Containers that should run and do not, or do not exist. One-shot and one-off containers do not count.",
				query{"count(" + down + ") or 0 * count(" + sel("chatstack_container_expected") + ")", "down"}).limits(critically(1)).none("no container engine is read"), "ContainerDown"),
			b.guided(stat("Containers unhealthy", "Containers whose own health check fails.",
				query{failing(unhealthy, "> 0"), "unhealthy"}).limits(steps([]string{well, warning}, 1)).none("no container engine is read"), "ContainerUnhealthy"),
			stat("Critical alerts", "Alerts that fire now and page somebody.", query{firing("critical"), "critical"}).limits(critically(1)).none(noRules),
			stat("Warnings", "Alerts that fire now and can wait for the day.", query{firing("warning"), "warning"}).limits(steps([]string{well, warning}, 1)).none(noRules),
			stat("Error budget left", "Of the target that has the least of it left. The budget is what the objective chosen above allows to fail in 30 days.",
				query{"min(" + budget() + ")", "left"}).unit("percentunit").decimals(0).limits(below(0, 0.25)).none(noExporter),
		}},
		section{"Services", []panel{
			table("Every target", "State of each target, how long it has been down, and whether its alert is held back. The reason is empty while it is up.",
				[]column{{"target", "Target"}, {"A", "State"}, {"B", "Down for"}, {"reason", "Reason"}, {"E", "Held back"}, {"kind", "Kind"}, {"container", "Container"}},
				query{success(), ""}, query{each("max", sel("chatstack_target_down_seconds")) + " > 0", ""}, query{each("max", sel("chatstack_probe_failing")), ""},
				query{eachContainer("max", sel("chatstack_target_info")), ""}, query{each("max", sel("chatstack_target_excused")) + " == 1", ""}).
				field("State", mapped(upDown()), coloured(), within(good())).
				field("Down for", inUnit("s")).field("Held back", mapped(onlyYes())).
				field("Target", leadsTo(DataLink{Title: "Last readings on the status page", URL: "${status_page:raw}/debug/targets/${__value.text}", TargetBlank: true})).
				none(noExporter).size(14, 13),
			table("Firing alerts", "Alerts that fire now, in any rule group of this Prometheus. Watchdog always fires: it shows that alerting works.",
				[]column{{"alertname", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"container", "Container"}, {"endpoint", "Endpoint"}, {"volume", "Volume"}},
				query{`max without (instance, job, pod, node, service, prometheus, prometheus_replica) (ALERTS{alertstate="firing"})`, ""}).
				field("Alert", leadsTo(runbook)).
				field("Severity", severities...).none(noRules).size(10, 13),
			table("Problems of targets", "What is wrong with targets besides being down, and for how long. An alert fires once that is longer than its threshold, unless it is held back.",
				[]column{{"alert", "Alert"}, {"severity", "Severity"}, {"target", "Target"}, {"of", "Part"}, {"A", "For"}, {"B", "Held back"}},
				query{each("max", sel("chatstack_problem_seconds")) + " > 0", ""}, query{each("max", sel("chatstack_problem_excused")) + " == 1", ""}).
				field("Alert", leadsTo(runbook)).field("Severity", severities...).
				field("For", inUnit("s")).field("Held back", mapped(onlyYes())).none("nothing is wrong").size(12, 8),
			table("Held back", "Alerts that the exporter holds back, and why: maintenance, something that it depends on, its own container, or it is starting. The cause is the container to look at.",
				[]column{{"kind", "Kind"}, {"name", "Name"}, {"docker_host", "Docker host"}, {"reason", "Reason"}, {"cause", "Cause"}, {"alert", "Alert"}, {"of", "Part"}},
				query{heldBack(), ""}).none("nothing is held back").size(12, 8),
			timeline("Targets over time", "Each target's state. Gaps: the exporter was not scraped, or the target is no longer configured.",
				query{success(), "{{target}}"}).limits(good()).maps(upDown()).none(noExporter).size(24, 11),
		}},
		section{"Against the thresholds", []panel{
			b.guided(stat("Failed logins per minute", "At the XMPP server, as the alert sees them: the rate of the last two minutes.",
				query{"max(chatstack:xmpp_auth_failures_per_minute)", "per minute"}).decimals(1).
				limits(above(float64(a.XMPPAuthFailureRate.Warning.Over), float64(a.XMPPAuthFailureRate.Critical.Over))).none("no source, or rules not loaded: see XMPP"), "XMPPAuthFailureRate"),
			b.guided(stat("First certificate to end", "Time left of the certificate that ends first, of all servers and files.",
				query{"min(" + eachEndpoint("min", sel("chatstack_tls_certificate_not_after_timestamp_seconds")) + ") - time()", "left"}).unit("s").
				limits(below(a.TLSCertificateExpiry.Critical.Under.Std().Seconds(), a.TLSCertificateExpiry.Warning.Under.Std().Seconds())).none("no TLS target"), "TLSCertificateExpiry"),
			b.guided(stat("Fullest volume", "Used part of the volume that is fullest, as df counts it.",
				query{"max(" + volumeUsage() + ")", "used"}).unit("percentunit").decimals(0).limits(b.volumeLimits()).none("no volume is configured"), "DataVolumeUsage"),
			b.guided(stat("Most restarts in 10 minutes", "Of one container, as the alert counts them: without deploys, and without those that something else explains.",
				query{"max(" + eachContainer("max", sel("chatstack_container_recent_restarts")) + ")", "restarts"}).limits(b.restartLimits()).none("no container engine is read"), "ContainerRestarts"),
			b.guided(stat("Memory of the XMPP server", "Working set of the container with the role xmpp.",
				query{"max(" + xmppMemory + ")", "used"}).unit("decbytes").limits(above(float64(memory.Warning.Over), float64(memory.Critical.Over))).none("no container has the role xmpp"), "ContainerMemory"),
			b.guided(stat("Largest container", "Working set of the container that uses most memory.",
				query{"max(" + eachContainer("max", sel("chatstack_container_memory_working_set_bytes")) + ")", "used"}).unit("decbytes").
				limits(critically(float64(memory.Critical.Over))).none("no statistics of containers"), "ContainerMemory"),
		}},
		section{"Error budget, 30 days", []panel{
			bars("Availability", "The part of the last 30 days, or of as many as are stored, in which readings of each target succeeded, of all exporters together.",
				query{availability(), "{{target}}"}).unit("percentunit").decimals(2).upTo(1).limits(below(0.99, 0.999)).none(noExporter).size(8, 10),
			bars("Error budget left", "What is left of what the objective allows to fail. Below 0 the promise is broken.",
				query{budget(), "{{target}}"}).unit("percentunit").decimals(0).upTo(1).limits(below(0, 0.25)).none(noExporter).size(8, 10),
			chart("Availability, hour by hour", "The part of each last hour in which readings succeeded, as recorded by chatstack.recording.yml.",
				query{"chatstack:probe_success:ratio1h", "{{target}}"}).unit("percentunit").upTo(1).none(noRecords).size(8, 10),
		}},
	)
}
