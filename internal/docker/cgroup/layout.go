package cgroup

import (
	"os"
	"path/filepath"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// hintCgroup is for a mount that is not the host's.
const hintCgroup = "mount the host's /sys/fs/cgroup there, read-only, or set resources: engine"

// layout is where one version of cgroups has the numbers.
type layout struct {
	// memory and cpu are the directories of the two controllers, one and the same on v2. On v1 one may be "": not mounted.
	memory, cpu string
	// usage and cpuTime are names of files in a group's directory; in the latter, cpuKey begins the line of the number,
	// "" where there is nothing else.
	usage, cpuTime, cpuKey string
	// perSecond is how many of the CPU's units of time make a second.
	perSecond float64
	// onlyTop is a file that only the top of the host's tree has, onlyBelow one that only the groups below have. Each version
	// knows one of them.
	onlyTop, onlyBelow string
}

// findLayout finds out which version of cgroups is mounted at root.
func findLayout(root string) (layout, error) {
	if _, err := os.Stat(filepath.Join(root, "cgroup.controllers")); err == nil {
		return layout{
			memory: root, cpu: root, usage: "memory.current", cpuTime: "cpu.stat", cpuKey: "usage_usec", perSecond: 1e6,
			onlyBelow: "cgroup.type",
		}, nil
	}
	l := layout{usage: "memory.usage_in_bytes", cpuTime: "cpuacct.usage", perSecond: 1e9, onlyTop: "release_agent"}
	l.memory = firstDirectory(root, "memory")
	l.cpu = firstDirectory(root, "cpuacct", "cpu,cpuacct", "cpuacct,cpu")
	if l.memory == "" && l.cpu == "" {
		return l, failure.Errorf(failure.NotFound, "read cgroups in %s: there is no cgroup tree, of v1 or v2", root).WithHint(hintCgroup)
	}
	return l, nil
}

// firstDirectory is the path of the first of these below root that exists, or "".
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

// top is the directory of the one controller whose groups are looked for; the other has them under the same paths.
func (l *layout) top() string {
	if l.memory != "" {
		return l.memory
	}
	return l.cpu
}

// isHosts reports whether the tree is the host's, rather than the part of it that a container sees as its own.
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

// read reads the numbers of the group at a path below the controllers' directories; what is not there is not known.
func (l *layout) read(files *kernelFiles, group string) (usage.Usage, error) {
	var r usage.Usage
	if l.memory != "" {
		used, known, err := files.number(filepath.Join(l.memory, group, l.usage), "")
		if err != nil {
			return r, err
		}
		cache, there, err := files.inactiveFile(filepath.Join(l.memory, group, "memory.stat"))
		if err != nil {
			return r, err
		}
		r.HasMemory = known && there && used > 0
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

// whole reports whether every controller that there is has told its numbers.
func (l *layout) whole(r *usage.Usage) bool {
	return (l.memory == "" || r.HasMemory) && (l.cpu == "" || r.HasCPU)
}
