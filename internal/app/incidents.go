package app

import (
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// incidents has the log of incidents, shared by the judge and HTTP. It is a part of the records, whose lock guards it.
type incidents struct {
	records *records // set before the first judgement
	logger  *slog.Logger
	log     incident.Log
	listed  atomic.Pointer[[]*incident.Incident] // newest first
}

func newIncidents(logger *slog.Logger) *incidents {
	k := &incidents{logger: logger}
	k.listed.Store(&[]*incident.Incident{})
	return k
}

// Kind implements recordPart.
func (k *incidents) Kind() string { return "incident" }

// Read implements recordPart.
func (k *incidents) Read(data []byte) error {
	if err := k.log.Restore(data); err != nil {
		return err
	}
	k.publish()
	return nil
}

// Records implements recordPart.
func (k *incidents) Records() iter.Seq[any] {
	all := *k.listed.Load()
	return func(yield func(any) bool) {
		for _, i := range all {
			if !yield(i) {
				return
			}
		}
	}
}

// publish shows the log as it is.
func (k *incidents) publish() {
	all := k.log.All()
	k.listed.Store(&all)
}

// save publishes and saves incidents that have changed. The caller holds the lock.
func (k *incidents) save(changed ...*incident.Incident) {
	k.publish()
	for _, i := range changed {
		k.records.put(k, i)
	}
}

// observe brings the log up to date with a judgement. The caller holds the lock.
func (k *incidents) observe(j *health.Judgement) {
	changed := k.log.Observe(j, words{j})
	if len(changed) == 0 {
		if k.log.Len() != len(*k.listed.Load()) { // some were kept long enough
			k.publish()
		}
		return
	}
	for _, i := range changed {
		switch {
		case i.Opened.Equal(j.Time):
			k.logger.Info("incident has begun", "id", i.ID, "title", i.Title, "severity", i.Severity.String(),
				"since", i.Began.UTC().Format(time.RFC3339))
		case i.Closed.Equal(j.Time):
			k.logger.Info("incident is over", "id", i.ID, "title", i.Title, "state", i.State)
		}
	}
	k.save(changed...)
}

// words are those of the status page.
type words struct{ *health.Judgement }

func (w words) Name(s health.Subject) string { return status.HumanName(s, w.Verdicts[s].TargetKind) }

func (w words) Headline(p *health.Problem) string {
	return status.Headline(p, w.Verdicts[p.Subject].TargetKind)
}

// Incidents implements web.Source.
func (a *App) Incidents() []*incident.Incident { return *a.incidents.listed.Load() }

// AddNote implements web.Source.
func (a *App) AddNote(id, author, text string) (*incident.Incident, error) {
	k := a.incidents
	k.records.Lock()
	defer k.records.Unlock()
	i, err := k.log.AddNote(time.Now(), id, author, text)
	if err != nil {
		return nil, err
	}
	k.save(i)
	return i, nil
}
