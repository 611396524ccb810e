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
	// maxSeries limits the number of histories; each takes 3.6 KB, or 1.3 KB if it keeps the least.
	maxSeries = 4000
)

// What a history keeps of the values within one step.
const (
	// mean keeps the lowest and the highest value beside it.
	mean = "mean"
	// least is for states: a mean would hide a short outage.
	least = "least"
)

// History is a number over the last day, in steps of equal length.
type History struct {
	Schema Schema `json:"schema"`

	Name  string `json:"name"`
	Title string `json:"title"`
	Unit  string `json:"unit,omitempty"`
	// Start is the time of the first step, Step their length in seconds.
	Start time.Time `json:"start"`
	Step  float64   `json:"step_seconds"`
	// Keeps is what Values has of each step: mean, or least for states.
	Keeps string `json:"keeps"`
	// Last is the newest number; nil if the last step is unknown.
	Last *float64 `json:"last"`
	// Values has one number per step; nil if unknown.
	Values []*float64 `json:"values"`
	// Min and Max have the lowest and the highest number of each step, if Keeps is mean.
	Min []*float64 `json:"min,omitempty"`
	Max []*float64 `json:"max,omitempty"`
	Limits
}

// Limits are the thresholds of the alert on a number, if any. It fires above Warning and Critical; nil if it has no such severity.
type Limits struct {
	Alert    string   `json:"alert,omitempty"`
	Warning  *float64 `json:"warning,omitempty"`
	Critical *float64 `json:"critical,omitempty"`
}

// numbers is one number per step. A step's number is at the step's index modulo steps; NaN is an unknown number.
type numbers []float32

func newNumbers() numbers { return slices.Repeat(numbers{unknownValue}, steps) }

// series is the history of one number.
type series struct {
	of     History // without values
	values numbers
	// low and high are the lowest and the highest value of each step; nil if it keeps the least.
	low, high numbers
	// at is the newest step, counted since 1970.
	at int64
	// sum and weight make the mean of the newest step; latest is the last value added, at the Unix time latestAt in milliseconds.
	sum, weight, latest float64
	latestAt            int64
}

func (n numbers) at(step int64) *float32 { return &n[step%int64(steps)] }

func stepOf(t time.Time) int64 { return t.UnixMilli() / step.Milliseconds() }

func newSeries(of History, now time.Time) *series {
	s := &series{of: of, at: stepOf(now), values: newNumbers()}
	if of.Keeps == mean {
		s.low, s.high = newNumbers(), newNumbers()
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
		s.sum, s.weight, *s.values.at(s.at) = 0, 0, unknownValue
		if s.low != nil {
			*s.low.at(s.at), *s.high.at(s.at) = unknownValue, unknownValue
		}
	}
}

// add adds a value to the step of now.
func (s *series) add(now time.Time, v float64) {
	s.advance(now)
	if math.IsNaN(v) || math.Abs(v) > math.MaxFloat32 {
		return
	}
	p := s.values.at(s.at)
	if s.of.Keeps == least {
		if known := float64(*p); math.IsNaN(known) || v < known {
			*p = float32(v)
		}
	} else {
		s.addToMean(now, v)
	}
	s.latest, s.latestAt = v, now.UnixMilli()
}

// addToMean weighs a value by the time since the one before it: reports are more frequent while somebody watches.
func (s *series) addToMean(now time.Time, v float64) {
	begin := max(s.latestAt, s.at*step.Milliseconds())
	weight := float64(min(max(now.UnixMilli()-begin, 0), maxIdleAge.Milliseconds()))
	s.sum, s.weight = s.sum+v*weight, s.weight+weight
	p, low, high, exact := s.values.at(s.at), s.low.at(s.at), s.high.at(s.at), float32(v)
	if unknown(*p) {
		*low, *high = exact, exact
	}
	*low, *high, *p = min(exact, *low), max(exact, *high), exact
	if s.weight > 0 {
		*p = min(max(float32(s.sum/s.weight), *low), *high) // rounding must not move it out
	}
}

func unknown(v float32) bool { return math.IsNaN(float64(v)) }

// isEmpty reports whether no value of the last day is known.
func (s *series) isEmpty(now time.Time) bool { return now.Sub(time.UnixMilli(s.latestAt)) > span }

// history copies the series, oldest value first.
func (s *series) history(now time.Time) History {
	s.advance(now)
	h := s.of
	h.Step, h.Start = step.Seconds(), time.UnixMilli(s.first()*step.Milliseconds()).UTC()
	h.Values, h.Min, h.Max = s.copyOf(s.values), s.copyOf(s.low), s.copyOf(s.high)
	if h.Values[steps-1] != nil {
		h.Last = new(s.latest)
	}
	return h
}

// first is the oldest step.
func (s *series) first() int64 { return s.at - int64(steps) + 1 }

// copyOf returns numbers as pointers, oldest first; nil is unknown.
func (s *series) copyOf(n numbers) []*float64 {
	list := make([]*float64, len(n))
	for i := range list {
		if v := *n.at(s.first() + int64(i)); !unknown(v) {
			list[i] = new(float64(v))
		}
	}
	return list
}
