package status

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

const (
	// lookAgain is how long a report may be unrenewed: a poll loop that stands still publishes nothing, and the report
	// must say so.
	lookAgain = 5 * time.Second
	// tellAgain is how long watchers are not told of a report that differs from the last one in ages and numbers only.
	tellAgain = 10 * time.Second
)

// Input is what a report is made of. Nobody changes what it points to.
type Input struct {
	Snapshot *poll.Snapshot
	// Alerts are the thresholds that are in force.
	Alerts config.Alerts
	// Maintenance is what is under maintenance or will be.
	Maintenance []maintenance.Entry
	// Unconfigured are the names of the targets that are not polled, Placeholders those of the targets that have an
	// obvious placeholder for a secret.
	Unconfigured, Placeholders []string
	// ReloadError is why the configuration on the disk is not in force, Alive why nothing here is of now; nil where all
	// is well.
	ReloadError, Alive error
}

// Recorder makes a report of each snapshot, and remembers how things were. It outlives reloads of the configuration.
// Its methods are safe for concurrent use; but for Run, none of them waits for more than a copy.
type Recorder struct {
	version string
	source  func() Input
	wake    chan struct{}
	current atomic.Pointer[update]

	mu     sync.Mutex // guards memory
	memory memory
}

// update is what the recorder knows now and what it has told its watchers.
type update struct {
	report, told *Report
	superseded   chan struct{} // closed when told is
}

// NewRecorder returns a recorder of what source has, which must have a snapshot already. Version is the exporter's.
func NewRecorder(version string, source func() Input) *Recorder {
	r := &Recorder{version: version, source: source, wake: make(chan struct{}, 1), memory: newMemory()}
	r.observe(source(), time.Now())
	return r
}

// Wake has the recorder look at its source. It does not wait for that.
func (r *Recorder) Wake() {
	select {
	case r.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// Run renews the report whenever Wake was called, and from time to time, until ctx is done.
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
		r.observe(r.source(), time.Now())
	}
}

// Report returns what is known now.
func (r *Recorder) Report() *Report { return r.current.Load().report }

// Watch returns the report that watchers have been told of last, and a channel that is closed when there is another to
// be told: at once if something has become better or worse, else every ten seconds.
func (r *Recorder) Watch() (told *Report, superseded <-chan struct{}) {
	u := r.current.Load()
	return u.told, u.superseded
}

// History returns how a number was during the last day, or false for a name that nothing has. Reports name the
// histories that there are.
func (r *Recorder) History(name string) (History, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.memory.history(name)
}

// observe makes the report of an input.
func (r *Recorder) observe(in Input, now time.Time) {
	r.mu.Lock()
	report := r.memory.report(in, now)
	r.mu.Unlock()
	report.Version = r.version
	last := r.current.Load()
	next := &update{report: report}
	switch {
	case last == nil:
		report.Revision = 1
		next.told, next.superseded = report, make(chan struct{})
		r.current.Store(next)
		return
	case report.tells(last.told) || now.Sub(last.told.Made) >= tellAgain:
		next.told, next.superseded = report, make(chan struct{})
	default:
		next.told, next.superseded = last.told, last.superseded
	}
	report.Revision = last.report.Revision + 1
	r.current.Store(next)
	if next.told == report {
		close(last.superseded)
	}
}
