package health

import (
	"slices"
	"time"
)

// fewRoots is how many independent problems are told one by one: MostTargetsDown is silent with fewer.
const fewRoots = 4

// fewTargets is how many targets an exporter has at least that has an opinion on most of them.
const fewTargets = 4

// judgeMost finds whether most targets are down, and not because of a few things whose own alerts tell it. It comes when it is
// decided what is held back.
func (r *round) judgeMost() {
	all, down, unsure := 0, 0, 0
	for i := range r.targets {
		t := &r.targets[i]
		if c, _ := r.ofTarget(t, r.now); c.Reason == ReasonMaintenance {
			continue
		}
		all++
		if v := r.verdicts[TargetSubject(t.Name)]; v.Down > 0 {
			down++
			if !v.Known {
				unsure++
			}
		}
	}
	if all < fewTargets {
		return
	}
	most := func(n int) bool { return int64(n)*100 > r.judge.alerts.MostTargetsDown.Over*int64(all) }
	roots, since, pages := r.roots()
	holds := most(down) && len(roots) >= fewRoots
	for _, severity := range []Severity{Warning, Critical} {
		v := &ConditionVerdict{Alert: AlertMostTargetsDown, Severity: severity}
		if holds && (pages || severity == Warning) {
			p := r.begin(problemKey{Subject: ExporterSubject, alert: AlertMostTargetsDown, severity: severity}, since, !most(down-unsure))
			p.condition, p.Consequences = v, roots
			r.decideOn(p)
			v.Lasted = p.Lasted
			if p.AtLeast && p.Severity == Pending {
				continue // nobody knows how long
			}
		}
		r.conditions = append(r.conditions, v)
	}
}

// roots are the targets and containers that are down, and that nothing holds back. What began within the last minute is taken for
// one event, which began with the first of them. pages says that one of them alone would page.
func (r *round) roots() (list []Subject, since time.Time, pages bool) {
	since = r.now
	for _, p := range r.problems {
		if !p.Excuse.Holds() && slices.Contains([]string{AlertTargetDown, AlertContainerDown, AlertContainerMissing}, p.Alert) {
			list = append(list, p.Subject)
			pages = pages || !p.warnOnly
			if p.Since.Before(since) && r.now.Sub(p.Since) <= earlier {
				since = p.Since
			}
		}
	}
	slices.SortFunc(list, compareSubjects)
	return list, since, pages
}
