package cgroup

import (
	"context"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// finder finds containers' groups.
type finder struct {
	layout *layout
	files  *kernelFiles
	// known are the paths of groups that were found before, by their containers' ids.
	known map[string]string
	// others are the groups in unusual places by their containers' ids, once it was looked for them.
	others map[string]string
}

// read reads the numbers of a container, and returns the path of its group; of none that has no group.
func (f *finder) read(ctx context.Context, id string) (r usage.Usage, path string, err error) {
	if path = f.known[id]; path != "" {
		// It may have moved, one controller after another.
		if r, err = f.layout.read(f.files, path); err == nil && f.layout.whole(&r) {
			return r, path, nil
		}
	}
	if path = f.group(ctx, id); path == "" {
		return usage.Usage{}, "", nil
	}
	r, err = f.layout.read(f.files, path)
	return r, path, err
}

// group is the path of a container's group below a controller's directory, or "".
func (f *finder) group(ctx context.Context, id string) string {
	if !isContainerID(id) {
		return "" // nothing that the engine says leads elsewhere
	}
	top := f.layout.top()
	// The engine's driver is cgroupfs or systemd.
	if group := filepath.Join("docker", id); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if group := filepath.Join("system.slice", "docker-"+id+".scope"); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if f.others == nil {
		f.others = map[string]string{}
		f.search(ctx)
	}
	return f.others[id]
}

// search looks through the whole tree: for engines without root, engines in containers, and those with cgroup-parent.
func (f *finder) search(ctx context.Context) {
	top := f.layout.top()
	//nolint:errcheck // what cannot be read is passed over
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil: // the group is gone
			return nil //nolint:nilerr // as said above
		case !entry.IsDir():
			return nil
		}
		name := entry.Name()
		if scope, ok := strings.CutPrefix(name, "docker-"); ok {
			name = strings.TrimSuffix(scope, ".scope")
		}
		if group, err := filepath.Rel(top, path); err == nil && isContainerID(name) {
			f.others[name] = group
		}
		return nil
	})
}

// isContainerID reports whether it is a whole id, as engines make them.
func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
