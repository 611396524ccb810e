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
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/pacing"
)

// Target is one thing to probe, and when.
type Target struct {
	Name string
	Kind config.Row
	// HostName is the host name in its URL or address, "" if the exporter does not resolve one.
	HostName string
	// Place identifies what it is about, its kind included, whatever its name; "" if unknown.
	Place string
	// Container is the configured name of the container that serves it, or Service the workload. ContainerHost is the docker_host of its
	// engine.
	Container, Service, ContainerHost string
	// ChatServer is the server that it is part of, in the alerts' label chat_server; "" for that of its container, else its name.
	ChatServer string
	// WarnOnly says that the target's own alerts are warnings at most.
	WarnOnly bool
	// Slow is how long a successful reading may take until it is slow; 0 for any time.
	Slow time.Duration
	// DockerHost is the name of the container engine that the target is; "" for other targets.
	DockerHost string
	Collector  collectors.Collector
	// Addresses are the addresses that it is probed at.
	Addresses collectors.Addresses
	// Schedule says when readings are due. One made of "@every" is spread by a hash of the name.
	Schedule cron.Schedule
	// Timeout is the deadline of one reading.
	Timeout time.Duration
	// Redact masks the target's secrets in text from a server; nil for a target without secrets.
	Redact func(string) string
	Pace   Pace
	// Same says, after a reload, that the target is unchanged: it keeps its collector and its state.
	Same bool
}

// target is a Target with what is known of it.
type target struct {
	Target
	log *slog.Logger

	mu     sync.Mutex
	status Status
	// busy is true while a reading runs, abandoned if that reading has not ended by its deadline, begun once there was a reading.
	busy, abandoned, begun bool
	// former is what the target was before a reload changed it, while its abandoned reading may still run; else nil.
	former *target
	// by is the origin of the current or last reading.
	by origin
	output
	history History
	// conditions are what the last reading found besides up or down.
	conditions []health.Condition
	// retrying is true while a series of retries runs.
	retrying atomic.Bool
	// looking is true while a second probe is awaited.
	looking atomic.Bool
	// once says that nobody serves the target's history.
	once bool
	// slowest is the result of History.slowest, in nanoseconds.
	slowest atomic.Int64
	// notBefore is the earliest first reading of a target with a least interval that a reload has changed.
	notBefore time.Time
	// readAtStart makes the next poller read the target at once, even if it was read before.
	readAtStart bool
	// overdue says that the last reading is older than overdueAfter.
	overdue      bool
	overdueAfter time.Duration
	// meanInterval is the mean time between scheduled readings in the hour before the last reading; 0 if there were none.
	meanInterval time.Duration
	waits
}

// waits is what makes a target wait on purpose.
type waits struct {
	connections *pacing.Connections
	slow        pacing.Slowdown
	// began is when the last reading began, asked when somebody last asked for one;
	// waitLogged is why the target waited at the last log line.
	began, asked time.Time
	waitLogged   failure.Reason
}

// origin says whether a reading is on the schedule. First readings and retries are not.
type origin bool

const (
	scheduled   origin = true
	unscheduled origin = false
)

// output is what a target adds to the page, each part with its encoder.
type output struct {
	// families are from the last reading; its encoder needs no lock, since readings of a target never overlap.
	families       []exposition.Family
	readingEncoder exposition.Encoder
	// present is what a Follower knows now.
	present         []exposition.Family
	followerEncoder exposition.Encoder
	// changes counts the changes that a Follower has noticed; present includes the first presented of them.
	changes   atomic.Uint64
	presented uint64
}

// outcome is how a reading ended.
type outcome struct {
	families   []exposition.Family
	figures    []collectors.Figure
	dropped    collectors.Drops
	httpStatus int
	notes      []string
	impaired   []string
	exchanges  []*exchange.Exchange
	conditions []health.Condition
	// perHour is how many connections of one address the server may allow in an hour; 0 if no limit is known.
	perHour int
	err     error
}

const (
	// obeyGrace is how long a reading may run past its deadline before it is abandoned.
	obeyGrace = 500 * time.Millisecond
	// StopGrace is how long a reading may run after the poller was stopped: long enough to finish a transaction, and short enough
	// for the process to end within five seconds.
	StopGrace = 4 * time.Second
)

// read makes one reading of t, unless the one before is still running or t waits on purpose. It returns when the reading is over or
// abandoned, and reports whether the target was not down before and now is.
func (t *target) read(ctx context.Context, by origin) (wentDown bool) {
	if !t.begin(by) {
		return false
	}
	readCtx, cancel := context.WithTimeout(ctx, t.deadline())
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

// deadline is how long this reading may take: the first one since the start or a reload also opens the target's sessions.
func (t *target) deadline() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := !t.begun
	t.begun = true
	if first {
		return t.Timeout + t.Kind.JoinTime
	}
	return t.Timeout
}

// begin claims t for one reading. If another one is running, it counts an overrun. If that one was abandoned, it also counts a
// failure, since the target cannot be probed.
func (t *target) begin(by origin) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	former := t.formerRuns()
	if !t.busy && !former {
		if !t.mayBegin(time.Now()) {
			return false
		}
		t.busy, t.abandoned, t.by = true, false, by
		t.status.Attempts++
		return true
	}
	if !t.retrying.Load() { // a retry may overlap with a scheduled reading
		t.status.Overruns++
	}
	if t.abandoned || former {
		t.status.Attempts++
		t.countFailure(failure.Timeout, by)
		t.status.LastAttempt = time.Now()
		t.overdueAfter, t.meanInterval = t.overdueIn(t.status.LastAttempt), t.scheduledInterval(t.status.LastAttempt)
	}
	return false
}

// formerRuns reports whether an abandoned reading from before a reload still runs. The caller holds mu.
func (t *target) formerRuns() bool {
	if t.former == nil {
		return false
	}
	former := t.former
	former.mu.Lock()
	defer former.mu.Unlock()
	if former.busy || former.formerRuns() {
		return !former.busy || former.abandoned
	}
	t.former = nil
	return false
}

// deliver sends the outcome of a reading. It drops the outcome of an abandoned reading, so that the target can be probed again.
func (t *target) deliver(ended chan<- outcome, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.abandoned {
		t.busy = false
		t.log.Info("abandoned probe has ended", "target", t.Name)
		return
	}
	ended <- o
}

// abandon gives up on the running reading and returns a timeout, or the outcome if the reading has just ended.
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
		"the probe was abandoned: it was still running %s after its deadline of %s", grace, t.Timeout)}
}

// collect runs the collector and encodes its results. It recovers from panics here, since a recover in another goroutine cannot: one
// broken collector must not stop the monitoring of all other targets.
func (t *target) collect(ctx context.Context) (o outcome) {
	b := &collectors.Batch{Target: t.Name}
	defer func() {
		if r := recover(); r != nil {
			t.log.Error("collector panicked", "target", t.Name, "panic", t.clean(fmt.Sprint(r)), "stack", string(debug.Stack()))
			o = outcome{err: failure.Errorf(failure.Panic, "the collector panicked: %v", r)}
		}
	}()
	err := t.Addresses.Collect(ctx, t.Collector, b)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = asTimeout(err)
	}
	o = outcome{
		httpStatus: b.HTTPStatus,
		notes:      b.Notes,
		impaired:   b.Impairments,
		exchanges:  b.Exchanges,
		perHour:    b.ConnectionsPerHour,
		err:        err,
	}
	o.conditions = b.Conditions(err)
	families, encodeErr := t.readingEncoder.Encode(b.Metrics(err == nil))
	if encodeErr != nil {
		o.err = failure.Errorf(failure.Internal, "encode the metrics: %w", encodeErr)
		return o
	}
	o.families, o.figures = append(families, b.Foreign(err == nil)...), b.Figures(err == nil)
	o.dropped = b.Dropped(err == nil)
	return o
}

// asTimeout gives an error after the deadline the reason timeout, unless its own reason is more precise.
func asTimeout(err error) error {
	switch failure.ReasonOf(err) {
	case failure.Closed, failure.Internal:
		return &failure.Error{Reason: failure.Timeout, Err: err}
	default:
		return err
	}
}

// end records how a reading ended, logs a changed verdict, and reports whether the target went down.
func (t *target) end(ctx context.Context, start time.Time, o outcome) (wentDown bool) {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.busy = t.abandoned
	counts := t.pace(start, now, &o)
	if o.err != nil && ctx.Err() != nil {
		return false // the shutdown interrupted it, so it says nothing about the target
	}
	s := &t.status
	if !counts {
		t.recordUncounted(start, now, &o)
		return false
	}
	changed := !s.Known || s.Up != (o.err == nil)
	s.Known, s.Up = true, o.err == nil
	if changed {
		s.Since = now
	}
	s.LastAttempt, s.Duration = now, now.Sub(start)
	t.overdueAfter, t.overdue = t.overdueIn(now), false
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
		s.Reason, s.Error, s.Hint = failure.ReasonOf(o.err), t.clean(o.err.Error()), t.clean(t.advice(o.err))
		t.countFailure(s.Reason, t.by)
	}
	t.families, s.Figures = o.families, o.figures
	t.updatePresent()
	t.countSeries()
	t.history = t.history.with(Reading{
		Time:       now,
		Duration:   s.Duration,
		Up:         s.Up,
		Reason:     s.Reason,
		Error:      s.Error,
		Hint:       s.Hint,
		HTTPStatus: s.HTTPStatus,
		Series:     s.Series,
		Notes:      s.Notes,
		Exchanges:  o.exchanges,
	})
	t.slowest.Store(int64(t.history.slowest()))
	switch {
	case changed && o.err == nil:
		t.log.Info("target is up", "target", t.Name, "duration", s.Duration)
	case changed:
		t.log.Warn("target is down", "target", t.Name, "reason", string(s.Reason), "err", s.Error, "hint", s.Hint)
	}
	t.logWait(now)
	return changed && o.err != nil
}

// recordUncounted records a failure that does not count until a second probe confirms it: the verdict stays. The caller holds mu.
func (t *target) recordUncounted(start, now time.Time, o *outcome) {
	t.redact(o)
	reason := failure.ReasonOf(o.err)
	t.status.LastAttempt = now
	t.overdueAfter, t.overdue = t.overdueIn(now), false
	t.countFailure(reason, unscheduled)
	t.families, t.status.Figures = o.families, o.figures // the last values are not those of this reading
	t.countSeries()
	t.history = t.history.with(Reading{
		Time:       now,
		Duration:   now.Sub(start),
		Reason:     reason,
		Error:      t.clean(o.err.Error()),
		Hint:       t.clean(t.advice(o.err)),
		HTTPStatus: o.httpStatus,
		Notes:      o.notes,
		Exchanges:  o.exchanges,
	})
}

// countFailure counts a failed reading. The caller holds mu.
func (t *target) countFailure(reason failure.Reason, by origin) {
	t.status.Failures = maps.Clone(t.status.Failures) // statuses that were handed out never change
	t.status.Failures[reason]++
	if by == scheduled {
		t.status.Missed++
	}
}

// advice says what to do about a failed reading.
func (t *target) advice(err error) string {
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

// overdueIn returns how long after now the target is overdue without another reading. It is computed when a reading ends and
// compared on the monotonic clock, so that a step of the wall clock makes no target overdue.
func (t *target) overdueIn(now time.Time) time.Duration {
	due := now
	for range missedReadings {
		due = t.Schedule.Next(due)
	}
	return due.Sub(now) + t.Timeout
}

// maxHourlyReadings limits how many scheduled readings in an hour are counted.
const maxHourlyReadings = 3600

// scheduledInterval returns the mean time between scheduled readings in the hour before now; 0 if there were none.
func (t *target) scheduledInterval(now time.Time) time.Duration {
	if every := t.connections.Every(t.Pace.Address); every > 0 {
		return max(every, t.interval(now))
	}
	return t.interval(now)
}

// interval is scheduledInterval by the schedule alone.
func (t *target) interval(now time.Time) time.Duration {
	switch s := t.Schedule.(type) {
	case *paced:
		return s.every
	case cron.ConstantDelaySchedule:
		return s.Delay
	}
	n := time.Duration(0)
	for due := t.Schedule.Next(now.Round(0).
		Add(-time.Hour)); !due.IsZero() && !due.After(now) && n < maxHourlyReadings; due = t.Schedule.Next(due) {
		n++
	}
	if n == 0 {
		return 0
	}
	return time.Hour / n
}

// expire reports whether a target is overdue, and if so drops its data. An abandoned reading counts as a reading.
func (t *target) expire(now, start time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	last, overdueAfter := t.status.LastAttempt, t.overdueAfter
	if last.IsZero() {
		last, overdueAfter = start, t.overdueIn(start)
	}
	if until, _ := t.waitsUntil(now); until.After(last) {
		last = until // a target that waits on purpose is not overdue
	}
	if t.overdue = now.Sub(last) > overdueAfter; !t.overdue {
		return false
	}
	if t.status.Known {
		t.log.Error("probes of the target are overdue", "target", t.Name, "last_attempt", t.status.LastAttempt)
		t.status.Known = false
		t.status.Dropped, t.status.Clashes = nil, nil
		t.families, t.present, t.status.Figures = nil, nil, nil
		t.forgetContainers()
		t.countSeries()
	}
	return true
}

// updatePresent gets the current data of a Presenter, or drops it unless the last reading succeeded. The caller holds mu.
func (t *target) updatePresent() {
	t.present, t.presented = nil, t.changes.Load()
	t.forgetContainers()
	f, ok := t.Collector.(collectors.Presenter)
	if !ok || !t.status.Known || !t.status.Up {
		return
	}
	families, engine, err := t.presentation(f)
	if err != nil {
		// Show nothing rather than stale data; the next reading tries again.
		t.log.Error("cannot encode the target's metrics", "target", t.Name, "err", err)
		return
	}
	t.present = families
	if engine != nil {
		engine.Read = true
		t.status.Engine = engine
	}
}

// forgetContainers drops what is known of an engine's containers. The caller holds mu.
func (t *target) forgetContainers() {
	if t.DockerHost != "" {
		t.status.Engine = &health.Engine{Host: t.DockerHost}
	}
}

func (t *target) presentation(f collectors.Presenter) (families []exposition.Family, engine *health.Engine, err error) {
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

// follow lets a Follower listen until ctx is done, and recovers from its panics.
func (t *target) follow(ctx context.Context, f collectors.Follower, changed func()) {
	noteChange := func() {
		t.changes.Add(1)
		changed()
	}
	defer func() {
		if r := recover(); r != nil {
			t.log.Error("collector panicked while listening for events",
				"target", t.Name, "panic", t.clean(fmt.Sprint(r)), "stack", string(debug.Stack()))
			noteChange()
		}
	}()
	f.Follow(ctx, noteChange)
}

// countSeries counts the target's own series. The caller holds mu.
func (t *target) countSeries() {
	t.status.Series = 0
	for _, families := range [][]exposition.Family{t.families, t.present} {
		for i := range families {
			t.status.Series += families[i].Series
		}
	}
}

// view returns the status and the families as they are now. Families are immutable and may be kept.
func (t *target) view() (Status, []exposition.Family) {
	s, families, _ := t.viewAll()
	return s, families
}

// viewAll also returns the facts about the target.
func (t *target) viewAll() (Status, []exposition.Family, health.Target) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.changes.Load() != t.presented {
		t.updatePresent()
		t.countSeries()
	}
	s := t.status
	s.Abandoned = t.busy && t.abandoned || t.formerRuns()
	s.Notes = t.withClashes(s.Notes)
	s.RetryAt, s.RetryReason = t.shownWait(time.Now())
	families := t.families
	if len(t.present) > 0 {
		families = slices.Concat(families, t.present)
	}
	return s, families, t.facts()
}

// facts are what the judgement needs. The caller holds mu.
func (t *target) facts() health.Target {
	s := &t.status
	f := health.Target{
		Name:          s.Target,
		Kind:          s.Kind,
		Role:          t.Kind.Role.Name,
		Side:          t.Kind.Side,
		Relay:         t.Kind.Relay,
		ShowsServer:   t.Kind.ShowsServer,
		Direct:        t.Kind.Direct,
		ValueAlerts:   t.Kind.ValueAlerts,
		HostName:      exchange.CanonicalHost(t.HostName),
		Place:         t.Place,
		Container:     t.Container,
		Service:       t.Service,
		ContainerHost: t.ContainerHost,
		Engine:        t.DockerHost,
		WarnOnly:      t.WarnOnly,
		Read:          s.Known,
		Up:            s.Up,
		ReadAt:        s.LastAttempt,
		Took:          s.Duration,
		Slow:          t.Slow,
		Reason:        string(s.Reason),
		Overdue:       t.overdue,
		Failed:        s.Missed,
		Every:         t.meanInterval,
		Throttled:     s.Known && !s.Up && s.Reason == failure.Throttled,
		RefusesUs:     s.Known && !s.Up && s.Reason.RefusesUs(),
		OwnFault:      s.Known && !s.Up && s.Reason.IsOwn(),
		Conditions:    t.conditions,
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

// recordClashes records which families of the target clash on a page that was made from the status seen. It reports whether they
// have changed. It ignores the clashes if the target was read since, as they are on the next page if they persist.
func (t *target) recordClashes(seen *Status, found []exposition.Clash) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &t.status
	if !s.Known || !s.Up || !s.LastAttempt.Equal(seen.LastAttempt) || slices.Equal(s.Clashes, found) {
		return false
	}
	s.Clashes = found
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
			"clash: %d series of family %s were dropped: an earlier family uses that name, or a name of its samples, with another type",
			c.Series, c.Family)))
	}
	if more := len(clashes) - maxClashes; more > 0 {
		notes = append(notes, fmt.Sprintf("clash: %d more families", more))
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

// leastInterval returns the least time between two readings, or its schedule's interval if that is shorter; 0 for none.
func (t *target) leastInterval() time.Duration {
	switch every := t.Schedule.(type) {
	case *paced:
		return min(every.every, t.Kind.LeastInterval)
	case cron.ConstantDelaySchedule:
		return min(every.Delay, t.Kind.LeastInterval)
	default:
		return t.Kind.LeastInterval
	}
}

// unread reports whether no reading has ended yet.
func (t *target) unread() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status.LastAttempt.IsZero()
}

// maxText is the most characters to keep of text from a server.
const maxText = 500

// clean makes text from a server safe to log and show: it masks secrets, removes control characters and cuts the text to maxText.
func (t *target) clean(text string) string {
	if t.Redact != nil {
		text = t.Redact(text)
	}
	return failure.Printable(text, maxText)
}

// redact cleans all texts of an outcome.
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
