package bench

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// quantile returns the value of the nearest rank below which the share q of the values lies: the lower of two, zero of none.
func quantile[T cmp.Ordered](values []T, q float64) (value T) {
	if len(values) == 0 {
		return value
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(math.Ceil(q*float64(len(sorted)-1)-0.5))]
}

func median[T cmp.Ordered](values []T) T { return quantile(values, 0.5) }

// ratio returns the median of the turns' ratios.
func ratio(values, ours []float64) float64 {
	all := make([]float64, len(values))
	for i := range values {
		all[i] = values[i] / ours[i]
	}
	return median(all)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// short writes about three digits.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 100:
		return thousands(int(math.Round(v)))
	case a >= 10:
		return fmt.Sprintf("%.1f", v)
	case a >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return thousands(n) + " " + noun + "s"
}

func whole(v float64) string   { return fmt.Sprintf("%.0f", v) }
func ms(v float64) string      { return short(v) + " ms" }
func mb(v float64) string      { return fmt.Sprintf("%.1f MB", v) }
func percent(v float64) string { return short(v) + " %" }

// microseconds writes a time in microseconds, or milliseconds from one on.
func microseconds(us float64) string {
	if us >= 1000 {
		return ms(us / 1000)
	}
	return fmt.Sprintf("%.0f µs", us)
}
