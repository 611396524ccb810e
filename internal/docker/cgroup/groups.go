package cgroup

import (
	"maps"
	"syscall"
)

// Groups are containers' groups by the containers' ids. Their files may stay open until Close.
type Groups map[string]*group

// Close closes the files and forgets the groups.
func (g Groups) Close() { g.forget(func(string) bool { return false }) }

// forget closes the files of groups that are not kept, and forgets those.
func (g Groups) forget(kept func(id string) bool) {
	maps.DeleteFunc(g, func(id string, one *group) bool {
		if kept(id) {
			return false
		}
		one.close()
		return true
	})
}

// group is the group of one container.
type group struct {
	// path is below a controller's directory.
	path             string
	usage, stat, cpu kernelFile
}

func (g *group) files() []*kernelFile { return []*kernelFile{&g.usage, &g.stat, &g.cpu} }

func (g *group) close() {
	for _, f := range g.files() {
		f.close()
	}
}

// maxKeptFiles bounds the files of groups that stay open: the kernel uses about five kilobytes for each.
const maxKeptFiles = 3 << 10

// room is how many more files of groups may stay open: of each engine a quarter of what this process may open, so that
// connections have theirs.
func (g Groups) room() int {
	var limit syscall.Rlimit
	if g == nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	room := int(min(limit.Cur/4, maxKeptFiles)) //nolint:gosec // it is small
	for _, one := range g {
		for _, f := range one.files() {
			switch {
			case f.open == nil:
			case room > 0:
				room--
			default: // the limit was lowered
				f.close()
			}
		}
	}
	return room
}
