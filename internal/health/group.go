package health

import (
	"cmp"
	"slices"
	"time"
)

// sameOutage is how far apart the targets of a server may fail and still count as one outage: longer than a schedule and a timeout.
const sameOutage = 5 * time.Minute

// setCauses sets the cause of each problem. The list is sorted.
func (s *scene) setCauses(list []Problem) {
	of := map[Subject]Subject{}
	for i := range list {
		p := &list[i]
		if _, known := of[p.Subject]; p.Excuse.Root.Name != "" && !s.judge.rule(p.Alert).Apart && (!known || IsOutage(p.Alert)) {
			of[p.Subject] = p.Excuse.Root
		}
		if p.Subject == ExporterSubject {
			for _, down := range p.Consequences {
				of[down] = p.Subject
			}
		}
	}
	s.joinServers(list, of)
	s.joinReleased(list, of)
	for i := range list {
		p := &list[i]
		p.Cause = p.Subject
		if s.judge.rule(p.Alert).Apart {
			p.Cause = cmp.Or(p.Excuse.Root, p.Subject)
			continue
		}
		for range len(of) { // a cause may have a cause
			next, further := of[p.Cause]
			if !further {
				break
			}
			p.Cause = next
		}
	}
}

// joinServers makes the first target of a server that is down the cause of its others that are down since about the same time, or the
// server's container, if that is unhealthy or was restarted. A target that is itself at fault joins only those with the same reason.
func (s *scene) joinServers(list []Problem, of map[Subject]Subject) {
	type outage struct {
		leader Subject
		since  time.Time
		fault  string
	}
	found := map[Subject][]outage{}
	down := map[Subject]time.Time{}
	for i := range list {
		switch p := &list[i]; {
		case s.judge.rule(p.Alert).Unsettles:
			found[p.Subject] = append(found[p.Subject], outage{leader: p.Subject, since: p.Since})
		case IsOutage(p.Alert) && !p.Excuse.Holds():
			down[p.Subject] = p.Since
		}
	}
	failed := slices.DeleteFunc(slices.Clone(s.targets), func(t *target) bool { return down[t.subject].IsZero() })
	slices.SortStableFunc(failed, func(a, b *target) int { return down[a.subject].Compare(down[b.subject]) })
	for _, t := range failed {
		since, server, fault := down[t.subject], serverOf(t, s.targets), s.judge.problems[outageKey(t.subject)].FaultReason
		k := slices.IndexFunc(found[server], func(o outage) bool { return o.fault == fault && o.since.Sub(since).Abs() <= sameOutage })
		if k < 0 {
			found[server] = append(found[server], outage{t.subject, since, fault})
		} else if server != (Subject{}) {
			of[t.subject] = found[server][k].leader
		}
	}
}

// joinReleased makes an engine the cause of the outages that began with its loss and that it no longer excuses, or the first of them once
// the engine can be read.
func (s *scene) joinReleased(list []Problem, of map[Subject]Subject) {
	first := map[string]Subject{}
	for i := range list {
		p := &list[i]
		known := s.judge.problems[outageKey(p.Subject)]
		if !IsOutage(p.Alert) || known == nil || known.Loss.Engine == "" {
			continue
		}
		engine := TargetSubject(known.Loss.Engine)
		if s.judge.outage(engine) != nil {
			first[engine.Name] = engine
		}
		if leader, joins := first[engine.Name]; joins {
			of[p.Subject] = leader
		} else {
			first[engine.Name] = p.Subject
		}
	}
}

// serverOf returns what serves a target: its container, else the only one that targets of its role have, else the role itself. It is
// the zero Subject for a target without a role.
func serverOf(t *target, targets []*target) Subject {
	switch {
	case t.Container != "":
		return t.servedBy
	case t.Role == "":
		return Subject{}
	}
	var known []Subject
	for _, other := range targets {
		s := other.servedBy
		if other.Role == t.Role && s.Name != "" && !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	if len(known) == 1 {
		return known[0]
	}
	return Subject{Kind: "role", Name: t.Role}
}
