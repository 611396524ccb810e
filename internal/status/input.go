package status

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// Input is what a report is made of. Nobody changes what it points to.
type Input struct {
	Snapshot *poll.Snapshot
	// Alerts are the thresholds that are in force.
	Alerts config.Alerts
	// Maintenance is what is under maintenance or will be.
	Maintenance []maintenance.Entry
	// Unconfigured are the names of the targets that are not polled.
	Unconfigured []string
	// LeftToFirst are the names of the targets that another exporter polls, the first of several.
	LeftToFirst []string
	// ReloadError is why the configuration on the disk is not in force, Alive why nothing here is of now; nil where all
	// is well.
	ReloadError, Alive error
}

// hasNews reports whether there is something in the input that was not in the one before.
func (in *Input) hasNews(before *Input) bool {
	a, b := in.Snapshot, before.Snapshot
	if (in.ReloadError == nil) != (before.ReloadError == nil) || (in.Alive == nil) != (before.Alive == nil) ||
		!slices.Equal(in.Maintenance, before.Maintenance) {
		return true
	}
	return !slices.EqualFunc(a.Statuses, b.Statuses, sameReading) || !slices.EqualFunc(a.Families, b.Families, sameLines)
}

// sameReading reports whether two statuses are of the same reading.
func sameReading(a, b poll.Status) bool {
	return a.Target == b.Target && a.Kind == b.Kind && a.Known == b.Known && a.Attempts == b.Attempts && a.LastAttempt.Equal(b.LastAttempt)
}

// sameLines reports whether a target's families have not changed; then they are the same memory.
func sameLines(a, b []exposition.Family) bool {
	return slices.EqualFunc(a, b, func(a, b exposition.Family) bool { return a.Name == b.Name && same(a.Text, b.Text) })
}
