package status

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// newValue is a number with its text.
func newValue(name string, v float64, unit string) Value {
	return Value{Name: name, Value: v, Unit: unit, Text: valueText(v, unit)}
}

// valueText is a number with its unit, rounded for people.
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
		return number(v) + " a minute"
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

// bytesText is a number of bytes in decimal units, as the thresholds are.
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
