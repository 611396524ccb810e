package app

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// Report implements web.Source.
func (a *App) Report() *status.Report { return a.recorder.Report() }

// Watch implements web.Source.
func (a *App) Watch() (told *status.Report, superseded <-chan struct{}) { return a.recorder.Watch() }

// Chart implements web.Source.
func (a *App) Chart(name string) (status.History, bool) { return a.recorder.History(name) }

// Availability implements web.Source.
func (a *App) Availability() *history.Report {
	a.records.Lock()
	defer a.records.Unlock()
	return a.history.Report(time.Now())
}

// observe adds a judgement to the history and to the log of incidents.
func (a *App) observe(f *health.Facts, j *health.Judgement) {
	a.records.Lock()
	defer a.records.Unlock()
	a.history.Observe(f, j, func(value any) { a.records.put(a.history, value) })
	a.incidents.observe(j)
}

// Runbook implements web.Source.
func (a *App) Runbook(alert string) (text string, ok bool) { return alerts.Runbook(alert) }

// AlertIndex implements web.Source.
func (a *App) AlertIndex() string { return alerts.Index(a.current.Load().cfg.Alerts) }

// statusInput returns the data for the recorder's reports.
func (a *App) statusInput() status.Input {
	g := a.current.Load()
	in := status.Input{Snapshot: g.poller.Snapshot(), Alerts: g.cfg.Alerts, Notices: status.Notices{
		PageTitle:     g.cfg.Web.Title,
		Maintenance:   a.maintenance.List(),
		NotConfigured: g.cfg.Unconfigured,
		LeftToFirst:   g.cfg.LeftToFirst.Names(),
	}}
	if err := a.ReloadError(); err != nil {
		in.ConfigError = err.Error()
	}
	if err := g.poller.Alive(); err != nil {
		in.Stale = err.Error()
	}
	return in
}
