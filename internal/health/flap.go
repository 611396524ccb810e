package health

import (
	"cmp"
	"slices"
	"time"
)

// The third outage within flapWindow that has an alert makes one alert of all, until there has been none for calmTime. Outages that begin
// every 40 minutes are the rarest that would page more than three times in two hours: of three, the first ended up to 80 minutes ago.
const (
	flapOutages = 3
	flapWindow  = 90 * time.Minute
	calmTime    = 15 * time.Minute
)

// pastOutage is an outage of a target or container that had an alert.
type pastOutage struct {
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended"`
	Alerted Severity  `json:"told"`
}

// flap is what is remembered of a problem that consists of several outages.
type flap struct {
	// Flaps says that the problem goes on between outages.
	Flaps bool `json:"flaps,omitempty"`
	// Again is when the present outage began, zero while it is up. Calm is since when no outage had an alert, zero while one has.
	Again time.Time `json:"again,omitzero"`
	Calm  time.Time `json:"calm,omitzero"`
}

// up reports whether its subject works now.
func (f *flap) up() bool { return f.Flaps && f.Again.IsZero() }

// outagesOf returns the outages of a subject that have ended within flapWindow, oldest first.
func (j *Judge) outagesOf(s Subject, now time.Time) []pastOutage {
	return slices.DeleteFunc(slices.Clone(j.past[s]), func(o pastOutage) bool { return now.Sub(o.Ended) > flapWindow })
}

// recentOutages are those that count for a problem: while it is calm, the same as when it began to be.
func (j *Judge) recentOutages(of Subject, r *record, now time.Time) []pastOutage {
	return j.outagesOf(of, cmp.Or(r.Calm, now))
}

// calmLeft is how long nothing more may happen until a problem that flaps is over: for calmTime in all, or for longer than its subject was
// up between outages. One that has outlasted the memory of those before it needs no calm.
func (j *Judge) calmLeft(key problemKey, r *record, now time.Time) time.Duration {
	needed, past := calmTime, j.recentOutages(key.Subject, r, now)
	if len(past) < flapOutages {
		return -1
	}
	for i := 1; i < len(past); i++ {
		needed = max(needed, past[i].Began.Sub(past[i-1].Ended)+excuseTolerance)
	}
	return needed - now.Sub(r.Calm)
}

// goDown notes that the subject of a problem that flaps has been down again since then. An outage that is too short for an alert changes
// nothing. One that outlasts the memory of those before it is the whole problem.
func (j *Judge) goDown(key problemKey, since, now time.Time) {
	r := j.problems[key]
	if r == nil || !r.Flaps {
		return
	}
	if r.Again.IsZero() {
		r.Again, r.Loss, j.changed = since, loss{}, true
	}
	if !r.Calm.IsZero() && now.Sub(r.Again) > j.rule(key.Alert).Warning.Hold {
		r.Calm, j.changed = time.Time{}, true
	}
	if r.Calm.IsZero() && r.Since.Before(r.Again) && len(j.outagesOf(key.Subject, now))+1 < flapOutages {
		r.Since, j.changed = r.Again, true
	}
}

// goUp notes that the subject of a problem is up, unless that is unknown. It returns the problem if it flaps, else nil: it is over.
func (s *scene) goUp(found *findings, key problemKey, unknown bool) *candidate {
	j, r := s.judge, s.judge.problems[key]
	if r == nil {
		return nil
	}
	if !unknown {
		if r.fires() && r.Calm.IsZero() {
			j.past[key.Subject] = append(j.outagesOf(key.Subject, s.now), pastOutage{laterOf(r.Since, r.Again), s.now, r.Alerted})
			r.Calm, j.changed = s.now, true
		}
		r.Again = time.Time{}
	}
	if !r.Flaps {
		return nil
	}
	left := j.calmLeft(key, r, s.now)
	if left < 0 && !unknown {
		return nil
	}
	found.recheck = append(found.recheck, left)
	p := found.begin(s, key, r.Since, r.AtLeast)
	if unknown {
		p.freeze(j)
	}
	return p
}

// lastOutage returns what is remembered of a target's outage and when it began, if it lasts or has just ended; else nil.
func (j *Judge) lastOutage(target Subject, now time.Time) (outage *record, began time.Time) {
	r := j.problems[outageKey(target)]
	switch past := j.past[target]; {
	case r == nil:
	case !r.up():
		return r, laterOf(r.Since, r.Again)
	case len(past) > 0 && past[len(past)-1].Ended.Equal(now):
		return r, past[len(past)-1].Began
	}
	return nil, time.Time{}
}

// beginFlapping makes one problem of an outage whose alert begins and of those before it, if there were enough.
func (s *scene) beginFlapping(p *candidate) {
	r, past := p.record, s.judge.outagesOf(p.Subject, s.now)
	if r.Flaps || !flaps(p.Alert) || len(past) < flapOutages-1 {
		return
	}
	past = past[len(past)-flapOutages+1:]
	r.flap = flap{Flaps: true, Again: r.alertsSince()}
	r.Since, r.AtLeast = past[0].Began, false
	for _, one := range past {
		r.Alerted = max(r.Alerted, one.Alerted)
	}
	p.Since, p.AtLeast, p.Lasted = r.Since, false, s.now.Sub(r.Since)
	p.ahead = s.judge.limits(p)
	p.Severity = p.ahead.severity(p.Lasted)
	p.countOutages(s)
	p.verdict.set(p, s.judge)
}

// countOutages counts the recent ones, if the problem flaps. There is no number once the present one has outlasted those before it.
func (p *candidate) countOutages(s *scene) {
	if !p.record.Flaps {
		return
	}
	p.Outages, p.UpAgain = len(s.judge.recentOutages(p.Subject, p.record, s.now)), p.record.up()
	if p.record.Calm.IsZero() {
		if p.Outages++; p.Outages < flapOutages {
			p.Outages = 0
		}
	}
	if p.UpAgain {
		p.calm = max(s.now.Sub(p.record.Calm), minDuration)
	}
}

// forgetOutages drops outages that are too old to count, unless the problem that they make lasts.
func (j *Judge) forgetOutages(now time.Time) {
	flap := map[Subject]bool{}
	for key, known := range j.problems {
		flap[key.Subject] = flap[key.Subject] || known.Flaps
	}
	for of := range j.past {
		if len(j.outagesOf(of, now)) == 0 && !flap[of] {
			delete(j.past, of)
		}
	}
}
