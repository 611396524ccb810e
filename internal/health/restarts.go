package health

import (
	"slices"
	"time"
)

// judgeRestarts adds the problem that a container's restarts are, if they are too many.
func (r *round) judgeRestarts(s Subject, v *Verdict) {
	limits := &r.judge.alerts.ContainerRestarts
	p := Problem{Subject: s, Alert: AlertContainerRestarts, Severity: Warning, Unknown: v.Unknown}
	if p.Ends = r.judge.restartsOver(s, limits.Warning.Over); p.Ends.IsZero() {
		return
	}
	if p.Eases = r.judge.restartsOver(s, limits.Critical.Over); !p.Eases.IsZero() {
		p.Severity = Critical
	}
	p.Since = r.judge.restarts[s].Recent[0].At
	p.Lasted = max(r.now.Sub(p.Since), shortest)
	r.restarted = append(r.restarted, p)
}

// restartsOver returns until when more restarts than over are recent if no other comes; zero if they are not.
func (j *Judge) restartsOver(s Subject, over int64) (end time.Time) {
	recent := j.restarts[s].Recent
	left := uint64(max(over, 0)) // of the newest
	for _, one := range slices.Backward(recent) {
		if one.Times > left {
			return one.At.Add(j.alerts.ContainerRestarts.Window.Std())
		}
		left -= one.Times
	}
	return end
}

// countRestarts returns how many restarts within the alert's window are not excused. explained says that something explains
// one that is seen now.
func (j *Judge) countRestarts(c *Container, now time.Time, explained bool) uint64 {
	r := j.restarts[c.subject()]
	if r == nil {
		r = &restarts{}
		j.restarts[c.subject()] = r
	}
	if r.Known && c.Restarts > r.Count && !explained {
		r.Recent = append(r.Recent, restart{now, c.Restarts - r.Count})
	}
	j.changed = j.changed || !r.Known || r.Count != c.Restarts
	r.Count, r.Known = c.Restarts, true
	window := j.alerts.ContainerRestarts.Window.Std()
	r.Recent = slices.DeleteFunc(r.Recent, func(one restart) bool { return now.Sub(one.At) > window })
	total := uint64(0)
	for _, one := range r.Recent {
		total += one.Times
	}
	return total
}
