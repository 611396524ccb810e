// Package maintenance knows which targets and containers are expected to fail, and until when.
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
	// maxSwitches bounds how many switches may be on at once.
	maxSwitches = 256
	// longestWait bounds how long Run trusts its timer, since the clock on the wall may be set.
	longestWait = time.Minute
)

// The sources of an Entry.
const (
	FromConfig = "config"
	FromAPI    = "api"
)

// What can be wrong with a wish for maintenance; each error of it wraps one of these.
var (
	// ErrUnknown means that there is no such target.
	ErrUnknown = errors.New("unknown target")
	// ErrInvalid means that the wish itself is wrong.
	ErrInvalid = errors.New("not a maintenance")
	// ErrTooMany means that there is no room for another switch.
	ErrTooMany = errors.New("too many switches")
	// ErrNone means that there is nothing to end.
	ErrNone = errors.New("not under maintenance")
	// ErrConfigured means that only a change of the configuration can end it.
	ErrConfigured = errors.New("under maintenance by the configuration")
)

// Entry is one maintenance.
type Entry struct {
	// Kind is target or container.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// From is when it begins, Until when it ends by itself.
	From   time.Time `json:"from"`
	Until  time.Time `json:"until"`
	Reason string    `json:"reason,omitempty"`
	// Source is config or api.
	Source string `json:"source"`
	// Active is false where it has yet to begin.
	Active bool `json:"active"`
}

// Keeper keeps one value over restarts, as state.Value does.
type Keeper interface {
	Load(into any) error
	Save(value any) error
}

// Register holds what is under maintenance: windows of the configuration, and switches that somebody has set. It is safe
// for concurrent use, and is the prometheus.Collector of chatstack_maintenance.
type Register struct {
	kept Keeper
	log  *slog.Logger
	wake chan struct{}

	mu       sync.Mutex
	windows  []config.Maintenance
	switches map[subject]Entry
	told     map[subject]bool // whose beginning was logged and whose end was not
}

// subject is what may be under maintenance.
type subject struct{ kind, name string }

var maintenanceDesc = prometheus.NewDesc("chatstack_maintenance",
	"1 while the target or container is under maintenance, by the configuration or by a switch.", []string{"kind", "name"}, nil)

// New returns a register with the switches that were kept and are not over. With an error it has none.
func New(kept Keeper, log *slog.Logger) (*Register, error) {
	r := &Register{kept: kept, log: log, wake: make(chan struct{}, 1), switches: map[subject]Entry{}, told: map[subject]bool{}}
	var before []Entry
	if err := kept.Load(&before); err != nil {
		return r, err
	}
	now := time.Now()
	for _, e := range before {
		// What somebody wrote into the file by hand is bound to the same rules.
		if _, fault := config.CheckMaintenance(e.Kind, e.Name, e.Reason); fault == "" && e.Until.After(now) && e.Until.Sub(now) <= config.MaxMaintenance && len(r.switches) < maxSwitches {
			e.Source = FromAPI
			r.switches[subject{e.Kind, e.Name}] = e
		}
	}
	return r, nil
}

// Configure replaces the windows by those of a valid configuration. Switches stay.
func (r *Register) Configure(windows []config.Maintenance) {
	r.mu.Lock()
	r.windows = windows
	r.mu.Unlock()
	r.changed()
}

// Set puts a target or container under maintenance from now on, in the place of a switch that it may have. The error
// is ErrInvalid or ErrTooMany. With a *KeepError it is in force, but would not outlive a restart.
func (r *Register) Set(kind, name, reason string, until time.Time) (set Entry, replaced bool, err error) {
	if key, fault := config.CheckMaintenance(kind, name, reason); fault != "" {
		return Entry{}, false, fmt.Errorf("%w: %s %s", ErrInvalid, key, fault)
	}
	// Without its monotonic reading the time means the clock on the wall, as after a restart.
	now := time.Now().Round(0).Truncate(time.Second)
	until = until.Round(0).Truncate(time.Second)
	switch {
	case !until.After(now):
		return Entry{}, false, fmt.Errorf("%w: it would end at %s, and now it is %s", ErrInvalid, clock(until), clock(now))
	case until.Sub(now) > config.MaxMaintenance:
		return Entry{}, false, fmt.Errorf("%w: it would last %s, at most %s (30 days) are allowed", ErrInvalid, until.Sub(now), config.MaxMaintenance)
	}
	set = Entry{Kind: kind, Name: name, From: now, Until: until, Reason: reason, Source: FromAPI, Active: true}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(now)
	_, replaced = r.switches[subject{kind, name}]
	if !replaced && len(r.switches) >= maxSwitches {
		return Entry{}, false, fmt.Errorf("%w: %d are on, end one of them first", ErrTooMany, maxSwitches)
	}
	r.switches[subject{kind, name}] = set
	r.changed()
	return set, replaced, r.save()
}

// End switches the maintenance of a target or container off before its time. The error is ErrNone, or ErrConfigured
// where only a window of the configuration is in force; such a window also goes on after a switch beside it has ended.
// With a *KeepError it has ended, but would return with a restart.
func (r *Register) End(kind, name string) error {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prune(now)
	s := subject{kind, name}
	if _, on := r.switches[s]; on {
		delete(r.switches, s)
		r.changed()
		return r.save()
	}
	if slices.ContainsFunc(r.entries(now), func(e Entry) bool { return e.Active && subject{e.Kind, e.Name} == s }) {
		return fmt.Errorf("%s %s is %w, which alone can end it", kind, name, ErrConfigured)
	}
	return fmt.Errorf("%s %s is %w by a switch", kind, name, ErrNone)
}

// KeepError means that a change is in force, but could not be kept for the time after a restart.
type KeepError struct{ Err error }

func (e *KeepError) Error() string { return "keep maintenance: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *KeepError) Unwrap() error { return e.Err }

// save keeps the switches. The caller has the lock.
func (r *Register) save() error {
	entries := make([]Entry, 0, len(r.switches))
	for _, e := range r.switches {
		entries = append(entries, e)
	}
	sortEntries(entries)
	if err := r.kept.Save(entries); err != nil {
		return &KeepError{err}
	}
	return nil
}

// List returns every maintenance that is in force or to come, in the order of kind, name and beginning. Of a window
// that repeats it is the present one or the next.
func (r *Register) List() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries(time.Now())
}

// entries is List at a moment. The caller has the lock.
func (r *Register) entries(now time.Time) []Entry {
	entries := make([]Entry, 0, len(r.windows)+len(r.switches))
	for i := range r.windows {
		w := &r.windows[i]
		if from, until, ok := w.At(now); ok {
			entries = append(entries, Entry{
				Kind: w.Kind, Name: w.Name, From: from, Until: until, Reason: w.Reason, Source: FromConfig, Active: !from.After(now),
			})
		}
	}
	for _, e := range r.switches {
		if e.Until.After(now) {
			e.Active = true // also if the clock was set back behind its beginning
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

// prune forgets switches that are over. The caller has the lock.
func (r *Register) prune(now time.Time) (forgotten bool) {
	for s, e := range r.switches {
		if !e.Until.After(now) {
			delete(r.switches, s)
			forgotten = true
		}
	}
	return forgotten
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

// changed has Run look again.
func (r *Register) changed() {
	select {
	case r.wake <- struct{}{}:
	default: // it will
	}
}

// Run calls renew whenever something has come under maintenance or left it, and logs it, until ctx is done. It is
// called by one goroutine at a time.
func (r *Register) Run(ctx context.Context, renew func()) {
	for {
		next := r.turn()
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

// turn logs what has begun and ended, forgets what is over, and returns when something will begin or end next.
func (r *Register) turn() (next time.Time) {
	now := time.Now()
	next = now.Add(longestWait)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.prune(now) {
		if err := r.save(); err != nil {
			r.log.Error("end of maintenance was not kept", "err", err) // it is over all the same
		}
	}
	active := map[subject]bool{}
	for _, e := range r.entries(now) {
		change := e.From
		if e.Active {
			change = e.Until
			s := subject{e.Kind, e.Name}
			if active[s] = true; !r.told[s] {
				r.log.Info("maintenance has begun", "kind", e.Kind, "name", e.Name, "until", clock(e.Until), "reason", e.Reason, "source", e.Source)
			}
		}
		if change.Before(next) {
			next = change
		}
	}
	for s := range r.told {
		if !active[s] {
			r.log.Info("maintenance has ended", "kind", s.kind, "name", s.name)
		}
	}
	r.told = active
	return next
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
