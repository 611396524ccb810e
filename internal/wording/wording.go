// Package wording writes durations, sizes, counts and shares for people, the same wherever they stand.
package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// units are those of durations, the largest first.
var units = []struct {
	short, long string
	length      time.Duration
}{{"d", "day", day}, {"h", "hour", time.Hour}, {"min", "minute", time.Minute}, {"s", "second", time.Second}}

// Exact formats a duration for a sentence, with at most two units: 3 d 4 h, 5 min 12 s.
func Exact(d time.Duration) string {
	d = max(d, 0)
	for i, u := range units {
		if d < u.length && u.length > time.Second {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.length, u.short)
		if i+1 < len(units) {
			if second := d % u.length / units[i+1].length; second > 0 {
				text += fmt.Sprintf(" %d %s", second, units[i+1].short)
			}
		}
		return text
	}
	return ""
}

// Duration formats a duration for a glance: it leaves out seconds beside minutes, and hours beside more than two weeks.
func Duration(d time.Duration) string {
	switch {
	case d >= 14*day:
		return fmt.Sprintf("%d days", d/day)
	case d >= time.Minute:
		return Exact(d.Truncate(time.Minute))
	default:
		return Exact(d)
	}
}

// Took formats how many seconds a probe took: 12 ms, 1.5 s.
func Took(seconds float64) string {
	switch {
	case seconds < 0.001:
		return "under 1 ms"
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	default:
		return fmt.Sprintf("%.1f s", seconds)
	}
}

// Limit formats a duration that somebody has set: 14 days, 5 minutes.
func Limit(d time.Duration) string {
	for _, u := range units {
		if n := d / u.length; n > 0 && d%u.length == 0 {
			return Count(int(n), u.long)
		}
	}
	return d.String()
}

// AsPrometheus formats a duration as Prometheus does: 1m30s, 500ms.
func AsPrometheus(d time.Duration) string {
	if d >= time.Second {
		d = d.Round(time.Second)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

const minute = "2 Jan 2006 15:04"

// Minute formats a time, in UTC, to the minute.
func Minute(t time.Time) string { return t.UTC().Format(minute + " UTC") }

// Span formats from when to when, in UTC, to the minute.
func Span(from, to time.Time) string {
	from, to = from.UTC(), to.UTC()
	end := minute
	if from.Truncate(day).Equal(to.Truncate(day)) {
		end = "15:04"
	}
	return from.Format(minute) + " to " + to.Format(end+" UTC")
}

// Count formats a number and a noun: 1 byte, 2 bytes.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Times says how often something happened: once, 3 times.
func Times(n float64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%.0f times", n)
}

// Percent formats a percentage with at most two digits. It rounds down, so that 100 % means no downtime at all.
func Percent(p float64) string {
	// 64.1*100 is a little less than 6410. A millisecond of 90 days is more than the tolerance.
	const tolerance = 1e-6
	return strconv.FormatFloat(math.Floor(p*100+tolerance)/100, 'f', -1, 64) + " %"
}
