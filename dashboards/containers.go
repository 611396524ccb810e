package dashboards

import (
	"fmt"
	"strings"
)

// coded gives each state of a set a number, so that a timeline can show them: the number of the one that holds.
func coded(metric, label string, states ...string) string {
	parts := make([]string, len(states))
	for i, state := range states {
		parts[i] = fmt.Sprintf("%d * (%s == 1)", i, selContainer(metric, fmt.Sprintf("%s=%q", label, state)))
	}
	return eachContainer("max", strings.Join(parts, " or "), label)
}

func (b *book) restartLimits() Thresholds {
	r := b.alerts.ContainerRestarts
	return above(float64(r.Warning.Over)+1, float64(r.Critical.Over)+1)
}

func (b *book) containers() Dashboard {
	const (
		noEngine  = "no container engine is read"
		noStats   = "the engine gives no statistics"
		chosen    = `{docker_host=~"$docker_host",container=~"$container"}`
		noneSoFar = "none: no container has stopped"
	)
	memory := b.alerts.ContainerMemory
	speed := func(counter string) string {
		return eachContainer("max", "rate("+selContainer(counter)+"[$__rate_interval])")
	}
	healths := values(Mapped{Text: "none", Color: unknown}, Mapped{Text: "healthy", Color: well}, Mapped{Text: "starting", Color: "blue"}, Mapped{Text: "unhealthy", Color: critical})
	states := values(
		Mapped{Text: "created", Color: unknown}, Mapped{Text: "running", Color: well}, Mapped{Text: "paused", Color: "blue"}, Mapped{Text: "restarting", Color: warning},
		Mapped{Text: "removing", Color: warning}, Mapped{Text: "exited", Color: critical}, Mapped{Text: "dead", Color: critical}, Mapped{Text: "missing", Color: "dark-red"},
	)
	of := []column{{"docker_host", "Docker host"}, {"container", "Container"}}
	return b.dashboard(
		Containers, "containers", "Health, restarts and resources of every container.", "now-6h", containerVariables(),
		section{"Health", []panel{
			b.guided(timeline("Health", "What each container's own health check says; none where it has no check, or does not run.",
				query{coded("chatstack_container_health", "health", "none", "healthy", "starting", "unhealthy"), "{{container}}"}).
				limits(steps([]string{unknown, well, "blue", critical}, 1, 2, 3)).maps(healths).none(noEngine), "ContainerUnhealthy"),
			b.guided(timeline("State", "What the engine says of each container; missing is one that was there, or is expected.",
				query{coded("chatstack_container_state", "state", "created", "running", "paused", "restarting", "removing", "exited", "dead", "missing"), "{{container}}"}).
				limits(steps([]string{unknown, well, "blue", warning, critical}, 1, 2, 3, 5)).maps(states).none(noEngine), "ContainerDown"),
			table("Not well", "How long each container has been down, missing (or removed by somebody) or unhealthy, and whether its alerts are held back. Empty while all are well.",
				append(of, column{"A", "Down for"}, column{"B", "Missing for"}, column{"C", "Unhealthy for"}, column{"D", "Unhealthy since"}, column{"E", "Held back"}),
				query{lasting("chatstack_container_down_seconds"), ""}, query{lasting("chatstack_container_missing_seconds") + " or " + lasting("chatstack_container_removed_seconds"), ""}, query{lasting("chatstack_container_unhealthy_seconds"), ""},
				query{eachContainer("min", selContainer("chatstack_container_unhealthy_since_timestamp_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_excused")) + " == 1", ""}).
				field("Down for", inUnit("s")).field("Missing for", inUnit("s")).field("Unhealthy for", inUnit("s")).
				field("Unhealthy since", inUnit("dateTimeFromNow")).field("Held back", mapped(onlyYes())).none("every container is well").size(24, 8),
			table("Exit codes", "What stopped containers ended with: 0 is an orderly end, 137 was killed, often for want of memory.",
				append(of, column{"A", "Exit code"}), query{eachContainer("max", selContainer("chatstack_container_exit_code")), ""}).none(noneSoFar).size(12, 8),
			table("Maintenance", "Targets and containers under maintenance. The exporter holds back their alerts.",
				[]column{{"kind", "Kind"}, {"name", "Name"}}, query{each("max", sel("chatstack_maintenance")), ""}).none("nothing is under maintenance").size(12, 8),
		}},
		section{"Restarts and deploys", []panel{
			b.guided(chart("Restarts in 10 minutes", "As the alert counts them, with its thresholds: any is a warning, more than three are critical. Restarts that something else explains do not count.",
				query{eachContainer("max", selContainer("chatstack_container_recent_restarts")), "{{container}}"}).drawn(b.restartLimits()).none(noEngine).size(8, 8), "ContainerRestarts"),
			chart("Restarts and deploys", "Restarts by policy or by hand, and new containers under the same name, since the exporter has known the container.",
				query{eachContainer("max", selContainer("chatstack_container_restarts_total")), "{{container}}, restarts"},
				query{eachContainer("max", selContainer("chatstack_container_recreations_total")), "{{container}}, deploys"}).none(noEngine).size(8, 8),
			chart("Out of memory", "How often the kernel ended a process of the container for want of memory.",
				query{eachContainer("max", selContainer("chatstack_container_oom_events_total")), "{{container}}"}).none(noEngine).size(8, 8),
		}},
		section{"Resources", []panel{
			b.guided(chart("Memory", "Working set, the same number as in docker stats. The lines: over the first the XMPP server warns, over the second any container is critical.",
				query{eachContainer("max", selContainer("chatstack_container_memory_working_set_bytes")), "{{container}}"}).unit("decbytes").
				drawn(above(float64(memory.Warning.Over), float64(memory.Critical.Over))).none(noStats), "ContainerMemory"),
			chart("Memory against the container's limit", "Used part of what the container may use; at 1 the kernel ends a process. Containers without a limit are not here. Recorded, for the last one the limits themselves.",
				query{"chatstack:container_memory_used:ratio" + chosen, "{{container}}"}).unit("percentunit").upTo(1).drawn(above(0.8, 0.95)).none("no container has a limit, or " + noRecords),
			chart("CPU", "Processors that each container uses, and smoothed over five minutes.",
				query{speed("chatstack_container_cpu_seconds_total"), "{{container}}"}, query{"chatstack:container_cpu:rate5m" + chosen, "{{container}}, 5 minutes"}).unit("none").decimals(3).none(noStats),
			chart("Network", "Bytes per second: received above, sent below the axis. Containers on the host's network have none of their own.",
				query{speed("chatstack_container_network_receive_bytes_total"), "{{container}}, received"},
				query{"-" + speed("chatstack_container_network_transmit_bytes_total"), "{{container}}, sent"}).unit("Bps").none(noStats),
		}},
		section{"What there is", []panel{
			table("Containers", "Every container, what it is for and since when it runs.",
				append(of, column{"role", "Role"}, column{"image", "Image"}, column{"compose_project", "Project"}, column{"B", "Started"}, column{"C", "Created"}, column{"D", "Memory limit"}, column{"E", "Should run"}),
				query{eachContainer("max", selContainer("chatstack_container_info")), ""},
				query{eachContainer("max", selContainer("chatstack_container_start_time_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_created_timestamp_seconds")) + " * 1000", ""},
				query{eachContainer("max", selContainer("chatstack_container_memory_limit_bytes")), ""},
				query{eachContainer("max", selContainer("chatstack_container_expected")), ""}).
				field("Started", inUnit("dateTimeFromNow")).field("Created", inUnit("dateTimeFromNow")).field("Memory limit", inUnit("bytes")).
				field("Should run", mapped(values(Mapped{Text: "no"}, Mapped{Text: "yes"}))).none(noEngine),
			table("Dependencies", "Which container needs which: while the second is down, alerts on the first are held back.",
				append(of, column{"depends_on", "Needs"}), query{eachContainer("max", selContainer("chatstack_container_dependency")), ""}).none("no container needs another").size(12, 8),
			timeline("Engine", "Which parts of the engine's API are at hand: events, without which changes are seen at readings only, and stats.",
				query{each("min", sel("chatstack_docker_feature_available", `docker_host=~"$docker_host"`)), "{{docker_host}}, {{feature}}"}).limits(good()).maps(yesNo()).none(noEngine).size(12, 8),
		}},
	)
}
