package status

import (
	"fmt"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// remembered is what is known of a service's or container's past.
type remembered struct {
	state string
	since time.Time
	// failures is how many readings had failed when the service was last looked at.
	failures uint64
	// atTheStart says that the state is the one that was found first.
	atTheStart bool
	// impaired says that it answers, and something is wrong all the same.
	impaired bool
	begun    beginnings
}

// pastContainer is what is known of a container's past.
type pastContainer struct {
	remembered
	target   string
	seen     time.Time
	restarts counter
	kills    counter // for lack of memory
	killed   time.Time
	cpu      cpuMeter
	last     Container
	badSince time.Time // unhealthy
	// stoppedSince and missingSince are since when there has been no excuse either; excused is when there was one last.
	stoppedSince, missingSince, excused time.Time
	// present is when a container that is missing was there last, zero where the exporter has never seen it.
	present time.Time
}

// unknown reports a container whose engine does not answer.
func (p *pastContainer) unknown(now time.Time) Container {
	c := p.last
	c.Level, c.Since, c.Hint = Unknown, p.seen, ""
	c.ProblemSince, c.ProblemSinceAtLeast = p.seen, false
	c.Text = fmt.Sprintf("its engine has not answered for %s; before, it was %s", ago(now.Sub(p.seen)), p.state)
	c.State, c.Health, c.Values = "unknown", "none", []Value{}
	if c.Maintenance != "" {
		c.Level = Maintenance
	}
	return c
}

// updateSince finds out since when the container has been what it is.
func (p *pastContainer) updateSince(c *Container, f *facts, now time.Time) {
	trackSince(&p.badSince, f.health == unhealthy, now)
	if f.health == unhealthy && !f.unhealthySince.IsZero() {
		p.badSince = f.unhealthySince
	}
	switch state := c.stateText(); {
	case p.state == "":
		p.since = now
	case p.state != state:
		p.since, p.atTheStart = now, false
	}
	switch {
	case f.state == missing && !p.present.IsZero():
		c.Since = p.present
	case f.health == unhealthy:
		c.Since = p.badSince
	case f.state == running && !f.started.IsZero():
		c.Since = f.started
	case !p.atTheStart:
		c.Since = p.since
	}
}

// updateBlame finds out since when the container has been down of itself, as the alert rules count it. It takes a container a
// while to recover from the failure of another one, and what it was restarted for meanwhile is not its own fault.
func (p *pastContainer) updateBlame(a config.Alerts, f *facts, now time.Time) {
	if f.excused() {
		p.excused = now
		p.restarts.forgive(now.Add(-a.Interval.Std()))
	} else if p.justExcused(a, now) {
		p.restarts.forgive(now)
	}
	comesBack := f.state == restarting && (p.restarts.within() > 0 || p.justExcused(a, now))
	trackSince(&p.stoppedSince, f.down() && f.state != missing && !comesBack && !f.excused(), now)
	trackSince(&p.missingSince, f.down() && f.state == missing && !f.excused(), now)
}

// justExcused reports whether the container has an excuse, or had one a moment ago.
func (p *pastContainer) justExcused(a config.Alerts, now time.Time) bool {
	return !p.excused.IsZero() && now.Sub(p.excused) < a.Lookback.Std()
}

// trackSince keeps since when a condition holds.
func trackSince(since *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// idleAfter is how long a container's CPU time may stand still before it counts as idle.
const idleAfter = 90 * time.Second

// cpuMeter makes a rate of a container's CPU time.
type cpuMeter struct {
	last  float64 // CPU time in seconds
	at    time.Time
	rate  float64 // of one core
	known bool
}

// observe returns how much of a core the container uses; false until two readings of it are known.
func (m *cpuMeter) observe(u usage, now time.Time) (float64, bool) {
	switch {
	case !u.timed:
		m.at, m.known = time.Time{}, false
	case m.at.IsZero() || u.cpu < m.last:
		m.last, m.at, m.known = u.cpu, now, false
	case u.cpu > m.last:
		if took := now.Sub(m.at).Seconds(); took >= 1 {
			m.rate, m.known = (u.cpu-m.last)/took, true
			m.last, m.at = u.cpu, now
		}
	case now.Sub(m.at) > idleAfter:
		m.rate, m.known = 0, true
	}
	return m.rate, m.known
}
