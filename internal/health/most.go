package health

import (
	"slices"
	"time"
)

// AlertMostTargetsDown is the name of the alert on most targets. It alone is about the exporter.
const AlertMostTargetsDown = "MostTargetsDown"

// minCauses is the least number of unexplained problems for MostTargetsDown; fewer have alerts of their own.
const minCauses = 4

// minTargets is the least number of targets for MostTargetsDown.
const minTargets = 4

// judgeMost finds whether most targets are down for at least minCauses independent causes. It decides on that problem at once.
func (s *scene) judgeMost(problems []*candidate, verdicts map[Subject]*Verdict) (found findings) {
	all, down, unsure := 0, 0, 0
	for _, t := range s.targets {
		if s.isMaintained(t) {
			continue
		}
		all++
		if v := verdicts[t.subject]; v.IsDown() && !t.Throttled {
			down++
			if !v.Known {
				unsure++
			}
		}
	}
	if all < minTargets {
		return found
	}
	most := func(n int) bool { return float64(100*n) > s.judge.rule(AlertMostTargetsDown).Warning.Over*float64(all) }
	unexplained, since, pages := s.unexplained(problems)
	holds := most(down) && len(unexplained) >= minCauses
	for _, severity := range []Severity{Warning, Critical} {
		key := problemKey{Subject: ExporterSubject, Alert: AlertMostTargetsDown, Severity: severity}
		if !holds || severity == Critical && !pages {
			found.well = append(found.well, key)
			continue
		}
		p := found.begin(s, key, since, !most(down-unsure))
		p.Consequences = unexplained
		s.decideOn(p)
	}
	return found
}

// isEngineLoss reports whether the excuse is that an engine cannot be read.
func (s *scene) isEngineLoss(e Excuse) bool {
	for _, t := range s.engines {
		if e.Root == t.subject {
			return e.Reason == ReasonDependency
		}
	}
	return false
}

// unexplained returns the targets and containers that are down without an excuse, or with none but an engine that cannot be read. Problems
// that began within the last minute count as one event, which began with the first of them; since is that time. pages says that at least
// one of them would page on its own. Users of a target that only limits this address may be well.
func (s *scene) unexplained(problems []*candidate) (list []Subject, since time.Time, pages bool) {
	since = s.now
	for _, p := range problems {
		if (!p.Excuse.Holds() || s.isEngineLoss(p.Excuse)) && !p.Throttled && !p.UpAgain && IsOutage(p.Alert) {
			list = append(list, p.Subject)
			pages = pages || !p.warnOnly
			if p.Since.Before(since) && s.now.Sub(p.Since) <= excuseTolerance {
				since = p.Since
			}
		}
	}
	slices.SortFunc(list, compareSubjects)
	return slices.Compact(list), since, pages
}
