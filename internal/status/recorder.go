package status

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

const (
	// maxAge is how old a report with viewers may be. A stalled poll loop publishes no snapshot, and the report must say so.
	maxAge = 5 * time.Second
	// notifyEvery is how often watchers receive reports in which only ages and numbers have changed.
	notifyEvery = 10 * time.Second
	// viewerTimeout is how long after a request a viewer counts as present. A watcher asks again every notifyEvery.
	viewerTimeout = time.Minute
	// maxIdleAge is how old a report without viewers and without news may be. It is far below a history's step, so charts lose
	// nothing.
	maxIdleAge = 30 * time.Second
)

// Recorder makes a report from each snapshot that has news, and keeps histories. It outlives reloads of the configuration.
// Without viewers it does not renew a report only to update ages: the next viewer waits for a new one. Its methods are safe for
// concurrent use.
type Recorder struct {
	version string
	source  func() Input
	wake    chan struct{}
	current atomic.Pointer[update]
	// events are changes of states that no report has yet.
	events struct {
		sync.Mutex
		list []health.Event
	}
	// lastViewed is when a report was last requested; nil before that.
	lastViewed atomic.Pointer[time.Time]

	mu     sync.Mutex // guards what follows, and is held while a report is made
	memory memory
	// lastInput is what the last report was made from.
	lastInput Input
}

// update is the current report and the one that watchers received last.
type update struct {
	report, published *Report
	superseded        chan struct{} // closed when published is superseded
}

// NewRecorder returns a recorder that reads source, which must have a snapshot already. Version is the exporter's.
func NewRecorder(version string, source func() Input) *Recorder {
	r := &Recorder{
		version: version,
		source:  source,
		wake:    make(chan struct{}, 1),
		memory:  newMemory(),
	}
	r.current.Store(&update{&Report{}, &Report{}, make(chan struct{})})
	r.renew(func(Input, time.Time) bool { return true })
	return r
}

// Apply adds a round of the judge, whose changes the next report tells.
func (r *Recorder) Apply(round *health.Round) {
	r.events.Lock()
	defer r.events.Unlock()
	for i := range round.Events {
		if e := &round.Events[i]; e.Alert == "" {
			r.events.list = append(r.events.list, *e)
		}
	}
}

// takeEvents returns what Apply has added.
func (r *Recorder) takeEvents() []health.Event {
	r.events.Lock()
	defer r.events.Unlock()
	list := r.events.list
	r.events.list = nil
	return list
}

// Wake makes Run check the source for news. It does not wait.
func (r *Recorder) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // Run is woken already
	}
}

// Run renews the report when woken and every few seconds, if it is due, until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	ticker := time.NewTicker(maxAge)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-ticker.C:
		}
		r.renew(r.isDue)
	}
}

// renew makes a report from the source's present input, if it is due.
func (r *Recorder) renew(due func(in Input, now time.Time) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// The source is read under the lock, so that no older input is observed after a newer one.
	if in, now := r.source(), time.Now(); due(in, now) {
		r.observe(in, now)
	}
}

// isDue reports whether to make another report. The caller holds the lock.
func (r *Recorder) isDue(in Input, now time.Time) bool {
	viewed := r.lastViewed.Load()
	return viewed != nil && now.Sub(*viewed) < viewerTimeout || now.Sub(r.current.Load().report.Made) >= maxIdleAge ||
		in.hasNews(&r.lastInput)
}

// Report returns the current report.
func (r *Recorder) Report() *Report { return r.recordViewer().report }

// Latest returns the current report, which may be 30 s old if nothing has changed. Whoever calls it is no viewer.
func (r *Recorder) Latest() *Report { return r.current.Load().report }

// recordViewer records a viewer and renews the report first if it is older than maxAge. For the first viewer after viewerTimeout,
// it also renews a report that is older than the source's snapshot.
func (r *Recorder) recordViewer() *update {
	now := time.Now()
	before := r.lastViewed.Swap(&now)
	unwatched := before == nil || now.Sub(*before) >= viewerTimeout
	old := func() bool { return now.Sub(r.current.Load().report.Made) >= maxAge }
	if unwatched || old() {
		r.renew(func(in Input, _ time.Time) bool { return old() || in.Snapshot.Time.After(r.current.Load().report.Time) })
	}
	return r.current.Load()
}

// Watch returns the last report for watchers, and a channel that is closed when there is another: at once if more than ages and
// numbers has changed, else every ten seconds.
func (r *Recorder) Watch() (published *Report, superseded <-chan struct{}) {
	u := r.recordViewer()
	return u.published, u.superseded
}

// History returns a number's history of the last day, or false for an unknown name. Reports list the names as Charts.
func (r *Recorder) History(name string) (History, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.memory.series[name]; s != nil {
		return s.history(time.Now()), true
	}
	return History{}, false
}

// observe makes the report from an input. The caller holds the lock.
func (r *Recorder) observe(in Input, now time.Time) {
	r.memory.transitions.take(r.takeEvents())
	r.lastInput = in
	// Without the metrics page, which is large.
	r.lastInput.Snapshot = &poll.Snapshot{Statuses: in.Snapshot.Statuses, Judgement: in.Snapshot.Judgement}
	report := r.memory.report(&in, now)
	report.Version = r.version
	next := *r.current.Load()
	report.Revision = next.report.Revision + 1
	next.report = report
	if !report.sameNews(next.published) || now.Sub(next.published.Made) >= notifyEvery {
		defer close(next.superseded)
		next.published, next.superseded = report, make(chan struct{})
	}
	r.current.Store(&next)
}

// Input is what a report is made from. What it points to is immutable.
type Input struct {
	Snapshot *poll.Snapshot
	// Alerts are the configured thresholds.
	Alerts config.Alerts
	Notices
}

// Notices are what a report repeats of its input.
type Notices struct {
	// PageTitle is the name of what is watched.
	PageTitle string `json:"title"`
	// ConfigError says why the configuration file is not in use; empty if it is. Stale says why polling has stalled, so that
	// everything else is out of date.
	ConfigError string `json:"config_error,omitempty"`
	Stale       string `json:"stale,omitempty"`
	// Unsaved says since when the state file keeps nothing; nil while it does.
	Unsaved *Unsaved `json:"state_not_saved,omitempty"`
	// Forgets says what a restart of the exporter loses, "" for nothing.
	Forgets string `json:"forgets,omitempty"`
	// Maintenance lists current and planned maintenance.
	Maintenance []maintenance.Entry `json:"maintenance"`
	// NotConfigured are the names of the targets that are not configured, so not polled.
	NotConfigured []string `json:"not_configured"`
	// LeftToFirst are the names of the targets that only the first exporter of a pair polls.
	LeftToFirst []string `json:"left_to_first,omitempty"`
	// Receivers are those whom the exporter itself notifies, in the order of the configuration.
	Receivers []Receiver `json:"receivers,omitempty"`
}

// Receiver is how the notifications to one receiver get on.
type Receiver struct {
	Name string `json:"name"`
	// Waiting is how many messages are not delivered yet. Success is when one last was; Answer is what the service said.
	Waiting int       `json:"waiting"`
	Success time.Time `json:"last_success,omitzero"`
	Answer  string    `json:"answer,omitempty"`
	// Failing is why the last attempt failed, Since since when all do; "" and zero if it succeeded.
	Failing string    `json:"failing,omitempty"`
	Since   time.Time `json:"failing_since,omitzero"`
	// Lost counts messages that were given up, LostAt is when the last one was.
	Lost   int       `json:"lost,omitempty"`
	LostAt time.Time `json:"lost_at,omitzero"`
	// Counts are how many attempts and messages had which outcome in this process.
	Counts map[string]uint64 `json:"-"`
}

func (r *Receiver) sameNews(o *Receiver) bool {
	return r.Name == o.Name && r.Waiting == o.Waiting && r.Success.Equal(o.Success) && (r.Failing == "") == (o.Failing == "") &&
		r.Lost == o.Lost
}

// Unsaved says that the state file keeps nothing since a time, and why.
type Unsaved struct {
	Since time.Time `json:"since"`
	Error string    `json:"error"`
}

// sameNews reports whether both say the same.
func (n *Notices) sameNews(o *Notices) bool {
	return n.ConfigError == o.ConfigError && n.Stale == o.Stale && n.Forgets == o.Forgets && (n.Unsaved == nil) == (o.Unsaved == nil) &&
		slices.Equal(n.Maintenance, o.Maintenance) && slices.Equal(n.NotConfigured, o.NotConfigured) &&
		slices.Equal(n.LeftToFirst, o.LeftToFirst) &&
		slices.EqualFunc(n.Receivers, o.Receivers, func(a, b Receiver) bool { return a.sameNews(&b) })
}

// hasNews reports whether the input differs from the one before in more than its time.
func (in *Input) hasNews(before *Input) bool {
	return !in.sameNews(&before.Notices) || !slices.EqualFunc(in.Snapshot.Statuses, before.Snapshot.Statuses, sameProbe) ||
		!slices.EqualFunc(in.problems(), before.problems(), sameAlert)
}

// problems are those of the judgement.
func (in *Input) problems() []health.Problem {
	if j := in.Snapshot.Judgement; j != nil {
		return j.Problems
	}
	return nil
}

// sameAlert reports whether two problems are the same, and equally severe.
func sameAlert(a, b health.Problem) bool {
	return a.Subject == b.Subject && a.Alert == b.Alert && a.Of == b.Of && a.Severity == b.Severity
}

// sameProbe reports whether two statuses come from the same probe, and nothing has changed since.
func sameProbe(a, b poll.Status) bool {
	return a.Target == b.Target && a.Kind == b.Kind && a.Known == b.Known && a.Attempts == b.Attempts &&
		a.LastAttempt.Equal(b.LastAttempt) && a.RetryAt.Equal(b.RetryAt) && a.Engine == b.Engine
}
