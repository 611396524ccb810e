// Package wording writes durations and shares for people, the same on every page.
package wording

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Duration formats a duration with at most two units: 3 d 4 h, 5 min, 12 s.
func Duration(d time.Duration) string {
	seconds := int(max(d, 0).Seconds())
	minutes, hours := seconds/60, seconds/3600
	switch {
	case minutes == 0:
		return fmt.Sprintf("%d s", seconds)
	case hours == 0:
		return fmt.Sprintf("%d min", minutes)
	case hours < 24:
		return twoUnits(hours, "h", minutes%60, "min")
	case hours < 24*14:
		return twoUnits(hours/24, "d", hours%24, "h")
	default:
		return fmt.Sprintf("%d days", hours/24)
	}
}

func twoUnits(large int, largeUnit string, small int, smallUnit string) string {
	if small == 0 {
		return fmt.Sprintf("%d %s", large, largeUnit)
	}
	return fmt.Sprintf("%d %s %d %s", large, largeUnit, small, smallUnit)
}

// Percent formats a percentage with at most two digits. It rounds down, so that 100 % means no downtime at all.
func Percent(p float64) string {
	// 64.1*100 is a little less than 6410. A millisecond of 90 days is more than the tolerance.
	const tolerance = 1e-6
	return strconv.FormatFloat(math.Floor(p*100+tolerance)/100, 'f', -1, 64) + " %"
}
