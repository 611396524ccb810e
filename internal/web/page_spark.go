package web

import (
	"math"
	"strconv"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const (
	// sparkWidth and sparkHeight are in the chart's own units; the style sheet sets its size.
	sparkWidth, sparkHeight = 96, 24
	sparkTop, sparkBottom   = 2, sparkHeight - 2
)

// spark is a small chart of a number over one day.
type spark struct {
	Name, Title, Unit string
	// Path is the SVG path within sparkWidth times sparkHeight; empty with fewer than two known values.
	Path string
	// Keeps says which numbers of a step are shown.
	Keeps string
	// Label describes the chart in words, with Low, High and Last. High is empty for a state.
	Label, Low, High, Last string
}

// newSpark draws a history. A column spans the lowest to the highest of its steps, so short peaks stay visible. Unknown steps leave
// gaps.
func newSpark(h status.History) *spark {
	s := &spark{
		Name:  h.Name,
		Title: h.Title,
		Unit:  h.Unit,
		Label: h.Title + ": no data in the last 24 hours",
	}
	lows, highs := h.Values, h.Values
	if len(h.Min) == len(h.Values) && len(h.Max) == len(h.Values) {
		lows, highs = h.Min, h.Max
	}
	_, _, low, _ := column(lows)
	_, newest, _, high := column(highs)
	if low == nil || high == nil {
		return s
	}
	last := *newest
	if h.Last != nil {
		last = *h.Last
	}
	s.Keeps = map[string]string{"least": "the lowest of each 5 min", "mean": "mean, lowest and highest of each 5 min"}[h.Keeps]
	s.Last = wording.Glance(last, h.Unit)
	s.Path = sparkPath(h.Values, lows, highs, min(*low, 0), *high)
	if s.Path == "" {
		s.Label = h.Title + ": not enough data for a chart yet, last " + s.Last
		return s
	}
	s.Low = wording.Glance(*low, h.Unit)
	s.Label = h.Title + ", last 24 hours, lowest " + s.Low
	if h.Keeps != "least" {
		s.High = wording.Glance(*high, h.Unit)
		s.Label += ", highest " + s.High
	}
	s.Label += ", last " + s.Last
	return s
}

// sparkPath returns the line through the values, which spans lows and highs; bottom and top are the chart's limits. It is empty with
// fewer than two known values.
func sparkPath(values, lows, highs []*float64, bottom, top float64) string {
	known := 0
	for _, v := range values {
		if v != nil {
			known++
		}
	}
	if known < 2 {
		return ""
	}
	if top <= bottom {
		top = bottom + 1
	}
	y := func(v float64) int {
		return int(math.Round(sparkBottom - (v-bottom)/(top-bottom)*(sparkBottom-sparkTop)))
	}
	path := make([]byte, 0, 4*sparkWidth)
	point := func(command byte, x, y int) {
		path = append(path, command)
		path = strconv.AppendInt(path, int64(x), 10)
		path = append(path, ' ')
		path = strconv.AppendInt(path, int64(y), 10)
	}
	columns := min(sparkWidth, len(values))
	drawing, level := false, 0
	for x := range columns {
		at, next := x*sparkWidth/columns, (x+1)*sparkWidth/columns
		from, to := x*len(values)/columns, (x+1)*len(values)/columns
		first, last, _, _ := column(values[from:to])
		_, _, low, _ := column(lows[from:to])
		_, _, _, high := column(highs[from:to])
		if first == nil {
			if drawing {
				point('L', at, level)
			}
			drawing = false
			continue
		}
		start, lowest, highest, end := y(*first), y(*low), y(*high), y(*last)
		switch {
		case !drawing:
			point('M', at, start)
		case start != level:
			// The line is a step: horizontal, then vertical.
			point('L', at, level)
			point('L', at, start)
		case lowest != highest:
			point('L', at, start)
		}
		if lowest != highest {
			point('L', at, highest)
			point('L', at, lowest)
			point('L', at, end)
		}
		if x == columns-1 {
			point('L', next, end)
		}
		drawing, level = true, end
	}
	return string(path)
}

// column returns the first, last, lowest and highest of some steps; nil if none is known.
func column(values []*float64) (first, last, low, high *float64) {
	for _, v := range values {
		if v == nil {
			continue
		}
		if first == nil {
			first, low, high = v, v, v
		}
		last = v
		if *v < *low {
			low = v
		}
		if *v > *high {
			high = v
		}
	}
	return first, last, low, high
}
