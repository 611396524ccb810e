package status

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// memory is what a report needs to know of the past. It is not safe for concurrent use.
type memory struct {
	services    map[string]*pastService
	containers  map[health.Subject]*pastContainer
	series      map[string]*series
	transitions transitions
	level       Level
	since       time.Time
}

func newMemory() memory {
	return memory{
		services:   map[string]*pastService{},
		containers: map[health.Subject]*pastContainer{},
		series:     map[string]*series{},
		level:      -1,
	}
}

// rowOf returns the row of a kind; an empty one for an unknown kind.
func rowOf(kind string) config.Row {
	k, _ := collectors.KindOf(kind)
	return k.Row
}

// roleOf returns the row of a role; an empty one for an unknown role.
func roleOf(name string) config.Role {
	for _, r := range collectors.Roles {
		if r.Name == name {
			return r
		}
	}
	return config.Role{}
}

// chart adds a value to a history and shows it, unless maxSeries is reached. The history's values are ignored.
func (m *memory) chart(shown *Shown, h History, now time.Time, v float64) {
	s := m.series[h.Name]
	if s == nil {
		if len(m.series) >= maxSeries {
			return
		}
		s = newSeries(now)
		m.series[h.Name] = s
	}
	s.of = h // a reload may change its limits
	s.add(now, v)
	shown.Charts = append(shown.Charts, h.Name)
}
