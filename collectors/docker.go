package collectors

import (
	"context"
	"fmt"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
)

func newDocker(s *Docker, d Deps) (Collector, error) {
	engine, err := s.Client(int64(d.Limits.MetricsBody), d.UserAgent)
	if err != nil {
		return nil, fmt.Errorf("host: %w", err)
	}
	c := &docker{
		settings:     s,
		engine:       engine,
		log:          d.Log,
		once:         d.Once,
		inspecting:   make(chan struct{}, 1),
		networkOwner: networkOwner(d.MountInfo),
		follower: follower{
			answered: make(chan struct{}, 1),
			patience: maxEventDelay,
			quiet:    maxStreamSilence,
			lasting:  healthyStreamAge,
		},
		resourceMeter: resourceMeter{
			measuring:    make(chan dockerRound, 1),
			readingFiles: make(chan struct{}, 1),
			cgroups:      cgroup.Tree{Root: s.cgroupRoot(), ProcRoot: s.procRoot()},
		},
		keeper: keeper{state: d.State},
		fleet:  fleet.New(s.rules(d.Containers)),
		unsure: true,
		hangs:  fleet.NewHangs(),
	}
	c.load()
	return c, nil
}

// Collect implements Collector. Present adds its results.
func (c *docker) Collect(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if err != nil { // old measurements are stale when the engine answers again
			c.asked = 0
			c.locked(func() { c.resources, c.networks, c.failed = nil, nil, c.rounds })
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
	if c.once {
		c.tryEvents(ctx, s)
	}
	c.measureResources(ctx, m)
	if !c.once {
		c.save()
		if !m.following {
			select {
			case c.answered <- struct{}{}:
			default:
			}
		}
	}
	c.addNotes(b, listed)
	return nil
}
