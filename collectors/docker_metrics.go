package collectors

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var (
	containerHealthDesc = prometheus.NewDesc("chatstack_container_health",
		"Whether the container's health is this one. It is none unless the container runs and has a health check.",
		[]string{"container", "health", "docker_host"}, nil)
	containerStateDesc = prometheus.NewDesc("chatstack_container_state",
		"Whether the container's state is this one.",
		[]string{"container", "state", "docker_host"}, nil)
	containerStartTimeDesc = prometheus.NewDesc("chatstack_container_start_time_seconds",
		"When the container was last started, in seconds since the epoch. Absent before its first start.",
		[]string{"container", "docker_host"}, nil)
	containerExitCodeDesc = prometheus.NewDesc("chatstack_container_exit_code",
		"Exit code of the container's last run, while it is stopped.",
		[]string{"container", "docker_host"}, nil)
	containerUnhealthySinceDesc = prometheus.NewDesc("chatstack_container_unhealthy_since_timestamp_seconds",
		"When the container's health checks began to fail, while it is unhealthy: estimated from the failing streak and the interval, never later than the oldest failing check that the engine keeps.",
		[]string{"container", "docker_host"}, nil)
	containerCreatedDesc = prometheus.NewDesc("chatstack_container_created_timestamp_seconds",
		"When the container was made; a deploy makes a new one under the same name.",
		[]string{"container", "docker_host"}, nil)
	containerInfoDesc = prometheus.NewDesc("chatstack_container_info",
		"What the container is for and what it was made of.",
		[]string{"container", "role", "compose_project", "compose_service", "image", "docker_host"}, nil)
)

var (
	containerRestartsDesc = prometheus.NewDesc("chatstack_container_restarts_total",
		"Restarts of the container, by policy or by hand. Exact while the engine's events flow; after a gap the larger of the policy's own count and one if the container was started anew.",
		[]string{"container", "docker_host"}, nil)
	containerRecreationsDesc = prometheus.NewDesc("chatstack_container_recreations_total",
		"New containers under the same name, as a deploy makes them. They are no restarts.",
		[]string{"container", "docker_host"}, nil)
	containerOOMEventsDesc = prometheus.NewDesc("chatstack_container_oom_events_total",
		"How often the kernel has ended a process of the container for want of memory.",
		[]string{"container", "docker_host"}, nil)
	containerExpectedDesc = prometheus.NewDesc("chatstack_container_expected",
		"Whether the container should be running: 0 for one that has done its work, was never started, waits for one that is starting, is thrown away when it ends, or was removed by somebody and is not named by the configuration.",
		[]string{"container", "docker_host"}, nil)
	containerDependencyDesc = prometheus.NewDesc("chatstack_container_dependency",
		"1 where the container needs another one: by compose's depends_on, or because it uses its network.",
		[]string{"container", "depends_on", "docker_host"}, nil)
)

// writeReports adds what is known of containers. Host is the value of docker_host. The reports are in the order of the page.
func writeReports(b *Batch, reports []fleet.Report, host string) {
	for i := range reports {
		r := &reports[i]
		if r.Status != nil {
			writeStatus(b, r.Status, host)
			b.Gauge(containerExpectedDesc, boolValue(r.Expected), r.Name, host)
			for _, other := range r.DependsOn {
				b.Gauge(containerDependencyDesc, 1, r.Name, other, host)
			}
		}
		b.Counter(containerRestartsDesc, float64(r.Counts.Restarts), r.Name, host)
		b.Counter(containerRecreationsDesc, float64(r.Counts.Recreations), r.Name, host)
		b.Counter(containerOOMEventsDesc, float64(r.Counts.OOMs), r.Name, host)
	}
}

// containerFacts are what the judgement needs of the containers that exist or are missing.
func containerFacts(reports []fleet.Report, host string) []health.Container {
	facts := make([]health.Container, 0, len(reports))
	for i := range reports {
		r := &reports[i]
		if r.Status == nil {
			continue
		}
		facts = append(facts, health.Container{
			Host: host, Name: r.Name, HostNames: r.HostNames, Role: r.Status.Role, Proxy: fleet.IsProxy(r.Status.Image), State: r.Status.State, Health: r.Status.Health, Expected: r.Expected, WaitsFor: r.WaitsFor,
			DependsOn: r.DependsOn, Restarts: r.Counts.Restarts, Kills: r.Counts.OOMs, DownFor: r.DownFor, UnhealthyFor: r.UnhealthyFor,
		})
	}
	return facts
}

// writeStatus adds the container's metrics. host is the value of docker_host.
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

// epochSeconds is a time as Prometheus wants it, to the millisecond as its own timestamps are.
func epochSeconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }

var (
	containerMemoryDesc = prometheus.NewDesc("chatstack_container_memory_working_set_bytes",
		"Memory that the container uses, without file cache that the kernel may drop at once: the same number as in docker stats.",
		[]string{"container", "docker_host"}, nil)
	containerMemoryLimitDesc = prometheus.NewDesc("chatstack_container_memory_limit_bytes",
		"Memory that the container may use. Absent where it has no limit of its own.",
		[]string{"container", "docker_host"}, nil)
	containerCPUDesc = prometheus.NewDesc("chatstack_container_cpu_seconds_total",
		"CPU time that the container has used since it was started.",
		[]string{"container", "docker_host"}, nil)
	containerReceiveDesc = prometheus.NewDesc("chatstack_container_network_receive_bytes_total",
		"Bytes that the container has received over all of its networks since it was started. Absent on the host's network.",
		[]string{"container", "docker_host"}, nil)
	containerTransmitDesc = prometheus.NewDesc("chatstack_container_network_transmit_bytes_total",
		"Bytes that the container has sent over all of its networks since it was started. Absent on the host's network.",
		[]string{"container", "docker_host"}, nil)
)

// writeUsage adds the metrics of what is known.
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
