// Package usage says what a container uses of its machine, whether the engine or the kernel's files counted it.
package usage

import "time"

// Usage is what one container used at one moment. The Has fields say which parts are known.
type Usage struct {
	WorkingSet, Limit     uint64 // in bytes; a Limit of 0 is none
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
	Limit int64 // of memory, in bytes; 0 is none
	// Started is when the measured run began.
	Started time.Time
}

// InactiveFile is the file cache in a memory.stat that a working set leaves out.
type InactiveFile struct {
	// Total includes the groups below, as cgroup v1's usage does. cgroup v2 has only Own, which includes them there.
	Total uint64 `json:"total_inactive_file"`
	Own   uint64 `json:"inactive_file"`
}

// WorkingSet is the memory in use by the formula of the Docker CLI since 20.10: usage without total_inactive_file on cgroup
// v1, without inactive_file on v2, and each only if it is smaller than usage.
// See https://docs.docker.com/reference/cli/docker/container/stats/.
func WorkingSet(usage uint64, cache InactiveFile) uint64 {
	for _, c := range []uint64{cache.Total, cache.Own} {
		if c > 0 && c < usage {
			return usage - c
		}
	}
	return usage
}
