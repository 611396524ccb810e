package health

import (
	"slices"
	"time"
)

// survivalTime is how long a container must run after a kill to count as a survivor. The engine may report the kill well before the
// container's end.
const survivalTime = 30 * time.Second

// countKills drops the kills that ended the container, and returns how many it has survived within the alert's window.
func (r *round) countKills(c *Container) uint64 {
	known := r.judge.restarts[c.subject()]
	// The alerts on restarts and on stopped containers cover a kill that ended the container.
	known.Killed = slices.DeleteFunc(known.Killed, func(one eventCount) bool { return known.ended.Sub(one.At).Abs() <= survivalTime })
	for _, one := range known.Killed {
		if left := survivalTime - r.now.Sub(one.At); left >= 0 {
			r.next = min(r.next, left+minDuration)
		}
	}
	return r.judge.recentKills(c.subject(), r.now)
}

// recentKills returns how many kills the container has survived within the alert's window.
func (j *Judge) recentKills(s Subject, now time.Time) (total uint64) {
	known := j.restarts[s]
	known.Killed = slices.DeleteFunc(known.Killed,
		func(one eventCount) bool { return now.Sub(one.At) > j.rule(AlertContainerOOMKill).Window })
	for _, one := range known.Killed {
		if j.survived(s, one) {
			total += one.Times
		}
	}
	return total
}

// survived reports whether the last reading of the engine was more than survivalTime after a kill.
func (j *Judge) survived(s Subject, kill eventCount) bool {
	seen := j.saved
	if !j.unread[s.Host] {
		seen = j.engines[s.Host].read
	}
	return seen.Sub(kill.At) > survivalTime
}

// judgeKills adds a problem if the container has survived a recent kill.
func (r *round) judgeKills(s Subject, v *Verdict) {
	if v.RecentKills == 0 {
		return
	}
	killed := r.judge.restarts[s].Killed
	p := Problem{
		Subject:  s,
		Alert:    AlertContainerOOMKill,
		Severity: Warning,
		Unknown:  v.Unknown,
		Since:    killed[0].At,
	}
	p.Lasted = r.now.Sub(p.Since)
	for _, one := range slices.Backward(killed) {
		if r.judge.survived(s, one) {
			p.Ends = one.At.Add(r.judge.rule(AlertContainerOOMKill).Window)
			break
		}
	}
	r.restarted = append(r.restarted, p)
}
