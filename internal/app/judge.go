package app

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// judge implements poll.Judge with a health.Judge, whose memory it saves before a judgement is published.
type judge struct {
	health      *health.Judge
	maintenance *maintenance.Register
	save        func(any) error
	saving      chan error // not nil while the disk takes too long
	log         *slog.Logger
	// placeholders are the targets with a secret that is an obvious placeholder.
	placeholders map[string]bool
	// observe gets each judgement with its facts; nil for nobody.
	observe func(*health.Facts, *health.Judgement)
	missing map[string]string // configured containers that were logged as missing, by target
	unsaved bool              // the last attempt to save has failed
}

// newJudge restores the memory of the former process.
func newJudge(rules health.Rules, m *maintenance.Register, saved *state.Value, log *slog.Logger) *judge {
	j := &judge{
		health:      health.NewJudge(rules),
		maintenance: m,
		save:        saved.Save,
		log:         log,
		missing:     map[string]string{},
	}
	var memory health.Memory
	if err := saved.Load(&memory); err != nil {
		log.Error("saved problems are lost; their durations start again at 0", "err", err)
	} else if !memory.Saved.IsZero() {
		j.health.Resume(&memory, time.Now())
	}
	return j
}

// configure applies a new configuration.
func (j *judge) configure(cfg *config.Config) {
	j.health.Reconfigure(alerts.Rules(&cfg.Alerts))
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
	for name, s := range result.Servers {
		if s.Unseen && j.missing[name] != s.Container {
			j.missing[name] = s.Container
			j.log.Warn("container does not exist on any engine", "target", name, "container", s.Container)
		}
	}
	if j.observe != nil {
		j.observe(f, result)
	}
	j.saveMemory(f.Now)
	return result
}

// saveWithin is how long a judgement waits for the disk.
const saveWithin = 2 * time.Second

// errSlowDisk means that saving continues in the background.
var errSlowDisk = fmt.Errorf("the disk has taken longer than %s", saveWithin)

// saveMemory saves the memory if it has changed. It returns even if the disk fails or hangs, so that problems are still published.
func (j *judge) saveMemory(now time.Time) {
	if j.saving != nil {
		select {
		case err := <-j.saving:
			j.saving = nil
			j.logSaving(err)
		default:
			return
		}
	}
	if !j.health.Changed() && !j.unsaved {
		return
	}
	memory, saving := j.health.Memory(now), make(chan error, 1)
	go func() { saving <- j.save(memory) }()
	select {
	case err := <-saving:
		j.logSaving(err)
	case <-time.After(saveWithin):
		j.saving = saving
		j.logSaving(errSlowDisk)
	}
}

// logSaving logs when saving begins to fail, and when it works again.
func (j *judge) logSaving(err error) {
	switch {
	case err != nil && !j.unsaved:
		j.log.Error("cannot save problems; a restart of the exporter forgets when they began", "err", err)
	case err == nil && j.unsaved:
		j.log.Info("problems are saved again")
	}
	j.unsaved = err != nil
}
