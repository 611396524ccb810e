package collectors

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var containerSourceDesc = readDesc("chatstack_container_resources_source",
	"1 for the source of the containers' memory, CPU and network numbers: cgroup (kernel files) or engine (asked at every other poll).",
	"docker_host", "source")

// measureDelay lets the results of a probe be published before hundreds of resource requests start.
const measureDelay = 20 * time.Millisecond

// engineRounds is how many rounds pass from one question about all containers to the next, so also the most rounds that the
// engine's numbers are old.
const engineRounds = 2

// round begins the next round after a successful probe.
func (c *docker) round() dockerRound {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds++
	m := dockerRound{
		round:     c.rounds,
		subjects:  c.fleet.Subjects(),
		source:    c.source,
		due:       (c.rounds-c.failed)%engineRounds == 1,
		following: c.stream.open,
	}
	if !c.chosen {
		m.source = resourcesAuto
	}
	return m
}

// measureResources reads the files of a round's containers, or lets the engine be asked.
func (c *docker) measureResources(ctx context.Context, m dockerRound) {
	switch {
	case m.source == resourcesCgroup:
		used, err := c.readFiles(ctx, m)
		c.recordUsage(ctx, m, used, err)
	case m.source == resourcesEngine && c.once:
		c.measure(ctx, m)
	case m.source == resourcesEngine && m.due:
		c.askFor(m)
	case m.source == resourcesAuto && len(m.subjects) > 0:
		used, err := c.readFiles(ctx, m)
		if ctx.Err() != nil {
			return // says nothing about the files
		}
		m.source, m.due = c.chooseSource(used, err), true
		c.measureResources(ctx, m)
	}
}

// chooseSource chooses the files if they have all kinds of numbers, else the engine. That holds until the next start or reload.
func (c *docker) chooseSource(used map[string]usage.Usage, err error) string {
	if err == nil && len(used) == 0 {
		err = failure.Errorf(failure.NotFound, "the only running container has no files in %s", c.cgroups.Root).WithHint(cgroup.Hint)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.source
	c.source, c.chosen, c.notFiles = resourcesCgroup, true, err
	if err != nil {
		c.source = resourcesEngine
	}
	switch {
	case c.once || c.source == before:
	case err == nil:
		c.log.Info("container resources come from cgroup files", "cgroup_root", c.cgroups.Root)
	default:
		c.log.Info("container resources come from the engine, at every other poll", "reason", err)
	}
	return c.source
}

// Reloaded implements Reloader: auto chooses again at the next probe.
func (c *docker) Reloaded() bool {
	c.locked(func() { c.chosen = c.settings.Resources != resourcesAuto })
	return false
}

// noteSource says which source auto has chosen, and what the files lack. The caller holds the lock.
func (c *docker) noteSource(b *Batch) {
	auto := c.settings.Resources == resourcesAuto
	switch {
	case auto && c.source == resourcesCgroup:
		b.Note("memory, CPU and network numbers come from cgroup files in " + c.cgroups.Root)
	case auto && c.source == resourcesEngine:
		b.Note("memory, CPU and network numbers come from the engine, asked at every other poll: " + withHintText(c.notFiles))
	}
	if c.networkErr != nil {
		b.Impair("no network numbers of containers")
		b.Note("network numbers of containers are missing: " + withHintText(c.networkErr))
	}
	if c.stats.err != nil && c.source == resourcesCgroup {
		b.Impair("no memory, CPU or network numbers of some containers")
	}
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
	c.recordUsage(ctx, m, used, err)
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
func (c *docker) recordUsage(ctx context.Context, m dockerRound, used map[string]usage.Usage, err error) {
	if errors.Is(ctx.Err(), context.Canceled) && !c.once {
		return // the exporter stops or reloads
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.round <= c.failed || m.round < c.measured {
		return // it began before an outage, or before what is known, so its numbers are stale
	}
	c.measured, c.networkErr = m.round, nil
	if network, ok := errors.AsType[*cgroup.NetworkError](err); ok {
		c.networkErr, err = network, nil
	}
	c.noteStats(err)
	c.resources = make(map[string]runUsage, len(used))
	for _, s := range m.subjects {
		if now, ok := used[s.ID]; ok {
			c.resources[s.ID] = runUsage{now, s.Started}
		}
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
