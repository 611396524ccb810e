package notify

import (
	"math"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// seeItself adds the problems of the exporter itself to a report: its judgement does not know them. Each is added once it has lasted as
// long as its rule waits. The caller holds the lock.
func (n *Notifier) seeItself(v *View) {
	itself := health.Judgement{Time: v.Now}
	add := func(alert, of string, since time.Time) {
		if lasted := v.Now.Sub(since); lasted > n.hold(alert) {
			itself.Problems = append(itself.Problems, health.Problem{
				Subject:  health.ExporterSubject,
				Cause:    health.ExporterSubject,
				Alert:    alert,
				Of:       of,
				Since:    since,
				Lasted:   lasted,
				Severity: health.Warning,
			})
		}
	}
	if v.ConfigError == "" {
		n.refused = time.Time{}
	} else {
		if n.refused.IsZero() {
			n.refused = v.Now
		}
		add(alerts.ConfigReloadFailed, "", n.refused)
	}
	if u := v.Unsaved; u != nil {
		add(alerts.StateNotSaved, "", u.Since)
	}
	for _, name := range n.failing(v.Report) {
		add(alerts.NotificationsFailing, name, n.queues[name].Failed)
	}
	report := *v.Report
	report.Problems = slices.Concat(report.Problems, status.Describe(&itself))
	v.Report = &report
}

// hold is how long the rule of a warning waits, without limits for ever.
func (n *Notifier) hold(alert string) time.Duration {
	if n.limits == nil {
		return math.MaxInt64
	}
	warning, _ := n.limits(alert)
	return warning.Hold
}

// failing are the receivers that fail. If all do, or most targets do not answer, that is the network of the exporter, and nobody can be
// told. What has been told goes on all the same.
func (n *Notifier) failing(r *status.Report) (names []string) {
	fails := func(r *Receiver) bool { return !n.queues[r.Name].Failed.IsZero() }
	someWork := slices.ContainsFunc(n.receivers, func(r Receiver) bool { return !fails(&r) })
	for i := range n.receivers {
		receiver := &n.receivers[i]
		told := slices.ContainsFunc(n.book.threads, func(t *thread) bool { return t.Cleared.IsZero() && t.has(failureOf(receiver.Name)) })
		if fails(receiver) && (told || someWork && mostOf(r) == nil) {
			names = append(names, receiver.Name)
		}
	}
	return names
}

// isOwn reports whether the thread is about something that is wrong with the exporter itself.
func (t *thread) isOwn() bool { return t.Root == health.ExporterSubject && t.Alert != "" }

// failureOf identifies the problem that a receiver fails. That receiver gets no message about it.
func failureOf(receiver string) problemKey {
	return problemKey{Subject: health.ExporterSubject, Alert: alerts.NotificationsFailing, Of: receiver}
}
