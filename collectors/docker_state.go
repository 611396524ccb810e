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
	// networkOwner is the id of the container whose network the exporter is on, until its networks are known. Whoever holds looking owns it.
	networkOwner string
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

// resourceMeter is what containers use, and how that is measured.
type resourceMeter struct {
	measuring chan dockerRound
	// readingFiles is held while cgroups are read.
	readingFiles chan struct{}
	cgroups      cgroup.Tree

	// The collector's lock guards what follows. rounds counts the readings that succeeded, measured is the last of them whose
	// containers' resources are known, failed the last one before a reading that failed.
	rounds, measured, failed int
	resources                map[string]runUsage
	stats                    feature // how the last measurement ended
}

// runUsage is what one run of a container used.
type runUsage struct {
	usage.Usage
	started time.Time
}

// feature is whether a part of the engine's API is at hand.
type feature struct {
	known bool
	err   error
}

// dockerRound is whose resources are to be measured, and for which round of readings.
type dockerRound struct {
	round    int
	subjects []usage.Subject
	// following says that events flow.
	following bool
}

// keeper keeps what is known of containers over restarts of the exporter.
type keeper struct {
	state State
	// touched says that there may be something new to keep. The collector's lock guards it.
	touched bool

	saving  sync.Mutex // guards what follows
	saved   []byte     // what was kept last
	unsaved bool       // the last attempt has failed
}

// lookTimeout bounds the inspections that events ask for.
const lookTimeout = 5 * time.Second
