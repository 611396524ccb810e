package health

import (
	"slices"
	"time"
)

// minCauses is the least number of unexplained problems for MostTargetsDown; fewer have alerts of their own.
const minCauses = 4

// minTargets is the least number of targets for MostTargetsDown.
const minTargets = 4

// judgeMost decides whether most targets are down for at least minCauses independent causes. It needs the excuses that decide sets.
func (r *round) judgeMost() {
	all, down, unsure := 0, 0, 0
	for i := range r.targets {
		t := &r.targets[i]
		if c, _ := r.ofTarget(t, r.now); c.Reason == ReasonMaintenance {
			continue
		}
		all++
		if v := r.verdicts[TargetSubject(t.Name)]; v.Down > 0 && !t.Throttled {
			down++
			if !v.Known {
				unsure++
			}
		}
	}
	if all < minTargets {
		return
	}
	rule := r.judge.rule(AlertMostTargetsDown)
	most := func(n int) bool { return float64(100*n) > rule.Warning.Over*float64(all) }
	unexplained, since, pages := r.unexplained()
	holds := most(down) && len(unexplained) >= minCauses
	for _, severity := range []Severity{Warning, Critical} {
		v := &ConditionVerdict{Alert: AlertMostTargetsDown, Severity: severity}
		if holds && (pages || severity == Warning) {
			p := r.beginProblem(problemKey{Subject: ExporterSubject, Alert: AlertMostTargetsDown, Severity: severity},
				since, !most(down-unsure))
			p.condition, p.Consequences = v, unexplained
			r.decideOn(p)
			v.Lasted = p.Lasted
			if p.AtLeast && p.Severity == Pending {
				continue // the duration is unknown
			}
		}
		r.conditions = append(r.conditions, v)
	}
}

// unexplained returns the targets and containers that are down without an excuse. Problems that began within the last minute count as one
// event, which began with the first of them; since is that time. pages says that at least one of them would page on its own. Users of a
// target that only limits this address may be well.
func (r *round) unexplained() (list []Subject, since time.Time, pages bool) {
	since = r.now
	for _, p := range r.problems {
		if !p.Excuse.Holds() && !p.Throttled && IsOutage(p.Alert) {
			list = append(list, p.Subject)
			pages = pages || !p.warnOnly
			if p.Since.Before(since) && r.now.Sub(p.Since) <= excuseTolerance {
				since = p.Since
			}
		}
	}
	slices.SortFunc(list, compareSubjects)
	return list, since, pages
}
