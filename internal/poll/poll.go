// Package poll asks targets when they are due and keeps what they said as one finished page.
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
	// heartbeatInterval is how often the poll loop shows that it lives.
	heartbeatInterval = 10 * time.Second
	// renewAfter is the age of the heartbeat that a page shows from which on the next one has the page made anew, although
	// nothing has changed but the exporter's own numbers: every second one does. So a page is two beats old at most, and so
	// is the heartbeat on it; poll_stalled.after allows for that.
	renewAfter = heartbeatInterval * 3 / 2
	// firstStep is the time between two first readings, so that a thousand targets do not take all descriptors at once.
	firstStep = 2 * time.Millisecond
	// stalledAfter is the age of the last heartbeat from which on the poll loop stands still, pageStalledAfter that of the
	// page from which on it is renewed no more.
	stalledAfter     = 3 * heartbeatInterval
	pageStalledAfter = renewAfter + stalledAfter
)

// Snapshot is everything that is known at one moment. It is immutable.
type Snapshot struct {
	Page     *exposition.Page
	Statuses []Status
	// Families are those that the page was made of, a slice for each of Statuses, with the metrics of the status itself.
	Families [][]exposition.Family
	// Judgement is what is wrong at that moment; nil if nobody judges.
	Judgement *health.Judgement
	Time      time.Time

	heartbeat time.Time // the one that the page shows
}

// Poller asks targets and publishes snapshots. Run may be called again after it has returned.
type Poller struct {
	log     *slog.Logger
	own     prometheus.Gatherer
	judge   Judge // nil if nobody judges
	targets []*target
	rhythm  *rhythm

	snapshot  atomic.Pointer[Snapshot]
	heartbeat atomic.Pointer[time.Time]
	dirty     chan struct{}
	readings  sync.WaitGroup
	clashes   map[string]map[string]bool // families logged already, by target; the publisher's own
	composer  exposition.Composer        // the publisher's own
	judged    exposition.Encoder         // the publisher's own
	overdue   bool                       // at the last beat a target was; the beat's own
	published func()                     // called after each snapshot
	// took is how long the last page took to make.
	took atomic.Int64
}

// timeFamily is the exporter's clock. A page has no sample of it: ClockLine makes one whenever the page is served.
var timeFamily = exposition.Family{
	Name: "chatstack_exporter_time_seconds", Type: model.MetricTypeGauge, Unit: "seconds", Help: "The time by the exporter's clock when it served this page.",
}

// ClockLine is the sample of the exporter's clock on a page that is served now. The clock is that of the page, and goes on by the
// monotonic one: a step shows on the next page, so that the difference to the heartbeat beside it is how old that is.
func (s *Snapshot) ClockLine(now time.Time) []byte {
	line := append(make([]byte, 0, 64), timeFamily.Name+" "...)
	line = strconv.AppendFloat(line, unixSeconds(s.Time.Add(now.Sub(s.Time))), 'f', -1, 64)
	return append(line, '\n')
}

var heartbeatDesc = prometheus.NewDesc("chatstack_poll_last_completed_timestamp_seconds",
	"When the poll loop last went round: its heartbeat.", nil, nil)

// Judge says what is wrong. It is asked before each page, by one goroutine at a time, and its judgement is on that page.
type Judge interface {
	Judge(facts *health.Facts) *health.Judgement
}

// New makes a poller that asks nobody yet; its snapshot already has a page. The families of own stand on every page
// beside the targets'. Names of targets must be unique. After a reload, previous is the poller that has ended: a target
// that is the Same goes on where it was, any other of the same name and kind keeps its counters.
func New(targets []Target, own prometheus.Gatherer, judge Judge, log *slog.Logger, previous *Poller) (*Poller, error) {
	p := &Poller{log: log, own: own, judge: judge, dirty: make(chan struct{}, 1), clashes: map[string]map[string]bool{}}
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

// successor makes the target of a new poller of what the previous one knows of it.
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
				old.again = ok && r.Reloaded()
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

// Notify has f called after each snapshot that is published from then on, by the goroutine that publishes: it must not
// wait. Call it before Run.
func (p *Poller) Notify(f func()) { p.published = f }

// Refresh has the page made anew, for own metrics that have changed.
func (p *Poller) Refresh() { p.changed() }

// Forget has the collector of a target forget a container that is gone. The error wraps one of the package collectors.
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

// Once makes one reading of a target, outside of any schedule, whose history nobody can look at later. The facts are for the
// judgement: the target, and its engine if it has one.
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

// Snapshot returns the present snapshot, without waiting for anything.
func (p *Poller) Snapshot() *Snapshot { return p.snapshot.Load() }

// Ready reports whether every target has been read once, but for one that a reload makes wait for its interval.
func (p *Poller) Ready() bool {
	for i, s := range p.Snapshot().Statuses {
		if s.LastAttempt.IsZero() && p.targets[i].notBefore.IsZero() {
			return false
		}
	}
	return true
}

// Alive returns nil while the poll loop goes round and its page is renewed, or says for how long it has stood still.
func (p *Poller) Alive() error {
	for _, part := range []struct {
		name  string
		last  time.Time
		after time.Duration
	}{{"poll loop", *p.heartbeat.Load(), stalledAfter}, {"page", p.Snapshot().Time, pageStalledAfter}} {
		if age := time.Since(part.last); age > part.after {
			return fmt.Errorf("the %s has stood still for %s", part.name, age.Round(time.Second))
		}
	}
	return nil
}

// Run asks every target that was never asked at once, and all of them whenever it is due, until ctx is done. A Sparing one
// that a reload has replaced waits for its interval first, and a Reloader may be asked again. Run returns when all readings are over, at the latest StopGrace
// after that; one that does not end is left behind.
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
		if t.unread() || t.again {
			t.again = false
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

// heartbeats is the schedule of the poll loop's own signs of life.
type heartbeats struct{ start time.Time }

// Next implements cron.Schedule.
func (h heartbeats) Next(t time.Time) time.Time {
	return t.Add(heartbeatInterval - modulo(t.Sub(h.start), heartbeatInterval))
}

// loop starts each job in a goroutine of its own whenever it is due, until ctx is done. A reading that is still running is
// never started again, by its target.
//
// It is not cron's own, which waits for the wall clock: after a step back by an hour, that would ask nobody for an hour.
func (p *Poller) loop(ctx context.Context, start time.Time, jobs []*job) {
	var (
		queue  jobQueue // of those that keep to the monotonic clock, which may be thousands
		others []*job
	)
	for _, j := range jobs {
		j.begin(start)
		if _, ok := j.schedule.(*paced); ok {
			queue = append(queue, j)
		} else {
			others = append(others, j)
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
		for _, j := range others {
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

// Scraped tells that a scraper came. It waits for nothing.
func (p *Poller) Scraped(who string, at time.Time) { p.rhythm.scraped(who, at) }

const (
	// spare is how long before a scrape a page should be there.
	spare = 200 * time.Millisecond
	// burst is the time over which the readings before a scrape are spread, at least.
	burst = 500 * time.Millisecond
)

// ahead is how long before a scrape a reading of t has to begin, so that what it finds is on the page then: as long as the
// slowest of its last good readings took, the wait for a page that is being made and the pause after it, and making one.
func (p *Poller) ahead(t *target) time.Duration {
	spread := max(burst, time.Duration(len(p.targets))*firstStep)
	return time.Duration(t.slowest.Load()) + publishInterval + 2*time.Duration(p.took.Load()) + spare + time.Duration(hash(t.Name)%uint64(spread))
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

// read makes one reading and has its result published.
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

// A Follower that has stopped listening although nobody told it to rests for followAgain, after the next time for twice as
// long, and so on up to maxFollowAgain. One that has listened for that long begins anew.
const (
	followAgain    = 10 * time.Second
	maxFollowAgain = 10 * time.Minute
)

// follow has a Follower listen until ctx is done. One that does not obey is left behind after StopGrace.
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

// retry reads a target that has just gone down again, sooner than its schedule would, until it is up, the policy says
// that it is enough, or ctx is done. Its schedule goes on meanwhile.
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
			return // its schedule found it up meanwhile
		}
		t.read(ctx, unscheduled)
		p.changed()
		if s, _ := t.view(); s.Up {
			return
		}
	}
}

// beat shows that the loop lives, and drops what is too old to be shown. It does not beat while a target is overdue
// although it should have been read, since that means that the loop is not what it should be.
func (p *Poller) beat(start time.Time) {
	now := time.Now()
	// After a stall of the whole process everybody is late, the beat as well. The readings are due at the same moment, so
	// it is the next beat that judges.
	stalled := now.Sub(*p.heartbeat.Load()) > 2*heartbeatInterval && !p.overdue
	p.overdue = false
	for _, t := range p.targets {
		if !stalled && t.expire(now, start) {
			p.overdue = true
		}
	}
	overdue := p.overdue // read before the heartbeat is stored, which lets the next beat in
	if !overdue {
		p.heartbeat.Store(&now)
	}
	if overdue || now.Sub(p.Snapshot().heartbeat) >= renewAfter {
		p.changed()
	}
}

// changed asks for a new page.
func (p *Poller) changed() {
	select {
	case p.dirty <- struct{}{}:
	default: // one is asked for already
	}
}

// publishLoop makes a page when something changed or a problem passes a threshold, at most every publishInterval.
func (p *Poller) publishLoop(ctx context.Context) {
	for {
		var passes <-chan time.Time
		if j := p.Snapshot().Judgement; j != nil && j.Next > 0 {
			passes = time.After(time.Until(j.Time.Add(j.Next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		case <-passes:
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
		// What could be gathered still counts: better a page without a few of our own numbers than an old one.
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
	if p.clashed(s.Statuses, clashes) {
		// The page itself tells what it could not take, so it is made again. Nothing clashes because of that number.
		if s, _, err = p.compose(own); err != nil {
			return err
		}
	}
	s.heartbeat = heartbeat
	p.snapshot.Store(s)
	p.took.Store(int64(time.Since(begin)))
	if p.published != nil {
		p.published()
	}
	return nil
}

// compose makes a snapshot of own families and what is known of the targets now.
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
			if note := status.Doubt(); note != "" {
				status.Notes = append(slices.Clip(status.Notes), note)
			}
		}
	}
	families, err := p.judged.Encode(append(judged, targetInfo(s.Statuses)...))
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

// maxLoggedClashes is how many families of a target are logged by name: one whose names change has another with each reading.
const maxLoggedClashes = 20

// clashed tells each target which of its families a page could not take, and reports whether that is news to one.
// Statuses are what the page was made of.
func (p *Poller) clashed(statuses []Status, clashes []exposition.Clash) (news bool) {
	lost := make([][]exposition.Clash, len(p.targets))
	for _, c := range clashes {
		name := "exporter"
		if c.Source > 0 {
			name = p.targets[c.Source-1].Name
			lost[c.Source-1] = append(lost[c.Source-1], c)
		}
		logged := p.clashes[name]
		if logged == nil {
			logged = map[string]bool{}
			p.clashes[name] = logged
		}
		if !logged[c.Family] && len(logged) < maxLoggedClashes {
			logged[c.Family] = true
			p.log.Warn("family left out, one of that name and another type comes before it", "target", name, "family", c.Family, "series", c.Series)
			if len(logged) == maxLoggedClashes {
				p.log.Warn("further families left out are not logged; see the notes of the target's last reading", "target", name)
			}
		}
	}
	for i, t := range p.targets {
		news = t.clashed(&statuses[i], lost[i]) || news
	}
	return news
}
