package health

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// toldKey identifies a problem by what people see of it.
type toldKey struct {
	of          Key
	alert, part string
}

// told is a problem as its last event has told it. confirmed says that a reading of this process has shown it.
type told struct {
	Event

	confirmed bool
}

// tell returns what has changed since the round before.
func (s *scene) tell(now *Judgement, tick Tick, joined []Event) Round {
	r := Round{Tick: tick}
	for i := range joined {
		joined[i].At = r.From
	}
	s.tellStates(&r, now)
	s.tellProblems(&r, now)
	slices.SortStableFunc(r.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	r.Events = append(joined, r.Events...)
	return r
}

// tellStates tells of subjects whose state has changed, and how long readings took.
func (s *scene) tellStates(r *Round, now *Judgement) {
	j, states, impaired := s.judge, make(map[Subject]State, len(s.judge.states)), map[Subject]string{}
	for _, p := range slices.Backward(now.Problems) { // the worst is first
		if p.Severity >= Warning {
			impaired[p.Subject] = p.Alert
		}
	}
	is := func(of Subject, to State, at Milli, reason string, times uint64) {
		from, known := j.states[of]
		if !known {
			from = NotWatched
		}
		if from != to || times > 0 {
			r.Events = append(r.Events, Event{
				At:     at,
				Of:     Key(of),
				From:   from,
				To:     to,
				Reason: reason,
				Times:  times,
			})
		}
		delete(j.states, of)
		if to != NotWatched {
			states[of] = to
		}
	}
	for _, t := range s.targets {
		state, reason := s.stateOfTarget(t, impaired)
		is(t.subject, state, s.noticed(r, t), reason, 0)
		if k := Key(t.subject); t.Read && t.Up && !t.ReadAt.Equal(t.memory.readAt) {
			took := min(max(t.Took.Microseconds(), 0), math.MaxInt32)
			r.addLatency(k, Latency{1, took, took, took})
		}
		t.memory.read, t.memory.up, t.memory.readAt = t.Read, t.Up, t.ReadAt
		if t.Every > 0 && (r.Every == 0 || t.Every < r.Every) {
			r.Every = t.Every
		}
	}
	for _, c := range s.containers {
		if !c.vanished && j.engines[c.Host].read.Equal(s.now) {
			state, reason := s.stateOfContainer(c, impaired)
			is(c.Subject(), state, r.To, reason, j.restarts[c.Subject()].restarted)
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(j.states), compareSubjects) { // they are not there any more
		is(of, NotWatched, r.To, "", 0)
	}
	j.states = states
}

// noticed returns when a target's state was noticed: when the reading ended that changed its verdict, else now.
func (s *scene) noticed(r *Round, t *target) Milli {
	if t.Read && (!t.memory.read || t.memory.up != t.Up) {
		return min(max(r.To.Add(-s.now.Sub(t.ReadAt)), r.From), r.To)
	}
	return r.To
}

// tellProblems tells of problems that have begun, changed or ended.
func (s *scene) tellProblems(r *Round, now *Judgement) {
	j, present := s.judge, make(map[toldKey]bool, len(now.Problems))
	for _, known := range j.told { // what lasts moves with the clock
		if known.Since += r.Step; known.Last != 0 {
			known.Last += r.Step
		}
	}
	for i := range now.Problems {
		p := &now.Problems[i]
		key := toldKey{Key(p.Subject), p.Alert, p.Of}
		present[key] = true
		known := j.told[key]
		e := s.describe(p, known, now)
		if known == nil {
			known, e.At = &told{}, e.Since
			j.told[key] = known
		} else if e.At = known.At; e != known.Event {
			e.At = r.To
		}
		if e != known.Event {
			r.Events = append(r.Events, e)
			if e.TargetKind == known.TargetKind {
				r.Events[len(r.Events)-1].TargetKind = ""
			}
			known.Event = e
		}
		known.confirmed = !p.Unknown
	}
	for _, known := range j.ended(s, now, present) {
		r.Events = append(r.Events, known.end(r.To, now))
	}
}

// describe returns the event that says all about a problem, at no time. The times of a known problem stay as they were told.
func (s *scene) describe(p *Problem, known *told, now *Judgement) Event {
	milli := func(at time.Time, told Milli) Milli {
		wall := Milli(s.judge.clock.Wall(at).UnixMilli())
		if wall.Time().Sub(told.Time()).Abs() <= clockTolerance {
			return told
		}
		return wall
	}
	if known == nil {
		known = &told{}
	}
	v := now.Verdicts[p.Subject]
	e := Event{
		Of:         Key(p.Subject),
		Alert:      p.Alert,
		Part:       p.Of,
		TargetKind: v.TargetKind,
		RefusesUs:  v.RefusesUs || v.Unknown && known.RefusesUs,
		Since:      milli(p.Since, known.Since),
		AtLeast:    p.AtLeast,
		Severity:   p.Severity,
		Excuse:     p.Excuse,
		Instances:  p.Instances,
		Wanted:     p.Wanted,
		Outages:    p.Outages,
		UpAgain:    p.UpAgain,
	}
	if !p.Last.IsZero() {
		e.Last = milli(p.Last, known.Last)
	}
	if p.Cause != p.Subject {
		e.Cause = Key(p.Cause)
	}
	if server := now.Servers[p.Name]; p.Kind == KindTarget && server.Container != "" && !s.isApart(p) {
		e.Server = Key(s.subjectOf(server.Host, server.Container))
	}
	return e
}

// isApart reports whether a problem is the target's own, and none of the container that serves it.
func (s *scene) isApart(p *Problem) bool {
	known := s.judge.problems[outageKey(p.Subject)]
	return s.judge.rule(p.Alert).Apart || IsOutage(p.Alert) && known != nil && known.FaultReason != ""
}

// ended takes the problems that are over from those that were told.
func (j *Judge) ended(s *scene, now *Judgement, present map[toldKey]bool) (list []*told) {
	for key, known := range j.told {
		v, watched := now.Verdicts[known.Subject()]
		switch {
		case present[key], v.Unknown:
		case !watched && !known.confirmed && !s.allRead && s.now.Sub(j.resumed) <= unreadGrace:
			// Its engine has not been read yet.
		default:
			delete(j.told, key)
			list = append(list, known)
		}
	}
	slices.SortFunc(list, func(a, b *told) int {
		return cmp.Or(compareSubjects(a.Subject(), b.Subject()), strings.Compare(a.Alert, b.Alert), strings.Compare(a.Part, b.Part))
	})
	return list
}

// end returns the event that a problem is over. One that counts events ended with the last of them.
func (t *told) end(at Milli, now *Judgement) Event {
	_, watched := now.Verdicts[t.Subject()]
	e := Event{
		At:        at,
		Of:        t.Of,
		Alert:     t.Alert,
		Part:      t.Part,
		Ended:     true,
		AtLatest:  !t.confirmed,
		Unwatched: !watched && t.Subject() != ExporterSubject,
	}
	if t.Last > 0 {
		e.At, e.AtLatest = t.Last, false
	}
	return e
}
