package wording

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// prefixes are those of decimal units of bytes, as thresholds are, the largest first.
var prefixes = []struct {
	name string
	size float64
}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}}

// Amount formats a number with its unit for a sentence. The unit is seconds, bytes, ratio, per_minute, or "" for a plain number.
func Amount(v float64, unit string) string {
	switch unit {
	case "seconds":
		return precise(v)
	case "bytes":
		return Bytes(v)
	case "ratio":
		return fmt.Sprintf("%.0f %%", v*100)
	case "per_minute":
		return Number(v) + " per minute"
	default:
		return Number(v)
	}
}

// precise formats seconds, or milliseconds below one second.
func precise(seconds float64) string {
	switch d := time.Duration(seconds * float64(time.Second)); {
	case d < 0:
		return "-" + Exact(-d)
	case d < 10*time.Millisecond && d > 0:
		return fmt.Sprintf("%.1f ms", seconds*1000)
	case d < time.Second && d > 0:
		return fmt.Sprintf("%.0f ms", seconds*1000)
	default:
		return Exact(d)
	}
}

// Number formats a number with at most one decimal.
func Number(v float64) string {
	if v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

// Bytes formats a size: 1.2 GB, 12 GB.
func Bytes(v float64) string {
	for _, u := range prefixes {
		if math.Abs(v) >= 10*u.size {
			return fmt.Sprintf("%.0f %s", v/u.size, u.name)
		}
		if math.Abs(v) >= u.size {
			return fmt.Sprintf("%.1f %s", v/u.size, u.name)
		}
	}
	return Number(v) + " B"
}

// SizeLimit formats a size that somebody has set: 500 MB, 1 GB.
func SizeLimit(n int64) string {
	for _, u := range prefixes[1:] {
		if n > 0 && n%int64(u.size) == 0 {
			return fmt.Sprintf("%d %s", n/int64(u.size), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Glance formats a number with its unit for a table or a chart, with about three significant digits. The units are those of Amount.
func Glance(v float64, unit string) string {
	switch unit {
	case "seconds":
		switch d := time.Duration(v * float64(time.Second)); {
		case v < 0:
			return "minus " + Duration(-d)
		case v < 10 && v != math.Trunc(v):
			return Took(v)
		default:
			return Duration(d)
		}
	case "bytes":
		size, prefix := v, ""
		for _, next := range []string{"k", "M", "G", "T"} {
			if math.Abs(size) < 999.5 {
				break
			}
			size, prefix = size/1000, next
		}
		return digits(size) + " " + prefix + "B"
	case "ratio":
		return digits(100*v) + " %"
	case "per_minute":
		return digits(v) + " /min"
	default:
		return digits(v)
	}
}

// digits formats a number with about three significant digits.
func digits(v float64) string {
	if math.Abs(v) >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	places := 1
	if math.Abs(v) < 1 {
		places = 2
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', places, 64), "0"), ".")
}
