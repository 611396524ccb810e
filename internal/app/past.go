package app

import (
	"iter"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// past is the history of states and the log of incidents, shared by the judge and HTTP. Its lock guards both. It is the part of the state
// file that has the incidents.
type past struct {
	sync.Mutex

	logger  *slog.Logger
	file    *state.File // set before the first judgement
	history *history.History
	log     incident.Log
	listed  atomic.Pointer[[]*incident.Incident] // newest first
}

func newPast(logger *slog.Logger) *past {
	p := &past{logger: logger, history: history.New()}
	p.publish()
	return p
}

// availability is the part of the state file that has the history.
type availability struct{ *past }

// Kind implements state.Part.
func (a availability) Kind() string { return a.history.Kind() }

// Read implements state.Part.
func (a availability) Read(_ string, data []byte) error { return a.history.Read(data) }

// Records implements state.Part.
func (a availability) Records() iter.Seq2[string, any] {
	all := a.history.Records()
	return func(yield func(string, any) bool) {
		for value := range all {
			if !yield("", value) {
				return
			}
		}
	}
}

// Kind implements state.Part.
func (p *past) Kind() string { return "incident" }

// Read implements state.Part.
func (p *past) Read(_ string, data []byte) error { return p.log.Restore(data) }

// Records implements state.Part.
func (p *past) Records() iter.Seq2[string, any] {
	all := p.log.All()
	return func(yield func(string, any) bool) {
		for _, i := range all {
			if !yield(i.ID, i) {
				return
			}
		}
	}
}

// publish shows the log as it is.
func (p *past) publish() {
	all := p.log.All()
	p.listed.Store(&all)
}

// save publishes and saves incidents that have changed. The caller holds the lock.
func (p *past) save(changed ...*incident.Incident) {
	p.publish()
	for _, i := range changed {
		p.file.Put(p, i.ID, i)
	}
}

// observe adds a judgement to the history and to the log of incidents.
func (p *past) observe(f *health.Facts, j *health.Judgement) {
	p.Lock()
	defer p.Unlock()
	p.history.Observe(f, j, func(value any) { p.file.Put(availability{p}, "", value) })
	changed := p.log.Observe(j, words{j, f.Targets})
	if len(changed) == 0 {
		if p.log.Len() != len(*p.listed.Load()) { // some were kept long enough
			p.publish()
		}
		return
	}
	for _, i := range changed {
		switch {
		case i.Opened.Equal(j.Time):
			p.logger.Info("incident has begun", "id", i.ID, "title", i.Title, "severity", i.Severity.String(),
				"since", i.Began.UTC().Format(time.RFC3339))
		case i.Closed.Equal(j.Time):
			p.logger.Info("incident is over", "id", i.ID, "title", i.Title, "state", i.State)
		}
	}
	p.save(changed...)
}

// words are those of the status page.
type words struct {
	*health.Judgement
	targets []health.Target
}

func (w words) Name(s health.Subject) string { return status.HumanName(s, w.Verdicts[s].TargetKind) }

func (w words) Headline(p *health.Problem) string {
	return status.Headline(p, w.Verdicts[p.Subject].TargetKind)
}

func (w words) Impact(before string, problems []*health.Problem) string {
	return status.Impact(before, problems, w.targets)
}

// Availability implements web.Source.
func (a *App) Availability() *history.Report {
	a.past.Lock()
	defer a.past.Unlock()
	return a.past.history.Report(time.Now())
}

// Incidents implements web.Source.
func (a *App) Incidents() []*incident.Incident { return *a.past.listed.Load() }

// AddNote implements web.Source.
func (a *App) AddNote(id, author, text string) (*incident.Incident, []string, error) {
	return a.past.change(func(l *incident.Log) (*incident.Incident, error) { return l.AddNote(time.Now(), id, author, text) })
}

// AddUpdate implements web.Source.
func (a *App) AddUpdate(id, author, text string) (*incident.Incident, []string, error) {
	return a.past.change(func(l *incident.Log) (*incident.Incident, error) { return l.AddUpdate(time.Now(), id, author, text) })
}

// Acknowledge implements web.Source.
func (a *App) Acknowledge(id, by, user string) (*incident.Incident, []string, error) {
	return a.past.change(func(l *incident.Log) (*incident.Incident, error) { return l.Acknowledge(time.Now(), id, by, user) })
}

// change makes a change that somebody asked for. It is in the state file before the answer is sent, or a warning says that it is not.
func (p *past) change(of func(*incident.Log) (*incident.Incident, error)) (i *incident.Incident, warnings []string, err error) {
	p.Lock()
	if i, err = of(&p.log); err == nil {
		p.save(i)
	}
	p.Unlock()
	if err != nil {
		return nil, nil, err
	}
	if err := p.file.Flush(); err != nil {
		warnings = append(warnings, "it is shown, but a restart of the exporter forgets it, because it was not saved: "+err.Error())
	}
	return i, warnings, nil
}
