package status

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// clock formats a time with its date.
func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04 MST") }

// clockUntil formats a future time, rounded up to minutes; without the date if it is within 12 hours.
func clockUntil(now, t time.Time) string {
	t = t.UTC().Add(time.Minute - 1).Truncate(time.Minute)
	if t.Sub(now) > 12*time.Hour {
		return clock(t)
	}
	return t.Format("15:04 MST")
}

// newValue returns a number with its text.
func newValue(name string, v float64, unit string) Value {
	return Value{
		Name:  name,
		Value: v,
		Unit:  unit,
		Text:  wording.Amount(v, unit),
	}
}
