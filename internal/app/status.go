package app

import (
	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// Report implements web.Source.
func (a *App) Report() *status.Report { return a.recorder.Report() }

// Watch implements web.Source.
func (a *App) Watch() (told *status.Report, superseded <-chan struct{}) { return a.recorder.Watch() }

// Chart implements web.Source.
func (a *App) Chart(name string) (status.History, bool) { return a.recorder.History(name) }

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
		Unsaved:       a.unsaved(),
		Forgets:       forgets(g.cfg),
		Receivers:     a.notifier.States(),
	}}
	if h := g.heartbeat; h != nil {
		s := h.Status()
		in.Receivers = append(in.Receivers, status.Receiver{
			Name:    "heartbeat",
			Success: s.LastSuccess,
			Failing: s.LastError,
			Since:   s.FailingSince,
		})
	}
	if err := a.ReloadError(); err != nil {
		in.ConfigError = err.Error()
	}
	if err := g.poller.Alive(); err != nil {
		in.Stale = err.Error()
	}
	return in
}

// unsaved says since when the state file keeps nothing; nil while it does.
func (a *App) unsaved() *status.Unsaved {
	saved, err := a.state.Status()
	if err == nil {
		return nil
	}
	return &status.Unsaved{Since: saved, Error: err.Error()}
}
