package collectors

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

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
