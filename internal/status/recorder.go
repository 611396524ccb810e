package status

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

const (
	// lookAgain is how long a report may be unrenewed: a poll loop that stands still publishes nothing, and the report
	// must say so.
	lookAgain = 5 * time.Second
	// tellAgain is how often watchers hear of reports that differ in ages and numbers only.
	tellAgain = 10 * time.Second
	// attention is how long after somebody has looked the next look is expected. A watcher looks again every tellAgain.
	attention = time.Minute
	// restAgain is how long a report may be unrenewed that nobody has looked at lately and to which no reading has added:
	// what lasts is noticed that much later in the history, and a step of a chart is many times as long.
	restAgain = 30 * time.Second
)

// Recorder makes a report of each snapshot that has news, and remembers how things were. It outlives reloads of the
// configuration. While nobody looks, a report is not renewed for ages alone: whoever comes then waits until one is made. Its
// methods are safe for concurrent use.
type Recorder struct {
	version string
	source  func() Input
	wake    chan struct{}
	current atomic.Pointer[update]
	// looked is when somebody has asked for a report last; nil before that.
	looked atomic.Pointer[time.Time]

	mu     sync.Mutex // guards what follows; whoever holds it makes the next report
	memory memory
	// seen is what the last report was made of.
	seen Input
}

// update is what the recorder knows now and what it has told its watchers.
type update struct {
	report, told *Report
	superseded   chan struct{} // closed when told is
}

// NewRecorder returns a recorder of what source has, which must have a snapshot already. Version is the exporter's.
func NewRecorder(version string, source func() Input) *Recorder {
	r := &Recorder{version: version, source: source, wake: make(chan struct{}, 1), memory: newMemory()}
	r.renew(func(Input, time.Time) bool { return true })
	return r
}

// Wake has the recorder look at its source. It does not wait for that.
func (r *Recorder) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run renews the report after each reading, and from time to time, until ctx is done.
func (r *Recorder) Run(ctx context.Context) {
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-again.C:
		}
		r.renew(r.isDue)
	}
}

// renew makes a report of what the source has now, if it is due.
func (r *Recorder) renew(due func(in Input, now time.Time) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// It is asked with the lock held, so that nothing older is observed after something newer.
	if in, now := r.source(), time.Now(); due(in, now) {
		r.observe(in, now)
	}
}

// isDue reports whether there is a reason for another report. The caller holds the lock.
func (r *Recorder) isDue(in Input, now time.Time) bool {
	if looked := r.looked.Load(); looked != nil && now.Sub(*looked) < attention {
		return true
	}
	return now.Sub(r.current.Load().report.Made) >= restAgain || in.hasNews(&r.seen)
}

// Report returns what is known now.
func (r *Recorder) Report() *Report { return r.recordViewer().report }

// recordViewer records a viewer and renews a stale report first: one that is old, or for the first viewer in a while, one that is
// of an earlier snapshot than the source has.
func (r *Recorder) recordViewer() *update {
	now := time.Now()
	before := r.looked.Swap(&now)
	unwatched := before == nil || now.Sub(*before) >= attention
	old := func() bool { return now.Sub(r.current.Load().report.Made) >= lookAgain }
	if unwatched || old() {
		r.renew(func(in Input, _ time.Time) bool { return old() || in.Snapshot.Time.After(r.current.Load().report.Time) })
	}
	return r.current.Load()
}

// Watch returns the report that watchers heard of last, and a channel that is closed when there is another: at once if
// something has become better or worse, else every ten seconds.
func (r *Recorder) Watch() (told *Report, superseded <-chan struct{}) {
	u := r.recordViewer()
	return u.told, u.superseded
}

// History returns how a number was during the last day, or false for a name that nothing has. Reports name the
// histories that there are.
func (r *Recorder) History(name string) (History, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.memory.series[name]; s != nil {
		return s.history(name, time.Now()), true
	}
	return History{}, false
}

// observe makes the report of an input. The caller holds the lock.
func (r *Recorder) observe(in Input, now time.Time) {
	r.seen = in
	r.seen.Snapshot = &poll.Snapshot{Statuses: in.Snapshot.Statuses, Families: in.Snapshot.Families} // its page is large
	report := r.memory.report(in, now)
	report.Version = r.version
	last := r.current.Load()
	if last == nil {
		report.Revision = 1
		r.current.Store(&update{report, report, make(chan struct{})})
		return
	}
	report.Revision = last.report.Revision + 1
	next := &update{report, last.told, last.superseded}
	news := report.differsFrom(last.told) || now.Sub(last.told.Made) >= tellAgain
	if news {
		next.told, next.superseded = report, make(chan struct{})
	}
	r.current.Store(next)
	if news {
		close(last.superseded)
	}
}
