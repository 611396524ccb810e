package app

import (
	"log/slog"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// judge judges what the poller knows, and saves what must outlive the process before anybody sees it. It implements poll.Judge.
type judge struct {
	health      *health.Judge
	maintenance *maintenance.Register
	saved       *state.Value
	log         *slog.Logger
	// placeholders are the targets with a secret that is an obvious placeholder.
	placeholders map[string]bool
	unsaved      bool // the last attempt to save has failed
}

// newJudge takes over what the former process has saved.
func newJudge(alerts *config.Alerts, m *maintenance.Register, saved *state.Value, log *slog.Logger) *judge {
	j := &judge{health: health.NewJudge(alerts), maintenance: m, saved: saved, log: log}
	var memory health.Memory
	if err := saved.Load(&memory); err != nil {
		log.Error("the saved problems are lost; their durations begin anew", "err", err)
	} else if !memory.Saved.IsZero() {
		j.health.Resume(&memory, time.Now())
	}
	return j
}

// configure takes over what a new configuration says.
func (j *judge) configure(cfg *config.Config) {
	j.health.Reconfigure(&cfg.Alerts)
	j.placeholders = map[string]bool{}
	for _, settings := range cfg.Targets {
		j.placeholders[settings.Common().Name] = len(config.Placeholders(settings)) > 0
	}
}

// Judge implements poll.Judge.
func (j *judge) Judge(f *health.Facts) *health.Judgement {
	for _, e := range j.maintenance.List() {
		if e.Active {
			f.Maintenance = append(f.Maintenance, health.Subject{Kind: e.Kind, Name: e.Name})
		}
	}
	for i := range f.Targets {
		t := &f.Targets[i]
		holds := j.placeholders[t.Name]
		t.Conditions = append(slices.Clip(t.Conditions), health.Condition{Alert: health.AlertPlaceholder, Holds: holds})
	}
	result := j.health.Judge(f)
	if !j.health.Changed() && !j.unsaved {
		return result
	}
	// A disk that cannot be written hides no problem.
	err := j.saved.Save(j.health.Memory(f.Now))
	if err != nil && !j.unsaved {
		j.log.Error("problems are not saved; a restart of the exporter will forget when they began", "err", err)
	}
	j.unsaved = err != nil
	return result
}
