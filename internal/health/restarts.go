package health

import (
	"slices"
	"time"
)

// judgeRestarts adds a problem if a container has restarted too often.
func (r *round) judgeRestarts(s Subject, v *Verdict) {
	rule := r.judge.rule(AlertContainerRestarts)
	p := Problem{
		Subject:  s,
		Alert:    AlertContainerRestarts,
		Severity: Warning,
		Unknown:  v.Unknown,
	}
	if p.Ends = r.judge.restartsOver(s, rule.Warning.Over); p.Ends.IsZero() {
		return
	}
	if p.Eases = r.judge.restartsOver(s, rule.Critical.Over); !p.Eases.IsZero() {
		p.Severity = Critical
	}
	p.Since = r.judge.restarts[s].Recent[0].At
	p.Lasted = max(r.now.Sub(p.Since), minDuration)
	r.restarted = append(r.restarted, p)
}

// restartsOver returns until when there will be more than over recent restarts, if no more follow; zero if there are not that many now.
func (j *Judge) restartsOver(s Subject, over float64) (end time.Time) {
	recent := j.restarts[s].Recent
	left := uint64(max(over, 0)) // restarts to skip, from the newest on
	for _, one := range slices.Backward(recent) {
		if one.Times > left {
			return one.At.Add(j.rule(AlertContainerRestarts).Window)
		}
		left -= one.Times
	}
	return end
}

// countRestarts counts the restarts of a container and the kills of its processes. It returns the number of unexcused restarts within the
// alert's window, and whether a current restart is excused.
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
	// Ignore restarts since a reading before the window: they may be older than the window.
	blind := r.now.Sub(j.engines[c.Host].previousRead) > j.rule(AlertContainerRestarts).Window
	if restarted && !excused && !blind {
		times := c.Restarts - known.Count
		if down := j.problems[problemKey{Subject: s, Alert: AlertContainerDown}]; down != nil && down.Alerted > Pending &&
			c.State == Running {
			times-- // the end of that alert already reports this restart
		}
		if times > 0 {
			known.Recent = append(known.Recent, eventCount{r.now, times})
		}
	}
	if known.Known && c.Kills > known.Kills && !blind && !r.underMaintenance(s) {
		known.Killed = append(known.Killed, eventCount{r.now, c.Kills - known.Kills})
	}
	j.changed = j.changed || !known.Known || known.Count != c.Restarts || known.Kills != c.Kills
	known.Count, known.Kills, known.Known, known.last = c.Restarts, c.Kills, true, c
	return j.recentRestarts(s, r.now), excused
}

// recentRestarts returns the number of unexcused restarts of the container within the alert's window.
func (j *Judge) recentRestarts(s Subject, now time.Time) (total uint64) {
	known := j.restarts[s]
	if known == nil {
		return 0
	}
	window := j.rule(AlertContainerRestarts).Window
	known.Recent = slices.DeleteFunc(known.Recent, func(one eventCount) bool { return now.Sub(one.At) > window })
	for _, one := range known.Recent {
		total += one.Times
	}
	return total
}
