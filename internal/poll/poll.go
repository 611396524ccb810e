// Package poll probes targets on schedule, publishes what is known, and makes the metrics page of it when somebody asks.
package poll

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

const (
	// heartbeatInterval is how often the poll loop updates its heartbeat.
	heartbeatInterval = 10 * time.Second
	// renewAfter is the age of the heartbeat of a snapshot at which the next heartbeat renews it, even if no target has changed.
	// Every second heartbeat does, so a snapshot and its heartbeat are at most two beats old; poll_stalled.after allows for that.
	renewAfter = heartbeatInterval * 3 / 2
	// firstStep is the time between two first readings, so that a thousand targets do not use up all file descriptors at once.
	firstStep = 2 * time.Millisecond
	// The poll loop has stalled when its heartbeat is older than stalledAfter, the judgement when it is older than
	// judgementStalledAfter, a page when it is being made for longer than pageStalledAfter.
	stalledAfter          = 3 * heartbeatInterval
	judgementStalledAfter = renewAfter + stalledAfter
	pageStalledAfter      = stalledAfter
	// maxAsked bounds the probes that are asked for and have not begun.
	maxAsked = 16
)

// Poller probes targets and publishes snapshots. Run may be called again after it has returned.
type Poller struct {
	log     *slog.Logger
	judge   Judge // may be nil
	targets []*target
	rhythm  *rhythm
	pages   pages
	// connections are what targets at one server share, asked the targets that somebody wants to be probed now.
	connections *pacing.Connections
	asked       chan *target

	snapshot  atomic.Pointer[Snapshot]
	heartbeat atomic.Pointer[time.Time]
	dirty     chan struct{}
	readings  sync.WaitGroup
	// Only the publishing goroutine uses the next one.
	loggedClashes map[string]map[string]bool // families, by target
	targetOverdue bool                       // at the last heartbeat; only beat uses it
	onPublish     func()                     // called after each snapshot
	// publishDuration is how long the last snapshot took to make, in nanoseconds.
	publishDuration atomic.Int64
}

// Judge decides what is wrong. One goroutine at a time calls it for each snapshot, and its judgement is in that snapshot.
type Judge interface {
	Judge(facts *health.Facts) *health.Judgement
}

// New makes a poller that does not probe yet; its snapshot already serves a page. Every page includes the families of own. Names of
// targets must be unique. After a reload, previous is the poller that has ended: a target with Same keeps running, and any
// other target keeps its counters; see continuedBy.
func New(targets []Target, own prometheus.Gatherer, judge Judge, log *slog.Logger, previous *Poller) (*Poller, error) {
	p := &Poller{
		log:           log,
		judge:         judge,
		pages:         newPages(own, log),
		dirty:         make(chan struct{}, 1),
		asked:         make(chan *target, maxAsked),
		loggedClashes: map[string]map[string]bool{},
	}
	if previous == nil {
		p.rhythm, p.connections = newRhythm(log), pacing.NewConnections()
	} else {
		p.rhythm, p.connections = previous.rhythm, previous.connections
	}
	now := time.Now()
	p.heartbeat.Store(&now)
	var addresses []string
	for i, old := range previous.continuedBy(targets) {
		t := newTarget(targets[i], old, log)
		t.connections = p.connections
		p.targets = append(p.targets, t)
		if address := targets[i].Pace.Address; address != "" {
			addresses = append(addresses, address)
		}
	}
	p.connections.Configure(addresses)
	p.publish()
	if _, err := p.pages.of(p.Snapshot()); err != nil {
		return nil, err
	}
	return p, nil
}

// continuedBy returns the target of this poller, which may be nil, that each given one continues: that of its kind and name, or of its
// former name; nil for a new one.
func (p *Poller) continuedBy(given []Target) []*target {
	olds := make([]*target, len(given))
	if p == nil {
		return olds
	}
	known, before, now := map[string]*target{}, map[string]string{}, map[string]string{}
	for _, old := range p.targets {
		known[old.Name], before[old.Name] = old, old.Place
	}
	for i := range given {
		now[given[i].Name] = given[i].Place
	}
	renamed := health.Renames(before, now)
	for i := range given {
		old := known[cmp.Or(renamed[given[i].Name], given[i].Name)]
		if old != nil && old.Kind.Name == given[i].Kind.Name {
			olds[i] = old
		}
	}
	return olds
}

// newTarget makes the target of a poller from the old one that it continues, which may be nil.
func newTarget(given Target, old *target, log *slog.Logger) *target {
	if old != nil && given.Same && old.Name == given.Name {
		r, ok := old.Collector.(collectors.Reloader)
		old.readAtStart = ok && r.Reloaded()
		return old
	}
	t := &target{
		Target: given,
		log:    log,
		status: Status{
			Target:     given.Name,
			Kind:       given.Kind.Name,
			ChatServer: given.ChatServer,
			Server:     health.Server{Container: given.Container, Service: given.Service, Host: given.ContainerHost},
			Counters:   Counters{Failures: map[failure.Reason]uint64{}},
		},
	}
	t.forgetContainers()
	if old != nil {
		t.continueOld(old)
	}
	return t
}

// continueOld keeps the counters of the old target, and for how long it must not be probed.
func (t *target) continueOld(old *target) {
	s, _ := old.view()
	if least := t.leastInterval(); least > 0 {
		t.notBefore = old.notBefore
		if !s.LastAttempt.IsZero() {
			t.notBefore = s.LastAttempt.Add(least)
		}
	}
	t.status.Counters, t.former = s.Counters, old
	old.mu.Lock()
	t.waits = old.waits
	old.mu.Unlock()
	if old.HostName != t.HostName || old.Pace.Address != t.Pace.Address {
		t.slow = pacing.Slowdown{} // another server limits nothing yet
	}
}

// History returns the last readings of a target, or false for a name that no target has.
func (p *Poller) History(name string) (History, bool) {
	for _, t := range p.targets {
		if t.Name == name {
			return t.recent(), true
		}
	}
	return History{}, false
}

// Notify sets a function that the publishing goroutine calls after each snapshot; f must not block. Call Notify before Run.
func (p *Poller) Notify(f func()) { p.onPublish = f }

// Refresh requests a new snapshot, so that the next page shows own metrics that have changed.
func (p *Poller) Refresh() { p.changed() }

// Forget makes the collector of a target forget a removed container. The error wraps one of the package collectors.
func (p *Poller) Forget(target, container string) error {
	for _, t := range p.targets {
		if f, ok := t.Collector.(collectors.Presenter); ok && t.Name == target {
			if err := f.Forget(container); err != nil {
				return err
			}
			t.changes.Add(1)
			p.changed()
			return nil
		}
	}
	return fmt.Errorf("%w: target %q has no containers", collectors.ErrContainerUnknown, target)
}

// ForgetMissing makes the collector of an XMPP server forget a missing module. The error wraps one of the package collectors.
func (p *Poller) ForgetMissing(host, module string) error {
	for _, t := range p.targets {
		if f, ok := t.Collector.(collectors.ModuleForgetter); ok {
			return f.ForgetModule(host, module)
		}
	}
	return fmt.Errorf("%w: no target reads the modules of an XMPP server", collectors.ErrModuleUnknown)
}

// Once makes one reading of a target outside of any schedule and keeps no history. The facts are for the judgement: the target,
// and its engine if it has one.
func Once(ctx context.Context, given Target, log *slog.Logger) (Status, Reading, health.Facts) {
	t := newTarget(given, nil, log)
	t.once = true
	t.read(ctx, unscheduled)
	s, _, known := t.viewAll()
	facts := health.Facts{Targets: []health.Target{known}}
	if s.Engine != nil {
		facts.Engines = []health.Engine{*s.Engine}
	}
	if len(t.history.Last) == 0 {
		return s, Reading{}, facts // ctx ended first
	}
	return s, t.history.Last[0], facts
}

// Snapshot returns the current snapshot. It never blocks.
func (p *Poller) Snapshot() *Snapshot { return p.snapshot.Load() }

// Ready reports whether every target has been read once. A target that waits on purpose does not count.
func (p *Poller) Ready() bool {
	for i, s := range p.Snapshot().Statuses {
		if s.LastAttempt.IsZero() && s.RetryAt.IsZero() && p.targets[i].notBefore.IsZero() {
			return false
		}
	}
	return true
}

// Alive returns nil while the poll loop runs, what it finds is judged, and pages are made; else an error with the time since one of
// these stalled. A page that nobody asks for is not made, which is no stall.
func (p *Poller) Alive() error {
	for _, part := range []struct {
		name  string
		last  time.Time
		after time.Duration
	}{
		{"poll loop", *p.heartbeat.Load(), stalledAfter},
		{"judgement", p.Snapshot().Time, judgementStalledAfter},
		{"metrics page", p.pages.begun(), pageStalledAfter},
	} {
		if age := time.Since(part.last); age > part.after {
			return fmt.Errorf("the %s has been stalled for %s", part.name, age.Round(time.Second))
		}
	}
	return nil
}

// LastCompleted is when the poll loop last had no overdue probe and its results were judged, with a monotonic clock reading; zero until
// every target was probed once.
func (p *Poller) LastCompleted() time.Time {
	if !p.Ready() {
		return time.Time{}
	}
	completed := *p.heartbeat.Load()
	if judged := p.Snapshot().Time; judged.Before(completed) {
		return judged
	}
	return completed
}

// Run probes new targets at once and all targets on schedule, until ctx is done. After a reload,
// a changed target first waits for its kind's least interval, and a Reloader may ask to be probed at once. Run returns when all readings
// have ended, and StopGrace after ctx is done at the latest: it abandons readings that take longer.
func (p *Poller) Run(ctx context.Context) {
	var publisher sync.WaitGroup
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	publisher.Go(func() { p.publishLoop(publishing, time.Now()) })
	defer publisher.Wait()
	defer stopPublishing()

	var jobs []*job
	start := time.Now()
	for i, t := range p.targets {
		if f, ok := t.Collector.(collectors.Follower); ok {
			p.readings.Go(func() { p.follow(ctx, t, f) })
		}
		wait := max(0, t.notBefore.Sub(start))
		least := t.leastInterval()
		t.Schedule = pace(t.Schedule, t.Name, start.Add(wait), p.rhythm, func() time.Duration { return p.ahead(t) })
		if s, ok := t.Schedule.(*paced); ok {
			s.least = least
		}
		jobs = append(jobs, &job{schedule: t.Schedule, run: func() { p.read(ctx, t, scheduled) }})
		if t.unread() || t.readAtStart {
			t.readAtStart = false
			p.readings.Go(func() {
				if pause(ctx, max(wait, time.Duration(i)*firstStep)) {
					p.read(ctx, t, unscheduled)
				}
			})
		}
	}
	p.loop(ctx, start, append(jobs, &job{schedule: heartbeats{start}, run: func() { p.beat(start) }}))
	p.readings.Wait()
}

// heartbeats is the schedule of the poll loop's heartbeat.
type heartbeats struct{ start time.Time }

// Next implements cron.Schedule.
func (h heartbeats) Next(t time.Time) time.Time {
	return t.Add(heartbeatInterval - modulo(t.Sub(h.start), heartbeatInterval))
}

// loop starts each due job in its own goroutine until ctx is done. A target skips a reading while its previous one runs.
//
// It replaces cron's loop, which follows the wall clock: after a step back by an hour, that would probe nothing for an hour.
func (p *Poller) loop(ctx context.Context, start time.Time, jobs []*job) {
	var (
		queue    jobQueue // on the monotonic clock; a heap, since there may be thousands
		cronJobs []*job   // on the wall clock
	)
	for _, j := range jobs {
		j.begin(start)
		if _, ok := j.schedule.(*paced); ok {
			queue = append(queue, j)
		} else {
			cronJobs = append(cronJobs, j)
		}
	}
	heap.Init(&queue)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case t := <-p.asked:
			p.readings.Go(func() { p.read(ctx, t, unscheduled) })
		case <-timer.C:
		}
		now := time.Now()
		wait := heartbeatInterval
		for _, j := range cronJobs {
			if j.isDue(now) {
				p.readings.Go(j.run)
			}
			wait = min(wait, time.Until(j.due))
		}
		for n := len(queue); n > 0 && queue[0].isDue(now); n-- {
			p.readings.Go(queue[0].run)
			heap.Fix(&queue, 0)
		}
		if len(queue) > 0 {
			wait = min(wait, time.Until(queue[0].due))
		}
		timer.Reset(max(wait, time.Millisecond))
	}
}

// Scraped records a scrape. It never blocks.
func (p *Poller) Scraped(who string, at time.Time) { p.rhythm.scraped(who, at) }

const (
	// spare is how long before a scrape its snapshot should be ready.
	spare = 200 * time.Millisecond
	// burst is the least time over which the readings before a scrape are spread.
	burst = 500 * time.Millisecond
)

// ahead returns how long before a scrape a reading of t must begin for its result to be on the page. It adds up the duration of the
// slowest recent good reading, a snapshot that is being made, the pause after that, making the next snapshot, and a margin.
func (p *Poller) ahead(t *target) time.Duration {
	spread := max(burst, time.Duration(len(p.targets))*firstStep)
	return time.Duration(t.slowest.Load()) + p.publishPause() + 2*time.Duration(p.publishDuration.Load()) + spare +
		time.Duration(hash(t.Name)%uint64(spread))
}

// pause waits, and returns false if ctx is done first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// read makes one reading and publishes its result.
func (p *Poller) read(ctx context.Context, t *target, by origin) {
	if ctx.Err() != nil {
		return
	}
	wentDown := t.read(ctx, by)
	p.changed()
	if wentDown && !t.refused() {
		p.retry(ctx, t)
	}
	p.lookAgain(ctx, t)
}

// A Follower that stops listening by itself is started again after followAgain. The delay doubles up to maxFollowAgain, and starts
// over after a Follower has listened for maxFollowAgain.
const (
	followAgain    = 10 * time.Second
	maxFollowAgain = 10 * time.Minute
)

// follow lets a Follower listen until ctx is done. It abandons one that does not stop within StopGrace.
func (p *Poller) follow(ctx context.Context, t *target, f collectors.Follower) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		policy := backoff.NewExponentialBackOff()
		policy.InitialInterval, policy.MaxInterval = followAgain, maxFollowAgain
		policy.Multiplier, policy.RandomizationFactor = 2, 0
		for ctx.Err() == nil {
			began := time.Now()
			t.follow(ctx, f, p.changed)
			if time.Since(began) >= maxFollowAgain {
				policy.Reset()
			}
			pause(ctx, policy.NextBackOff())
		}
	}()
	<-ctx.Done()
	grace := time.NewTimer(StopGrace)
	defer grace.Stop()
	select {
	case <-ended:
	case <-grace.C:
		p.log.Error("a collector did not stop listening", "target", t.Name)
	}
}

// retry reads a target that has just gone down before its next scheduled reading, as often as its kind allows, until it is up or ctx is
// done. The schedule continues.
func (p *Poller) retry(ctx context.Context, t *target) {
	if !t.retrying.CompareAndSwap(false, true) {
		return // one series of retries at a time
	}
	defer t.retrying.Store(false)
	delay := t.Kind.Retry.First
	for range t.Kind.Retry.Most {
		if !pause(ctx, delay) {
			return
		}
		delay *= 2
		if s, _ := t.view(); s.Up {
			return // a scheduled reading found it up
		}
		t.read(ctx, unscheduled)
		p.changed()
		if s, _ := t.view(); s.Up || t.refused() {
			return
		}
	}
}

// beat updates the heartbeat and drops data that is too old. It keeps the old heartbeat while a target is overdue, since then
// the loop does not work.
func (p *Poller) beat(start time.Time) {
	now := time.Now()
	// After a stall of the whole process, all targets and the heartbeat are late. The readings are due now, so wait for the next
	// beat before any target counts as overdue.
	stalled := now.Sub(*p.heartbeat.Load()) > 2*heartbeatInterval && !p.targetOverdue
	p.targetOverdue = false
	for _, t := range p.targets {
		if !stalled && t.expire(now, start) {
			p.targetOverdue = true
		}
	}
	overdue := p.targetOverdue // read before the heartbeat is stored, since then the next beat may run
	if !overdue {
		p.heartbeat.Store(&now)
	}
	if overdue || now.Sub(p.Snapshot().heartbeat) >= renewAfter {
		p.changed()
	}
}
