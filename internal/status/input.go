package status

import (
	"slices"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

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
	// Maintenance lists current and planned maintenance.
	Maintenance []maintenance.Entry `json:"maintenance"`
	// NotConfigured are the names of the targets that are not configured, so not polled.
	NotConfigured []string `json:"not_configured"`
	// LeftToFirst are the names of the targets that only the first exporter of a pair polls.
	LeftToFirst []string `json:"left_to_first,omitempty"`
}

// sameNews reports whether both say the same.
func (n *Notices) sameNews(o *Notices) bool {
	return n.ConfigError == o.ConfigError && n.Stale == o.Stale && slices.Equal(n.Maintenance, o.Maintenance) &&
		slices.Equal(n.NotConfigured, o.NotConfigured) && slices.Equal(n.LeftToFirst, o.LeftToFirst)
}

// hasNews reports whether the input differs from the one before in more than its time.
func (in *Input) hasNews(before *Input) bool {
	return !in.sameNews(&before.Notices) || !slices.EqualFunc(in.Snapshot.Statuses, before.Snapshot.Statuses, sameProbe)
}

// sameProbe reports whether two statuses come from the same probe, and nothing has changed since.
func sameProbe(a, b poll.Status) bool {
	return a.Target == b.Target && a.Kind == b.Kind && a.Known == b.Known && a.Attempts == b.Attempts &&
		a.LastAttempt.Equal(b.LastAttempt) && a.RetryAt.Equal(b.RetryAt) && a.Engine == b.Engine
}
