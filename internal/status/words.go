package status

import (
	"fmt"
	"math"
	"strconv"
	"time"
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

// ago formats a duration with at most two units: 3 d 4 h, 5 min, 12 s.
func ago(d time.Duration) string {
	d = max(d, 0).Truncate(time.Second)
	units := []struct {
		name   string
		length time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}, {"s", time.Second}}
	for i, u := range units {
		if d < u.length && u.length > time.Second {
			continue
		}
		text := fmt.Sprintf("%d %s", d/u.length, u.name)
		if i+1 < len(units) {
			if second := d % u.length / units[i+1].length; second > 0 {
				text += fmt.Sprintf(" %d %s", second, units[i+1].name)
			}
		}
		return text
	}
	return ""
}

// count formats a number and a noun: 1 target, 2 targets.
func count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

func times(n float64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%.0f times", n)
}

// newValue returns a number with its text.
func newValue(name string, v float64, unit string) Value {
	return Value{
		Name:  name,
		Value: v,
		Unit:  unit,
		Text:  valueText(v, unit),
	}
}

// valueText formats a number with its unit, rounded for people.
func valueText(v float64, unit string) string {
	switch unit {
	case "seconds":
		d := time.Duration(v * float64(time.Second))
		switch {
		case d < 0:
			return "-" + ago(-d)
		case d < 10*time.Millisecond && d > 0:
			return fmt.Sprintf("%.1f ms", v*1000)
		case d < time.Second && d > 0:
			return fmt.Sprintf("%.0f ms", v*1000)
		default:
			return ago(d)
		}
	case "bytes":
		return bytesText(v)
	case "ratio":
		return fmt.Sprintf("%.0f %%", v*100)
	case "per_minute":
		return number(v) + " per minute"
	default:
		return number(v)
	}
}

func number(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// bytesText formats a number of bytes in decimal units, as thresholds are.
func bytesText(v float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if math.Abs(v) >= u.size {
			if math.Abs(v) < 10*u.size {
				return fmt.Sprintf("%.1f %s", v/u.size, u.name)
			}
			return fmt.Sprintf("%.0f %s", v/u.size, u.name)
		}
	}
	return number(v) + " B"
}
