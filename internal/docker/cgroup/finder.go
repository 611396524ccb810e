package cgroup

import (
	"context"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// finder finds the cgroups of containers.
type finder struct {
	layout *layout
	files  *kernelFiles
	tree   *Tree
	// subjects are all containers to find.
	subjects []usage.Subject
	// known are the paths of groups found earlier, by container id.
	known map[string]string
}

// read reads the usage of a container and returns the path of its group, or "" if it has none.
func (f *finder) read(ctx context.Context, id string) (r usage.Usage, path string, err error) {
	if path = f.known[id]; path != "" {
		// The group may have moved, even in one controller only.
		if r, err = f.layout.read(f.files, path); err == nil && f.layout.isComplete(&r) {
			return r, path, nil
		}
	}
	if path = f.group(ctx, id); path == "" {
		return usage.Usage{}, "", nil
	}
	r, err = f.layout.read(f.files, path)
	return r, path, err
}

// group returns the path of a container's group below a controller's directory, or "".
func (f *finder) group(ctx context.Context, id string) string {
	if !isContainerID(id) {
		return "" // an id from the engine must not lead outside of the tree
	}
	top := f.layout.top()
	// The paths of the engine's cgroup drivers, cgroupfs and systemd.
	if group := filepath.Join("docker", id); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if group := filepath.Join("system.slice", "docker-"+id+".scope"); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if path := f.unusual(id); path != "" || f.tree.unsearched > 0 && f.tree.sought[id] {
		return path
	}
	f.tree.unsearched = searchEvery
	f.search(ctx)
	return f.unusual(id)
}

// unusual returns the path of a container's group where a search has found those of other containers, or "".
func (f *finder) unusual(id string) string {
	for _, pattern := range f.tree.patterns {
		if group := strings.Replace(pattern, "*", id, 1); isDirectory(filepath.Join(f.layout.top(), group)) {
			return group
		}
	}
	return ""
}

// search walks the whole tree, to learn where the containers of rootless engines, of engines in containers, of Podman, and with
// cgroup-parent are.
func (f *finder) search(ctx context.Context) {
	top := f.layout.top()
	f.tree.patterns, f.tree.sought = nil, make(map[string]bool, len(f.subjects))
	for i := range f.subjects {
		f.tree.sought[f.subjects[i].ID] = true
	}
	//nolint:errcheck // unreadable directories are skipped
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil: // the group is gone
			return nil //nolint:nilerr // as said above
		case !entry.IsDir():
			return nil
		}
		// Podman's libpod-conmon-<id>.scope only has the program that watches the container.
		name := containerGroup.FindStringSubmatch(entry.Name())
		if group, err := filepath.Rel(top, path); err == nil && name != nil && f.tree.sought[name[1]] {
			at := strings.LastIndex(group, name[1]) // an engine's own container may be above
			if pattern := group[:at] + "*" + group[at+len(name[1]):]; !slices.Contains(f.tree.patterns, pattern) {
				f.tree.patterns = append(f.tree.patterns, pattern)
			}
		}
		return nil
	})
}

// containerGroup matches the names of containers' groups: <id>, docker-<id>.scope and libpod-<id>.scope.
var containerGroup = regexp.MustCompile(`^(?:[a-z]+-)?([0-9a-f]{64})(?:\.scope)?$`)

// isContainerID reports whether s is a full container id.
func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
