package status

import (
	"maps"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// memory is what a report needs to know of the past. It is not safe for concurrent use.
type memory struct {
	services    map[string]*pastService
	containers  map[place]*pastContainer
	series      map[string]*series
	transitions transitions
	level       Level
	since       time.Time
}

func newMemory() memory {
	return memory{
		services:   map[string]*pastService{},
		containers: map[place]*pastContainer{},
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

// charted is a number of which the page shows a history.
type charted struct {
	name, title, unit string
	aggregation       aggregation
	limits            limits
}

// chart adds a value to a history and appends the history's name to charts, unless maxSeries is reached.
func (m *memory) chart(charts []string, c charted, now time.Time, v float64) []string {
	s := m.series[c.name]
	if s == nil {
		if len(m.series) >= maxSeries {
			return charts
		}
		s = newSeries(c.title, c.unit, c.aggregation, now)
		m.series[c.name] = s
	}
	s.limits = c.limits // a reload may change them
	s.add(now, v)
	return append(charts, c.name)
}

// forget drops histories without a value during the last day.
func (m *memory) forget(now time.Time) {
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.empty(now) })
}

// orEmpty makes a nil list an empty list in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
