package status

import (
	"math"
	"slices"
	"time"
)

const (
	// step is the length of one step of a history, span what a history covers.
	step  = 5 * time.Minute
	span  = 24 * time.Hour
	steps = int(span / step)
	// maxSeries bounds the histories that are kept, at some 1.2 KB each.
	maxSeries = 4000
)

// keep says which of the values of one step a history shows.
type keep int

const (
	last keep = iota
	// least and most keep what would be lost in an average: a short outage, a short peak.
	least
	most
)

// series is the history of one number. The value of a step is at its index modulo steps; NaN is a step of which nothing
// is known.
type series struct {
	title, unit string
	keep        keep
	values      [steps]float32
	latest      float64 // the value of the newest step that came last
	// at is the step of the newest value, as steps are counted since 1970.
	at int64
}

func stepOf(t time.Time) int64 { return t.UnixMilli() / step.Milliseconds() }

func newSeries(title, unit string, k keep, now time.Time) *series {
	s := &series{title: title, unit: unit, keep: k, at: stepOf(now)}
	for i := range s.values {
		s.values[i] = nothing
	}
	return s
}

var nothing = float32(math.NaN())

// advance makes room for the step of now. What is older than a day is forgotten. After a step back of the clock the
// newest step goes on until the clock has come there again.
func (s *series) advance(now time.Time) {
	at := stepOf(now)
	if at-s.at >= int64(steps) {
		s.at = at - int64(steps)
	}
	for s.at < at {
		s.at++
		s.values[s.at%int64(steps)] = nothing
	}
}

// add notes a value of now.
func (s *series) add(now time.Time, v float64) {
	s.advance(now)
	p := &s.values[s.at%int64(steps)]
	if math.Abs(v) <= math.MaxFloat32 {
		s.latest = v
	}
	switch known := float64(*p); {
	case math.IsNaN(v), math.Abs(v) > math.MaxFloat32:
	case math.IsNaN(known), s.keep == last,
		s.keep == least && v < known,
		s.keep == most && v > known:
		*p = float32(v)
	}
}

// empty reports whether nothing of the last day is known.
func (s *series) empty(now time.Time) bool {
	s.advance(now)
	return !slices.ContainsFunc(s.values[:], func(v float32) bool { return !math.IsNaN(float64(v)) })
}

// history copies the series, oldest value first.
func (s *series) history(name string, now time.Time) History {
	s.advance(now)
	first := s.at - int64(steps) + 1
	h := History{
		Name: name, Title: s.title, Unit: s.unit, Step: step.Seconds(), Values: make([]*float64, steps),
		Start: time.UnixMilli(first * step.Milliseconds()).UTC(), Keeps: [...]string{last: "last", least: "least", most: "most"}[s.keep],
	}
	for i := range h.Values {
		if v := float64(s.values[(first+int64(i))%int64(steps)]); !math.IsNaN(v) {
			h.Values[i] = &v
		}
	}
	if latest := s.latest; h.Values[steps-1] != nil {
		h.Last = &latest
	}
	return h
}
