package app

import (
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

const (
	// A round without news is recorded with the next ones, half as often as the most frequent poll, within these limits: a poll that comes
	// a little early must not wait for the next.
	minBeat, maxBeat = time.Second / 2, 15 * time.Second
	// longestRound is longer than any that is recorded.
	longestRound = maxBeat + 2*health.MaxGap
)

// past is the record of what happened, and what follows from it: the history of states and the log of incidents. Its lock guards them all.
type past struct {
	sync.Mutex

	logger  *slog.Logger
	file    *state.File // set before the first judgement
	history *history.History
	log     *incident.Log
	pending health.Round                         // what no record contains yet
	last    health.Milli                         // the end of the last round; later ones may be kept of before the clock was set back
	listed  atomic.Pointer[[]*incident.Incident] // newest first
	showing sync.Mutex                           // held by flush
	// recorder tells the last changes; nil until there is one.
	recorder *status.Recorder
}

// record is one of its fields: a round of the judge, or what has followed from all rounds before.
type record struct {
	Round    *health.Round      `json:"span,omitempty"`
	Subject  *history.Kept      `json:"subject,omitempty"`
	Incident *incident.Incident `json:"incident,omitempty"`
	Log      *incident.Kept     `json:"log,omitempty"`
}

func newPast(logger *slog.Logger) *past {
	p := &past{logger: logger, history: history.New(), log: incident.New(words{})}
	p.listed.Store(&[]*incident.Incident{})
	return p
}

// Read implements state.Series. An earlier version had incidents of a kind of their own.
func (p *past) Read(kind string, data []byte) (err error) {
	var r record
	if kind == "incident" {
		err = json.Unmarshal(data, &r.Incident)
	} else {
		err = json.Unmarshal(data, &r)
	}
	switch {
	case err != nil:
		return err
	case r.Round != nil:
		if lasted := r.Round.To.Time().Sub(r.Round.From.Time()); r.Round.From < 0 || lasted < 0 || lasted > longestRound {
			return errors.New("the round contradicts itself")
		}
		p.apply(r.Round)
	case r.Subject != nil:
		return p.history.Restore(r.Subject)
	case r.Incident != nil:
		return p.log.Restore(r.Incident)
	case r.Log != nil:
		p.log.Resume(r.Log)
	}
	return nil
}

// apply adds a round to what follows from all rounds, and returns the incidents that it has changed.
func (p *past) apply(r *health.Round) []*incident.Incident {
	p.last = r.To
	p.history.Apply(r)
	return p.log.Apply(r)
}

// Records implements state.Series.
func (p *past) Records() iter.Seq[any] {
	p.pending = emptyRound(p.last)
	var all []any
	for _, at := range []health.Milli{p.history.Last(), p.last} {
		r := emptyRound(at)
		all = append(all, record{Round: &r})
	}
	for _, k := range p.history.All() {
		all = append(all, record{Subject: k})
	}
	for _, i := range p.log.All() {
		all = append(all, record{Incident: i})
	}
	all = append(all, record{Log: p.log.Kept()})
	return slices.Values(all)
}

// begin records in a file from now on. What the file has was read before.
func (p *past) begin(f *state.File) {
	p.Lock()
	defer p.Unlock()
	p.file = f
	p.log.Mend()
	all := p.log.All()
	p.listed.Store(&all)
}

// isRecent reports whether the record ends no longer ago than that.
func (p *past) isRecent(within time.Duration) bool {
	p.Lock()
	defer p.Unlock()
	return p.last > 0 && time.Since(p.last.Time()) < within
}

// flush writes what was added, and then shows the log as it was before: nobody sees what a restart would forget. It returns why writing
// has failed.
func (p *past) flush() error {
	p.showing.Lock() // no list replaces a newer one
	defer p.showing.Unlock()
	p.Lock()
	all := p.log.All()
	p.Unlock()
	err := p.file.Flush()
	p.listed.Store(&all)
	return err
}

// observe adds a judgement.
func (p *past) observe(j *health.Judgement) {
	p.Lock()
	defer p.Unlock()
	r := &j.Round
	changed := p.apply(r)
	p.keep(r, len(changed) > 0)
	if p.recorder != nil {
		p.recorder.Apply(r)
	}
	for _, i := range changed {
		switch at := r.To.Time(); {
		case i.Opened.Equal(at):
			p.logger.Info("incident has begun", "id", i.ID, "title", i.Title, "severity", i.Severity.String(),
				"since", i.Began.UTC().Format(time.RFC3339))
		case i.Closed.Equal(at):
			p.logger.Info("incident is over", "id", i.ID, "title", i.Title, "state", i.State)
		}
	}
}

// keep records a round, at once if it has news. It is read as it was applied: what is joined has no gap, and is of one hour.
func (p *past) keep(r *health.Round, news bool) {
	begins := r.Start || r.Step != 0 || r.Back
	hour := health.Milli(time.Hour.Milliseconds())
	if begins || r.From != p.pending.To || r.From/hour != r.To/hour {
		p.record(p.pending.To > p.pending.From)
		p.pending = health.Round{Tick: r.Tick}
	}
	p.pending.Join(r)
	beat := p.pending.To.Time().Sub(p.pending.From.Time()) >= min(max(r.Every/2, minBeat), maxBeat)
	p.record(news || begins || beat || len(r.Events) > 0)
}

// record hands out what no record contains yet, if it is due.
func (p *past) record(due bool) {
	if due {
		p.file.Add(record{Round: &p.pending})
		p.pending = emptyRound(p.pending.To)
	}
}

func emptyRound(at health.Milli) health.Round {
	return health.Round{Tick: health.Tick{From: at, To: at}}
}

// words are those of the status page.
type words struct{}

func (words) Name(s health.Subject, kind string) string { return status.HumanName(s, kind) }

func (words) Headline(e *health.Event) string {
	return status.Headline(&health.Problem{
		Subject:   e.Subject(),
		Alert:     e.Alert,
		Of:        e.Part,
		Instances: e.Instances,
		Wanted:    e.Wanted,
		Outages:   e.Outages,
	}, e.TargetKind)
}

func (words) Impact(before string, problems []*health.Event) string {
	return status.Impact(before, problems)
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
	return a.past.change(func(l *incident.Log) (*incident.Incident, error) {
		return l.AddNote(time.Now(), id, author, a.masked(text))
	})
}

// AddUpdate implements web.Source.
func (a *App) AddUpdate(id, author, text string) (*incident.Incident, []string, error) {
	return a.past.change(func(l *incident.Log) (*incident.Incident, error) {
		return l.AddUpdate(time.Now(), id, author, a.masked(text))
	})
}

// masked masks the secrets of the configuration in what somebody wrote.
func (a *App) masked(text string) string {
	for _, settings := range a.current.Load().cfg.Targets {
		if redact := config.Redactor(settings); redact != nil {
			text = redact(text)
		}
	}
	return text
}

// Acknowledge implements web.Source.
func (a *App) Acknowledge(id, by, user string) (*incident.Incident, []string, error) {
	i, warnings, err := a.past.change(func(l *incident.Log) (*incident.Incident, error) { return l.Acknowledge(time.Now(), id, by, user) })
	if err != nil {
		return nil, nil, err
	}
	for n := range i.Problems {
		if p := &i.Problems[n]; health.IsAbsence(p.Alert) && p.Cleared.IsZero() {
			warnings = append(warnings, a.acceptRemoval(p.Subject)...)
		}
	}
	return i, warnings, nil
}

// acceptRemoval forgets a container that somebody removed, or all instances of a workload, which ends the warning.
func (a *App) acceptRemoval(of health.Subject) (warnings []string) {
	s := a.Snapshot()
	if s.Judgement == nil || s.Judgement.Verdicts[of].Removed == 0 {
		return nil
	}
	for n := range s.Statuses {
		e := s.Statuses[n].Engine
		if e == nil {
			continue
		}
		for k := range e.Containers {
			c := &e.Containers[k]
			if c.Subject() != of {
				continue
			}
			for _, name := range append([]string{c.Name}, c.Members...) {
				if err := a.ForgetContainer(c.Host, name); err != nil && !errors.Is(err, collectors.ErrContainerUnknown) {
					warnings = append(warnings, "the warning about "+name+" goes on: "+err.Error())
				}
			}
		}
	}
	return warnings
}

// change makes a change that somebody asked for. It is in the state file before the answer is sent, or a warning says that it is not.
func (p *past) change(of func(*incident.Log) (*incident.Incident, error)) (i *incident.Incident, warnings []string, err error) {
	p.Lock()
	if i, err = of(p.log); err == nil {
		p.file.Add(record{Incident: i})
	}
	p.Unlock()
	if err != nil {
		return nil, nil, err
	}
	if err := p.flush(); err != nil {
		warnings = append(warnings, "it is shown, but a restart of the exporter forgets it, because it was not saved: "+err.Error())
	}
	return i, warnings, nil
}
