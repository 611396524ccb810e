package status

import (
	"bytes"
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// Input is what a report is made from. What it points to is immutable.
type Input struct {
	Snapshot *poll.Snapshot
	// Alerts are the configured thresholds.
	Alerts config.Alerts
	// Maintenance lists current and planned maintenance.
	Maintenance []maintenance.Entry
	// Unconfigured are the names of the targets that are not configured, so not polled.
	Unconfigured []string
	// LeftToFirst are the names of the targets that only the first exporter of a pair polls.
	LeftToFirst []string
	// ReloadError is why the configuration file is not in use, Alive why polling has stalled; nil if all is well.
	ReloadError, Alive error
	// Unsaved says since when nothing is kept; nil if all is.
	Unsaved *Unsaved
	// Title is the name of what is watched.
	Title string
}

// hasNews reports whether the input differs from the one before in more than its time.
func (in *Input) hasNews(before *Input) bool {
	a, b := in.Snapshot, before.Snapshot
	if (in.ReloadError == nil) != (before.ReloadError == nil) || (in.Alive == nil) != (before.Alive == nil) ||
		(in.Unsaved == nil) != (before.Unsaved == nil) ||
		!slices.Equal(in.Maintenance, before.Maintenance) {
		return true
	}
	return !slices.EqualFunc(a.Statuses, b.Statuses, sameProbe) || !slices.EqualFunc(a.Families, b.Families, sameLines)
}

// sameProbe reports whether two statuses come from the same probe.
func sameProbe(a, b poll.Status) bool {
	return a.Target == b.Target && a.Kind == b.Kind && a.Known == b.Known && a.Attempts == b.Attempts &&
		a.LastAttempt.Equal(b.LastAttempt) && a.RetryAt.Equal(b.RetryAt)
}

// same reports whether two texts are equal; it is fast if they share memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || bytes.Equal(a, b))
}

// sameLines reports whether a target's families are unchanged; unchanged ones share memory.
func sameLines(a, b []exposition.Family) bool {
	return slices.EqualFunc(a, b, func(a, b exposition.Family) bool { return a.Name == b.Name && same(a.Text, b.Text) })
}
