package status

import (
	"cmp"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// pastService is what is known of a service's past.
type pastService struct {
	seen time.Time
	// failures is how many probes had failed at the last report.
	failures uint64
}

// pastContainer is what is known of a container's past.
type pastContainer struct {
	state  string
	since  time.Time // zero until the state changes for the first time
	target string
	seen   time.Time
	kills  counter // because memory ran out
	killed time.Time
	cpu    cpuMeter
	last   Container
}

// counter tracks the growth of a counter.
type counter struct {
	seen bool
	last float64
}

// observe returns by how much the counter has grown. The first value counts as no growth; a value below the last one means that
// the counter was reset.
func (c *counter) observe(v float64) (grown float64) {
	switch {
	case c.seen && v >= c.last:
		grown = v - c.last
	case c.seen:
		grown = v
	}
	c.seen, c.last = true, v
	return grown
}

// updateSince sets since when the container has been in its state.
func (p *pastContainer) updateSince(c *Container, given *health.Container, v *health.Verdict, now time.Time) {
	if p.state != "" && p.state != c.stateText() {
		p.since = now
	}
	switch {
	case v.Missing > 0 || v.Unhealthy > 0:
		c.Since = now.Add(-cmp.Or(v.Missing, v.Unhealthy))
	case given.State == health.Running && !given.Started.IsZero():
		c.Since = given.Started.Truncate(time.Millisecond).UTC()
	default:
		c.Since = p.since
	}
}

// idleAfter is how long a container's CPU time may stay unchanged before it counts as idle.
const idleAfter = 90 * time.Second

// cpuMeter turns a container's CPU time into a rate.
type cpuMeter struct {
	last  float64 // CPU time in seconds
	at    time.Time
	rate  float64 // of one core
	known bool
}

// observe returns how much of a core the container uses; false until two values are known.
func (m *cpuMeter) observe(u health.Usage, now time.Time) (float64, bool) {
	switch {
	case !u.HasCPU:
		m.at, m.known = time.Time{}, false
	case m.at.IsZero() || u.CPUSeconds < m.last:
		m.last, m.at, m.known = u.CPUSeconds, now, false
	case u.CPUSeconds > m.last:
		if elapsed := now.Sub(m.at).Seconds(); elapsed >= 1 {
			m.rate, m.known = (u.CPUSeconds-m.last)/elapsed, true
			m.last, m.at = u.CPUSeconds, now
		}
	case now.Sub(m.at) > idleAfter:
		m.rate, m.known = 0, true
	}
	return m.rate, m.known
}
