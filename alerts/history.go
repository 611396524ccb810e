package alerts

import (
	"math"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// leastHistory is the minimum of the history that defines what is usual.
const leastHistory = 3 * hour

// rounds returns the number of evaluations in a window, and a range with exactly as many. The range begins between two evaluations,
// since Prometheus 2 and 3 differ about a sample at its very beginning.
func rounds(a *config.Alerts, window config.Duration) (n int, within config.Duration) {
	n = max(int(math.Round(float64(window)/float64(a.Interval))), 1)
	return n, config.Duration(n)*a.Interval - a.Interval/2
}
