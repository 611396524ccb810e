package collectors

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var dockerFeatureDesc = readDesc("chatstack_docker_feature_available",
	"Whether an optional engine API feature is available. Without events, the exporter sees changes only when it polls; without stats, "+
		"it has no memory, CPU and network numbers.",
	"docker_host", "feature")

const (
	// maxEventDelay is how long after a list shows a change its event may come.
	maxEventDelay = 5 * time.Second
	// maxStreamSilence is how long a stream may be silent before it is reopened, in case the connection is dead.
	maxStreamSilence = 5 * time.Minute
	// A stream older than healthyStreamAge is healthy. After maxShortStreams shorter ones in a row, events count as unavailable.
	healthyStreamAge = 30 * time.Second
	maxShortStreams  = 3
	// maxQueuedEvents is how many events may wait while containers are inspected.
	maxQueuedEvents = 4096
)

var (
	errDeaf  = errors.New("the container list shows changes that no event reported")
	errQuiet = errors.New("no event for a long time")
)

// Follow implements Follower: it listens to the engine's events, reopens the stream whenever it ends, and measures
// resources in the background after each probe.
func (c *docker) Follow(ctx context.Context, changed func()) {
	present := changed
	changed = func() { c.keepCounts(); present() }
	ctx, cancel := context.WithCancel(ctx)
	var measuring sync.WaitGroup
	measuring.Go(func() { c.measureLoop(ctx, changed) })
	defer measuring.Wait()
	defer cancel()
	defer c.save()
	defer c.locked(func() { c.stream.open, c.unsure = false, true })
	defer func() {
		if r := recover(); r != nil {
			c.locked(func() { // events are unavailable until a later stream has lasted
				c.stream.known, c.stream.err = true, failure.Errorf(failure.Panic, "following events panicked: %v", r)
				c.stream.brief = maxShortStreams
			})
			panic(r) // the caller recovers and restarts it later
		}
	}()
	policy := backoff.NewExponentialBackOff()
	policy.InitialInterval, policy.MaxInterval = 250*time.Millisecond, 30*time.Second
	for ctx.Err() == nil {
		began := time.Now()
		err := c.listen(ctx, changed)
		if ctx.Err() != nil {
			return
		}
		lasted := time.Since(began) > c.lasting
		if lasted {
			policy.Reset()
		}
		c.markStreamEnded(err, lasted)
		changed()
		select {
		case <-ctx.Done():
		case <-time.After(policy.NextBackOff()):
		case <-c.answered: // the engine is there again
		}
	}
}

// markStreamEnded records that the stream has ended, or could not be opened.
func (c *docker) markStreamEnded(err error, lasted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	opened := c.stream.open
	c.stream.open, c.unsure = false, true
	c.fleet.ResetOverdueEvents()
	if opened { // a stream that never opened shows nothing about how long streams last
		c.stream.brief++
	}
	if lasted {
		c.stream.brief = 0
	}
	if opened && c.stream.brief < maxShortStreams {
		c.log.Debug("event stream closed", "err", err)
		return
	}
	if c.stream.err == nil {
		c.log.Warn("engine events are unavailable; changes are seen only when polling", "err", err, "hint", failure.HintOf(err))
	}
	c.stream.known, c.stream.err = true, err
}

// markStreamOpen records that the stream is open. It reports whether the engine was probed before, so that events may have
// been missed since.
func (c *docker) markStreamOpen() (missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream.open, c.stream.known, c.unsure = true, true, true
	c.fleet.FollowFrom(c.stream.last)
	if c.stream.brief < maxShortStreams {
		c.markStreamHealthy()
	}
	return c.rounds > 0
}

// markStreamHealthy records that events are available. The caller holds the lock.
func (c *docker) markStreamHealthy() {
	if c.stream.err != nil {
		c.log.Info("engine events are available again")
	}
	c.stream.err = nil
}

func (c *docker) openEvents(ctx context.Context, s *api.Session) (<-chan events.Message, <-chan error, error) {
	opening, cancel := context.WithTimeout(ctx, api.EventsTimeout)
	defer cancel()
	if err := c.negotiate(opening, s, &Batch{}); err != nil {
		return nil, nil, err
	}
	since := "" // only new events
	c.locked(func() {
		if last := c.stream.last; !last.IsZero() {
			since = fmt.Sprintf("%d.%09d", last.Unix(), last.Nanosecond())
		}
	})
	return s.Events(ctx, since, fleet.EventActions)
}

// listen opens the stream once and applies its events until it ends.
func (c *docker) listen(ctx context.Context, changed func()) error {
	s, err := c.engine.Open(1 + c.connections())
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	var pump, inspecting sync.WaitGroup
	defer pump.Wait()
	defer inspecting.Wait()
	defer cancel()
	messages, errs, err := c.openEvents(ctx, s)
	if err != nil {
		return err
	}
	queue := make(chan events.Message, maxQueuedEvents)
	var ended error // to be read once the queue is closed
	pump.Go(func() {
		defer close(queue)
		ended = c.queueEvents(ctx, messages, errs, queue)
	})
	if missed := c.markStreamOpen(); missed {
		inspecting.Go(func() { c.catchUp(ctx) })
	}
	changed()
	tick := time.NewTicker(c.patience)
	defer tick.Stop()
	quiet := time.NewTimer(c.quiet)
	defer quiet.Stop()
	lasting := time.After(c.lasting)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-queue:
			if !ok {
				return s.ExplainEnd(ended)
			}
			quiet.Reset(c.quiet)
			ids := c.applyEvents(append([]events.Message{e}, drained(queue)...))
			if c.inspectChanged(ctx, &inspecting, s, ids); len(ids) == 0 {
				changed() // otherwise once they are described, or one of them waits
			}
		case <-c.described:
			overtaken, idle := c.settleInspections()
			c.inspectChanged(ctx, &inspecting, s, overtaken)
			if idle {
				s.Close()
			}
			changed()
		case <-tick.C:
			c.save()
			missing := false
			c.locked(func() { missing = c.fleet.HasOverdueEvent(time.Now(), c.patience) })
			if missing {
				return failure.Errorf(failure.Closed, "follow events of %s: %w", c.settings.Host, errDeaf).WithHint(api.HintEvents)
			}
		case <-lasting:
			c.locked(func() {
				c.stream.brief = 0
				c.markStreamHealthy()
			})
			changed()
		case <-quiet.C:
			return errQuiet // not an error of the engine
		}
	}
}

// queueEvents moves events to the queue, so that the stream is read while containers are inspected. It returns the error that
// ended the stream, or nil once ctx is done.
func (c *docker) queueEvents(
	ctx context.Context, messages <-chan events.Message, errs <-chan error, queue chan<- events.Message,
) (ended error) {
	for {
		select {
		case e := <-messages:
			e.Actor.Attributes = c.fleet.Rules().NeededLabels(e.Actor.Attributes, fleet.EventAttributes...)
			select {
			case queue <- e:
			case <-ctx.Done():
			}
		case err, streaming := <-errs:
			if !streaming { // the client's goroutine is over
				return ended
			}
			ended = err
		}
	}
}

// drained returns what waits in the queue.
func drained(queue <-chan events.Message) (batch []events.Message) {
	for range len(queue) {
		batch = append(batch, <-queue)
	}
	return batch
}

// applyEvents applies events and returns the containers to inspect.
func (c *docker) applyEvents(batch []events.Message) (ids []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for i := range batch {
		e := &batch[i]
		if c.stream.repeated(e) || !c.fleet.ApplyEvent(e, now) {
			continue
		}
		c.hangs.ApplyEvent(e, now)
		if !slices.Contains(ids, e.Actor.ID) {
			ids = append(ids, e.Actor.ID)
		}
	}
	c.fleet.Tidy(now) // a removed container is not inspected
	return ids
}

// inspectChanged inspects containers that had an event. If that fails, the next probe inspects all.
func (c *docker) inspectChanged(ctx context.Context, wg *sync.WaitGroup, s *api.Session, ids []string) {
	for _, id := range ids {
		c.inspect(ctx, wg, s, id, func(err error) {
			c.log.Debug("a container with an event was not inspected", "err", err)
			c.locked(func() { c.unsure = true })
		})
	}
}

// settleInspections completes what inspections have found, and returns the containers to inspect again.
func (c *docker) settleInspections() (overtaken []string, idle bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.fleet.Expect(now)
	c.fleet.Tidy(now)
	overtaken, c.overtaken = c.overtaken, nil
	return overtaken, len(c.inspections) == 0
}

// catchUp lists all containers after events may have been lost. If that fails, the next probe does it.
func (c *docker) catchUp(ctx context.Context) {
	defer signal(c.described)
	if err := c.lookAtAll(ctx); err != nil {
		c.log.Debug("containers were not listed after the event stream reopened", "err", err)
	}
}

func (c *docker) lookAtAll(ctx context.Context) (err error) {
	defer c.recoverInspecting(&err)
	ctx, cancel := context.WithTimeout(ctx, c.lookTimeout())
	defer cancel()
	s, err := c.open(ctx, c.connections())
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = c.review(ctx, s, &Batch{})
	return err
}

// tryEvents checks whether events are available.
func (c *docker) tryEvents(ctx context.Context, s *api.Session) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	_, errs, err := c.openEvents(ctx, s)
	c.locked(func() { c.stream.known, c.stream.err = true, err })
	if err == nil {
		cancel()
		for range errs { // the client's goroutine ends
			continue
		}
	}
}

// Present implements Presenter.
func (c *docker) Present(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := c.settings.Label
	now := time.Now()
	reports := c.fleet.Report(now)
	for i := range reports {
		r := &reports[i]
		writeReport(b, r)
		if r.Status != nil {
			b.Gauge(containerChatServerDesc, 1, r.Name, r.Workload, c.settings.chatServer(&r.Container), host)
		}
		if used, known := c.usageOf(r); known {
			writeUsage(b, &used, r.Name, host)
			r.Usage = health.Usage{
				Memory:      float64(used.WorkingSet),
				MemoryLimit: float64(used.Limit),
				HasMemory:   used.HasMemory,
				CPUSeconds:  used.CPUSeconds,
				HasCPU:      used.HasCPU,
			}
		}
		r.HostNames = canonical(r.HostNames)
	}
	b.Engine = &health.Engine{Host: host}
	b.Engine.Containers, b.Engine.Disappeared = c.fleet.Judged(reports, now)
	for _, w := range c.fleet.Workloads() {
		writeWorkload(b, &w, host)
	}
	if c.stream.known {
		b.Gauge(dockerFeatureDesc, boolValue(c.stream.err == nil), host, "events")
	}
	if c.stats.known {
		b.Gauge(dockerFeatureDesc, boolValue(c.stats.err == nil), host, "stats")
		b.Gauge(containerSourceDesc, 1, host, c.source)
	}
}

// usageOf returns what a container uses, or false if that is unknown. The caller holds the lock.
func (c *docker) usageOf(r *fleet.Report) (usage.Usage, bool) {
	used, ok := c.resources[r.ID]
	stale := c.rounds-c.measured > engineRounds
	if stale || !ok || r.Status == nil || r.Status.PID == 0 || !used.started.Equal(r.Started) { // what has stopped uses nothing
		return usage.Usage{}, false
	}
	return used.Usage, true
}

// Forget implements Presenter.
func (c *docker) Forget(name string) (err error) {
	c.locked(func() { err = c.fleet.Forget(name) })
	if err == nil {
		c.save()
	}
	return err
}

// eventStream is the state of the event stream.
type eventStream struct {
	open bool
	// known is true once the stream was open, or failed to open with err.
	known bool
	err   error
	// brief counts the streams in a row that ended soon.
	brief int
	// last is the time of the last event, or a second before the first answer of the engine.
	last time.Time
	// heard is a ring of the last eventsKept events; seen holds the same events.
	heard []eventKey
	count int
	seen  map[eventKey]bool
}

type eventKey struct {
	id     string
	action events.Action
	nano   int64
}

// repeated reports whether the event came before, and remembers it.
func (s *eventStream) repeated(e *events.Message) bool {
	if e.TimeNano == 0 {
		return false // no known engine leaves it out
	}
	key := eventKey{e.Actor.ID, e.Action, e.TimeNano}
	if s.seen[key] {
		return true
	}
	if s.seen == nil {
		s.seen, s.heard = map[eventKey]bool{}, make([]eventKey, eventsKept)
	}
	delete(s.seen, s.heard[s.count%eventsKept])
	s.heard[s.count%eventsKept] = key
	s.seen[key] = true
	s.count++
	s.last = time.Unix(0, e.TimeNano)
	return false
}

// eventsKept is how many events are remembered, so that none counts twice when the engine repeats its last 256.
const eventsKept = 512
