package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// levelWords are the levels' names on the page.
var levelWords = map[status.Level]string{
	status.OK: "OK", status.Maintenance: "Maintenance", status.Unknown: "Unknown", status.Pending: "Pending", status.Warning: "Warning",
	status.Critical: "Critical",
}

// took formats the duration of a probe.
func took(seconds float64) string {
	switch {
	case seconds < 0.001:
		return "under 1 ms"
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	default:
		return fmt.Sprintf("%.1f s", seconds)
	}
}

// amount formats a number with its unit, rounded for people.
func amount(v float64, unit string) string {
	switch unit {
	case "seconds":
		if v < 0 {
			return "minus " + wording.Duration(time.Duration(-v*float64(time.Second)))
		}
		if v < 10 && v != math.Trunc(v) {
			return took(v)
		}
		return wording.Duration(time.Duration(v * float64(time.Second)))
	case "bytes":
		size, prefix := v, ""
		for _, next := range []string{"k", "M", "G", "T"} {
			if math.Abs(size) < 999.5 {
				break
			}
			size, prefix = size/1000, next
		}
		return number(size) + " " + prefix + "B"
	case "ratio":
		return number(100*v) + " %"
	case "per_minute":
		return number(v) + " /min"
	default:
		return number(v)
	}
}

// number formats a number with about three significant digits.
func number(v float64) string {
	if math.Abs(v) >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	}
	digits := 1
	if math.Abs(v) < 1 {
		digits = 2
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(v, 'f', digits, 64), "0"), ".")
}
