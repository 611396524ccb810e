package status

import (
	"maps"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// sweepEvery is how often empty histories are dropped.
	sweepEvery = time.Hour
)

// memory is what a report needs to know of the past. It is not safe for concurrent use.
type memory struct {
	kinds       rows
	roles       map[string]config.Role
	services    map[string]*pastService
	containers  map[place]*pastContainer
	series      map[string]*series
	transitions transitions
	level       Level
	since       time.Time
	nextSweep   time.Time
}

func newMemory(kinds []config.Kind) memory {
	m := memory{
		kinds:      rows{},
		roles:      map[string]config.Role{},
		services:   map[string]*pastService{},
		containers: map[place]*pastContainer{},
		series:     map[string]*series{},
		level:      -1,
	}
	for i := range kinds {
		row := &kinds[i].Row
		m.kinds[row.Name], m.roles[row.Role.Name] = row, row.Role
	}
	return m
}

// rows is the table of kinds, by name.
type rows map[string]*config.Row

// of returns the row of a kind; an empty one for an unknown kind.
func (r rows) of(kind string) *config.Row {
	if row := r[kind]; row != nil {
		return row
	}
	return &config.Row{Name: kind}
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
	if now.Before(m.nextSweep) {
		return
	}
	m.nextSweep = now.Add(sweepEvery)
	maps.DeleteFunc(m.series, func(_ string, s *series) bool { return s.empty(now) })
}

// orEmpty makes a nil list an empty list in JSON.
func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
