package collectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/cgroup"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var dockerFeatureDesc = prometheus.NewDesc("chatstack_docker_feature_available",
	"Whether a part of the engine's API is at hand: events, without which changes are seen at readings only, and stats, without which memory, CPU and network are not known.",
	[]string{"docker_host", "feature"}, nil)

const (
	// lookTimeout bounds the inspections that events ask for.
	lookTimeout = 5 * time.Second
	// deafAfter is how late an event may come that a list has shown to be due; tests have less patience.
	deafAfter = 5 * time.Second
	// measureRest is a pause before resources are asked for, in which the reading is put on the page: hundreds of calls at once
	// would come before that.
	measureRest = 20 * time.Millisecond
	// quietAfter is how long a stream may say nothing before it is opened anew, in case it has died in silence.
	quietAfter = 5 * time.Minute
	// lastingStream is how long a stream lives that is sound, briefStreams how many in a row may live shorter before
	// events count as not to be had.
	lastingStream = 30 * time.Second
	briefStreams  = 3
	// promptly is within what time after the engine was first asked its events have to be followed, so that what was found
	// then need not be asked for again. The engine keeps 256 events, and may have forgotten some by then; the next list
	// shows runs, healths and names that have changed, and the rounds of inspections find the rest, which is rare.
	promptly = 10 * time.Second
	// eventsQueue is how many events may wait while containers are inspected.
	eventsQueue = 4096
	// eventsKept is how many events are remembered, so that none counts twice when the engine repeats them. It keeps 256.
	eventsKept = 512
)

// eventStream is what is known of the stream of events.
type eventStream struct {
	open bool
	// settling says that no list was made since it was opened, after a first reading that need not be made again.
	settling bool
	// known says that the stream was open once, or could not be opened for err.
	known bool
	err   error
	// asked is when the engine was first asked, by our clock.
	asked time.Time
	// brief counts the streams in a row that ended soon.
	brief int
	// last is the stamp of the last event; before the first, a moment before the engine was first asked.
	last time.Time
	// heard are the last events, each at its number modulo eventsKept; seen are the same.
	heard []eventKey
	count int
	seen  map[eventKey]bool
}

type eventKey struct {
	id     string
	action events.Action
	nano   int64
}

// repeated reports whether the event was heard before, and remembers it.
func (s *eventStream) repeated(e *events.Message) bool {
	if e.TimeNano == 0 {
		return false // no engine that is known leaves it out
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

var (
	errDeaf  = errors.New("a list shows changes that no event has told of")
	errQuiet = errors.New("no event for a long time")
)

// Follow implements Follower: it listens to the engine's events, opens the stream again whenever it ends, and measures
// resources after each reading, beside it.
func (c *docker) Follow(ctx context.Context, changed func()) {
	c.following.Store(true)
	defer c.leaveGroups()
	defer c.following.Store(false)
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
	clear(c.fleet.Doubtful)
	if opened { // what was never opened says nothing of how long streams live
		c.stream.brief++
	}
	if lasted {
		c.stream.brief = 0
	}
	if opened && c.stream.brief < briefStreams {
		c.log.Debug("events are followed no more", "err", err)
		return
	}
	if c.stream.err == nil {
		c.log.Warn("the engine's events cannot be followed, changes are seen when it is asked", "err", err, "hint", failure.HintOf(err))
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
	// What the first reading finds while the first stream is opened need not be asked for again at the second one: events are
	// wanted from before it.
	fromTheStart := !c.stream.known && !c.stream.last.IsZero() && time.Since(c.stream.asked) < promptly
	c.stream.open, c.stream.known, c.unsure = true, true, c.unsure || !fromTheStart
	c.stream.settling = fromTheStart
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
		c.log.Info("the engine's events are followed again")
	}
	c.stream.err = nil
}

// begin takes in the engine's clock, to the second. Events are wanted from the first answer on: an engine answers a request
// for events a moment before it begins to listen for them.
func (c *docker) begin(engine time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream.last.IsZero() && !engine.IsZero() {
		c.stream.last, c.stream.asked = engine.Add(-time.Second), time.Now()
	}
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
			c.log.Debug("containers that events speak of were not inspected", "err", err)
			c.locked(func() { c.unsure = true })
		}
	}
	changed()
}

// look inspects containers between two readings.
func (c *docker) look(ctx context.Context, wanted []container.Summary, mark uint64) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := c.engine.Open(c.settings.Parallelism)
	if err != nil {
		return err
	}
	defer s.Close()
	release, err := c.claim(ctx)
	if err != nil {
		return err
	}
	defer release()
	b := &Batch{}
	if err := c.negotiate(ctx, s, b); err != nil {
		return err
	}
	// Events speak of some of the containers: that the engine stumbles over all of these is nothing yet.
	found, err := c.inspectAll(ctx, s, b, wanted, len(wanted)+1)
	if err != nil {
		return err
	}
	return c.describe(wanted, found, mark)
}

// catchUp asks for everything after events may have been lost. If that fails, the next reading does it.
func (c *docker) catchUp(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	s, err := c.engine.Open(c.settings.Parallelism)
	if err != nil {
		return
	}
	defer s.Close()
	b := &Batch{}
	if err := c.negotiate(ctx, s, b); err != nil {
		return
	}
	if _, err := c.review(ctx, s, b); err != nil {
		c.log.Debug("the engine was not reviewed after its events were followed again", "err", err)
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

// dockerRound is whose resources are to be measured, and for which round of readings.
type dockerRound struct {
	round    int
	subjects []usage.Subject
	// following says that events flow.
	following bool
}

// round begins the next round: a reading has succeeded.
func (c *docker) round() dockerRound {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds++
	return dockerRound{c.rounds, c.fleet.Subjects(), c.stream.open}
}

// askFor has resources measured beside the readings. If that still goes on for an earlier one, the newest waits.
func (c *docker) askFor(m dockerRound) {
	select {
	case <-c.measuring:
	default:
	}
	select {
	case c.measuring <- m:
	default: // a reading that was abandoned has been here in between
	}
}

func (c *docker) measureLoop(ctx context.Context, changed func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-c.measuring:
			rest := time.NewTimer(measureRest)
			select {
			case <-ctx.Done():
				rest.Stop()
				return
			case <-rest.C:
			}
			measuring, cancel := context.WithTimeout(ctx, max(c.settings.Timeout.Std(), lookTimeout))
			c.measure(measuring, m)
			cancel()
			changed()
		}
	}
}

// measure finds out what containers use. It is no critical path: what cannot be had is missing, and said.
func (c *docker) measure(ctx context.Context, m dockerRound) {
	if c.settings.Resources == resourcesNone {
		return
	}
	used, err := c.used(ctx, m.subjects)
	c.takeUsed(ctx, m, used, err)
}

// used finds out what containers use, and contains what may panic in doing so.
func (c *docker) used(ctx context.Context, subjects []usage.Subject) (used map[string]usage.Usage, err error) {
	defer func() {
		if r := recover(); r != nil {
			c.log.Error("measuring resources panicked", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
			used, err = nil, failure.Errorf(failure.Panic, "measuring panicked: %v", r)
		}
	}()
	if c.settings.Resources == resourcesCgroup {
		c.withGroups(func(t cgroup.Tree) { used, err = t.Measure(ctx, subjects) })
		return used, err
	}
	s, err := c.engine.OpenSingle(c.settings.ResourcesParallelism)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if err := c.negotiate(ctx, s, &Batch{}); err != nil {
		return nil, err
	}
	rest := c.restFor(len(subjects), c.settings.ResourcesParallelism)
	used, err = s.Measure(ctx, subjects, c.settings.ResourcesParallelism, rest, c.hangsAt)
	if rest != nil {
		if next, ok := rest.Next(); ok {
			c.locked(func() { c.rest = next })
		}
	}
	return used, err
}

// takeUsed takes in what the round's containers use.
func (c *docker) takeUsed(ctx context.Context, m dockerRound, used map[string]usage.Usage, err error) {
	if errors.Is(ctx.Err(), context.Canceled) && !c.once {
		return // the exporter ends, or is configured anew
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.round <= c.failed {
		return // it began before an outage: the numbers are old by the time that the engine answers again
	}
	if changed := c.stats.err == nil != (err == nil); changed && err != nil && !c.once {
		c.log.Warn("resources of containers are not known", "err", err, "hint", failure.HintOf(err))
	} else if changed && !c.once {
		c.log.Info("resources of containers are known again")
	}
	c.measured, c.stats, c.resources = m.round, feature{true, err}, make(map[string]runUsage, len(used))
	for _, subject := range m.subjects {
		if r, ok := used[subject.ID]; ok {
			c.resources[subject.ID] = runUsage{r, subject.Started}
		}
	}
}

// fileReading is a reading of the files of containers, which says what they use.
type fileReading struct {
	subjects []usage.Subject
	cancel   context.CancelFunc
	done     chan struct{} // closed when what follows may be read
	used     map[string]usage.Usage
	err      error
	ended    time.Time
}

const (
	// leaveWithin is how long a reading that has failed waits for files that are being read: one of them may hang.
	leaveWithin = 100 * time.Millisecond
	// earlyLasts is for how long after they were read files need not be read again.
	earlyLasts = time.Second
)

// measureEarly begins to read the files of containers while the engine makes its list, which takes longer.
func (c *docker) measureEarly(ctx context.Context) *fileReading {
	var known []usage.Subject
	if c.settings.Resources == resourcesCgroup && !c.once {
		c.locked(func() { known = c.fleet.Subjects() })
	}
	if len(known) == 0 {
		nothing := &fileReading{cancel: func() {}, done: make(chan struct{})}
		close(nothing.done)
		return nothing
	}
	return c.readFiles(ctx, known)
}

// readFiles begins to read the files of containers, one reading at a time.
func (c *docker) readFiles(ctx context.Context, subjects []usage.Subject) *fileReading {
	ctx, cancel := context.WithCancel(ctx)
	f := &fileReading{subjects: subjects, cancel: cancel, done: make(chan struct{})}
	if !c.readingFiles.CompareAndSwap(false, true) {
		f.err, f.ended = c.filesHang(), time.Now()
		close(f.done)
		return f
	}
	go func() {
		defer close(f.done)
		defer c.readingFiles.Store(false)
		f.used, f.err = c.used(ctx, subjects)
		f.ended = time.Now()
	}()
	return f
}

func (c *docker) filesHang() error {
	return failure.Errorf(failure.Timeout, "read cgroups in %s: a file hangs", c.settings.CgroupRoot)
}

// await waits until files have been read, and reports whether they have.
func (f *fileReading) await(ctx context.Context) bool {
	select {
	case <-f.done:
		return true
	case <-ctx.Done():
		return false
	}
}

// leave has the reading of files end, and waits a moment for that.
func (f *fileReading) leave() {
	f.cancel()
	moment := time.NewTimer(leaveWithin)
	defer moment.Stop()
	select {
	case <-f.done:
	case <-moment.C:
	}
}

// measureCgroups takes in what was read early, or reads it anew if the list has shown that others run, or was long in coming.
// A file may hang: it gets half of the time that is left, and then what containers use is not known, but all the rest is.
func (c *docker) measureCgroups(ctx context.Context, m dockerRound, f *fileReading) {
	patience, cancel := context.WithCancel(ctx)
	if deadline, ok := ctx.Deadline(); ok {
		patience, cancel = context.WithTimeout(ctx, time.Until(deadline)/2)
	}
	defer cancel()
	if f.await(patience) && (!slices.Equal(f.subjects, m.subjects) || time.Since(f.ended) > earlyLasts) {
		f = c.readFiles(ctx, m.subjects)
		defer f.cancel()
	}
	if !f.await(patience) {
		f.cancel()
		c.takeUsed(ctx, m, nil, c.filesHang())
		return
	}
	c.takeUsed(ctx, m, f.used, f.err)
}

// withGroups calls do with the cgroup tree, which remembers groups while events are followed.
func (c *docker) withGroups(do func(t cgroup.Tree)) {
	c.usage.Lock()
	defer c.leaveGroups() // once they are free
	defer c.usage.Unlock()
	if c.groups == nil && c.following.Load() {
		c.groups = cgroup.Groups{}
	}
	do(cgroup.Tree{Root: c.settings.CgroupRoot, ProcRoot: c.settings.ProcRoot, Groups: c.groups})
}

// leaveGroups forgets the groups if events are followed no more. Whoever uses them meanwhile does so afterwards, so that
// nobody waits for a file that hangs.
func (c *docker) leaveGroups() {
	if !c.following.Load() {
		c.forgetGroups()
	}
}

// forgetGroups closes the groups' files, unless somebody uses them.
func (c *docker) forgetGroups() {
	if c.usage.TryLock() {
		defer c.usage.Unlock()
		c.groups.Close()
		c.groups = nil
	}
}

// Present implements Follower.
func (c *docker) Present(b *Batch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	host := c.settings.Label
	reports := c.fleet.Report(time.Now())
	writeReports(b, reports, host)
	if c.rounds-c.measured <= 1 { // older ones are stale
		for i := range reports {
			r := &reports[i]
			// A run that has ended uses nothing, whatever it used.
			if used, ok := c.resources[r.ID]; ok && r.Status != nil && r.Status.PID != 0 && used.started.Equal(r.Status.Started) {
				writeUsage(b, &used.Usage, r.Name, host)
			}
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

// load takes in what was kept by an earlier process, or by this one before a reload.
func (c *docker) load() {
	if c.state == nil {
		return
	}
	var kept fleet.Memory
	if err := c.state.Load(&kept); err != nil {
		c.log.Error("what was known of containers is lost, their counters begin anew", "err", err)
		return
	}
	c.fleet.Recall(kept, time.Now())
	if !c.once {
		c.fleet.SavedCounts = c.fleet.Counts()
	}
}

// keepCounts saves counters that have changed since they were saved last: Present shows none before.
func (c *docker) keepCounts() {
	differ := false
	c.locked(func() { differ = c.fleet.SavedCounts != nil && !maps.Equal(c.fleet.SavedCounts, c.fleet.Counts()) })
	if differ {
		c.save()
	}
}

// save keeps what must outlive the process, if it has changed.
func (c *docker) save() {
	if c.state == nil {
		return
	}
	c.saving.Lock() // so that nothing older is kept after something newer
	defer c.saving.Unlock()
	var (
		kept    fleet.Memory
		saved   map[string]fleet.Counts
		touched bool
	)
	c.locked(func() {
		if touched = c.touched; touched {
			kept, saved, c.touched = c.fleet.Remember(), c.fleet.Counts(), false
		}
	})
	if !touched {
		return
	}
	// A disk that cannot be written hides no restart.
	defer c.locked(func() { c.fleet.SavedCounts = saved })
	content, err := json.Marshal(kept)
	if err != nil {
		c.log.Error("what is known of containers cannot be kept", "err", err)
		return
	}
	if bytes.Equal(content, c.saved) {
		return
	}
	err = c.state.Save(json.RawMessage(content))
	news := c.unsaved != (err != nil)
	c.unsaved = err != nil
	switch {
	case err != nil:
		c.locked(func() { c.touched = true })
		if news {
			c.log.Error("what is known of containers was not kept: after a restart of the exporter their counters are not exact", "err", err, "bytes", len(content))
		}
		return
	case news:
		c.log.Info("what is known of containers is kept again")
	}
	c.saved = content
}
