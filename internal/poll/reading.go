package poll

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Target is one thing to ask, and when.
type Target struct {
	Name string
	Kind string
	// HostName is that of its URL or address, "" if the exporter does not resolve one.
	HostName string
	// Container is the configured name of the container that serves it, ContainerHost the docker_host of that one's engine.
	Container, ContainerHost string
	// WarnOnly says that the target's own alerts are warnings at most.
	WarnOnly bool
	// DockerHost is the name of the container engine that the target is; "" for other targets.
	DockerHost string
	Collector  collectors.Collector
	// Schedule says when readings are due. One made of "@every" is spread by a hash of the name.
	Schedule cron.Schedule
	// Timeout is the deadline of one reading.
	Timeout time.Duration
	// Redact masks the target's secrets in text that a server may have made of them; nil where there are none.
	Redact func(string) string
	// Same says, after a reload, that nothing about the target has changed: it goes on where it was, with the collector
	// that it had.
	Same bool
}

// target is a Target with what is known of it.
type target struct {
	Target
	log *slog.Logger

	mu     sync.Mutex
	status Status
	// busy is true while a reading runs, abandoned when its deadline passed without an end.
	busy, abandoned bool
	// by is who asked for the reading that runs, or ran last.
	by origin
	output
	history History
	// conditions are those that the last reading told of.
	conditions []health.Condition
	// retrying is true while a series of retries runs.
	retrying atomic.Bool
	// once is set where nobody serves the target's history.
	once bool
	// slowest is how long the slowest of the last good readings took, but for one, in nanoseconds.
	slowest atomic.Int64
	// notBefore is when a Sparing target may be read first that another one of its name was read as before a reload.
	notBefore time.Time
	// again has the target read at once when its poller runs, although it was read before.
	again bool
	// overdue says that it has not been read for longer.
	overdue bool
	// patient is how long after the last reading the next one may take.
	patient time.Duration
	// every is the mean time between the readings that the schedule had in the hour before the last reading; 0 if it had none.
	every time.Duration
}

// origin is who asks for a reading. Those outside of the schedule are first ones and retries.
type origin bool

const (
	scheduled   origin = true
	unscheduled origin = false
)

// output is what a target brings to the page, each part with what writes it out.
type output struct {
	// families are what the last reading found; no two readings are under way at once.
	families       []exposition.Family
	readingEncoder exposition.Encoder
	// own are the metrics of the status.
	own           []exposition.Family
	statusEncoder exposition.Encoder
	// present is what a Follower knows now.
	present []exposition.Family
	// engine is what a Follower of a container engine knows now; nil for other targets.
	engine          *health.Engine
	followerEncoder exposition.Encoder
	// changes counts what a Follower has noticed, presented how much of it present shows.
	changes   atomic.Uint64
	presented uint64
}

// outcome is how a reading ended.
type outcome struct {
	families   []exposition.Family
	dropped    collectors.Drops
	httpStatus int
	notes      []string
	impaired   []string
	exchanges  []*exchange.Exchange
	conditions []health.Condition
	err        error
}

const (
	// obeyGrace is how long a reading may take to notice that its deadline has passed before it is abandoned.
	obeyGrace = 500 * time.Millisecond
	// StopGrace is how long a reading may take to end after the poller was stopped: a transaction that was begun is
	// finished, and the process still ends within five seconds.
	StopGrace = 4 * time.Second
)

// read makes one reading of t, unless the one before is still running. It returns when the reading is over or
// abandoned, and reports whether the target was not down before and now is.
func (t *target) read(ctx context.Context, by origin) (wentDown bool) {
	if !t.begin(by) {
		return false
	}
	readCtx, cancel := context.WithTimeout(ctx, t.Timeout)
	start := time.Now()
	ended := make(chan outcome, 1)
	go func() {
		defer cancel()
		t.deliver(ended, t.collect(readCtx))
	}()
	select {
	case o := <-ended:
		return t.end(ctx, start, o)
	case <-readCtx.Done():
	}
	grace := obeyGrace
	if ctx.Err() != nil {
		grace = StopGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case o := <-ended:
		return t.end(ctx, start, o)
	case <-timer.C:
		return t.end(ctx, start, t.abandon(ended, grace))
	}
}

// begin claims t for one reading. While one is running, it counts an overrun; while that was even abandoned, the
// target cannot be asked, which is a failure of its own.
func (t *target) begin(by origin) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.busy {
		t.busy, t.abandoned, t.by = true, false, by
		t.status.Attempts++
		return true
	}
	if !t.retrying.Load() { // a retry and the schedule may well meet
		t.status.Overruns++
	}
	if t.abandoned {
		t.status.Attempts++
		t.countFailure(failure.Timeout, by)
		t.status.LastAttempt = time.Now()
		t.patient, t.every = t.patience(t.status.LastAttempt), t.pace(t.status.LastAttempt)
	}
	t.encodeStatus()
	return false
}

// deliver hands over how a reading ended. If the reading was abandoned, its outcome is dropped, and the target may
// be asked again.
func (t *target) deliver(ended chan<- outcome, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		t.busy = false
		t.log.Info("abandoned reading has ended", "target", t.Name)
		return
	}
	ended <- o
}

// abandon gives up on the running reading, unless it has ended at the last moment, and returns how that ended.
func (t *target) abandon(ended <-chan outcome, grace time.Duration) outcome {
	t.mu.Lock()
	defer t.mu.Unlock()
	select {
	case o := <-ended:
		return o
	default:
	}
	t.abandoned = true
	return outcome{err: failure.Errorf(failure.Timeout,
		"the reading did not end within %s of its deadline of %s and was abandoned", grace, t.Timeout)}
}

// collect runs the collector and makes families of what it found. A panic is contained here, since a recover higher
// up does not reach this goroutine: one broken collector must not end the watch over all others.
func (t *target) collect(ctx context.Context) (o outcome) {
	b := &collectors.Batch{Target: t.Name}
	defer func() {
		if r := recover(); r != nil {
			t.log.Error("collector panicked", "target", t.Name, "panic", t.clean(fmt.Sprint(r)), "stack", string(debug.Stack()))
			o = outcome{err: failure.Errorf(failure.Panic, "the collector panicked: %v", r)}
		}
	}()
	err := t.Collector.Collect(ctx, b)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = late(err)
	}
	o = outcome{httpStatus: b.HTTPStatus, notes: b.Notes, impaired: b.Impairments, exchanges: b.Exchanges, err: err}
	o.conditions = b.Conditions(err)
	families, encodeErr := t.readingEncoder.Encode(b.Metrics(err == nil))
	if encodeErr != nil {
		o.err = failure.Errorf(failure.Internal, "encode the reading: %w", encodeErr)
		return o
	}
	o.families = append(families, b.Foreign(err == nil)...)
	o.dropped = b.Dropped(err == nil)
	return o
}

// late names what a deadline did to a reading: whatever broke because of it is a timeout.
func late(err error) error {
	switch failure.ReasonOf(err) {
	case failure.Closed, failure.Internal:
		return &failure.Error{Reason: failure.Timeout, Err: err}
	default:
		return err
	}
}

// end records how a reading ended, says it in the log if the verdict changed, and reports whether the target went down.
func (t *target) end(ctx context.Context, start time.Time, o outcome) (wentDown bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = t.abandoned
	if o.err != nil && ctx.Err() != nil {
		return false // cut short by the shutdown, which says nothing about the target
	}
	s := &t.status
	changed := !s.Known || s.Up != (o.err == nil)
	s.Known, s.Up = true, o.err == nil
	if changed {
		s.Since = now
	}
	s.LastAttempt, s.Duration = now, now.Sub(start)
	t.patient, t.every, t.overdue = t.patience(now), t.pace(now), false
	t.redact(&o)
	t.conditions = o.conditions
	s.HTTPStatus, s.Notes, s.Dropped = o.httpStatus, o.notes, o.dropped
	if o.err != nil {
		s.Clashes = nil
	}
	s.Reason, s.Error, s.Hint, s.Impairments = "", "", "", nil
	if o.err == nil {
		s.LastSuccess, s.Impairments = now, o.impaired
	} else {
		s.Reason, s.Error, s.Hint = failure.ReasonOf(o.err), t.clean(o.err.Error()), t.clean(t.todo(o.err))
		t.countFailure(s.Reason, t.by)
	}
	t.families = o.families
	t.updatePresent()
	t.encodeStatus()
	t.history = t.history.with(Reading{
		Time: now, Duration: s.Duration, Up: s.Up, Reason: s.Reason, Error: s.Error, Hint: s.Hint,
		HTTPStatus: s.HTTPStatus, Series: s.Series, Notes: s.Notes, Exchanges: o.exchanges,
	})
	t.slowest.Store(int64(t.history.slowest()))
	switch {
	case changed && o.err == nil:
		t.log.Info("target is up", "target", t.Name, "duration", s.Duration)
	case changed:
		t.log.Warn("target is down", "target", t.Name, "reason", string(s.Reason), "err", s.Error, "hint", s.Hint)
	}
	return changed && o.err != nil
}

// countFailure counts a failed reading. The caller holds mu.
func (t *target) countFailure(reason failure.Reason, by origin) {
	t.status.Failures[reason]++
	if by == scheduled {
		t.status.Missed++
	}
}

// todo is what to do about a failed reading.
func (t *target) todo(err error) string {
	if guess := failure.GuessOf(err); guess != "" && t.status.LastSuccess.IsZero() {
		return guess
	}
	page := t.Name
	if t.once {
		page = ""
	}
	return failure.AdviceOf(err, page, t.Container)
}

// missedReadings is how many readings may be missed before a target's families are too old to be shown.
const missedReadings = 3

// patience is how long after now a target that is read by its schedule will have been due so often that it must have
// been read. It is taken when a reading ends and measured on the monotonic clock, so that a step of the wall clock makes
// nobody late.
func (t *target) patience(now time.Time) time.Duration {
	due := now
	for range missedReadings {
		due = t.Schedule.Next(due)
	}
	return due.Sub(now) + t.Timeout
}

// maxPace is how many readings of an hour are counted.
const maxPace = 3600

// pace is the mean time between the readings that the schedule had in the hour before; 0 if it had none.
func (t *target) pace(now time.Time) time.Duration {
	switch s := t.Schedule.(type) {
	case *paced:
		return s.every
	case cron.ConstantDelaySchedule:
		return s.Delay
	}
	n := time.Duration(0)
	for due := t.Schedule.Next(now.Round(0).Add(-time.Hour)); !due.IsZero() && !due.After(now) && n < maxPace; due = t.Schedule.Next(due) {
		n++
	}
	if n == 0 {
		return 0
	}
	return time.Hour / n
}

// expire forgets what is known of a target that was due three times since its last reading without being read, and
// reports whether that is so. A target whose reading is abandoned counts as read.
func (t *target) expire(now, start time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, patience := t.status.LastAttempt, t.patient
	if last.IsZero() {
		last, patience = start, t.patience(start)
	}
	if t.overdue = now.Sub(last) > patience; !t.overdue {
		return false
	}
	if t.status.Known {
		t.log.Error("target was not read when it was due", "target", t.Name, "last_attempt", t.status.LastAttempt)
		t.status.Known = false
		t.status.Dropped, t.status.Clashes = nil, nil
		t.families, t.present = nil, nil
		if t.engine != nil {
			t.engine = &health.Engine{Host: t.engine.Host}
		}
		t.encodeStatus()
	}
	return true
}

// updatePresent asks a Follower what holds now; nothing unless the last reading succeeded. The caller holds mu.
func (t *target) updatePresent() {
	t.present, t.presented = nil, t.changes.Load()
	if t.engine != nil {
		t.engine = &health.Engine{Host: t.engine.Host}
	}
	f, ok := t.Collector.(collectors.Follower)
	if !ok || !t.status.Known || !t.status.Up {
		return
	}
	families, engine, err := t.presentation(f)
	if err != nil {
		// Nothing stale is shown; the next reading tries again.
		t.log.Error("what is known of the target cannot be shown", "target", t.Name, "err", err)
		return
	}
	t.present = families
	if engine != nil {
		engine.Read = true
		t.engine = engine
	}
}

func (t *target) presentation(f collectors.Follower) (families []exposition.Family, engine *health.Engine, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	b := &collectors.Batch{Target: t.Name}
	f.Present(b)
	families, err = t.followerEncoder.Encode(b.Metrics(true))
	return families, b.Engine, err
}

// follow has a Follower listen until ctx is done, and contains its panics.
func (t *target) follow(ctx context.Context, f collectors.Follower, changed func()) {
	tell := func() {
		t.changes.Add(1)
		changed()
	}
	defer func() {
		if r := recover(); r != nil {
			t.log.Error("collector panicked while it listened", "target", t.Name, "panic", t.clean(fmt.Sprint(r)), "stack", string(debug.Stack()))
			tell()
		}
	}()
	f.Follow(ctx, tell)
}

// encodeStatus writes the status out. The caller holds mu.
func (t *target) encodeStatus() {
	t.status.Series = 0
	for _, families := range [][]exposition.Family{t.families, t.present} {
		for i := range families {
			t.status.Series += families[i].Series
		}
	}
	own, err := t.statusEncoder.Encode(t.status.metrics())
	if err != nil {
		t.log.Error("status metrics do not encode", "target", t.Name, "err", err)
		return
	}
	t.own = own
}

// view returns the status and the families as they are now. Families are immutable and may be kept.
func (t *target) view() (Status, []exposition.Family) {
	s, families, _, _ := t.viewAll()
	return s, families
}

// viewAll returns the facts about the target besides, and those about its container engine, nil for other targets.
func (t *target) viewAll() (Status, []exposition.Family, health.Target, *health.Engine) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes.Load() != t.presented {
		t.updatePresent()
		t.encodeStatus()
	}
	s := t.status
	s.Failures = maps.Clone(t.status.Failures)
	s.Notes = t.withClashes(s.Notes)
	return s, slices.Concat(t.own, t.families, t.present), t.facts(), t.engine
}

// facts are what the judgement needs. The caller holds mu.
func (t *target) facts() health.Target {
	s := &t.status
	f := health.Target{
		Name: s.Target, Kind: s.Kind, HostName: t.HostName, Container: t.Container, ContainerHost: t.ContainerHost,
		Engine: t.DockerHost, WarnOnly: t.WarnOnly, Read: s.Known, Up: s.Up, ReadAt: s.LastAttempt, Overdue: t.overdue, Failed: s.Missed, Every: t.every,
		Conditions: t.conditions,
	}
	if s.Dropped != nil {
		dropped := 0
		for _, n := range s.Dropped {
			dropped += n
		}
		holds := dropped > 0 || len(s.Clashes) > 0
		f.Conditions = append(slices.Clip(f.Conditions), health.Condition{Alert: health.AlertSeriesDropped, Holds: holds})
	}
	return f
}

// clashed notes which families a page could not take that was made of what the target was when it was seen, and reports
// whether that is news. If it has been read since, it is none: the page that follows will tell.
func (t *target) clashed(seen *Status, found []exposition.Clash) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.status
	if !s.Known || !s.Up || !s.LastAttempt.Equal(seen.LastAttempt) || slices.Equal(s.Clashes, found) {
		return false
	}
	s.Clashes = found
	t.encodeStatus()
	return true
}

// maxClashes is how many clashing families are named.
const maxClashes = 5

// withClashes adds a line to notes for each of the first families that clash. The caller holds mu.
func (t *target) withClashes(notes []string) []string {
	clashes := t.status.Clashes
	notes = slices.Clip(notes)
	for _, c := range clashes[:min(len(clashes), maxClashes)] {
		notes = append(notes, t.clean(fmt.Sprintf(
			"clash: %d series of family %s are left out: a family that comes before it on the page has that name, or one of its samples', and another type",
			c.Series, c.Family)))
	}
	if more := len(clashes) - maxClashes; more > 0 {
		notes = append(notes, fmt.Sprintf("clash: %d families more", more))
	}
	return notes
}

// recent returns the history. Clashes are added to the notes of the last reading.
func (t *target) recent() History {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.history
	if len(t.status.Clashes) > 0 && len(h.Last) > 0 {
		h.Last = slices.Clone(h.Last)
		h.Last[0].Notes = t.withClashes(h.Last[0].Notes)
	}
	return h
}

// leastInterval is the least time between two readings, 0 where there is none or the schedule is shorter by intention.
func (t *target) leastInterval() time.Duration {
	s, ok := t.Collector.(collectors.Sparing)
	if !ok {
		return 0
	}
	switch every := t.Schedule.(type) {
	case *paced:
		return min(every.every, s.LeastInterval())
	case cron.ConstantDelaySchedule:
		return min(every.Delay, s.LeastInterval())
	default:
		return s.LeastInterval()
	}
}

// unread reports whether no reading has ended yet.
func (t *target) unread() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.LastAttempt.IsZero()
}

// maxText bounds what is kept of a text that a server may have made.
const maxText = 500

// clean makes a text fit to be logged and shown: without the target's secrets, in case a server repeats them, without
// control characters, and not too long.
func (t *target) clean(text string) string {
	if t.Redact != nil {
		text = t.Redact(text)
	}
	return failure.Printable(text, maxText)
}

// redact cleans what is remembered of a reading.
func (t *target) redact(o *outcome) {
	for _, lines := range [][]string{o.notes, o.impaired} {
		for i, line := range lines {
			lines[i] = t.clean(line)
		}
	}
	for _, e := range o.exchanges {
		e.Err, e.Request = t.clean(e.Err), t.clean(e.Request)
		header := make(http.Header, len(e.Header))
		for name, values := range e.Header {
			name = t.clean(name)
			for _, v := range values {
				header[name] = append(header[name], t.clean(v))
			}
		}
		e.Header = header
	}
}
