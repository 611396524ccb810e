package health

import (
	"slices"
	"time"
)

// AlertContainerOftenUnhealthy is the name of the alert on containers that are unhealthy again and again.
const AlertContainerOftenUnhealthy = "ContainerOftenUnhealthy"

// unwell is when a container was lately unhealthy, or starting again after that, without an excuse.
type unwell struct {
	// Spells are oldest first. Lasts says that the last one does, Again that the container has not been healthy since.
	Spells []spell `json:"spells,omitempty"`
	Lasts  bool    `json:"lasts,omitempty"`
	Again  bool    `json:"again,omitempty"`
	// Excused is when it was last unwell with an excuse.
	Excused time.Time `json:"excused,omitzero"`
	// Covered is until when the alert on a spell fires, with what it goes on firing for.
	Covered time.Time `json:"covered,omitzero"`
}

// spell is a time without a break.
type spell struct {
	Began time.Time `json:"began"`
	// Until is its end, or when it was last seen.
	Until time.Time `json:"until"`
}

// within returns how much of the spell is later than a time.
func (s *spell) within(after time.Time) time.Duration {
	return max(s.Until.Sub(laterOf(s.Began, after)), 0)
}

// join adds those of another container that a workload continues.
func (u *unwell) join(o *unwell) {
	u.Spells = append(u.Spells, o.Spells...)
	slices.SortStableFunc(u.Spells, func(a, b spell) int { return a.Began.Compare(b.Began) })
	for i := 1; i < len(u.Spells); i++ {
		if before, after := &u.Spells[i-1], &u.Spells[i]; after.Began.Before(before.Until) { // they were unhealthy at the same time
			before.Until = laterOf(before.Until, after.Until)
			u.Spells = slices.Delete(u.Spells, i, i+1)
			i--
		}
	}
	u.Lasts, u.Again, u.Covered = u.Lasts || o.Lasts, u.Again || o.Again, laterOf(u.Covered, o.Covered)
}

// see counts the time until now. It reports whether a spell has begun or ended.
func (u *unwell) see(c *Container, excused bool, since, now time.Time) (changed bool) {
	if c.State == Running {
		u.Again = c.Health == Unhealthy || u.Again && c.Health == Starting
	}
	unwell := u.Again && c.State == Running
	if unwell && excused {
		u.Excused = now
	}
	lasts := unwell && !excused
	changed = lasts != u.Lasts
	last := len(u.Spells) - 1
	switch {
	case lasts && u.Lasts && last >= 0:
		u.Spells[last].Until = now
	case lasts:
		since = laterOf(since, u.Excused)
		if last >= 0 {
			since = laterOf(since, u.Spells[last].Until)
		}
		u.Spells = append(u.Spells, spell{since, now})
	case u.Lasts && last >= 0 && !excused:
		u.Spells[last].Until = now
	}
	u.Lasts = lasts
	return changed
}

// total returns how long the container was unwell after a time, and the longest spell.
func (u *unwell) total(after time.Time) (all, longest time.Duration) {
	for i := range u.Spells {
		one := u.Spells[i].within(after)
		all, longest = all+one, max(longest, one)
	}
	return all, longest
}

// lessAt returns when the time within the window will be no more than a limit, if the container stays well.
func (u *unwell) lessAt(limit, window time.Duration, now time.Time) time.Time {
	after := now.Add(-window)
	all, _ := u.total(after)
	for i := range u.Spells {
		one := u.Spells[i].within(after)
		if all-one <= limit {
			return laterOf(u.Spells[i].Began, after).Add(all - limit + window)
		}
		all -= one
	}
	return now
}

// countSpells counts how long a container is unwell. A new spell began when its health checks began to fail.
func (s *scene) countSpells(c *Container) {
	u, since := &s.judge.restarts[c.Subject()].unwell, s.now
	if c.Health == Unhealthy {
		since = s.now.Add(-c.UnhealthyFor)
	}
	cause := s.ofContainer(c, since)
	if u.see(c, cause.Holds() && s.mayHoldBack(&cause, s.now.Sub(cause.since)), since, s.now) {
		s.judge.changed = true
	}
}

// judgeOftenUnhealthy finds which containers were unhealthy for too long in pieces. It leaves out what another alert
// reports: one spell that is as long, and one whose critical alert fires.
func (s *scene) judgeOftenUnhealthy(verdicts map[Subject]*Verdict) (found findings) {
	j, rule := s.judge, s.judge.rule(AlertContainerOftenUnhealthy)
	for subject, known := range j.restarts {
		u, v := &known.unwell, verdicts[subject]
		if v == nil {
			continue
		}
		after := j.seen(subject.Host).Add(-rule.Window)
		u.Spells = slices.DeleteFunc(u.Spells, func(one spell) bool { return !one.Until.After(after) })
		if len(u.Spells) == 0 {
			continue
		}
		if fires, keep := j.spellCritical(subject); fires {
			u.Covered = s.now.Add(max(keep, minDuration))
		}
		all, longest := u.total(after)
		found.recheck = append(found.recheck, u.Covered.Sub(s.now))
		if u.Lasts {
			found.recheck = append(found.recheck, rule.Critical.Hold-all)
		}
		if u.Covered.After(s.now) || longest > rule.Critical.Hold {
			continue
		}
		if v.OftenUnhealthy = all; all > rule.Critical.Hold {
			p := Problem{
				Subject:   subject,
				Alert:     AlertContainerOftenUnhealthy,
				Severity:  Critical,
				Unknown:   v.Unknown,
				LastKnown: v.LastKnown,
				Since:     u.Spells[0].Began,
				Lasted:    max(s.now.Sub(u.Spells[0].Began), minDuration),
			}
			if !u.Lasts && !v.Unknown {
				p.Ends = u.lessAt(rule.Critical.Hold, rule.Window, s.now)
				found.recheck = append(found.recheck, p.Ends.Sub(s.now))
			}
			found.events = append(found.events, p)
		}
	}
	return found
}
