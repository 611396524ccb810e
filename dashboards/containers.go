package dashboards

import (
	"fmt"
	"strings"
)

// notWell is what is wrong with each container, as a number, while something is.
func notWell() string {
	wrong := func(number int, state string) string {
		return fmt.Sprintf("%d * (%s > bool 0) > 0", number, selContainer("chatstack_container_"+state+"_seconds"))
	}
	return eachContainer("max", strings.Join([]string{wrong(4, "missing"), wrong(3, "removed"), wrong(2, "down"), wrong(1, "unhealthy")}, " or "))
}

func (b *book) restartLimits() Thresholds {
	r := b.alerts.ContainerRestarts
	return above(float64(r.Warning.Over)+1, float64(r.Critical.Over)+1)
}

func (b *book) containers() Dashboard {
	const (
		noEngine = "no container engine is read"
		noStats  = "the engine gives no statistics"
		most     = " Of each environment the 20 that have most; choose others above."
	)
	memory := b.alerts.ContainerMemory
	speed := func(counter string) string {
		return eachContainer("max", "rate("+selContainer(counter)+"[$__rate_interval])")
	}
	faults := []Mapping{{"value", map[string]Mapped{
		"1": {Text: "unhealthy", Color: warning}, "2": {Text: "down", Color: critical, Index: 1}, "3": {Text: "removed", Color: "blue", Index: 2}, "4": {Text: "missing", Color: "dark-red", Index: 3},
	}}}
	of := []column{{"docker_host", "Docker host"}, {"container", "Container"}}
	return b.dashboard(
		Containers, "containers", "Health, restarts and resources of every container.", "now-6h", containerVariables(),
		section{title: "Health", panels: []panel{
			table("Not well", "How long each container has been down, missing (or removed by somebody) or unhealthy, and whether its alerts are held back. Empty while all are well.",
				append(of, column{"A", "Down for"}, column{"B", "Missing for"}, column{"C", "Unhealthy for"}, column{"D", "Unhealthy since"}, column{"E", "Held back"}),
				query{lasting("chatstack_container_down_seconds"), ""}, query{lasting("chatstack_container_missing_seconds") + " or " + lasting("chatstack_container_removed_seconds"), ""}, query{lasting("chatstack_container_unhealthy_seconds"), ""},
				query{eachContainer("min", selContainer("chatstack_container_unhealthy_since_timestamp_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_excused")) + " == 1", ""}).
				field("Down for", inUnit("s")).field("Missing for", inUnit("s")).field("Unhealthy for", inUnit("s")).
				field("Unhealthy since", inUnit("dateTimeFromNow")).field("Held back", mapped(onlyYes())).none("every container is well").size(24, 8),
			b.guided(timeline("Not well over time", "Only containers that were down, missing, removed or unhealthy in the chosen time, and only while they were. All others were well, or their engine was not read.",
				query{notWell(), "{{container}}"}).limits(steps([]string{well, warning, critical, "blue", "dark-red"}, 1, 2, 3, 4)).maps(faults).none("every container was well, or no engine is read").size(24, 8), "ContainerDown"),
		}},
		section{title: "Restarts and deploys", panels: []panel{
			b.guided(chart("Restarts in 10 minutes", "As the alert counts them, with its thresholds: any is a warning, more than three are critical. Restarts that something else explains do not count.",
				query{eachContainer("max", selContainer("chatstack_container_recent_restarts")) + " > 0", "{{container}}"}).drawn(b.restartLimits()).none("no restarts").size(8, 8), "ContainerRestarts"),
			chart("Restarts and deploys", "Of each last hour: restarts by policy or by hand, and new containers under the same name.",
				query{eachContainer("max", lastHour(selContainer("chatstack_container_restarts_total"))), "{{container}}, restarts"},
				query{eachContainer("max", lastHour(selContainer("chatstack_container_recreations_total"))), "{{container}}, deploys"}).none("none in the last hour").size(8, 8),
			chart("Out of memory", "How often the kernel ended a process of the container for want of memory, in each last hour; and how often within the alert's window, while the container went on.",
				query{eachContainer("max", lastHour(selContainer("chatstack_container_oom_events_total"))), "{{container}}"},
				query{eachContainer("max", selContainer("chatstack_container_recent_oom_kills")) + " > 0", "{{container}}, went on"}).none("never in the last hour").size(8, 8),
		}},
		section{title: "Resources", panels: []panel{
			b.guided(chart("Memory", "Working set, the same number as in docker stats. The lines: over the first the XMPP server warns, over the second any container is critical."+most,
				query{largest(eachContainer("max", selContainer("chatstack_container_memory_working_set_bytes"))), "{{container}}"}).unit("decbytes").
				drawn(above(float64(memory.Warning.Over), float64(memory.Critical.Over))).none(noStats), "ContainerMemory"),
			chart("Memory against the container's limit", "Used part of what the container may use; at 1 the kernel ends a process. Containers without a limit are not here."+most,
				query{largest(eachContainer("max", selContainer("chatstack_container_memory_working_set_bytes")+" / "+selContainer("chatstack_container_memory_limit_bytes"))), "{{container}}"}).
				unit("percentunit").upTo(1).drawn(above(0.8, 0.95)).none("no container has a limit"),
			chart("CPU", "Processors that each container uses."+most,
				query{largest(speed("chatstack_container_cpu_seconds_total")), "{{container}}"}).unit("none").decimals(3).none(noStats),
			chart("Network", "Bytes per second: received above, sent below the axis. Containers on the host's network have none of their own."+most,
				query{largest(speed("chatstack_container_network_receive_bytes_total")), "{{container}}, received"},
				query{"-" + largest(speed("chatstack_container_network_transmit_bytes_total")), "{{container}}, sent"}).unit("Bps").none(noStats),
		}},
		section{title: "What there is", panels: []panel{
			table("Containers", "Every container, what it is for, its state, and since when it runs. The exit code of a stopped one: 0 is an orderly end, 137 was killed, often for want of memory.",
				append(of, column{"role", "Role"}, column{"image", "Image"}, column{"compose_project", "Project"}, column{"B", "Started"}, column{"C", "Created"}, column{"D", "Memory limit"}, column{"E", "Should run"}, column{"state", "State"}, column{"health", "Health"}, column{"H", "Exit code"}),
				query{eachContainer("max", selContainer("chatstack_container_info")), ""},
				query{eachContainer("max", selContainer("chatstack_container_start_time_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_created_timestamp_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_memory_limit_bytes")), ""},
				query{eachContainer("max", selContainer("chatstack_container_expected")), ""},
				query{eachContainer("max", selContainer("chatstack_container_state")) + " == 1", ""},
				query{eachContainer("max", selContainer("chatstack_container_health")) + " == 1", ""},
				query{eachContainer("max", selContainer("chatstack_container_exit_code")), ""}).
				field("Started", inUnit("dateTimeFromNow")).field("Created", inUnit("dateTimeFromNow")).field("Memory limit", inUnit("bytes")).
				field("Should run", mapped(values(Mapped{Text: "no"}, Mapped{Text: "yes"}))).none(noEngine),
			table("Dependencies", "Which container needs which: while the second is down, alerts on the first are held back.",
				append(of, column{"depends_on", "Needs"}), query{eachContainer("max", selContainer("chatstack_container_dependency")), ""}).none("no container needs another").size(8, 8),
			table("Maintenance", "Targets and containers under maintenance. The exporter holds back their alerts.",
				[]column{{"kind", "Kind"}, {"name", "Name"}}, query{each("max", sel("chatstack_maintenance")), ""}).none("nothing is under maintenance").size(8, 8),
			timeline("Engine", "Which parts of the engine's API are at hand: events, without which changes are seen at readings only, and stats.",
				query{each("min", sel("chatstack_docker_feature_available", `docker_host=~"$docker_host"`)), "{{docker_host}}, {{feature}}"}).limits(good()).maps(yesNo()).none(noEngine).size(8, 8),
		}}.folded(),
	)
}
