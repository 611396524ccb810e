package health

import (
	"slices"
	"time"
)

// survivedAfter is how long a container must have run on after a kill for it to have survived that. The engine may tell of the
// kill a while before it tells that the container has ended.
const survivedAfter = 30 * time.Second

// countKills returns how many kills of processes within the alert's window the container has survived.
func (r *round) countKills(c *Container) uint64 {
	known := r.judge.restarts[c.subject()]
	// The restart and the alert that the container is down tell of a kill that ended it.
	known.Killed = slices.DeleteFunc(known.Killed, func(one restart) bool { return known.ended.Sub(one.At).Abs() <= survivedAfter })
	for _, one := range known.Killed {
		if left := survivedAfter - r.now.Sub(one.At); left >= 0 {
			r.next = min(r.next, left+shortest)
		}
	}
	return r.judge.recentKills(c.subject(), r.now)
}

// recentKills returns how many kills within the alert's window the container has survived.
func (j *Judge) recentKills(s Subject, now time.Time) (total uint64) {
	known := j.restarts[s]
	known.Killed = slices.DeleteFunc(known.Killed, func(one restart) bool { return now.Sub(one.At) > j.alerts.ContainerOOMKill.Window.Std() })
	for _, one := range known.Killed {
		if j.survived(s, one) {
			total += one.Times
		}
	}
	return total
}

// survived reports whether the container was seen to run on after a kill.
func (j *Judge) survived(s Subject, kill restart) bool {
	seen := j.saved
	if !j.unread[s.Host] {
		seen = j.engines[s.Host].read
	}
	return seen.Sub(kill.At) > survivedAfter
}

// judgeKills adds the problem that the kills in a container are, if there are any.
func (r *round) judgeKills(s Subject, v *Verdict) {
	if v.RecentKills == 0 {
		return
	}
	killed := r.judge.restarts[s].Killed
	p := Problem{Subject: s, Alert: AlertContainerOOMKill, Severity: Warning, Unknown: v.Unknown, Since: killed[0].At}
	p.Lasted = r.now.Sub(p.Since)
	for _, one := range slices.Backward(killed) {
		if r.judge.survived(s, one) {
			p.Ends = one.At.Add(r.judge.alerts.ContainerOOMKill.Window.Std())
			break
		}
	}
	r.restarted = append(r.restarted, p)
}
