package collectors

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
)

// docker watches the containers of an engine. Events report changes at once and count restarts. Each probe lists all
// containers and inspects those that are new or doubtful, because the list itself gives health only as text.
type docker struct {
	settings *Docker
	engine   *api.Client
	log      *slog.Logger
	once     bool
	state    State      // nil without a state file
	saving   sync.Mutex // orders writes of the state, and guards saved, the last one
	saved    []byte

	reviewing chan struct{} // held while a list is applied
	slots     chan struct{} // one for each inspection at once
	described chan struct{} // has Follow present what inspections have found
	answered  chan struct{} // has Follow reopen the event stream at once
	// Tests shorten the times: maxEventDelay, maxStreamSilence, healthyStreamAge.
	patience, quiet, lasting time.Duration

	mu    sync.Mutex // guards what follows; never held during a request
	fleet *fleet.Fleet
	hangs fleet.Hangs
	// stalled counts the attempts since the engine described no container at all.
	stalled int
	// unsure is true if everything must be inspected: at the start, and after events may have been lost.
	unsure bool
	stream eventStream
	// inspections are those that run, by id; overtaken are those whose containers had an event meanwhile.
	inspections map[string]*inspection
	overtaken   []string
	leftOut     fleet.ListCounts
	empty       bool // no container was watched at the last probe
	// networkOwner is the id of the container whose network the exporter uses, "" once its networks are known.
	networkOwner  string
	resourceMeter // its comments say which fields the lock guards
}

// locked calls do with the lock held.
func (c *docker) locked(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// resourceMeter measures the containers' resources.
type resourceMeter struct {
	measuring chan dockerRound
	// readingFiles is held while cgroups are read.
	readingFiles chan struct{}
	cgroups      cgroup.Tree

	// The collector's lock guards what follows. rounds counts successful probes. measured is the last round whose resources
	// are known, failed the last round before a failed probe.
	rounds, measured, failed int
	// source is a value of Docker.Resources. With auto, it is the last choice; chosen is false until the next one is made.
	source   string
	chosen   bool
	notFiles error // why auto has not chosen the files
	// resources are what the last measurement found, networkErr why it found no network numbers.
	resources  map[string]runUsage
	networkErr error
	stats      feature // how it ended
}

// runUsage is what one run of a container used.
type runUsage struct {
	usage.Usage
	started time.Time
}

// feature is whether an optional part of the engine's API is available.
type feature struct {
	known bool
	err   error
}

// dockerRound is a request to measure resources after a probe.
type dockerRound struct {
	round    int
	subjects []usage.Subject
	// source is the source of the round's numbers; auto if it is still to be chosen. due is true if it is the engine's turn.
	source string
	due    bool
	// following is true if the event stream is open.
	following bool
}

// longestLook bounds requests between probes.
const longestLook = 5 * time.Second

// lookTimeout is how long requests between probes may take: a probe that comes meanwhile waits for them, and needs half of its time.
func (c *docker) lookTimeout() time.Duration { return min(longestLook, c.settings.Timeout.Std()/2) }

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
		state:        d.State,
		reviewing:    make(chan struct{}, 1),
		slots:        make(chan struct{}, s.Parallelism),
		described:    make(chan struct{}, 1),
		answered:     make(chan struct{}, 1),
		patience:     maxEventDelay,
		quiet:        maxStreamSilence,
		lasting:      healthyStreamAge,
		fleet:        fleet.New(s.rules(d.Containers, d.Services)),
		hangs:        fleet.NewHangs(),
		unsure:       true,
		inspections:  map[string]*inspection{},
		networkOwner: networkOwner(d.MountInfo),
		resourceMeter: resourceMeter{
			measuring:    make(chan dockerRound, 1),
			readingFiles: make(chan struct{}, 1),
			cgroups:      cgroup.Tree{Root: s.cgroupRoot(), ProcRoot: s.procRoot()},
			source:       s.Resources,
			chosen:       s.Resources != resourcesAuto,
		},
	}
	c.load()
	return c, nil
}

// Collect implements Collector. Present adds its results.
func (c *docker) Collect(ctx context.Context, b *Batch) (err error) {
	defer func() {
		if err != nil { // old measurements are stale when the engine answers again
			c.locked(func() { c.resources, c.failed = nil, c.rounds })
		}
	}()
	s, err := c.engine.Open(c.connections())
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
			signal(c.answered)
		}
	}
	c.addNotes(b, listed)
	return nil
}
