package app

import (
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// Report implements web.Source.
func (a *App) Report() *status.Report { return a.recorder.Report() }

// Watch implements web.Source.
func (a *App) Watch() (told *status.Report, superseded <-chan struct{}) { return a.recorder.Watch() }

// Chart implements web.Source.
func (a *App) Chart(name string) (status.History, bool) { return a.recorder.History(name) }

// known is what the recorder makes its reports of.
func (a *App) known() status.Input {
	g := a.current.Load()
	return status.Input{
		Snapshot: g.poller.Snapshot(), Alerts: g.cfg.Alerts, Maintenance: a.maintenance.List(), Unconfigured: g.cfg.Unconfigured,
		LeftToFirst: g.cfg.LeftToFirst,
		ReloadError: a.ReloadError(), Alive: g.poller.Alive(),
	}
}
