package status

import (
	"math"
	"slices"
	"time"
)

const (
	// step is the length of one step of a history, span the length of a history.
	step  = 5 * time.Minute
	span  = 24 * time.Hour
	steps = int(span / step)
	// maxSeries limits the number of histories; each takes about 1.2 KB.
	maxSeries = 4000
)

// aggregation selects which of the values within one step a history shows.
type aggregation int

const (
	last aggregation = iota
	// least and most preserve what an average would hide: a short outage, a short peak.
	least
	most
)

// series is the history of one number. A step's value is at the step's index modulo steps; NaN is an unknown value.
type series struct {
	title, unit string
	aggregation aggregation
	values      [steps]float32
	latest      float64 // the last value added
	// at is the newest step, counted since 1970.
	at int64
}

func stepOf(t time.Time) int64 { return t.UnixMilli() / step.Milliseconds() }

func newSeries(title, unit string, a aggregation, now time.Time) *series {
	s := &series{title: title, unit: unit, aggregation: a, at: stepOf(now)}
	for i := range s.values {
		s.values[i] = unknownValue
	}
	return s
}

var unknownValue = float32(math.NaN())

// advance moves on to the step of now and drops values older than a day. After the clock was set back, the newest step stays
// current until the clock has reached it again.
func (s *series) advance(now time.Time) {
	at := stepOf(now)
	if at-s.at >= int64(steps) {
		s.at = at - int64(steps)
	}
	for s.at < at {
		s.at++
		s.values[s.at%int64(steps)] = unknownValue
	}
}

// add adds a value to the step of now.
func (s *series) add(now time.Time, v float64) {
	s.advance(now)
	p := &s.values[s.at%int64(steps)]
	if math.Abs(v) <= math.MaxFloat32 {
		s.latest = v
	}
	switch known := float64(*p); {
	case math.IsNaN(v), math.Abs(v) > math.MaxFloat32:
	case math.IsNaN(known), s.aggregation == last,
		s.aggregation == least && v < known,
		s.aggregation == most && v > known:
		*p = float32(v)
	}
}

// empty reports whether no value of the last day is known.
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
		Start: time.UnixMilli(first * step.Milliseconds()).UTC(), Keeps: [...]string{last: "last", least: "least", most: "most"}[s.aggregation],
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
