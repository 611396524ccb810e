package status

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

// Troubled returns the names of those containers of an engine's metrics that should run and do not, or are unhealthy, and
// of those that are named in expected and are not there. The names are sorted.
func Troubled(metrics []prometheus.Metric, expected []string) ([]string, error) {
	given, err := new(exposition.Encoder).Encode(metrics)
	if err != nil {
		return nil, err
	}
	var read families
	read.renew(given)
	found := map[string]*facts{}
	for name, take := range containerFamilies {
		samples := read.of(name)
		for i := range samples {
			container := samples[i].Label("container")
			if found[container] == nil {
				found[container] = &facts{}
			}
			take(found[container], &samples[i])
		}
	}
	var names []string
	for name, f := range found {
		if f.down() || f.health == unhealthy {
			names = append(names, name)
		}
	}
	for _, name := range expected {
		if f := found[name]; f == nil || f.state == "" { // what has been gone for a moment only has no state
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
