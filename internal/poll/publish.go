package poll

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Snapshot is everything that is known at one moment. It is immutable, but for the page that is made of it on request.
type Snapshot struct {
	Statuses []Status
	// Families are the metric families of the readings, one slice for each of Statuses.
	Families [][]exposition.Family
	// Judgement is what is wrong at that moment; nil without a Judge.
	Judgement *health.Judgement
	Time      time.Time

	heartbeat time.Time
	page      atomic.Pointer[exposition.Page] // nil until somebody asks for it
}

const (
	// A snapshot follows the one before after publishInterval; right after the start after a fraction of the time since then,
	// so that the first readings are served at once. It follows a change within maxPublishInterval even if it is costly.
	publishInterval    = 250 * time.Millisecond
	startInterval      = 20 * time.Millisecond
	startFraction      = 4
	maxPublishInterval = time.Second
	// publishShare bounds the share of the time that snapshots take: one part in publishShare.
	publishShare = 50
)

// changed requests a new snapshot.
func (p *Poller) changed() {
	select {
	case p.dirty <- struct{}{}:
	default: // requested already
	}
}

// publishLoop makes a snapshot when something changed or a problem passes a threshold, until ctx is done.
func (p *Poller) publishLoop(ctx context.Context, start time.Time) {
	for {
		var threshold <-chan time.Time
		if j := p.Snapshot().Judgement; j != nil && j.Next > 0 {
			threshold = time.After(time.Until(j.Time.Add(j.Next)))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.dirty:
		case <-threshold:
		}
		p.publish()
		wait := p.publishPause()
		if wait == publishInterval {
			wait = min(wait, max(startInterval, time.Since(start)/startFraction))
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// publishPause returns the time between a snapshot and the next one.
func (p *Poller) publishPause() time.Duration {
	return max(publishInterval, min(publishShare*time.Duration(p.publishDuration.Load()), maxPublishInterval))
}

// publish makes a snapshot of what is known now and swaps it in.
func (p *Poller) publish() {
	begin := time.Now()
	s := p.collect()
	if p.recordClashes(s.Statuses, p.pages.clashes(s)) {
		s = p.collect() // with the numbers of dropped series
	}
	p.snapshot.Store(s)
	p.publishDuration.Store(int64(time.Since(begin)))
	if p.onPublish != nil {
		p.onPublish()
	}
}

// collect makes a snapshot of the current state of the targets.
func (p *Poller) collect() *Snapshot {
	s := &Snapshot{
		Time:      time.Now(),
		heartbeat: *p.heartbeat.Load(),
		Statuses:  make([]Status, len(p.targets)),
		Families:  make([][]exposition.Family, len(p.targets)),
	}
	facts := health.Facts{Now: s.Time, Targets: make([]health.Target, len(p.targets))}
	for i, t := range p.targets {
		s.Statuses[i], s.Families[i], facts.Targets[i] = t.viewAll()
		if engine := s.Statuses[i].Engine; engine != nil {
			facts.Engines = append(facts.Engines, *engine)
		}
	}
	if p.judge != nil {
		s.Judgement = p.judge.Judge(&facts)
		for i := range s.Statuses {
			status := &s.Statuses[i]
			status.Server = s.Judgement.Servers[status.Target]
			if note := status.Warning(); note != "" {
				status.Notes = append(slices.Clip(status.Notes), note)
			}
		}
	}
	return s
}

// maxLoggedClashes limits how many families of a target are logged, since their names may change with each reading.
const maxLoggedClashes = 20

// recordClashes logs clashes and records them with their targets. It reports whether any target's clashes have changed. The statuses
// are those on the page.
func (p *Poller) recordClashes(statuses []Status, clashes []exposition.Clash) (changed bool) {
	byTarget := make([][]exposition.Clash, len(p.targets))
	for _, c := range clashes {
		name := "exporter"
		if c.Source > 0 {
			name = p.targets[c.Source-1].Name
			byTarget[c.Source-1] = append(byTarget[c.Source-1], c)
		}
		logged := p.loggedClashes[name]
		if logged == nil {
			logged = map[string]bool{}
			p.loggedClashes[name] = logged
		}
		if !logged[c.Family] && len(logged) < maxLoggedClashes {
			logged[c.Family] = true
			p.log.Warn("family dropped: an earlier family has the same name and another type",
				"target", name, "family", c.Family, "series", c.Series)
			if len(logged) == maxLoggedClashes {
				p.log.Warn("further dropped families are not logged; see the notes of the target's last probe", "target", name)
			}
		}
	}
	for i, t := range p.targets {
		changed = t.recordClashes(&statuses[i], byTarget[i]) || changed
	}
	return changed
}
