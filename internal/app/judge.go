package app

import (
	"fmt"
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
	save        func(any) error
	saving      chan error // not nil while the disk takes too long
	log         *slog.Logger
	// placeholders are the targets with a secret that is an obvious placeholder.
	placeholders map[string]bool
	unseen       map[string]string // the containers that were logged as seen nowhere, by target
	unsaved      bool              // the last attempt to save has failed
}

// newJudge takes over what the former process has saved.
func newJudge(alerts *config.Alerts, m *maintenance.Register, saved *state.Value, log *slog.Logger) *judge {
	j := &judge{health: health.NewJudge(alerts), maintenance: m, save: saved.Save, log: log, unseen: map[string]string{}}
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
	for name, s := range result.Servers {
		if s.Unseen && j.unseen[name] != s.Container {
			j.unseen[name] = s.Container
			j.log.Warn("container does not exist on any engine", "target", name, "container", s.Container)
		}
	}
	j.keep(f.Now)
	return result
}

// saveWithin is how long a page waits for the disk.
const saveWithin = 2 * time.Second

// errSlowDisk means that saving goes on in the background.
var errSlowDisk = fmt.Errorf("the disk has taken longer than %s", saveWithin)

// keep saves what must outlive the process, if it has changed. A disk that cannot be written, or hangs, hides no problem.
func (j *judge) keep(now time.Time) {
	if j.saving != nil {
		select {
		case err := <-j.saving:
			j.saving = nil
			j.noteSaved(err)
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
		j.noteSaved(err)
	case <-time.After(saveWithin):
		j.saving = saving
		j.noteSaved(errSlowDisk)
	}
}

// noteSaved logs that nothing is saved any more, or is again.
func (j *judge) noteSaved(err error) {
	switch {
	case err != nil && !j.unsaved:
		j.log.Error("problems are not saved; a restart of the exporter will forget when they began", "err", err)
	case err == nil && j.unsaved:
		j.log.Info("problems are saved again")
	}
	j.unsaved = err != nil
}
