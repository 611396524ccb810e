package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// usageOf converts a container's stats. Limit is its configured memory limit in bytes; 0 is none.
func usageOf(d *container.StatsResponse, limit int64) usage.Usage {
	memory, cache := &d.MemoryStats, d.MemoryStats.Stats
	u := usage.Usage{
		// A running container has used some of both, so 0 means that the engine does not count.
		HasMemory: memory.Usage > 0,
		WorkingSet: usage.WorkingSet(memory.Usage, usage.InactiveFile{
			Total: cache["total_inactive_file"],
			Own:   cache["inactive_file"],
		}),
		HasCPU:     d.CPUStats.CPUUsage.TotalUsage > 0,
		CPUSeconds: float64(d.CPUStats.CPUUsage.TotalUsage) / 1e9,
		HasNetwork: len(d.Networks) > 0, // absent with network modes host and none
	}
	if limit > 0 && u.HasMemory {
		u.Limit = uint64(limit)
		if memory.Limit > 0 { // like docker stats: at most the machine's memory
			u.Limit = memory.Limit
		}
	}
	for _, n := range d.Networks {
		u.Received += n.RxBytes
		u.Transmitted += n.TxBytes
	}
	return u
}

// Measure gets the stats of all subjects for which skip is false, at most parallelism at once. The result lacks containers that
// are gone or stopped. It also lacks those whose call failed with status 5xx; if that leaves none, Measure returns such an error.
// Any other error ends the measurement and is returned with the results so far.
func (s *Session) Measure(
	ctx context.Context, subjects []usage.Subject, parallelism int, skip func(id string) bool,
) (map[string]usage.Usage, error) {
	var (
		mu          sync.Mutex
		got         = make(map[string]usage.Usage, len(subjects))
		serverError error
	)
	err := ForEach(ctx, len(subjects), parallelism, func(ctx context.Context, i int) error {
		subject := subjects[i]
		if skip(subject.ID) {
			return nil
		}
		answer, reply, err := s.stats(ctx, subject.ID)
		if err != nil && reply.Status < http.StatusInternalServerError {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			serverError = err
		case answer != nil:
			got[subject.ID] = usageOf(answer, subject.Limit)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return got, fmt.Errorf("measure containers of %s: %w", s.Host, ctx.Err())
	case err == nil && len(got) == 0:
		return got, serverError
	}
	return got, err
}
