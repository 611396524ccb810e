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

// countRestarts counts the restarts of a container, and the kills of its processes. It returns how many restarts within the alert's
// window are not excused, and whether one that is seen now is.
func (r *round) countRestarts(c *Container) (recent uint64, excused bool) {
	j, s := r.judge, c.subject()
	known := j.restarts[s]
	if known == nil {
		known = &restarts{}
		j.restarts[s] = known
	}
	restarted := known.Known && c.Restarts > known.Count
	if restarted || c.State != Running && c.State != Paused {
		known.ended = r.now
	}
	if restarted || c.State == Restarting {
		cause, ok := r.ofContainer(c, r.now)
		excused = ok && r.mayHoldBack(&cause, r.now.Sub(cause.since))
	}
	// Nobody knows when those were that happened while nobody looked for longer than the window.
	blind := r.now.Sub(j.engines[c.Host].before) > j.alerts.ContainerRestarts.Window.Std()
	if restarted && !excused && !blind {
		times := c.Restarts - known.Count
		if down := j.problems[problemKey{Subject: s, alert: AlertContainerDown}]; down != nil && down.Told > Pending && c.State == Running {
			times-- // that it runs again is told as the end of that alert
		}
		if times > 0 {
			known.Recent = append(known.Recent, restart{r.now, times})
		}
	}
	if known.Known && c.Kills > known.Kills && !blind && !r.underMaintenance(s) {
		known.Killed = append(known.Killed, restart{r.now, c.Kills - known.Kills})
	}
	j.changed = j.changed || !known.Known || known.Count != c.Restarts || known.Kills != c.Kills
	known.Count, known.Kills, known.Known, known.last = c.Restarts, c.Kills, true, c
	return j.recentRestarts(s, r.now), excused
}

// recentRestarts returns how many restarts of the container within the alert's window are not excused.
func (j *Judge) recentRestarts(s Subject, now time.Time) (total uint64) {
	known := j.restarts[s]
	if known == nil {
		return 0
	}
	window := j.alerts.ContainerRestarts.Window.Std()
	known.Recent = slices.DeleteFunc(known.Recent, func(one restart) bool { return now.Sub(one.At) > window })
	for _, one := range known.Recent {
		total += one.Times
	}
	return total
}
