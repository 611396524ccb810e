package status

import "github.com/chatstack-exporter/chatstack_exporter/internal/config"

// sum adds up a figure's series of a target.
func sum(f *config.Figure, t *observed) (sum float64, ok bool) {
	for _, s := range t.families.of(f.Family) {
		if f.Label == "" || s.Label(f.Label) == f.Value {
			sum += s.Value
			ok = true
		}
	}
	return sum, ok && finite(sum)
}
