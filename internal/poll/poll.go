// Package poll probes targets on schedule and keeps the results as one finished metrics page.
package poll

import (
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

const (
	// publishInterval is the least time between two pages.
	publishInterval = 250 * time.Millisecond
	// heartbeatInterval is how often the poll loop updates its heartbeat.
	heartbeatInterval = 10 * time.Second
	// renewAfter is the age of the heartbeat on a page at which the next heartbeat renews the page, even if no target has changed.
	// Every second heartbeat does, so a page and the heartbeat on it are at most two beats old; poll_stalled.after allows for that.
	renewAfter = heartbeatInterval * 3 / 2
	// firstStep is the time between two first readings, so that a thousand targets do not use up all file descriptors at once.
	firstStep = 2 * time.Millisecond
	// The poll loop has stalled when its heartbeat is older than stalledAfter, the page when it is older than pageStalledAfter.
	stalledAfter     = 3 * heartbeatInterval
	pageStalledAfter = renewAfter + stalledAfter
)

// Snapshot is everything that is known at one moment. It is immutable.
type Snapshot struct {
	Page     *exposition.Page
	Statuses []Status
	// Families are the metric families on the page, one slice for each of Statuses.
	Families [][]exposition.Family
	// Judgement is what is wrong at that moment; nil without a Judge.
	Judgement *health.Judgement
	Time      time.Time

	heartbeat time.Time // the one that the page shows
}

// Poller probes targets and publishes snapshots. Run may be called again after it has returned.
type Poller struct {
	log     *slog.Logger
	own     prometheus.Gatherer
	judge   Judge // may be nil
	targets []*target
	rhythm  *rhythm

	snapshot  atomic.Pointer[Snapshot]
	heartbeat atomic.Pointer[time.Time]
	dirty     chan struct{}
	readings  sync.WaitGroup
	// Only the publishing goroutine uses the next three.
	loggedClashes    map[string]map[string]bool // families, by target
	composer         exposition.Composer
	judgementEncoder exposition.Encoder
	targetOverdue    bool   // at the last heartbeat; only beat uses it
	onPublish        func() // called after each snapshot
	// composeDuration is how long the last page took to make, in nanoseconds.
	composeDuration atomic.Int64
}

// timeFamily is the exporter's clock. Its sample is made by ClockLine whenever the page is served.
var timeFamily = exposition.Family{
	Name: "chatstack_exporter_time_seconds", Type: model.MetricTypeGauge, Unit: "seconds", Help: "Unix time when the exporter served this page, by its own clock.",
}

// ClockLine returns the sample of the exporter's clock for a page that is served now: the page's time plus its age by the monotonic
// clock. So a step of the wall clock does not change the difference to the heartbeat on the same page.
func (s *Snapshot) ClockLine(now time.Time) []byte {
	line := append(make([]byte, 0, 64), timeFamily.Name+" "...)
	line = strconv.AppendFloat(line, unixSeconds(s.Time.Add(now.Sub(s.Time))), 'f', -1, 64)
	return append(line, '\n')
}

var heartbeatDesc = prometheus.NewDesc("chatstack_poll_last_completed_timestamp_seconds",
	"Unix time of the poll loop's last heartbeat; it stops while probes are overdue.", nil, nil)

// Judge decides what is wrong. One goroutine at a time calls it before each page, and its judgement is on that page.
type Judge interface {
	Judge(facts *health.Facts) *health.Judgement
}

// New makes a poller that does not probe yet; its snapshot already has a page. Every page includes the families of own. Names of
// targets must be unique. After a reload, previous is the poller that has ended: a target with Same keeps running, and any
// other target of the same name and kind keeps its counters.
func New(targets []Target, own prometheus.Gatherer, judge Judge, log *slog.Logger, previous *Poller) (*Poller, error) {
	p := &Poller{log: log, own: own, judge: judge, dirty: make(chan struct{}, 1), loggedClashes: map[string]map[string]bool{}}
	if previous == nil {
		p.rhythm = newRhythm(log)
	} else {
		p.rhythm = previous.rhythm
	}
	now := time.Now()
	p.heartbeat.Store(&now)
	for _, given := range targets {
		p.targets = append(p.targets, previous.successor(given, log))
	}
	if err := p.publish(); err != nil {
		return nil, err
	}
	return p, nil
}

// successor makes the target of a new poller from what the previous one, which may be nil, knows of it.
func (p *Poller) successor(given Target, log *slog.Logger) *target {
	t := &target{Target: given, log: log, status: Status{
		Target: given.Name, Kind: given.Kind, Server: health.Server{Container: given.Container, Host: given.ContainerHost},
		Counters: Counters{Failures: map[failure.Reason]uint64{}},
	}}
	if given.DockerHost != "" {
		t.engine = &health.Engine{Host: given.DockerHost}
	}
	if p != nil {
		for _, old := range p.targets {
			switch {
			case old.Name != given.Name || old.Kind != given.Kind:
			case given.Same:
				r, ok := old.Collector.(collectors.Reloader)
				old.readAtStart = ok && r.Reloaded()
				return old
			default:
				s, _ := old.view()
				if least := t.leastInterval(); least > 0 {
					t.notBefore = old.notBefore
					if !s.LastAttempt.IsZero() {
						t.notBefore = s.LastAttempt.Add(least)
					}
				}
				t.status.Counters = s.Counters
			}
		}
	}
	t.encodeStatus()
	return t
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

// Refresh requests a new page, for own metrics that have changed.
func (p *Poller) Refresh() { p.changed() }

// Forget makes the collector of a target forget a removed container. The error wraps one of the package collectors.
func (p *Poller) Forget(target, container string) error {
	for _, t := range p.targets {
		if f, ok := t.Collector.(collectors.Forgetter); ok && t.Name == target {
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

// Once makes one reading of a target outside of any schedule and keeps no history. The facts are for the judgement: the target,
// and its engine if it has one.
func Once(ctx context.Context, given Target, log *slog.Logger) (Status, Reading, health.Facts) {
	t := (*Poller)(nil).successor(given, log)
	t.once = true
	t.read(ctx, unscheduled)
	s, _, known, engine := t.viewAll()
	facts := health.Facts{Targets: []health.Target{known}}
	if engine != nil {
		facts.Engines = []health.Engine{*engine}
	}
	if len(t.history.Last) == 0 {
		return s, Reading{}, facts // ctx ended first
	}
	return s, t.history.Last[0], facts
}

// Snapshot returns the current snapshot. It never blocks.
func (p *Poller) Snapshot() *Snapshot { return p.snapshot.Load() }

// Ready reports whether every target has been read once. A target that waits for its least interval after a reload does not count.
func (p *Poller) Ready() bool {
	for i, s := range p.Snapshot().Statuses {
		if s.LastAttempt.IsZero() && p.targets[i].notBefore.IsZero() {
			return false
		}
	}
	return true
}

// Alive returns nil while the poll loop runs and renews its page, else an error with the time since one of them stalled.
func (p *Poller) Alive() error {
	for _, part := range []struct {
		name  string
		last  time.Time
		after time.Duration
	}{{"poll loop", *p.heartbeat.Load(), stalledAfter}, {"page", p.Snapshot().Time, pageStalledAfter}} {
		if age := time.Since(part.last); age > part.after {
			return fmt.Errorf("the %s has been stalled for %s", part.name, age.Round(time.Second))
		}
	}
	return nil
}

// Run probes new targets at once and all targets on schedule, until ctx is done. After a reload, a changed RateLimited target first waits
// for its least interval, and a Reloader may ask to be probed at once. Run returns when all readings have ended, and StopGrace after
// ctx is done at the latest: it abandons readings that take longer.
func (p *Poller) Run(ctx context.Context) {
	var publisher sync.WaitGroup
	publishing, stopPublishing := context.WithCancel(context.WithoutCancel(ctx))
	publisher.Go(func() { p.publishLoop(publishing) })
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
	// spare is how long before a scrape a page should be ready.
	spare = 200 * time.Millisecond
	// burst is the least time over which the readings before a scrape are spread.
	burst = 500 * time.Millisecond
)

// ahead returns how long before a scrape a reading of t must begin for its result to be on the page. It adds up the duration of the
// slowest recent good reading, a page that is being made, the pause after that, making the next page, and a margin.
func (p *Poller) ahead(t *target) time.Duration {
	spread := max(burst, time.Duration(len(p.targets))*firstStep)
	return time.Duration(t.slowest.Load()) + publishInterval + 2*time.Duration(p.composeDuration.Load()) + spare + time.Duration(hash(t.Name)%uint64(spread))
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
	if r, ok := t.Collector.(collectors.Retrier); ok && wentDown {
		p.retry(ctx, t, r)
	}
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

// retry reads a target that has just gone down before its next scheduled reading, until it is up, the policy stops, or ctx is done.
// The schedule continues.
func (p *Poller) retry(ctx context.Context, t *target, r collectors.Retrier) {
	if !t.retrying.CompareAndSwap(false, true) {
		return // one series of retries at a time
	}
	defer t.retrying.Store(false)
	policy := r.Backoff()
	for {
		if delay := policy.NextBackOff(); delay == backoff.Stop || !pause(ctx, delay) {
			return
		}
		if s, _ := t.view(); s.Up {
			return // a scheduled reading found it up
		}
		t.read(ctx, unscheduled)
		p.changed()
		if s, _ := t.view(); s.Up {
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

// changed requests a new page.
func (p *Poller) changed() {
	select {
	case p.dirty <- struct{}{}:
	default: // requested already
	}
}

// publishLoop makes a page when something changed or a problem passes a threshold, at most every publishInterval.
func (p *Poller) publishLoop(ctx context.Context) {
	for {
		var threshold <-chan time.Time
		if j := p.Snapshot().Judgement; j != nil && j.Next > 0 {
			threshold = time.After(time.Until(j.Time.Add(j.Next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		case <-threshold:
		}
		if err := p.publish(); err != nil {
			p.log.Error("the page was not renewed", "err", err)
		}
		if !pause(ctx, publishInterval) {
			return
		}
	}
}

// publish makes a snapshot of what is known now and swaps it in.
func (p *Poller) publish() error {
	begin := time.Now()
	gathered, err := p.own.Gather()
	if err != nil {
		// A page without a few of the exporter's own metrics is better than an old page.
		p.log.Error("own metrics are incomplete", "err", err)
	}
	own, err := exposition.FromGathered(gathered)
	if err != nil {
		return fmt.Errorf("encode own metrics: %w", err)
	}
	heartbeat := *p.heartbeat.Load()
	beat, err := new(exposition.Encoder).Encode([]prometheus.Metric{
		prometheus.MustNewConstMetric(heartbeatDesc, prometheus.GaugeValue, unixSeconds(begin.Add(heartbeat.Sub(begin)))),
	})
	if err != nil {
		return fmt.Errorf("encode heartbeat: %w", err)
	}
	own = append(append(own, beat...), timeFamily)
	s, clashes, err := p.compose(own)
	if err != nil {
		return err
	}
	if p.recordClashes(s.Statuses, clashes) {
		// Make the page again, since it also shows the number of dropped series. That number cannot cause a clash.
		if s, _, err = p.compose(own); err != nil {
			return err
		}
	}
	s.heartbeat = heartbeat
	p.snapshot.Store(s)
	p.composeDuration.Store(int64(time.Since(begin)))
	if p.onPublish != nil {
		p.onPublish()
	}
	return nil
}

// compose makes a snapshot of the exporter's own families and the current state of the targets.
func (p *Poller) compose(own []exposition.Family) (*Snapshot, []exposition.Clash, error) {
	s := &Snapshot{Time: time.Now(), Statuses: make([]Status, len(p.targets))}
	sources := make([][]exposition.Family, 1, len(p.targets)+1)
	facts := health.Facts{Now: s.Time}
	for i, t := range p.targets {
		status, families, target, engine := t.viewAll()
		s.Statuses[i] = status
		sources = append(sources, families)
		facts.Targets = append(facts.Targets, target)
		if engine != nil {
			facts.Engines = append(facts.Engines, *engine)
		}
	}
	var judged []prometheus.Metric
	if p.judge != nil {
		s.Judgement = p.judge.Judge(&facts)
		judged = judgementMetrics(s.Judgement)
		for i := range s.Statuses {
			status := &s.Statuses[i]
			status.Server = s.Judgement.Servers[status.Target]
			if note := status.Warning(); note != "" {
				status.Notes = append(slices.Clip(status.Notes), note)
			}
		}
	}
	families, err := p.judgementEncoder.Encode(append(judged, targetInfo(s.Statuses)...))
	if err != nil {
		return nil, nil, fmt.Errorf("encode judgement: %w", err)
	}
	sources[0] = slices.Concat(own, families)
	page, clashes, err := p.composer.Compose(sources...)
	if err != nil {
		return nil, nil, fmt.Errorf("compose page: %w", err)
	}
	s.Page, s.Families = page, sources[1:]
	return s, clashes, nil
}

// maxLoggedClashes limits how many families of a target are logged, since their names may change with each reading.
const maxLoggedClashes = 20

// recordClashes logs clashes and records them with their targets. It reports whether any target's clashes have changed. The statuses
// are those on the page.
func (p *Poller) recordClashes(statuses []Status, clashes []exposition.Clash) (changed bool) {
	byTarget := make([][]exposition.Clash, len(p.targets))
	for _, c := range clashes {
		name := "exporter"
		if c.Source > 0 {
			name = p.targets[c.Source-1].Name
			byTarget[c.Source-1] = append(byTarget[c.Source-1], c)
		}
		logged := p.loggedClashes[name]
		if logged == nil {
			logged = map[string]bool{}
			p.loggedClashes[name] = logged
		}
		if !logged[c.Family] && len(logged) < maxLoggedClashes {
			logged[c.Family] = true
			p.log.Warn("family dropped: an earlier family has the same name and another type", "target", name, "family", c.Family, "series", c.Series)
			if len(logged) == maxLoggedClashes {
				p.log.Warn("further dropped families are not logged; see the notes of the target's last probe", "target", name)
			}
		}
	}
	for i, t := range p.targets {
		changed = t.recordClashes(&statuses[i], byTarget[i]) || changed
	}
	return changed
}
