package collectors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

// docker watches the containers of an engine. Events tell of changes at once, and count restarts; a list at every reading
// is the truth, of which only what is new or doubtful is inspected. The list alone says less than it should: its health is
// words for people.
type docker struct {
	settings *Docker
	engine   *api.Client
	log      *slog.Logger
	once     bool
	empty    bool // at the last reading no container was watched
	// looking is held while containers are described, so that an older description never comes after a newer one.
	looking chan struct{}
	follower
	resourceMeter
	keeper

	mu    sync.Mutex // guards the fields below, and those of the embedded structs that say so; held during no call
	fleet *fleet.Fleet
	// unsure is true while everything is to be inspected: at the start, and after events may have been lost.
	unsure  bool
	stream  eventStream
	hangs   fleet.Hangs
	leftOut listCounts
}

// listCounts are how many containers the last list had, and how many of them were left out.
type listCounts struct{ listed, beyond, misnamed int }

// locked calls do with the lock, which it gives back whatever happens.
func (c *docker) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// claim waits until nobody else asks for descriptions, and returns what ends that.
func (c *docker) claim(ctx context.Context) (release func(), err error) {
	select {
	case c.looking <- struct{}{}:
		return func() { <-c.looking }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("describe containers of %s: %w", c.settings.Host, ctx.Err())
	}
}

// feature is whether a part of the engine's API is at hand.
type feature struct {
	known bool
	err   error
}

func newDocker(s *Docker, d Deps) (Collector, error) {
	engine, err := s.client(int64(d.Limits.MetricsBody), d.UserAgent)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c := &docker{
		settings: s, engine: engine, log: d.Log, once: d.Once, looking: make(chan struct{}, 1),
		follower:      follower{answered: make(chan struct{}, 1), patience: deafAfter, quiet: quietAfter, lasting: lastingStream},
		resourceMeter: resourceMeter{measuring: make(chan dockerRound, 1), readingFiles: make(chan struct{}, 1), cgroups: cgroup.Tree{Root: s.CgroupRoot, ProcRoot: s.ProcRoot}},
		keeper:        keeper{state: d.State},
		fleet:         fleet.New(s.rules(d.Containers)), unsure: true, hangs: fleet.NewHangs(),
	}
	c.load()
	return c, nil
}

// Collect implements Collector. What it finds is told by Present.
func (c *docker) Collect(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if err != nil { // what was measured before is old by the time that the engine answers again
			c.locked(func() { c.resources, c.failed = nil, c.rounds })
		}
	}()
	s, err := c.engine.Open(c.settings.Parallelism)
	if err != nil {
		return err
	}
	defer s.Close()
	defer s.RecordCertificate(&b.Record)
	if err := c.negotiate(ctx, s, b); err != nil {
		return err
	}
	listed, err := c.review(ctx, s, b)
	if err != nil {
		return err
	}
	m := c.round()
	switch {
	case c.once:
		c.tryEvents(ctx, s)
		c.measure(ctx, m)
	case c.settings.Resources == resourcesCgroup:
		c.measureCgroups(ctx, m)
	default:
		c.askFor(m)
	}
	if !c.once {
		c.save()
		if !m.following {
			select {
			case c.answered <- struct{}{}:
			default:
			}
		}
	}
	c.tell(b, listed)
	return nil
}
