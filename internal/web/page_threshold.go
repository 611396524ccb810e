package web

import (
	"cmp"
	"fmt"
	"math"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// thresholdRow is a row of the table of thresholds as text.
type thresholdRow struct {
	status.Threshold
	Title, Now, WarningText, CriticalText, Distance string
	Bar                                             *bar
}

// Class is the row's CSS class.
func (r thresholdRow) Class() string {
	switch {
	case r.Present == nil:
		return "unmeasured"
	case r.Pending: // its level is OK, but it must not look so
		return status.Pending.String()
	}
	return r.Level.String()
}

// ThresholdsFold says in one line that no threshold is exceeded, to fold the table; it is empty if one is, or if none is measured.
func (v *view) ThresholdsFold() string {
	measured := 0
	for i := range v.ThresholdRows {
		switch r := &v.ThresholdRows[i]; {
		case r.Present == nil:
		case r.Level != status.OK || r.Pending:
			return ""
		default:
			measured++
		}
	}
	unmeasured := ""
	if n := len(v.ThresholdRows) - measured; n > 0 {
		unmeasured = fmt.Sprintf(", %d not measured", n)
	}
	if measured == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d within limits%s", measured, len(v.ThresholdRows), unmeasured)
}

// bar holds positions on a horizontal bar, in percent; -1 for none.
type bar struct{ Present, Warning, Critical float64 }

func newThresholdRow(t status.Threshold) thresholdRow {
	r := thresholdRow{Threshold: t, Title: cmp.Or(alerts.GaugeOf(t.Alert).Title, t.Alert), Now: "not measured"}
	r.WarningText, r.CriticalText = limit(t.Warning, t), limit(t.Critical, t)
	if t.Present == nil {
		return r
	}
	r.Now = present(t)
	r.Distance = distance(t)
	r.Bar = newBar(t)
	return r
}

// present is the present value in words; of time left, it says so.
func present(t status.Threshold) string {
	switch {
	case t.Below && t.Unit == "seconds" && *t.Present < 0:
		return "expired " + wording.Glance(-*t.Present, t.Unit) + " ago"
	case t.Below:
		return wording.Glance(*t.Present, t.Unit) + " left"
	}
	return wording.Glance(*t.Present, t.Unit)
}

// exceeds reports whether the present value is beyond a threshold, which may be nil.
func exceeds(t status.Threshold, limit *float64) bool {
	if t.Present == nil || limit == nil {
		return false
	}
	if t.Below {
		return *t.Present < *limit
	}
	return *t.Present > *limit
}

func (r thresholdRow) sentence() string {
	if r.Text != "" {
		return r.Text
	}
	return r.Now + ", " + r.Distance
}

func limit(v *float64, t status.Threshold) string {
	switch {
	case v == nil:
		return "none"
	case *v == 0 && !t.Below:
		return "any"
	case t.Below:
		return "under " + wording.Glance(*v, t.Unit)
	default:
		return "over " + wording.Glance(*v, t.Unit)
	}
}

// distance says how far the present value is from the next threshold, or beyond the last one.
func distance(t status.Threshold) string {
	between := func(v *float64) string { return wording.Glance(math.Abs(*t.Present-*v), t.Unit) }
	until := between
	if t.Unit == "" { // a count: over 3 means at least 4
		until = func(v *float64) string { return wording.Glance(*v+1-*t.Present, "") }
	}
	switch {
	case exceeds(t, t.Critical):
		return between(t.Critical) + " beyond critical"
	case exceeds(t, t.Warning) && t.Critical != nil:
		return until(t.Critical) + " to critical"
	case exceeds(t, t.Warning):
		return between(t.Warning) + " beyond warning"
	case t.Warning != nil && *t.Warning == 0 && *t.Present == 0:
		return "none"
	case t.Warning != nil:
		return until(t.Warning) + " to warning"
	case t.Critical != nil:
		return until(t.Critical) + " to critical"
	}
	return ""
}

// newBar returns the bar of a threshold. Every bar is fuller the worse the value is, so that of time left is full at 0.
func newBar(t status.Threshold) *bar {
	high := 0.0
	for _, v := range []*float64{t.Warning, t.Critical} {
		if v != nil {
			high = max(high, *v)
		}
	}
	if t.Below {
		high *= 3 // an empty bar is three times the first threshold
	} else {
		high *= 1.25
	}
	if high <= 0 {
		return nil
	}
	at := func(v *float64) float64 {
		if v == nil {
			return -1
		}
		part := min(max(*v/high, 0), 1)
		if t.Below {
			part = 1 - part
		}
		return math.Round(1000*part) / 10
	}
	return &bar{at(t.Present), at(t.Warning), at(t.Critical)}
}
