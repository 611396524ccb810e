package collectors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// measureDelay lets the results of a probe be published before hundreds of resource requests start.
const measureDelay = 20 * time.Millisecond

// round begins the next round after a successful probe.
func (c *docker) round() dockerRound {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds++
	return dockerRound{round: c.rounds, subjects: c.fleet.Subjects(), following: c.stream.open}
}

// askFor requests a measurement in the background. If one is running, the newest request waits.
func (c *docker) askFor(m dockerRound) {
	select {
	case <-c.measuring:
	default:
	}
	select {
	case c.measuring <- m:
	default: // an abandoned probe has sent a request in between
	}
}

func (c *docker) measureLoop(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.measuring:
			select {
			case <-ctx.Done():
				return
			case <-time.After(measureDelay):
			}
			measuring, cancel := context.WithTimeout(ctx, max(c.settings.Timeout.Std(), longestLook))
			c.measure(measuring, m)
			cancel()
			changed()
		}
	}
}

// measure asks the engine for the containers' resources. Best effort: missing values are omitted and noted.
func (c *docker) measure(ctx context.Context, m dockerRound) {
	used, err := c.engineUsage(ctx, m.subjects)
	c.recordUsage(ctx, m, fromEngine, used, err)
}

// engineUsage returns the engine's numbers and recovers from panics.
func (c *docker) engineUsage(ctx context.Context, subjects []usage.Subject) (used map[string]usage.Usage, err error) {
	defer c.recoverMeasuring(&err)
	s, err := c.open(ctx, c.settings.ResourcesParallelism)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Measure(ctx, subjects, c.settings.ResourcesParallelism, c.hangsAt)
}

// recoverMeasuring turns a panic into an error.
func (c *docker) recoverMeasuring(err *error) {
	if r := recover(); r != nil {
		c.log.Error("measuring resources panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
		*err = failure.Errorf(failure.Panic, "measuring panicked: %v", r)
	}
}

// recordUsage records the resources of the round's containers.
func (c *docker) recordUsage(ctx context.Context, m dockerRound, from origin, used map[string]usage.Usage, err error) {
	if errors.Is(ctx.Err(), context.Canceled) && !c.once {
		return // the exporter stops or reloads
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	networks := m.networkOnly && from == fromEngine
	latest := &c.measured
	if networks {
		latest = &c.networkMeasured
	}
	if m.round <= c.failed || m.round < *latest {
		return // it began before an outage, or before what is known, so its numbers are stale
	}
	*latest = m.round
	recorded := make(map[string]runUsage, len(used))
	if networks {
		c.networks, c.networkErr = recorded, err
	} else {
		c.resources, c.source = recorded, from
		c.noteStats(err)
	}
	before := c.shown
	c.shown = make(map[string]runUsage, len(m.subjects))
	for _, s := range m.subjects {
		last := before[s.ID]
		if !last.started.Equal(s.Started) {
			last = runUsage{started: s.Started}
		}
		if now, ok := used[s.ID]; ok {
			if networks {
				now = usage.Usage{Received: now.Received, Transmitted: now.Transmitted, HasNetwork: now.HasNetwork}
			}
			last.show(&now, from)
			recorded[s.ID] = runUsage{Usage: now, started: s.Started}
		}
		c.shown[s.ID] = last
	}
}

// noteStats notes and logs whether resources are available. The caller holds the lock.
func (c *docker) noteStats(err error) {
	if changed := c.stats.err == nil != (err == nil); changed && err != nil && !c.once {
		c.log.Warn("container resources are unavailable", "err", err, "hint", failure.HintOf(err))
	} else if changed && !c.once {
		c.log.Info("container resources are available again")
	}
	c.stats = feature{true, err}
}

// show removes from u the counters that are lower than those shown before from another source, and remembers the others.
func (r *runUsage) show(u *usage.Usage, from origin) {
	if r.from != from && u.CPUIsBelow(&r.Usage) {
		u.HasCPU = false
	}
	if r.networkFrom != from && u.NetworkIsBelow(&r.Usage) {
		u.HasNetwork = false
	}
	if u.HasCPU {
		r.CPUSeconds, r.HasCPU, r.from = u.CPUSeconds, true, from
	}
	if u.HasNetwork {
		r.Received, r.Transmitted, r.HasNetwork, r.networkFrom = u.Received, u.Transmitted, true, from
	}
}

// readFiles reads the cgroup files of the round's containers, one round at a time. Because a file may hang, it gets half of the
// remaining time. After that the probe succeeds without resources.
func (c *docker) readFiles(ctx context.Context, m dockerRound) (map[string]usage.Usage, error) {
	patience, cancel := share(ctx, 0.5)
	defer cancel()
	var (
		used map[string]usage.Usage
		err  error
		done = make(chan struct{}) // closed when used and err are set
	)
	hangs := failure.Errorf(failure.Timeout, "read cgroups in %s: a file hangs", c.cgroups.Root)
	select {
	case c.readingFiles <- struct{}{}:
	default: // an earlier round still reads
		return nil, hangs
	}
	go func() {
		defer close(done)
		defer func() { <-c.readingFiles }()
		defer c.recoverMeasuring(&err)
		used, err = c.cgroups.Measure(patience, m.subjects)
	}()
	select {
	case <-done:
		return used, err
	case <-patience.Done():
		return nil, hangs
	}
}

// hangsAt reports whether the engine hangs when asked about a container.
func (c *docker) hangsAt(id string) (hangs bool) {
	c.locked(func() { hangs = c.hangs.Has(id) })
	return hangs
}
