package collectors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
)

var (
	containerHealthDesc = readDesc("chatstack_container_health",
		"Whether the container has this health: none unless it is running and has a health check.", "container", "health", "docker_host")
	containerStateDesc = readDesc("chatstack_container_state",
		"Whether the container is in this state.", "container", "state", "docker_host")
	containerStartTimeDesc = readDesc("chatstack_container_start_time_seconds",
		"When the container was last started, in seconds since the epoch. Absent before its first start.", "container", "docker_host")
	containerExitCodeDesc = readDesc("chatstack_container_exit_code",
		"Exit code of the container's last run. Absent unless the container is stopped.", "container", "docker_host")
	containerUnhealthySinceDesc = readDesc("chatstack_container_unhealthy_since_timestamp_seconds",
		"When the container's health checks began to fail, in seconds since the epoch, "+
			"estimated from the failing streak and the interval. Absent unless the container is unhealthy.",
		"container", "docker_host")
	containerCreatedDesc = readDesc("chatstack_container_created_timestamp_seconds",
		"When the container was created, in seconds since the epoch; a deploy creates a new one under the same name.",
		"container", "docker_host")
	containerInfoDesc = readDesc("chatstack_container_info",
		"Role, compose project and service, and image of the container; always 1.",
		"container", "role", "compose_project", "compose_service", "image", "docker_host")
)

var (
	containerRestartsDesc = readDesc("chatstack_container_restarts_total",
		"Restarts of the container, by policy or by hand. Exact while the engine's events arrive; after a gap in them, a lower bound.",
		"container", "docker_host")
	containerRecreationsDesc = readDesc("chatstack_container_recreations_total",
		"New containers under the same name, for example after a deploy. They do not count as restarts.", "container", "docker_host")
	containerOOMEventsDesc = readDesc("chatstack_container_oom_events_total",
		"Processes of the container that the kernel killed because memory ran out.", "container", "docker_host")
	containerExpectedDesc = readDesc("chatstack_container_expected",
		"Whether the container should be running: 0 if it has finished its work, was never started, "+
			"waits for another container to start, is removed when it exits, or was removed and is not in the configuration.",
		"container", "docker_host")
	containerDependencyDesc = readDesc("chatstack_container_dependency",
		"1 if the container depends on another one, by compose's depends_on or by using its network. Absent otherwise.",
		"container", "depends_on", "docker_host")
)

var (
	containerWorkloadDesc = readDesc("chatstack_container_workload",
		"What the container is an instance of: Compose's project/service, the swarm service, the systemd unit, else its name; always 1.",
		"container", "workload", "docker_host")
	containerChatServerDesc = readDesc("chatstack_container_chat_server",
		"The server that the container and its workload are part of, for the label chat_server of the alerts; always 1.",
		"container", "workload", "chat_server", "docker_host")
	workloadRestartsDesc = readDesc("chatstack_workload_restarts_total",
		"Restarts of all instances that the workload has had. A new container that follows a failed one within a minute is a restart.",
		"workload", "docker_host")
	workloadRecreationsDesc = readDesc("chatstack_workload_recreations_total",
		"Instances that replaced another one, for example after a deploy. They do not count as restarts.", "workload", "docker_host")
	workloadInstancesDesc = readDesc("chatstack_workload_instances",
		"Instances of the workload that are running.", "workload", "docker_host")
	workloadWantedDesc = readDesc("chatstack_workload_wanted",
		"Instances of the workload that should run: as many as have run together for 10 minutes, less those that somebody has ended.",
		"workload", "docker_host")
)

// writeWorkload adds the metrics of a workload.
func writeWorkload(b *Batch, w *fleet.WorkloadReport, host string) {
	b.Counter(workloadRestartsDesc, float64(w.Restarts), w.Key, host)
	b.Counter(workloadRecreationsDesc, float64(w.Recreations), w.Key, host)
	b.Gauge(workloadInstancesDesc, float64(w.Instances), w.Key, host)
	b.Gauge(workloadWantedDesc, float64(w.Wanted), w.Key, host)
}

// writeReport adds the metrics of a container, apart from its usage.
func writeReport(b *Batch, r *fleet.Report) {
	if s := r.Status; s != nil {
		writeStatus(b, s, r.Host)
		b.Gauge(containerWorkloadDesc, 1, r.Name, r.Workload, r.Host)
		b.Gauge(containerExpectedDesc, boolValue(r.Expected), r.Name, r.Host)
		for _, other := range r.DependsOn {
			b.Gauge(containerDependencyDesc, 1, r.Name, other, r.Host)
		}
	}
	b.Counter(containerRestartsDesc, float64(r.Restarts), r.Name, r.Host)
	b.Counter(containerRecreationsDesc, float64(r.Recreations), r.Name, r.Host)
	b.Counter(containerOOMEventsDesc, float64(r.Kills), r.Name, r.Host)
}

func writeStatus(b *Batch, s *fleet.Status, host string) {
	for _, h := range fleet.Healths {
		b.Gauge(containerHealthDesc, boolValue(s.Health == h), s.Name, h, host)
	}
	for _, state := range fleet.States {
		b.Gauge(containerStateDesc, boolValue(s.State == state), s.Name, state, host)
	}
	if !s.Started.IsZero() {
		b.Gauge(containerStartTimeDesc, epochSeconds(s.Started), s.Name, host)
	}
	if s.Stopped {
		b.Gauge(containerExitCodeDesc, float64(s.ExitCode), s.Name, host)
	}
	if !s.UnhealthySince.IsZero() {
		b.Gauge(containerUnhealthySinceDesc, epochSeconds(s.UnhealthySince), s.Name, host)
	}
	if !s.Created.IsZero() {
		b.Gauge(containerCreatedDesc, epochSeconds(s.Created), s.Name, host)
	}
	b.Gauge(containerInfoDesc, 1, s.Name, s.Role, s.Project, s.Service, s.Image, host)
}

// epochSeconds converts a time to seconds since the epoch, to the millisecond.
func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

var (
	containerMemoryDesc = usageDesc("chatstack_container_memory_working_set_bytes",
		"Memory that the container uses in bytes, without file cache that the kernel can drop at once, as in docker stats.")
	containerMemoryLimitDesc = readDesc("chatstack_container_memory_limit_bytes",
		"Memory limit of the container in bytes. Absent if it has none of its own.", "container", "docker_host")
	containerCPUDesc = usageDesc("chatstack_container_cpu_seconds_total",
		"CPU time that the container has used since it started, in seconds.")
	containerReceiveDesc = usageDesc("chatstack_container_network_receive_bytes_total",
		"Bytes that the container has received on all its networks since it started. Absent if it uses the host's network or none.")
	containerTransmitDesc = usageDesc("chatstack_container_network_transmit_bytes_total",
		"Bytes that the container has sent on all its networks since it started. Absent if it uses the host's network or none.")
)

// usageDesc describes what a container uses, which the engine tells at every other poll.
func usageDesc(name, help string) *prometheus.Desc {
	help += " Up to one poll interval old, two if the engine is the source."
	return prometheus.NewDesc(name, help, []string{"container", "docker_host"}, nil)
}

func writeUsage(b *Batch, r *usage.Usage, name, host string) {
	if r.HasMemory {
		b.Gauge(containerMemoryDesc, float64(r.WorkingSet), name, host)
		if r.Limit > 0 {
			b.Gauge(containerMemoryLimitDesc, float64(r.Limit), name, host)
		}
	}
	if r.HasCPU {
		b.Counter(containerCPUDesc, r.CPUSeconds, name, host)
	}
	if r.HasNetwork {
		b.Counter(containerReceiveDesc, float64(r.Received), name, host)
		b.Counter(containerTransmitDesc, float64(r.Transmitted), name, host)
	}
}

// canonical returns host names in the spelling in which they are compared.
func canonical(names []string) []string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = exchange.CanonicalHost(name)
	}
	return list
}
