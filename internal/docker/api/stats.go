package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// maxStats bounds the stats of one container, which take some kilobytes.
const maxStats = 1 << 20

// stats is the used part of an engine's answer about stats. The docker client's type has maps and a second sample, which cost
// more than the rest of the work.
type stats struct {
	// Read is zero if the container does not run.
	Read   time.Time `json:"read"`
	Memory struct {
		Usage uint64             `json:"usage"` // absent where the engine cannot know it
		Limit uint64             `json:"limit"` // the machine's memory where the container has no limit
		Stats usage.InactiveFile `json:"stats"`
	} `json:"memory_stats"`
	CPU struct {
		Usage struct {
			Total uint64 `json:"total_usage"` // in nanoseconds
		} `json:"cpu_usage"`
	} `json:"cpu_stats"`
	// Networks is absent on the host's network and on none.
	Networks map[string]struct {
		Received    uint64 `json:"rx_bytes"`
		Transmitted uint64 `json:"tx_bytes"`
	} `json:"networks"`
}

// usage is what the answer says. Limit is the memory limit that the container was given; 0 is none.
func (d *stats) usage(limit int64) usage.Usage {
	u := usage.Usage{
		// A running container has used some of both, so 0 means that nobody counts.
		HasMemory:  d.Memory.Usage > 0,
		WorkingSet: usage.WorkingSet(d.Memory.Usage, d.Memory.Stats),
		HasCPU:     d.CPU.Usage.Total > 0,
		CPUSeconds: float64(d.CPU.Usage.Total) / 1e9,
		HasNetwork: len(d.Networks) > 0,
	}
	if limit > 0 && u.HasMemory {
		u.Limit = uint64(limit)
		if d.Memory.Limit > 0 { // as docker stats shows it: no more than the machine has
			u.Limit = d.Memory.Limit
		}
	}
	for _, n := range d.Networks {
		u.Received += n.Received
		u.Transmitted += n.Transmitted
	}
	return u
}

// Measure asks for the stats of all subjects, at most parallelism at once, except those that skip names. The result has an
// entry for each that answered. It lacks those that are gone or have stopped, and those whose call failed with status 5xx, unless
// all did. Any other error ends the measurement and is returned beside what was measured by then.
func (s *Session) Measure(ctx context.Context, subjects []usage.Subject, parallelism int, skip func(id string) bool) (map[string]usage.Usage, error) {
	var (
		mu      sync.Mutex
		got     = make(map[string]usage.Usage, len(subjects))
		refusal error
	)
	err := ForEach(ctx, len(subjects), parallelism, func(ctx context.Context, i int) error {
		subject := subjects[i]
		if skip(subject.ID) {
			return nil
		}
		answer, c, err := s.askStats(ctx, subject.ID)
		if err != nil && c.Status < http.StatusInternalServerError {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			refusal = err
		case answer != nil:
			got[subject.ID] = answer.usage(subject.Limit)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return got, fmt.Errorf("measure containers of %s: %w", s.Host, ctx.Err())
	case err == nil && len(got) == 0:
		return got, refusal
	}
	return got, err
}

// statsBuffers take the answers about stats: as many as are asked for at once.
var statsBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// askStats asks for the stats of one container. It returns nil if the container does not run any more.
func (s *Session) askStats(ctx context.Context, id string) (*stats, *call, error) {
	const doing = "measure container of"
	ctx, c := record(ctx)
	answer, err := s.docker.ContainerStatsOneShot(ctx, id)
	if err != nil {
		if c.missesContainer(err) || c.Status == http.StatusConflict { // the latter while it is being removed
			return nil, c, nil
		}
		return nil, c, s.explain(ctx, doing, c, err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	buffer := statsBuffers.Get().(*bytes.Buffer)
	defer statsBuffers.Put(buffer)
	buffer.Reset()
	_, err = buffer.ReadFrom(io.LimitReader(answer.Body, maxStats+1))
	content := buffer.Bytes()
	switch {
	case err != nil:
		return nil, c, s.explain(ctx, doing, c, err)
	case len(content) > maxStats:
		return nil, c, failure.Errorf(failure.TooLarge, "%s %s: more than %d bytes", doing, s.Host, maxStats)
	}
	if len(content) == 0 { // removed while the engine waited for its clock
		return nil, c, nil
	}
	var answered stats
	if err := json.Unmarshal(content, &answered); err != nil {
		return nil, c, s.explain(ctx, doing, c, err)
	}
	if answered.Read.IsZero() {
		return nil, c, nil
	}
	return &answered, c, nil
}
