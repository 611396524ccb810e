// Package cgroup reads the resource usage of containers from the host's cgroup file system, without the engine.
package cgroup

import (
	"context"
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// Tree is the host's cgroup file system, v1 or v2. It is not safe for concurrent use.
type Tree struct {
	// Root is where it is mounted; read-only is enough.
	Root string
	// ProcRoot is where the host's /proc is mounted; "" leaves network numbers out.
	ProcRoot string
	// paths are the last known paths of groups, by container id.
	paths map[string]string
	// patterns are the paths of groups in unusual places, with * for the container's id.
	patterns []string
	// sought are the containers that the last search was for. For these, unsearched counts down the measurements until the next.
	sought     map[string]bool
	unsearched int
}

// searchEvery is how many measurements share one search of the whole tree, which may have thousands of groups.
const searchEvery = 10

// Measure reads the usage of all subjects until ctx is done. The result has an entry for each subject whose group exists; the
// others have stopped. With an error, the result has what could be read.
func (t *Tree) Measure(ctx context.Context, subjects []usage.Subject) (map[string]usage.Usage, error) {
	known := t.paths
	t.unsearched--
	t.paths = make(map[string]string, len(subjects))
	if len(subjects) == 0 {
		return nil, nil
	}
	l, err := findLayout(t.Root)
	if err != nil {
		return nil, err
	}
	var (
		got   = make(map[string]usage.Usage, len(subjects))
		files = &kernelFiles{buffer: make([]byte, kernelFileSize)}
		found = finder{
			layout:   &l,
			files:    files,
			known:    known,
			tree:     t,
			subjects: subjects,
		}
		nets = newNetworks(t.ProcRoot, files)
	)
	for _, subject := range subjects {
		if err := ctx.Err(); err != nil {
			return got, fmt.Errorf("read cgroups in %s: %w", t.Root, err)
		}
		r, path, failed := found.read(ctx, subject.ID)
		if err == nil {
			err = failed
		}
		if failed != nil || !r.HasMemory && !r.HasCPU {
			continue
		}
		if r.HasMemory {
			r.Limit = uint64(max(subject.Limit, 0))
		}
		nets.read(&subject, &r)
		got[subject.ID], t.paths[subject.ID] = r, path
	}
	switch {
	case err != nil:
		return got, err
	// One container may have stopped since the list, but not all of several at once.
	case len(got) == 0 && (len(subjects) > 1 || !l.isHosts()):
		return got, failure.Errorf(failure.NotFound, "read cgroups in %s: none of %d running containers is found there",
			t.Root, len(subjects)).WithHint(Hint)
	}
	return got, nets.failure()
}
