package health

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// sumUp makes the judgement of what all passes found.
func (s *scene) sumUp(found *findings) *Judgement {
	result := &Judgement{
		Time:       s.now,
		Next:       s.next(found),
		Problems:   found.sorted(),
		Verdicts:   make(map[Subject]Verdict, len(found.verdicts)),
		Servers:    make(map[string]Server, len(s.targets)),
		Members:    map[Subject][]string{},
		Conditions: found.conditions(s.judge),
		Values:     found.values,
		HeldBack:   s.heldBack(found.problems),
	}
	s.setCauses(result.Problems)
	s.countUnanswered(found.verdicts)
	for _, p := range found.problems {
		if v := found.verdicts[p.Subject]; v != nil && p.Was != "" {
			v.Was = p.Was
		}
	}
	for subject, v := range found.verdicts {
		result.Verdicts[subject] = *v
	}
	for _, c := range s.containers {
		if c.Shared && !c.vanished {
			result.Members[c.Subject()] = c.Members
		}
	}
	for _, t := range s.targets {
		result.Servers[t.Name] = t.server
	}
	return result
}

// countUnanswered counts the targets on each engine that are down.
func (s *scene) countUnanswered(verdicts map[Subject]*Verdict) {
	for _, t := range s.targets {
		if e := s.engines[t.server.Host]; e != nil && e != t && verdicts[t.subject].IsDown() {
			verdicts[e.subject].Unanswered++
		}
	}
}

// next returns how long until the same facts give another judgement; 0 if they always give this one.
func (s *scene) next(found *findings) time.Duration {
	left := found.recheck
	for _, p := range found.problems {
		for _, limit := range []time.Duration{p.ahead.warning, p.ahead.critical} {
			if limit != never {
				left = append(left, limit-s.now.Sub(p.Since))
			}
		}
	}
	left = slices.DeleteFunc(left, func(d time.Duration) bool { return d < 0 })
	if len(left) == 0 {
		return 0
	}
	return slices.Min(left) + minDuration
}

// sorted returns the problems with their consequences, the worst first, then the oldest. If one value exceeds both the warning and the
// critical limit, only the critical problem remains.
func (f *findings) sorted() []Problem {
	consequences := map[Subject][]Subject{}
	for _, p := range f.problems {
		root := p.Excuse.Root
		if engine := p.record.Loss.Engine; engine != "" {
			root = TargetSubject(engine)
		}
		if root != p.Subject {
			consequences[root] = append(consequences[root], p.Subject)
		}
	}
	list := append(make([]Problem, 0, len(f.problems)+len(f.events)), f.events...)
	for _, p := range f.problems {
		if p.verdict != nil {
			p.Consequences, p.Unknown, p.LastKnown = consequences[p.Subject], p.verdict.Unknown, p.verdict.LastKnown
		}
		list = append(list, p.Problem)
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), a.Since.Compare(b.Since), compareSubjects(a.Subject, b.Subject),
			strings.Compare(a.Alert, b.Alert))
	})
	seen := map[problemKey]bool{}
	return slices.DeleteFunc(list, func(p Problem) bool {
		key := problemKey{Subject: p.Subject, Alert: p.Alert, Of: p.Of}
		again := seen[key]
		seen[key] = true
		return again
	})
}

// heldBack returns the alerts on values and history of targets under maintenance, unless they already fire, and on certificates that
// are those of other targets.
func (s *scene) heldBack(problems []*candidate) (list []HeldBack) {
	type alertOn struct {
		alert string
		Subject
	}
	alerted := map[alertOn]bool{}
	for _, p := range problems {
		if p.record.fires() {
			alerted[alertOn{p.Alert, p.Subject}] = true
		}
	}
	for _, t := range s.targets {
		if !s.isMaintained(t) {
			continue
		}
		for _, alert := range t.valueAlerts() {
			if !alerted[alertOn{alert, t.subject}] {
				list = append(list, HeldBack{Alert: alert, Subject: t.subject, In: s.judge.rule(alert).ExcusedIn})
			}
		}
	}
	list = append(list, s.sharedCertificates(problems)...)
	slices.SortFunc(list, func(a, b HeldBack) int {
		return cmp.Or(strings.Compare(a.Alert, b.Alert), compareSubjects(a.Subject, b.Subject))
	})
	return list
}
