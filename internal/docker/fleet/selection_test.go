package fleet

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// TestConditionsAreBounded has containers that say of themselves, hundreds of times, that they wait for all of the others.
func TestConditionsAreBounded(t *testing.T) {
	label := strings.TrimSuffix(strings.Repeat("s:service_healthy,", MaxDependsOn/18), ",")
	f := play(t, "")
	services := map[composeUnit][]string{}
	for i := range 200 {
		f.do("make", []string{fmt.Sprint(i), fmt.Sprintf("c%d", i), "service=s", "needs=" + label})
		services[composeUnit{"chat", "s"}] = append(services[composeUnit{"chat", "s"}], fmt.Sprintf("c%d", i))
	}
	f.do("make", []string{"app", "app", "needs=" + label})
	c := f.fleet.members["app"]
	conditions, needed := f.fleet.startConditions(c, services), f.fleet.dependencies("app", c, services)
	if len(conditions) != maxDependencies || len(needed) != maxDependencies {
		t.Errorf("%d conditions and %d dependencies, want %d", len(conditions), len(needed), maxDependencies)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.fleet.Report(f.now)
	runtime.ReadMemStats(&after)
	if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > 16 {
		t.Errorf("a report of %d containers takes %d MiB", len(f.fleet.members), took)
	}
}
