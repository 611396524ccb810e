package dashboards

import (
	"fmt"
	"strings"
)

// containerProblems is the worst problem of each container as a number, and absent without one.
func containerProblems() string {
	wrong := func(number int, state string) string {
		return fmt.Sprintf("%d * (%s > bool 0) > 0", number, selContainer("chatstack_container_"+state+"_seconds"))
	}
	calm := selContainer("chatstack_container_calm_seconds")
	return combineContainers("max", strings.Join([]string{wrong(4, "missing"), wrong(3, "removed"), wrong(2, "down") + " unless " + calm, wrong(1, "unhealthy")}, " or "))
}

func (b *builder) containers() Dashboard {
	const (
		noEngine = "no container engine is read"
		noStats  = "the engine gives no statistics"
		most     = " Shows the top 20 of each environment; choose others above."
	)
	speed := func(counter string) string {
		return combineContainers("max", "rate("+selContainer(counter)+"[$__rate_interval])")
	}
	workload := func(metric string) string { return sel("chatstack_workload_"+metric, `docker_host=~"$docker_host"`) }
	faults := []Mapping{{"value", map[string]Mapped{
		"1": {Text: "unhealthy", Color: warning}, "2": {Text: "down", Color: critical, Index: 1}, "3": {Text: "removed", Color: "blue", Index: 2}, "4": {Text: "missing", Color: "dark-red", Index: 3},
	}}}
	of := []column{{"docker_host", "Docker host"}, {"container", "Container"}}
	// either is the legend of what is judged: a container, or a workload that has had several instances.
	const either = "{{container}}{{workload}}"
	return b.dashboard(
		Containers, "containers", "Health, restarts and resources of every container.", "now-6h", containerVariables(),
		section{title: "Health", panels: []panel{
			table("Container problems", "How long each container has been down, missing, removed or unhealthy, and whether its alerts are held back. Empty while all containers are healthy.",
				append(of, column{"workload", "Workload"}, column{"A", "Down for"}, column{"B", "Missing for"}, column{"C", "Unhealthy for"}, column{"D", "Unhealthy since"}, column{"E", "Held back"}),
				query{positiveSeconds("chatstack_container_down_seconds"), ""}, query{positiveSeconds("chatstack_container_missing_seconds") + " or " + positiveSeconds("chatstack_container_removed_seconds"), ""}, query{positiveSeconds("chatstack_container_unhealthy_seconds"), ""},
				query{combineContainers("min", selContainer("chatstack_container_unhealthy_since_timestamp_seconds")) + " * 1000", ""},
				query{combineContainers("max", selContainer("chatstack_container_excused")) + " == 1", ""}).
				field("Down for", inUnit("s")).field("Missing for", inUnit("s")).field("Unhealthy for", inUnit("s")).
				field("Unhealthy since", inUnit("dateTimeFromNow")).field("Held back", textsFor(onlyYes())).emptyText("every container is healthy").size(24, 8),
			timeline("Container problems over time", "Only the times in which a container was down, missing, removed or unhealthy. All others were healthy, or their engine could not be read.",
				query{containerProblems(), either}).thresholds(steps([]string{healthy, warning, critical, "blue", "dark-red"}, 1, 2, 3, 4)).valueTexts(faults).emptyText("every container was healthy, or no engine is read").size(24, 8),
		}},
		section{title: "Restarts and deploys", panels: []panel{
			chart("Restarts in 10 minutes", "As the alert counts them, with its thresholds: one is a warning, more than three are critical. Excused restarts do not count.",
				query{combineContainers("max", selContainer("chatstack_container_recent_restarts")) + " > 0", either}).limitLines(countLimits).emptyText("no restarts").size(8, 8),
			chart("Restarts and deploys", "In the last hour: restarts by policy or by hand, and deploys (new containers under the same name).",
				query{combineContainers("max", increaseLastHour(selContainer("chatstack_container_restarts_total"))), "{{container}}, restarts"},
				query{combineContainers("max", increaseLastHour(selContainer("chatstack_container_recreations_total"))), "{{container}}, deploys"}).emptyText("none in the last hour").size(8, 8),
			chart("Out of memory", "Out-of-memory kills in the last hour. Survived: kills within the alert's window after which the container still runs.",
				query{combineContainers("max", increaseLastHour(selContainer("chatstack_container_oom_events_total"))), "{{container}}"},
				query{combineContainers("max", selContainer("chatstack_container_recent_oom_kills")) + " > 0", either + ", survived"}).emptyText("never in the last hour").size(8, 8),
		}},
		section{title: "Resources", panels: []panel{
			chart("Memory", "Working set, as in docker stats. The lines are thresholds: a warning for the XMPP server, critical for any container."+most,
				query{top20(combineContainers("max", selContainer("chatstack_container_memory_working_set_bytes"))), "{{container}}"}).unit("decbytes").
				limitLines(overLimits).emptyText(noStats),
			chart("Memory against the container's limit", "Used share of the container's memory limit; at 100 % the kernel kills a process. Containers without a limit are not shown."+most,
				query{top20(combineContainers("max", selContainer("chatstack_container_memory_working_set_bytes")+" / "+selContainer("chatstack_container_memory_limit_bytes"))), "{{container}}"}).
				unit("percentunit").upTo(1).thresholdLines(badAbove(0.8, 0.95)).emptyText("no container has a limit"),
			chart("CPU", "CPU cores that each container uses."+most,
				query{top20(speed("chatstack_container_cpu_seconds_total")), "{{container}}"}).unit("none").decimals(3).emptyText(noStats),
			chart("Network", "Bytes per second: received above the axis, sent below. Containers on the host's network have no counters."+most,
				query{top20(speed("chatstack_container_network_receive_bytes_total")), "{{container}}, received"},
				query{"-" + top20(speed("chatstack_container_network_transmit_bytes_total")), "{{container}}, sent"}).unit("Bps").emptyText(noStats),
		}},
		section{title: "Inventory", panels: []panel{
			table("Containers", "Every container: role, image, state and start time. Exit codes of stopped containers: 0 is a clean exit; 137 means killed, often out of memory.",
				append(of, column{"role", "Role"}, column{"image", "Image"}, column{"compose_project", "Project"}, column{"B", "Started"}, column{"C", "Created"}, column{"D", "Memory limit"}, column{"E", "Should run"}, column{"state", "State"}, column{"health", "Health"}, column{"H", "Exit code"}),
				query{combineContainers("max", selContainer("chatstack_container_info")), ""},
				query{combineContainers("max", selContainer("chatstack_container_start_time_seconds")) + " * 1000", ""},
				query{combineContainers("max", selContainer("chatstack_container_created_timestamp_seconds")) + " * 1000", ""},
				query{combineContainers("max", selContainer("chatstack_container_memory_limit_bytes")), ""},
				query{combineContainers("max", selContainer("chatstack_container_expected")), ""},
				query{combineContainers("max", selContainer("chatstack_container_state")) + " == 1", ""},
				query{combineContainers("max", selContainer("chatstack_container_health")) + " == 1", ""},
				query{combineContainers("max", selContainer("chatstack_container_exit_code")), ""}).
				field("Started", inUnit("dateTimeFromNow")).field("Created", inUnit("dateTimeFromNow")).field("Memory limit", inUnit("bytes")).
				field("Should run", textsFor(values(Mapped{Text: "no"}, Mapped{Text: "yes"}))).emptyText(noEngine),
			table("Workloads", "Services, whatever their containers are called: how many instances run, how many should, and the restarts and deploys of the last hour.",
				[]column{{"docker_host", "Docker host"}, {"workload", "Workload"}, {"A", "Run"}, {"B", "Should run"}, {"C", "Too few for"}, {"D", "Restarts"}, {"E", "Deploys"}},
				query{combine("max", workload("instances")), ""}, query{combine("max", workload("wanted")), ""}, query{combine("max", workload("down_seconds")) + " > 0", ""},
				query{combine("max", increaseLastHour(workload("restarts_total"))), ""}, query{combine("max", increaseLastHour(workload("recreations_total"))), ""}).
				field("Too few for", inUnit("s")).emptyText(noEngine),
			table("Dependencies", "Which container needs which. While the needed container is down, alerts on the other are held back.",
				append(of, column{"depends_on", "Needs"}), query{combineContainers("max", selContainer("chatstack_container_dependency")), ""}).emptyText("no container needs another").size(8, 8),
			table("Maintenance", "Targets and containers whose alerts the exporter holds back for maintenance.",
				[]column{{"kind", "Kind"}, {"name", "Name"}}, query{combine("max", sel("chatstack_maintenance")), ""}).emptyText("nothing is under maintenance").size(8, 8),
			timeline("Docker Engine API", "Whether optional parts of the engine's API are available: events and stats. Without events, the exporter sees changes only when it probes.",
				query{combine("min", sel("chatstack_docker_feature_available", `docker_host=~"$docker_host"`)), "{{docker_host}}, {{feature}}"}).thresholds(goodAtOne()).valueTexts(yesNo()).emptyText(noEngine).size(8, 8),
		}}.folded(),
	)
}
