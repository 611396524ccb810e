package story

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
)

// twice are two exporters that watch the same.
var twice = []exporterSpec{
	{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		saves:      true,
	},
	{
		name:       "b",
		env:        "prod",
		targets:    true,
		containers: true,
		saves:      true,
	},
}

// TestKilledExporterKnowsTheSame has random things happen to what two exporters watch, of which one is killed at random moments. In the end
// both know of the same incidents, whose times differ by a reading at most, and of the same hours, but for what was not watched.
func TestKilledExporterKnowsTheSame(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + uint64(i)
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			script, kills := killingScript(seed)
			play(t, twice, nil, func(w *world) {
				c := &chronicler{world: w}
				w.afterRound = c.compare
				(&scenario{script: script}).perform(w)
				w.until(w.began.Add(*lasting + 45*time.Minute)) // all faults are over, and all incidents closed
				c.settled()
				w.sameIncidents()
				w.sameHours(kills)
				if w.Failed() {
					w.Logf("the script of seed %d:\n%s", seed, script)
				}
			})
		})
	}
}

// killingScript is a random script of targets and containers, in which b is killed some times.
func killingScript(seed uint64) (script string, kills int) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it is to be repeated
	var lines []string
	for line := range strings.Lines(randomScript(seed, *lasting, alone)) {
		if subject := strings.Fields(line)[1]; !slices.Contains([]string{"a", "prometheus", "engine"}, subject) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	for at := time.Duration(0); at < *lasting; at += time.Duration(random.Int64N(int64(10 * time.Minute))).Truncate(time.Second) {
		if at > 0 {
			lines = append(lines, at.String()+" b is killed")
			kills++
		}
	}
	at := func(line string) time.Duration {
		d, _ := time.ParseDuration(strings.Fields(line)[0])
		return d
	}
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(at(a), at(b)) })
	return strings.Join(lines, "\n") + "\n", kills
}

// sameIncidents compares the incidents of both exporters. What ended in between ended at the latest when it was read again.
// Whether restarts are excused depends on when they are read, which differs, so that they are left out.
func (w *world) sameIncidents() {
	w.Helper()
	var lists [2][]string
	for n, e := range w.exporters {
		for _, line := range w.incidents(e) {
			text, problems, _ := strings.Cut(strings.ReplaceAll(line, " at the latest", ""), " s: ")
			list := slices.DeleteFunc(strings.Split(problems, "; "), func(p string) bool { return counted(strings.Fields(p)[2]) })
			if len(list) > 0 {
				lists[n] = append(lists[n], text+" s: "+strings.Join(list, "; "))
			}
		}
	}
	if !slices.EqualFunc(lists[0], lists[1], sameIncident) {
		w.Errorf("incidents (-never killed +killed):\n-%s\n+%s", strings.Join(lists[0], "\n-"), strings.Join(lists[1], "\n+"))
	}
}

// sameHours compares how long each subject was in each state. A kill costs the time until everything is read again.
func (w *world) sameHours(kills int) {
	w.Helper()
	all, some := w.exporters[0].app.Availability(), w.exporters[1].app.Availability()
	unwatched := time.Duration(kills) * (interval + 10*time.Second)
	for k := range all.Subjects {
		one, other := all.Subjects[k].Windows[0].Spent, some.Subjects[k].Windows[0].Spent
		for _, spent := range []*history.Times{&one, &other} { // restarts may degrade
			spent[history.Up], spent[history.Degraded] = spent[history.Up]+spent[history.Degraded], 0
		}
		for state := range one {
			// A change may be read an interval later or sooner.
			if d := one[state] - other[state]; all.Subjects[k].Key != some.Subjects[k].Key || d.Abs() > unwatched+4*interval {
				w.Errorf("%s was %s for %s, says the one that was killed %d times: %s",
					all.Subjects[k].Key, history.State(state), one[state], kills, other[state])
			}
		}
	}
}
