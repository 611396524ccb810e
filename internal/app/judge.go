package app

import (
	"cmp"
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
	remembers   bool // what the former process saved could be read
	maintenance *maintenance.Register
	memories    memories
	log         *slog.Logger
	// placeholders are the targets with a secret that is an obvious placeholder.
	placeholders map[string]bool
	past         *past             // nil if nobody keeps it
	missing      map[string]string // configured containers and services that were logged as missing, by target
}

// newJudge restores the memory of the former process. Its problems that the past says to last go on.
func newJudge(rules health.Rules, m *maintenance.Register, file *state.File, p *past, log *slog.Logger) *judge {
	j := &judge{
		health:      health.NewJudge(rules),
		maintenance: m,
		memories:    memoriesIn(file),
		past:        p,
		log:         log,
		missing:     map[string]string{},
	}
	memory, err := j.memories.Load()
	if j.remembers = err == nil; !j.remembers {
		log.Error("saved problems are lost; their durations start again at 0", "err", err)
	}
	if p != nil {
		j.health.Resume(&memory, p.history.Last(), p.last, p.log.Lasting(), time.Now())
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
		switch {
		case !s.Unseen || j.missing[name] == cmp.Or(s.Service, s.Container):
		case s.Service != "":
			j.log.Warn("service does not exist on any engine", "target", name, "service", s.Service, "advice", s.Advice)
		default:
			j.log.Warn("container does not exist on any engine", "target", name, "container", s.Container)
		}
		if s.Unseen {
			j.missing[name] = cmp.Or(s.Service, s.Container)
		}
	}
	if j.past != nil {
		j.past.observe(result)
	}
	j.putMemory(f.Now)
	if j.past != nil {
		// What is published afterwards is in the state file, unless the disk fails or hangs. The file logs that.
		j.past.flush() //nolint:errcheck,gosec // problems are published all the same
	}
	return result
}

// putMemory puts the memory into the file if it has changed, without waiting for the disk.
func (j *judge) putMemory(now time.Time) {
	if j.health.Changed() {
		memory := j.health.Memory(now)
		if err := j.memories.Put(&memory); err != nil {
			j.log.Error("problems cannot be encoded", "err", err)
		}
	}
}
