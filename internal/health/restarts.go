package health

import (
	"slices"
	"time"
)

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
