package collectors

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var containerSourceDesc = readDesc("chatstack_container_resources_source",
	"1 for the source of the containers' memory and CPU numbers: cgroup (the kernel's files) or engine (asked at every other poll). "+
		"Network numbers come from /proc beside cgroup where it is the host's, else from the engine.",
	"docker_host", "source")

// With resources: auto, cgroup files are the source while they have every container's numbers. The engine replaces them after
// maxBadRounds probes in a row without, and they replace the engine after minGoodRounds probes in a row with all numbers.
const (
	maxBadRounds  = 3
	minGoodRounds = 10
)

// sourceChoice is the choice between cgroup files and the engine. The zero value has not chosen.
type sourceChoice struct {
	chosen, files bool
	bad, good     int   // rounds in a row
	why           error // the last reason to doubt the files
	network       error // why the files have no network numbers; nil if they have
	// missing are the runs of containers that had no files in the last round.
	missing map[string]time.Time
}

// next takes whether the files were usable in one more round, and reports whether the choice has changed.
func (s *sourceChoice) next(usable bool) (changed bool) {
	before := *s
	if usable {
		s.bad, s.good = 0, s.good+1
	} else {
		s.bad, s.good = s.bad+1, 0
	}
	switch {
	case !s.chosen:
		s.chosen, s.files = true, usable
	case s.files:
		s.files = s.bad < maxBadRounds
	default:
		s.files = s.good >= minGoodRounds
	}
	return s.chosen != before.chosen || s.files != before.files
}

// engineRounds is how many rounds pass from one question about all containers to the next, so also the most rounds that the
// engine's numbers are old.
const engineRounds = 2

// origin is where the numbers of a container come from.
type origin string

const (
	fromFiles  origin = "cgroup"
	fromEngine origin = "engine"
)

// measureResources measures the containers of a round, or requests that from the background.
func (c *docker) measureResources(ctx context.Context, m dockerRound) {
	switch c.settings.Resources {
	case resourcesCgroup:
		used, err := c.readFiles(ctx, m)
		c.recordUsage(ctx, m, fromFiles, used, c.splitNetwork(err))
	case resourcesEngine:
		c.askEngine(ctx, m)
	case resourcesAuto:
		used, err := c.readFiles(ctx, m)
		if ctx.Err() != nil && !c.once {
			return // says nothing about the files
		}
		err = c.splitNetwork(err)
		m.networkOnly = c.choice.network != nil
		doubt := c.doubtFiles(m, used, err)
		changed := c.choice.next(doubt == nil)
		if doubt != nil {
			c.choice.why = doubt
		}
		if changed && !c.once {
			if c.choice.files {
				c.log.Info("container resources come from cgroup files", "cgroup_root", c.cgroups.Root)
				if network := c.choice.network; network != nil {
					c.log.Info("network numbers come from the engine", "reason", network, "hint", failure.HintOf(network))
				}
			} else {
				c.log.Info("container resources come from the engine, at every other poll", "reason", c.choice.why)
			}
		}
		if c.choice.files {
			c.recordUsage(ctx, m, fromFiles, used, err)
		}
		if m.networkOnly = m.networkOnly && c.choice.files; m.networkOnly || !c.choice.files {
			c.askEngine(ctx, m)
		}
	}
}

// splitNetwork notes an error that concerns only the network numbers of the files, and returns any other.
func (c *docker) splitNetwork(err error) error {
	c.choice.network = nil
	if network, ok := errors.AsType[*cgroup.NetworkError](err); ok {
		c.choice.network = network
		return nil
	}
	return err
}

// doubtFiles says why the engine should be asked instead of the files; nil if they have all numbers. A container that has just
// stopped has no files, so it must be missing twice.
func (c *docker) doubtFiles(m dockerRound, used map[string]usage.Usage, err error) error {
	missing := c.choice.missing
	c.choice.missing = map[string]time.Time{}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range m.subjects {
		u, ok := used[s.ID]
		if !ok {
			c.choice.missing[s.ID] = s.Started
			if before, ok := missing[s.ID]; ok && before.Equal(s.Started) || !c.choice.chosen {
				err = failure.Errorf(failure.NotFound, "a running container has no files in %s", c.cgroups.Root).WithHint(cgroup.Hint)
			}
		} else if shown := c.shown[s.ID]; shown.from == fromEngine && shown.started.Equal(s.Started) && u.CPUIsBelow(&shown.Usage) {
			err = fmt.Errorf("a CPU time in %s is lower than the engine's", c.cgroups.Root)
		}
	}
	return err
}

// noteSource says where resources come from, with resources: auto, and what the files lack.
func (c *docker) noteSource(b *Batch) {
	switch {
	case c.settings.Resources == resourcesCgroup && c.choice.network != nil:
		b.Note("network numbers are missing: " + withHintText(c.choice.network))
	case c.settings.Resources != resourcesAuto || !c.choice.chosen:
	case c.choice.files:
		b.Note("memory and CPU numbers come from cgroup files in " + c.cgroups.Root)
		if c.choice.network != nil {
			b.Note("network numbers come from the engine, asked at every other poll: " + withHintText(c.choice.network))
		}
		if c.choice.network != nil && c.networkErr != nil {
			b.Note("network numbers are missing: " + withHintText(c.networkErr))
		}
	default:
		b.Note("memory, CPU and network numbers come from the engine, asked at every other poll: " + withHintText(c.choice.why))
	}
}

// askEngine asks the engine about the containers of every other round, in the background, unless nobody waits for the answer.
func (c *docker) askEngine(ctx context.Context, m dockerRound) {
	if c.once {
		c.measure(ctx, m)
	} else if c.asked == 0 || m.round-c.asked >= engineRounds {
		c.asked = m.round
		c.askFor(m)
	}
}
