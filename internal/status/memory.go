package status

import (
	"maps"
	"time"
)

const (
	// sweepEvery is how often histories without new values are dropped.
	sweepEvery = time.Hour
)

// memory is what a report needs to know of the past. It is for one goroutine at a time.
type memory struct {
	families    map[string]*families // by target
	services    map[string]*remembered
	containers  map[place]*pastContainer
	series      map[string]*series
	transitions changes
	level       Level
	since       time.Time
	sweep       time.Time // when to look through series next
}

func newMemory() memory {
	return memory{
		families: map[string]*families{}, services: map[string]*remembered{}, containers: map[place]*pastContainer{},
		series: map[string]*series{}, level: -1,
	}
}

// chart notes a value of a history, and returns the name where there is room for its history.
func (m *memory) chart(charts []string, name, title, unit string, k keep, now time.Time, v float64) []string {
	s := m.series[name]
	if s == nil {
		if len(m.series) >= maxSeries {
			return charts
		}
		s = newSeries(title, unit, k, now)
		m.series[name] = s
	}
	s.add(now, v)
	return append(charts, name)
}

// forget drops the histories of what has been gone for a day.
func (m *memory) forget(now time.Time) {
	if now.Before(m.sweep) {
		return
	}
	m.sweep = now.Add(sweepEvery)
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.empty(now) })
}

// orEmpty makes JSON of nothing an empty list.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
