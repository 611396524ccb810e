// Package maintenance tracks which targets, containers and workloads are under maintenance, and until when.
package maintenance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// maxSwitches bounds how many switches may be in force at once.
	maxSwitches = 256
	// longestWait bounds how long Run waits, since the wall clock may be adjusted.
	longestWait = time.Minute
)

// The sources of an Entry.
const (
	FromConfig = "config"
	FromAPI    = "api"
)

// Errors of requests for maintenance. Each error of Set and End wraps one of these, or is a *SaveError.
var (
	// ErrUnknown means that no configured target has this name.
	ErrUnknown = errors.New("unknown target")
	// ErrInvalid means that the request itself is invalid.
	ErrInvalid = errors.New("invalid maintenance")
	// ErrTooMany means that maxSwitches are in force.
	ErrTooMany = errors.New("too many switches")
	// ErrNone means that there is no maintenance to end.
	ErrNone = errors.New("not under maintenance")
	// ErrConfigured means that only the configuration can end the maintenance.
	ErrConfigured = errors.New("under maintenance by the configuration")
)

// Entry is one maintenance.
type Entry struct {
	// Kind is target, container or workload.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// From is when it begins, Until when it ends.
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	// Source is config or api.
	Source string `json:"source"`
	// Active is false before From.
	Active bool `json:"active"`
}

// Store saves one value across restarts, like state.Value.
type Store interface {
	Load(into any) error
	Save(value any) error
}

// Register has all maintenance: windows from the configuration, and switches set through the API. It is safe for concurrent use,
// and is the prometheus.Collector of chatstack_maintenance.
type Register struct {
	store Store
	log   *slog.Logger
	wake  chan struct{}

	mu       sync.Mutex
	windows  []config.Maintenance
	switches map[subject]Entry
	logged   map[subject]bool // beginning was logged, end was not
}

// subject is a target, container or workload.
type subject struct{ kind, name string }

var maintenanceDesc = prometheus.NewDesc("chatstack_maintenance",
	"1 while the target, container or workload is under maintenance, by the configuration or by a switch.", []string{"kind", "name"}, nil)

// New returns a register with the saved switches that have not expired. If it returns an error too, the register has none.
func New(store Store, log *slog.Logger) (*Register, error) {
	r := &Register{
		store:    store,
		log:      log,
		wake:     make(chan struct{}, 1),
		switches: map[subject]Entry{},
		logged:   map[subject]bool{},
	}
	var saved []Entry
	if err := store.Load(&saved); err != nil {
		return r, err
	}
	now := time.Now()
	for _, e := range saved {
		// Somebody may have edited the file, so the same rules apply.
		if _, fault := config.CheckMaintenance(e.Kind, e.Name, e.Reason); fault == "" && e.Until.After(now) &&
			e.Until.Sub(now) <= config.MaxMaintenance && len(r.switches) < maxSwitches {
			e.Source = FromAPI
			r.switches[subject{e.Kind, e.Name}] = e
		}
	}
	return r, nil
}

// Configure replaces the windows. The configuration must be valid. Switches remain.
func (r *Register) Configure(windows []config.Maintenance) {
	r.mu.Lock()
	r.windows = windows
	r.mu.Unlock()
	r.wakeRun()
}

// Set puts a target, container or workload under maintenance from now on, and replaces its switch, if any. The error is ErrInvalid or
// ErrTooMany. With a *SaveError it is in force, but a restart would end it.
func (r *Register) Set(kind, name, reason string, until time.Time) (set Entry, replaced bool, err error) {
	if key, fault := config.CheckMaintenance(kind, name, reason); fault != "" {
		return Entry{}, false, fmt.Errorf("%w: %s %s", ErrInvalid, key, fault)
	}
	// Round(0) drops the monotonic clock: the wall clock counts, as after a restart.
	now := time.Now().Round(0).Truncate(time.Second)
	until = until.Round(0).Truncate(time.Second)
	switch {
	case !until.After(now):
		return Entry{}, false, fmt.Errorf("%w: it would end at %s, but it is already %s", ErrInvalid, clock(until), clock(now))
	case until.Sub(now) > config.MaxMaintenance:
		return Entry{}, false, fmt.Errorf("%w: it would last %s, the maximum is %s (30 days)",
			ErrInvalid, until.Sub(now), config.MaxMaintenance)
	}
	set = Entry{
		Kind:   kind,
		Name:   name,
		From:   now,
		Until:  until,
		Reason: reason,
		Source: FromAPI,
		Active: true,
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(now)
	_, replaced = r.switches[subject{kind, name}]
	if !replaced && len(r.switches) >= maxSwitches {
		return Entry{}, false, fmt.Errorf("%w: %d are in force, end one of them first", ErrTooMany, maxSwitches)
	}
	r.switches[subject{kind, name}] = set
	r.wakeRun()
	return set, replaced, r.save()
}

// End ends the switch of a target, container or workload early. The error is ErrNone, or ErrConfigured if only a window of the
// configuration is in force. A window also remains in force after End has ended a switch. With a *SaveError the switch has ended,
// but a restart would bring it back.
func (r *Register) End(kind, name string) error {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(now)
	s := subject{kind, name}
	if _, on := r.switches[s]; on {
		delete(r.switches, s)
		r.wakeRun()
		return r.save()
	}
	if slices.ContainsFunc(r.entries(now), func(e Entry) bool { return e.Active && subject{e.Kind, e.Name} == s }) {
		return fmt.Errorf("%s %s is %w, which alone can end it", kind, name, ErrConfigured)
	}
	return fmt.Errorf("%s %s is %w by a switch", kind, name, ErrNone)
}

// SaveError means that a change is in force, but could not be saved for the next start.
type SaveError struct{ Err error }

func (e *SaveError) Error() string { return "save maintenance: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SaveError) Unwrap() error { return e.Err }

// save saves the switches. The caller holds the lock.
func (r *Register) save() error {
	entries := make([]Entry, 0, len(r.switches))
	for _, e := range r.switches {
		entries = append(entries, e)
	}
	sortEntries(entries)
	if err := r.store.Save(entries); err != nil {
		return &SaveError{err}
	}
	return nil
}

// List returns all current and future maintenance, sorted by kind, name and beginning. A repeating window has one entry, the
// current or the next one.
func (r *Register) List() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries(time.Now())
}

// entries is List at the time now. The caller holds the lock.
func (r *Register) entries(now time.Time) []Entry {
	entries := make([]Entry, 0, len(r.windows)+len(r.switches))
	for i := range r.windows {
		w := &r.windows[i]
		if from, until, ok := w.At(now); ok {
			entries = append(entries, Entry{
				Kind:   w.Kind,
				Name:   w.Name,
				From:   from,
				Until:  until,
				Reason: w.Reason,
				Source: FromConfig,
				Active: !from.After(now),
			})
		}
	}
	for _, e := range r.switches {
		if e.Until.After(now) {
			e.Active = true // even if the clock was set back to before From
			entries = append(entries, e)
		}
	}
	sortEntries(entries)
	return entries
}

func sortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), a.From.Compare(b.From), a.Until.Compare(b.Until))
	})
}

// prune removes expired switches. The caller holds the lock.
func (r *Register) prune(now time.Time) (removed bool) {
	for s, e := range r.switches {
		if !e.Until.After(now) {
			delete(r.switches, s)
			removed = true
		}
	}
	return removed
}

// Describe implements prometheus.Collector.
func (r *Register) Describe(ch chan<- *prometheus.Desc) { ch <- maintenanceDesc }

// Collect implements prometheus.Collector.
func (r *Register) Collect(ch chan<- prometheus.Metric) {
	seen := map[subject]bool{}
	for _, e := range r.List() {
		if s := (subject{e.Kind, e.Name}); e.Active && !seen[s] {
			seen[s] = true
			ch <- prometheus.MustNewConstMetric(maintenanceDesc, prometheus.GaugeValue, 1, e.Kind, e.Name)
		}
	}
}

// wakeRun makes Run check for changes now.
func (r *Register) wakeRun() {
	select {
	case r.wake <- struct{}{}:
	default: // already requested
	}
}

// Run logs each beginning and end of maintenance, and calls renew after each change and at least once per longestWait, until ctx is
// done. Only one goroutine may call it at a time.
func (r *Register) Run(ctx context.Context, renew func()) {
	for {
		next := r.logChanges()
		renew()
		timer := time.NewTimer(min(longestWait, time.Until(next)))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-r.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// logChanges logs what has begun and ended, removes expired switches, and returns the time of the next change.
func (r *Register) logChanges() (next time.Time) {
	now := time.Now()
	next = now.Add(longestWait)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prune(now) {
		if err := r.save(); err != nil {
			r.log.Error("end of maintenance was not saved", "err", err) // it has ended anyway
		}
	}
	active := map[subject]bool{}
	for _, e := range r.entries(now) {
		change := e.From
		if e.Active {
			change = e.Until
			s := subject{e.Kind, e.Name}
			if active[s] = true; !r.logged[s] {
				r.log.Info("maintenance has begun", "kind", e.Kind, "name", e.Name, "until", clock(e.Until), "reason", e.Reason,
					"source", e.Source)
			}
		}
		if change.Before(next) {
			next = change
		}
	}
	for s := range r.logged {
		if !active[s] {
			r.log.Info("maintenance has ended", "kind", s.kind, "name", s.name)
		}
	}
	r.logged = active
	return next
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
