//go:build realservers

package app

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// agesAtScrapes tells for each scrape, the oldest first, how old the data of each target were, as the server has stored them.
func (s *server) agesAtScrapes(t *testing.T) [][]time.Duration {
	t.Helper()
	var data struct {
		Result []struct{ Values [][2]any }
	}
	s.api(t, "/api/v1/query", url.Values{"query": {"chatstack_probe_last_success_timestamp_seconds[5m]"}}, &data)
	ages := map[float64][]time.Duration{}
	for _, r := range data.Result {
		for _, v := range r.Values {
			at, ok := v[0].(float64)
			success, err := strconv.ParseFloat(fmt.Sprint(v[1]), 64)
			if !ok || err != nil {
				t.Fatalf("sample %v: %v", v, err)
			}
			ages[at] = append(ages[at], time.Duration((at-success)*float64(time.Second)))
		}
	}
	var ordered [][]time.Duration
	for _, at := range slices.Sorted(maps.Keys(ages)) {
		ordered = append(ordered, slices.Sorted(slices.Values(ages[at])))
	}
	return ordered
}

// TestRealPrometheusFindsDataThatWereReadForIt takes half a minute: that long it takes to learn when the server comes, and to
// move readings there, a little each time.
func TestRealPrometheusFindsDataThatWereReadForIt(t *testing.T) {
	if testing.Short() {
		t.Skip("takes many scrapes, until the rhythm is known")
	}
	const interval = 3 * time.Second
	// old is an age that some of many targets have if they are read without regard to scrapes, and none if they are read
	// for them.
	const old = interval / 2
	stack := startStack(t, simstack.Options{})
	log := &logBuffer{}
	o := options(stack.Environ(), log)
	o.pace = func(string) (every, timeout time.Duration) { return interval, 2 * time.Second }
	e := startApp(t, o, log)
	e.wait(t, "every target up", allUp)
	s := startPrometheus(t, e, "3s", "2s")

	const inARow = 3
	var ages [][]time.Duration
	fresh := func() bool {
		ages = s.agesAtScrapes(t)
		if len(ages) <= 2*inARow {
			return false
		}
		return !slices.ContainsFunc(ages[len(ages)-inARow:], func(a []time.Duration) bool { return slices.Max(a) > old })
	}
	// Many times what it takes, for a machine that is busy.
	if !exportertest.Eventually(2*time.Minute, interval/3, fresh) {
		t.Fatalf("some data are still older than %s at a scrape: %v", old, ages)
	}
	median := func(a [][]time.Duration) time.Duration {
		all := slices.Sorted(slices.Values(slices.Concat(a...)))
		return all[len(all)/2]
	}
	before, after := median(ages[:inARow]), median(ages[len(ages)-inARow:])
	t.Logf("median age of the first %d scrapes %s, of the last %d of %d %s", inARow, before, inARow, len(ages), after)
	if !slices.ContainsFunc(ages[:inARow], func(a []time.Duration) bool { return slices.Max(a) > old }) {
		t.Errorf("nothing was old before the rhythm was known: %v", ages[:inARow])
	}
}
