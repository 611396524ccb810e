package collectors

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

var dockerFeatureDesc = prometheus.NewDesc("chatstack_docker_feature_available",
	"Whether an optional engine API feature is available. Without events, the exporter sees changes only when it polls; without stats, it has no memory, CPU and network numbers.",
	[]string{"docker_host", "feature"}, nil)

const (
	// deafAfter is how late an event may come that a list has shown to be due; tests have less patience.
	deafAfter = 5 * time.Second
	// quietAfter is how long a stream may say nothing before it is opened anew, in case it has died in silence.
	quietAfter = 5 * time.Minute
	// lastingStream is how long a stream lives that is sound, briefStreams how many in a row may live shorter before
	// events count as not to be had.
	lastingStream = 30 * time.Second
	briefStreams  = 3
	// eventsQueue is how many events may wait while containers are inspected.
	eventsQueue = 4096
)

var (
	errDeaf  = errors.New("the container list shows changes that no event reported")
	errQuiet = errors.New("no event for a long time")
)

// Follow implements Follower: it listens to the engine's events, opens the stream again whenever it ends, and measures
// resources after each reading, beside it.
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
			c.streamPanicked(r)
			panic(r) // whoever has it follow contains that, and starts it again later
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
		c.closed(err, lasted)
		changed()
		rest := time.NewTimer(policy.NextBackOff())
		select {
		case <-ctx.Done():
		case <-rest.C:
		case <-c.answered: // the engine is there again
		}
		rest.Stop()
	}
}

// closed takes in that the stream has ended, or could not be opened.
func (c *docker) closed(err error, lasted bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	opened := c.stream.open
	c.stream.open, c.unsure = false, true
	c.fleet.TrustEvents()
	if opened { // what was never opened says nothing of how long streams live
		c.stream.brief++
	}
	if lasted {
		c.stream.brief = 0
	}
	if opened && c.stream.brief < briefStreams {
		c.log.Debug("event stream closed", "err", err)
		return
	}
	if c.stream.err == nil {
		c.log.Warn("engine events are unavailable; changes are seen only when polling", "err", err, "hint", failure.HintOf(err))
	}
	c.stream.known, c.stream.err = true, err
}

// streamPanicked marks events as unavailable until a later stream has lasted.
func (c *docker) streamPanicked(r any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream.known, c.stream.err = true, failure.Errorf(failure.Panic, "following events panicked: %v", r)
	c.stream.brief = briefStreams
}

// opened takes in that the stream is open, and reports whether the engine was asked before, so that something may have
// been missed since.
func (c *docker) opened() (missed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stream.open, c.stream.known, c.unsure = true, true, true
	if c.fleet.FollowedSince.IsZero() {
		c.fleet.FollowedSince = c.stream.last
	}
	if c.stream.brief < briefStreams {
		c.sound()
	}
	return c.rounds > 0
}

// sound takes in that events can be followed. The caller holds the lock.
func (c *docker) sound() {
	if c.stream.err != nil {
		c.log.Info("engine events are available again")
	}
	c.stream.err = nil
}

// since is from when on events are wanted, as the API writes it: from the last one, or "" for those to come.
func (c *docker) since() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream.last.IsZero() {
		return ""
	}
	return fmt.Sprintf("%d.%09d", c.stream.last.Unix(), c.stream.last.Nanosecond())
}

// openEvents opens the stream of events.
func (c *docker) openEvents(ctx context.Context, s *api.Session) (<-chan events.Message, <-chan error, error) {
	opening, cancel := context.WithTimeout(ctx, api.EventsTimeout)
	defer cancel()
	if err := c.negotiate(opening, s, &Batch{}); err != nil {
		return nil, nil, err
	}
	return s.Events(ctx, c.since(), fleet.EventActions)
}

// listen opens the stream once and takes in what it says until it ends.
func (c *docker) listen(ctx context.Context, changed func()) error {
	s, err := c.engine.Open(1)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx, cancel := context.WithCancel(ctx)
	var pump sync.WaitGroup
	defer pump.Wait()
	defer cancel()
	messages, errs, err := c.openEvents(ctx, s)
	if err != nil {
		return err
	}
	queue := make(chan events.Message, eventsQueue)
	var ended error // to be read once the queue is closed
	pump.Go(func() {
		defer close(queue)
		ended = c.queueEvents(ctx, messages, errs, queue)
	})
	if missed := c.opened(); missed {
		c.catchUp(ctx)
	}
	changed()
	tick := time.NewTicker(c.patience)
	defer tick.Stop()
	quiet := time.NewTimer(c.quiet)
	defer quiet.Stop()
	lasting := time.NewTimer(c.lasting)
	defer lasting.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case e, ok := <-queue:
			if !ok {
				return s.ExplainEnd(ended)
			}
			c.take(ctx, append([]events.Message{e}, drained(queue)...), changed)
			quiet.Reset(c.quiet)
		case <-tick.C:
			c.save()
			if c.deaf() {
				return failure.Errorf(failure.Closed, "follow events of %s: %w", c.settings.Host, errDeaf).WithHint(api.HintEvents)
			}
		case <-lasting.C:
			c.locked(func() {
				c.stream.brief = 0
				c.sound()
			})
			changed()
		case <-quiet.C:
			return errQuiet // which is no fault
		}
	}
}

// queueEvents moves events to the queue, which takes those that come while containers are inspected. It returns what ended the
// stream, or nil once ctx is done.
func (c *docker) queueEvents(ctx context.Context, messages <-chan events.Message, errs <-chan error, queue chan<- events.Message) (ended error) {
	for {
		select {
		case e := <-messages:
			e.Actor.Attributes = c.fleet.Rules.NeededLabels(e.Actor.Attributes, "name", "exitCode")
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

// drained takes what is in the queue, without waiting.
func drained(queue <-chan events.Message) []events.Message {
	var batch []events.Message
	for {
		select {
		case e, ok := <-queue:
			if !ok {
				return batch
			}
			batch = append(batch, e)
		default:
			return batch
		}
	}
}

func (c *docker) deaf() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fleet.MissesEvents(time.Now(), c.patience)
}

// take takes in events and has the containers inspected that they speak of.
func (c *docker) take(ctx context.Context, batch []events.Message, changed func()) {
	var (
		wanted []container.Summary
		mark   uint64
	)
	again := map[string]bool{}
	c.locked(func() {
		c.touched = true
		now := time.Now()
		for i := range batch {
			e := &batch[i]
			if c.stream.repeated(e) || !c.fleet.ApplyEvent(e, now) || again[e.Actor.ID] {
				continue
			}
			again[e.Actor.ID] = true
			wanted = append(wanted, container.Summary{ID: e.Actor.ID})
		}
		mark = c.fleet.Mark
	})
	if len(wanted) > 0 {
		if err := c.look(ctx, wanted, mark); err != nil && ctx.Err() == nil {
			c.log.Debug("containers named in events were not inspected", "err", err)
			c.locked(func() { c.unsure = true })
		}
	}
	changed()
}

// look inspects containers between two readings.
func (c *docker) look(ctx context.Context, wanted []container.Summary, mark uint64) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	release, err := c.claim(ctx)
	if err != nil {
		return err
	}
	defer release()
	s, err := c.open(ctx, c.settings.Parallelism)
	if err != nil {
		return err
	}
	defer s.Close()
	// Events speak of some of the containers: that the engine stumbles over all of these is nothing yet.
	found, err := c.inspectAll(ctx, s, &Batch{}, wanted, len(wanted)+1)
	if err != nil {
		return err
	}
	c.describe(wanted, found, mark)
	return nil
}

// catchUp asks for everything after events may have been lost. If that fails, the next reading does it.
func (c *docker) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := c.open(ctx, c.settings.Parallelism)
	if err != nil {
		return
	}
	defer s.Close()
	if _, err := c.review(ctx, s, &Batch{}); err != nil {
		c.log.Debug("containers were not listed after the event stream reopened", "err", err)
	}
}

// tryEvents finds out whether events could be followed.
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

// Present implements Follower.
func (c *docker) Present(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := c.settings.Label
	reports := c.fleet.Report(time.Now())
	writeReports(b, reports, host)
	b.Engine = &health.Engine{Host: host, Containers: containerFacts(reports, host)}
	if c.rounds-c.measured <= 1 { // older ones are stale
		facts := b.Engine.Containers // of those with a status, in the same order
		for i := range reports {
			r := &reports[i]
			if r.Status == nil {
				continue
			}
			// A run that has ended uses nothing, whatever it used.
			if used, ok := c.resources[r.ID]; ok && r.Status.PID != 0 && used.started.Equal(r.Status.Started) {
				writeUsage(b, &used.Usage, r.Name, host)
				if used.HasMemory {
					facts[0].Memory = float64(used.WorkingSet)
				}
			}
			facts = facts[1:]
		}
	}
	if c.stream.known {
		b.Gauge(dockerFeatureDesc, boolValue(c.stream.err == nil), host, "events")
	}
	if c.stats.known {
		b.Gauge(dockerFeatureDesc, boolValue(c.stats.err == nil), host, "stats")
	}
}

// Forget implements Forgetter.
func (c *docker) Forget(name string) (err error) {
	c.locked(func() {
		if err = c.fleet.Forget(name); err == nil {
			c.touched = true
		}
	})
	if err == nil {
		c.save()
	}
	return err
}
