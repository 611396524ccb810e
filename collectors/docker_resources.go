package collectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var (
	containerMemoryDesc = prometheus.NewDesc("chatstack_container_memory_working_set_bytes",
		"Memory that the container uses, without file cache that the kernel may drop at once: the same number as in docker stats.",
		[]string{"container", "docker_host"}, nil)
	containerMemoryLimitDesc = prometheus.NewDesc("chatstack_container_memory_limit_bytes",
		"Memory that the container may use. Absent where it has no limit of its own.",
		[]string{"container", "docker_host"}, nil)
	containerCPUDesc = prometheus.NewDesc("chatstack_container_cpu_seconds_total",
		"CPU time that the container has used since it was started.",
		[]string{"container", "docker_host"}, nil)
	containerReceiveDesc = prometheus.NewDesc("chatstack_container_network_receive_bytes_total",
		"Bytes that the container has received over all of its networks since it was started. Absent on the host's network.",
		[]string{"container", "docker_host"}, nil)
	containerTransmitDesc = prometheus.NewDesc("chatstack_container_network_transmit_bytes_total",
		"Bytes that the container has sent over all of its networks since it was started. Absent on the host's network.",
		[]string{"container", "docker_host"}, nil)
)

// containerResources is what one container used at one moment. The has flags say which parts are known: what is not is no
// series, rather than 0.
type containerResources struct {
	workingSet, limit     uint64 // in bytes; a limit of 0 is none
	hasMemory             bool
	cpuSeconds            float64
	hasCPU                bool
	received, transmitted uint64 // in bytes
	hasNetwork            bool
}

// write adds the metrics of what is known.
func (r *containerResources) write(b *Batch, name, host string) {
	if r.hasMemory {
		b.Gauge(containerMemoryDesc, float64(r.workingSet), name, host)
		if r.limit > 0 {
			b.Gauge(containerMemoryLimitDesc, float64(r.limit), name, host)
		}
	}
	if r.hasCPU {
		b.Counter(containerCPUDesc, r.cpuSeconds, name, host)
	}
	if r.hasNetwork {
		b.Counter(containerReceiveDesc, float64(r.received), name, host)
		b.Counter(containerTransmitDesc, float64(r.transmitted), name, host)
	}
}

// resourceSubject is one running container to ask about.
type resourceSubject struct {
	id      string
	pid     int
	limit   int64     // of memory, in bytes; 0 is none
	started time.Time // of the run that is measured
}

// inactiveFile is the part of a memory.stat that a working set goes without.
type inactiveFile struct {
	// Total counts the groups below too, which is what cgroup v1's usage does. cgroup v2 has only Own, which does it there.
	Total uint64 `json:"total_inactive_file"`
	Own   uint64 `json:"inactive_file"`
}

// workingSet is the memory in use by the formula of the Docker CLI since 20.10: usage without total_inactive_file on cgroup
// v1, without inactive_file on v2, and each only where it is smaller.
// See https://docs.docker.com/reference/cli/docker/container/stats/.
func workingSet(usage uint64, cache inactiveFile) uint64 {
	for _, c := range []uint64{cache.Total, cache.Own} {
		if c > 0 && c < usage {
			return usage - c
		}
	}
	return usage
}

// maxStats bounds the stats of one container, which take some kilobytes.
const maxStats = 1 << 20

// dockerStats is the part of an engine's answer about stats that is used. The client's own type has maps and a second
// sample, which cost more than the rest of the work.
type dockerStats struct {
	// Read is zero where the container did not run.
	Read   time.Time `json:"read"`
	Memory struct {
		Usage uint64       `json:"usage"` // absent where the engine cannot know it
		Limit uint64       `json:"limit"` // the machine's memory where the container has no limit
		Stats inactiveFile `json:"stats"`
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

// resources is what the answer says. configured is the limit of memory that the container was given.
func (d *dockerStats) resources(configured int64) containerResources {
	r := containerResources{
		// A container that runs has used some of both, so 0 means that nobody counts.
		hasMemory:  d.Memory.Usage > 0,
		workingSet: workingSet(d.Memory.Usage, d.Memory.Stats),
		hasCPU:     d.CPU.Usage.Total > 0,
		cpuSeconds: float64(d.CPU.Usage.Total) / 1e9,
		hasNetwork: len(d.Networks) > 0,
	}
	if configured > 0 && r.hasMemory {
		r.limit = uint64(configured)
		if d.Memory.Limit > 0 { // what docker stats says: no more than the machine has
			r.limit = d.Memory.Limit
		}
	}
	for _, n := range d.Networks {
		r.received += n.Received
		r.transmitted += n.Transmitted
	}
	return r
}

// resources asks the engine for the stats of all subjects, at most parallelism at once, until ctx is done. The result has
// an entry for each that answered. One that is gone or has stopped is missing, and so is one that the engine stumbles over,
// unless it stumbles over all. The error is the first one that means more than one container; it ends the asking, and
// what was got by then is returned beside it.
func (s *dockerSession) resources(ctx context.Context, subjects []resourceSubject, parallelism int) (map[string]containerResources, error) {
	var (
		mu      sync.Mutex
		got     = make(map[string]containerResources, len(subjects))
		stumble error
	)
	rest := s.restFor(len(subjects), parallelism)
	err := inParallel(ctx, len(subjects), parallelism, func(ctx context.Context, i int) error {
		subject := subjects[i]
		if s.hangs(subject.id) {
			return nil
		}
		stats, call, err := s.askStats(ctx, subject.id, rest)
		if err != nil && call.status < http.StatusInternalServerError {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			stumble = err
		case stats != nil:
			got[subject.id] = stats.resources(subject.limit)
		}
		return nil
	})
	if err == nil && rest != nil {
		s.locked(func() { s.rest = rest.next() })
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return got, fmt.Errorf("measure containers of %s: %w", s.settings.Host, ctx.Err())
	case err == nil && len(got) == 0:
		return got, stumble
	}
	return got, err
}

// An engine up to 27 answers a call for stats after a second at least, and many calls one after another over most of the next
// one. To wake up for each of them costs more than to read it, so that all are left alone until the last of the round before
// had come, and never longer than restMost. An answer that is there is read in less than lateAnswer.
const (
	restMost   = 1900 * time.Millisecond
	lateAnswer = 5 * time.Millisecond
)

// statsRest is for how long answers are left alone, in one round.
type statsRest struct {
	patience time.Duration
	begun    time.Time
	over     chan struct{} // closed when they may be looked for

	mu   sync.Mutex
	last time.Duration // when the last one came that had to be waited for nevertheless; 0 for none
}

// restFor begins the rest of a round with so many subjects, or returns nil: where somebody waits for the answers, while it is not
// known whether the engine answers, where not all are asked at once, and where a call has no connection of its own.
func (c *docker) restFor(subjects, parallelism int) *statsRest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.once || !c.stats.known || c.stats.err != nil || subjects == 0 || subjects > parallelism || c.endpoint.tls {
		return nil
	}
	r := &statsRest{patience: c.rest, begun: time.Now(), over: make(chan struct{})}
	time.AfterFunc(r.patience, func() { close(r.over) })
	return r
}

// wait returns once the rest is over, or ctx.
func (r *statsRest) wait(ctx context.Context) error {
	select {
	case <-r.over:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// came takes in when an answer was looked for, and that it is there now.
func (r *statsRest) came(looked, now time.Time) {
	if now.Sub(looked) < lateAnswer {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = max(r.last, now.Sub(r.begun))
}

// next is for how long the next answers are left alone. Where none had to be waited for, an engine that has become quicker is
// found out step by step.
func (r *statsRest) next() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last > 0 {
		return min(r.last, restMost)
	}
	return r.patience - r.patience/16
}

// statsBuffers take the answers about stats: as many as are asked for at once.
var statsBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// askStats asks for the stats of one container, and looks for the answer once the rest is over, if there is one. It gives nil if
// the container does not run any more.
func (s *dockerSession) askStats(ctx context.Context, id string, rest *statsRest) (*dockerStats, *dockerCall, error) {
	const doing = "measure container of"
	ctx, call := recorded(ctx)
	call.rest = rest
	answer, err := s.client.ContainerStatsOneShot(ctx, id)
	if err != nil {
		gone := call.status == http.StatusNotFound && strings.Contains(strings.ToLower(err.Error()), "no such container")
		if gone || call.status == http.StatusConflict { // the latter while it is being removed
			return nil, call, nil
		}
		return nil, call, s.failure(ctx, doing, call, err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	buffer := statsBuffers.Get().(*bytes.Buffer)
	defer statsBuffers.Put(buffer)
	buffer.Reset()
	_, err = buffer.ReadFrom(io.LimitReader(answer.Body, maxStats+1))
	content := buffer.Bytes()
	switch {
	case err != nil:
		return nil, call, s.failure(ctx, doing, call, err)
	case len(content) > maxStats:
		return nil, call, failure.Errorf(failure.TooLarge, "%s %s: more than %d bytes", doing, s.settings.Host, maxStats)
	}
	if len(content) == 0 { // removed while the engine waited for its clock
		return nil, call, nil
	}
	var stats dockerStats
	if err := json.Unmarshal(content, &stats); err != nil {
		return nil, call, s.failure(ctx, doing, call, err)
	}
	if stats.Read.IsZero() {
		return nil, call, nil
	}
	return &stats, call, nil
}

// inParallel calls do for each number below n, so many at once, until one returns an error or ctx is done. It returns that
// error when all calls are over; the others' context ends with it. A call that panics makes it panic.
func inParallel(ctx context.Context, n, parallelism int, do func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg       sync.WaitGroup
		next     atomic.Int64
		panicked atomic.Pointer[string]
	)
	for range min(parallelism, n) {
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					text := fmt.Sprintf("%v\n%s", v, debug.Stack())
					panicked.Store(&text)
					cancel(errors.New("panic"))
				}
			}()
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				if err := do(ctx, i); err != nil {
					cancel(err) // which ends this loop as well
				}
			}
		})
	}
	wg.Wait()
	if text := panicked.Load(); text != nil {
		panic(*text) // nobody contains what happens in a goroutine of its own
	}
	return context.Cause(ctx)
}
