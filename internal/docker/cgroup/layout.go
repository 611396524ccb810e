package cgroup

import (
	"os"
	"path/filepath"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Hint says what to do about a mount of another cgroup tree than the host's.
const Hint = "in a container, mount the host's /sys/fs/cgroup at /host/sys/fs/cgroup, read-only; else correct cgroup_root, " +
	"or set resources: engine"

// layout has the file names of one version of cgroups.
type layout struct {
	// memory and cpu are the directories of the two controllers; on v2 they are the same. On v1 one may be "": not mounted.
	memory, cpu string
	// usage and cpuTime are names of files in a group's directory. cpuKey begins the line of the CPU time; "" if the file has
	// only that number.
	usage, cpuTime, cpuKey string
	// perSecond is the number of units of CPU time in a second.
	perSecond float64
	// onlyTop is a file that exists only at the top of the host's tree, onlyBelow one that exists only in the groups below. Each
	// version has one of the two.
	onlyTop, onlyBelow string
}

// findLayout detects the version of cgroups that is mounted at root.
func findLayout(root string) (layout, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return layout{
			memory:    root,
			cpu:       root,
			usage:     "memory.current",
			cpuTime:   "cpu.stat",
			cpuKey:    "usage_usec",
			perSecond: 1e6,
			onlyBelow: "cgroup.type",
		}, nil
	}
	l := layout{
		usage:     "memory.usage_in_bytes",
		cpuTime:   "cpuacct.usage",
		perSecond: 1e9,
		onlyTop:   "release_agent",
	}
	l.memory = firstDirectory(root, "memory")
	l.cpu = firstDirectory(root, "cpuacct", "cpu,cpuacct", "cpuacct,cpu")
	if l.memory == "" && l.cpu == "" {
		if _, err := os.Stat(root); err != nil {
			return l, failure.Errorf(failure.NotFound, "read cgroups: %w", err).WithHint(Hint)
		}
		return l, failure.Errorf(failure.NotFound, "read cgroups in %s: neither cgroup v1 nor v2 is mounted there", root).WithHint(Hint)
	}
	return l, nil
}

// firstDirectory returns the path of the first of these directories that exists below root, or "".
func firstDirectory(root string, names ...string) string {
	for _, name := range names {
		if path := filepath.Join(root, name); isDirectory(path) {
			return path
		}
	}
	return ""
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// top returns the directory of the controller to search for groups. The other controller uses the same paths.
func (l *layout) top() string {
	if l.memory != "" {
		return l.memory
	}
	return l.cpu
}

// isHosts reports whether the tree is the host's, rather than the part that a container sees.
func (l *layout) isHosts() bool {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(l.top(), name))
		return err == nil
	}
	if l.onlyTop != "" {
		return exists(l.onlyTop)
	}
	return !exists(l.onlyBelow)
}

// read reads the usage of the group at a path below the controllers' directories. Missing files leave their part unknown.
func (l *layout) read(files *kernelFiles, group string) (usage.Usage, error) {
	var r usage.Usage
	if l.memory != "" {
		used, known, err := files.number(filepath.Join(l.memory, group, l.usage), "")
		if err != nil {
			return r, err
		}
		cache, hasCache, err := files.inactiveFile(filepath.Join(l.memory, group, "memory.stat"))
		if err != nil {
			return r, err
		}
		r.HasMemory = known && hasCache && used > 0
		r.WorkingSet = usage.WorkingSet(used, cache)
	}
	if l.cpu != "" {
		used, known, err := files.number(filepath.Join(l.cpu, group, l.cpuTime), l.cpuKey)
		if err != nil {
			return r, err
		}
		r.HasCPU, r.CPUSeconds = known && used > 0, float64(used)/l.perSecond
	}
	return r, nil
}

// isComplete reports whether every mounted controller has provided its part.
func (l *layout) isComplete(r *usage.Usage) bool {
	return (l.memory == "" || r.HasMemory) && (l.cpu == "" || r.HasCPU)
}
