// Package usage defines the resource usage of a container, whether measured by the engine or read from the kernel's files.
package usage

import "time"

// Usage is the resource usage of one container at one moment. The Has fields say which parts are known.
type Usage struct {
	WorkingSet, Limit     uint64 // in bytes; a Limit of 0 means none
	HasMemory             bool
	CPUSeconds            float64
	HasCPU                bool
	Received, Transmitted uint64 // in bytes
	HasNetwork            bool
}

// Subject is a running container to measure.
type Subject struct {
	ID    string
	PID   int
	Limit int64 // memory limit in bytes; 0 means none
	// Started is when the measured run began.
	Started time.Time
}

// InactiveFile is the file cache in memory.stat that the working set excludes.
type InactiveFile struct {
	// Total includes the groups below, like the usage of cgroup v1. cgroup v2 has only Own, which includes them.
	Total uint64
	Own   uint64
}

// WorkingSet returns the memory in use by the formula of the Docker CLI since 20.10: usage minus total_inactive_file on cgroup
// v1, minus inactive_file on v2, each only if it is smaller than usage.
// See https://docs.docker.com/reference/cli/docker/container/stats/.
func WorkingSet(usage uint64, cache InactiveFile) uint64 {
	for _, c := range []uint64{cache.Total, cache.Own} {
		if c > 0 && c < usage {
			return usage - c
		}
	}
	return usage
}
