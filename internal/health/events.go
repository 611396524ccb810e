package health

import (
	"math"
	"slices"
	"time"
)

// survivalTime is how long a container must run after a kill to count as a survivor. The engine may report the kill well before the
// container's end.
const survivalTime = 30 * time.Second

// events are restarts of a container, or kills of its processes, oldest first.
type events []eventCount

// eventCount is a number of events that one reading found.
type eventCount struct {
	At    time.Time `json:"at"`
	Times uint64    `json:"times"`
}

// within drops the events that are older than the window.
func (e events) within(window time.Duration, now time.Time) events {
	return slices.DeleteFunc(e, func(one eventCount) bool { return now.Sub(one.At) > window })
}

func (e events) total() (total uint64) {
	for _, one := range e {
		total += one.Times
	}
	return total
}

// moreUntil returns until when there will be more than that many within the window, if no more follow; zero if there are not that many.
func (e events) moreUntil(than float64, window time.Duration) time.Time {
	for _, one := range slices.Backward(e) {
		if than -= float64(one.Times); than < 0 {
			return one.At.Add(window)
		}
	}
	return time.Time{}
}

// The names of the alerts on counted events.
const (
	AlertContainerRestarts = "ContainerRestarts"
	AlertContainerOOMKill  = "ContainerOOMKill"
)

// restartsTooOften reports whether the container's restarts are critical.
func (j *Judge) restartsTooOften(s Subject) bool {
	return float64(j.recentRestarts(s).total()) > j.rule(AlertContainerRestarts).Critical.Over
}

// recentRestarts returns the unexcused restarts of the container within the alert's window, before the last reading of its engine.
func (j *Judge) recentRestarts(s Subject) events {
	known := j.restarts[s]
	if known == nil {
		return nil
	}
	known.Recent = known.Recent.within(j.rule(AlertContainerRestarts).Window, j.seen(s.Host))
	return known.Recent
}

// survivedKills returns the kills within the alert's window that the container has survived by the last reading of its engine.
func (j *Judge) survivedKills(s Subject) events {
	known, seen := j.restarts[s], j.seen(s.Host)
	known.Killed = known.Killed.within(j.rule(AlertContainerOOMKill).Window, seen)
	return slices.DeleteFunc(slices.Clone(known.Killed), func(one eventCount) bool { return seen.Sub(one.At) <= survivalTime })
}

// countEvents counts the restarts of a container, and the kills that did not end it. It reports whether a current restart is excused.
func (s *scene) countEvents(c *Container) (excused bool) {
	j, known := s.judge, s.judge.restarts[c.Subject()]
	if known == nil {
		known = &restarts{}
		j.restarts[c.Subject()] = known
	}
	restarted := known.Known && c.Restarts > known.Count
	// An event tells of a start before a description says that the container runs. Whether it ended a told outage is known a reading later.
	read, awaits := j.engines[c.Host].read, c.Down() && c.State != Restarting && j.downtime(c.Subject()).fires()
	if restarted && awaits && (known.awaited.IsZero() || known.awaited.Equal(read)) {
		known.awaited, restarted = read, false
	} else {
		known.awaited = time.Time{}
	}
	known.restarted = 0
	if restarted {
		known.restarted = c.Restarts - known.Count
	}
	if restarted || c.State != Running && c.State != Paused {
		known.ended = s.now
	}
	if restarted || c.State == Restarting {
		cause := s.ofContainer(c, s.now)
		excused = cause.Holds() && s.mayHoldBack(&cause, s.now.Sub(cause.since))
	}
	// Ignore restarts since a reading before the window: they may be older than the window.
	blind := s.now.Sub(j.engines[c.Host].previousRead) > j.rule(AlertContainerRestarts).Window
	if restarted && !excused && !blind {
		times := known.restarted
		if c.State == Running && j.downtime(c.Subject()).fires() {
			times-- // the end of that alert already reports this restart
		}
		if times > 0 {
			known.Recent = append(known.Recent, eventCount{s.now, times})
		}
	}
	if known.Known && c.Kills > known.Kills && !blind && !s.underMaintenance(c.Subject()) {
		known.Killed = append(known.Killed, eventCount{s.now, c.Kills - known.Kills})
	}
	// The alerts on restarts and on stopped containers cover a kill that ended the container.
	known.Killed = slices.DeleteFunc(known.Killed, func(one eventCount) bool { return known.ended.Sub(one.At).Abs() <= survivalTime })
	j.changed = j.changed || !known.Known || known.Count != c.Restarts || known.Kills != c.Kills || known.Workload != c.Workload ||
		!slices.Equal(known.Members, c.Members)
	if known.awaited.IsZero() {
		known.Count = c.Restarts
	}
	known.Kills, known.Known, known.Workload, known.Members, known.last = c.Kills, true, c.Workload, c.Members, c
	return excused
}

// judgeEvents adds a problem if a container has restarted too often, and one if it has survived a kill.
func (s *scene) judgeEvents(found *findings, subject Subject, v *Verdict) {
	rule := s.judge.rule(AlertContainerRestarts)
	restarted, killed := s.judge.recentRestarts(subject), s.judge.survivedKills(subject)
	v.RecentRestarts, v.RecentKills = restarted.total(), killed.total()
	add := func(alert string, list events, warning, critical float64) {
		window := s.judge.rule(alert).Window
		p := Problem{
			Subject:   subject,
			Alert:     alert,
			Severity:  Warning,
			Unknown:   v.Unknown,
			LastKnown: v.LastKnown,
			Ends:      list.moreUntil(warning, window),
			Eases:     list.moreUntil(critical, window),
		}
		if p.Ends.IsZero() {
			return
		}
		if !p.Eases.IsZero() {
			p.Severity = Critical
		}
		if v.Unknown { // nobody knows whether more have followed
			p.Ends, p.Eases = time.Time{}, time.Time{}
		}
		p.Since, p.Last = list[0].At, list[len(list)-1].At
		p.Lasted = max(s.now.Sub(p.Since), minDuration)
		found.events = append(found.events, p)
	}
	add(AlertContainerRestarts, restarted, rule.Warning.Over, rule.Critical.Over)
	add(AlertContainerOOMKill, killed, 0, math.MaxFloat64) // no number of kills is critical
	for _, one := range s.judge.restarts[subject].Killed {
		found.recheck = append(found.recheck, survivalTime-s.now.Sub(one.At))
	}
}
