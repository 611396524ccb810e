package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// maxStats bounds the stats of one container, which are usually some kilobytes.
const maxStats = 1 << 20

// stats has the fields of an engine's stats that the exporter uses. The docker client's type has maps and a second sample, which
// cost more time than all the rest.
type stats struct {
	// Read is zero if the container is not running.
	Read   time.Time `json:"read"`
	Memory struct {
		Usage uint64             `json:"usage"` // absent if unknown to the engine
		Limit uint64             `json:"limit"` // the machine's memory if the container has no limit
		Stats usage.InactiveFile `json:"stats"`
	} `json:"memory_stats"`
	CPU struct {
		Usage struct {
			Total uint64 `json:"total_usage"` // in nanoseconds
		} `json:"cpu_usage"`
	} `json:"cpu_stats"`
	// Networks is absent with network modes host and none.
	Networks map[string]struct {
		Received    uint64 `json:"rx_bytes"`
		Transmitted uint64 `json:"tx_bytes"`
	} `json:"networks"`
}

// usage converts the answer. Limit is the container's configured memory limit in bytes; 0 is none.
func (d *stats) usage(limit int64) usage.Usage {
	u := usage.Usage{
		// A running container has used some of both, so 0 means that the engine does not count.
		HasMemory:  d.Memory.Usage > 0,
		WorkingSet: usage.WorkingSet(d.Memory.Usage, d.Memory.Stats),
		HasCPU:     d.CPU.Usage.Total > 0,
		CPUSeconds: float64(d.CPU.Usage.Total) / 1e9,
		HasNetwork: len(d.Networks) > 0,
	}
	if limit > 0 && u.HasMemory {
		u.Limit = uint64(limit)
		if d.Memory.Limit > 0 { // like docker stats: at most the machine's memory
			u.Limit = d.Memory.Limit
		}
	}
	for _, n := range d.Networks {
		u.Received += n.Received
		u.Transmitted += n.Transmitted
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
		answer, reply, err := s.getStats(ctx, subject.ID)
		if err != nil && reply.Status < http.StatusInternalServerError {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			serverError = err
		case answer != nil:
			got[subject.ID] = answer.usage(subject.Limit)
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

// statsBuffers hold answers while they are decoded, one for each parallel call.
var statsBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// getStats gets the stats of one container. It returns nil if the container is no longer running.
func (s *Session) getStats(ctx context.Context, id string) (*stats, Reply, error) {
	buffer := statsBuffers.Get().(*bytes.Buffer)
	defer statsBuffers.Put(buffer)
	buffer.Reset()
	var answered stats
	empty := false // removed while the engine took the sample
	reply, err := s.get(ctx, "measure container of", "/containers/"+id+"/stats", url.Values{"stream": {"0"}, "one-shot": {"1"}},
		bound{bytes: maxStats}, func(r io.Reader) error {
			if _, err := buffer.ReadFrom(r); err != nil {
				return err
			}
			if empty = buffer.Len() == 0; empty {
				return nil
			}
			return json.Unmarshal(buffer.Bytes(), &answered)
		})
	switch {
	case isNoContainer(err) || err != nil && reply.Status == http.StatusConflict: // status 409: it is being removed
		return nil, reply, nil
	case err != nil:
		return nil, reply, err
	case empty || answered.Read.IsZero():
		return nil, reply, nil
	}
	return &answered, reply, nil
}
