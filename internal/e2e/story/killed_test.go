package story

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
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
				w.spared = watchesItsEnd
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

// wrongFor are the lines of a page that say how long something has been wrong.
var wrongFor = regexp.MustCompile(`(?m)^chatstack_(?:target_down|container_down|container_unhealthy|problem)_seconds\{.*\} [1-9]`)

// TestFirstPageRemembers holds that the first page after a restart with a state file has all that is wrong, before any reading: the
// exporter does not count as starting then.
func TestFirstPageRemembers(t *testing.T) {
	play(t, keeping, nil, func(w *world) {
		for _, what := range []string{"other fails", "web turns unhealthy", "api is slow", "db stops"} {
			w.happen(what)
		}
		w.pass(20 * time.Minute)
		names := func() (list []string) {
			for _, line := range wrongFor.FindAllString(string(w.page(w.exporters[0])), -1) {
				list = append(list, line[:strings.Index(line, "}")])
			}
			return list
		}
		want := names()
		w.happen("engine hangs")
		w.happen("a is killed")
		if got := names(); len(want) < 4 || !slices.Equal(got, want) {
			t.Errorf("the first page has %q, the last one had %q", got, want)
		}
	})
}

// watchesItsEnd reports whether an incident of an exporter is over and not closed yet. A restart begins those minutes again, so that the
// incident of the one that was killed would record what comes later as well.
func watchesItsEnd(e *exporter) bool {
	return slices.ContainsFunc(e.app.Incidents(), func(i *incident.Incident) bool { return i.State == incident.Watching })
}

// killingScript has one random fault after the other, in which b is killed some times. Whoever reads all 30 s sees each of them, and the
// time between two; none lasts about 2 or 5 minutes, after which only one of the two might warn or page. Restarts are left out: whether
// they are excused depends on when they are read.
func killingScript(seed uint64) (script string, kills int) {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // it is to be repeated
	within := func(least, most time.Duration) time.Duration {
		return (least + time.Duration(random.Int64N(int64(most-least)))).Truncate(time.Second)
	}
	var events []event
	for at := within(0, 10*time.Minute); at < *lasting; {
		c, f := containers[random.IntN(len(containers))], containerFaults[random.IntN(len(containerFaults))]
		if f.ends == "" || f.begins == "is flaky" || c.Name == "db" && strings.Contains(f.begins, "target") {
			continue
		}
		lasts := within(3*time.Minute, 4*time.Minute)
		if random.IntN(2) == 0 {
			lasts = within(7*time.Minute, 15*time.Minute)
		}
		end := min(at+lasts, *lasting)
		events = append(events, event{at, c.Name + " " + f.begins}, event{end, c.Name + " " + f.ends})
		at = end + within(2*time.Minute, 8*time.Minute)
	}
	for at := within(0, 10*time.Minute); at < *lasting; at += within(0, 10*time.Minute) {
		events = append(events, event{at, "b is killed"})
		kills++
	}
	return scriptOf(events), kills
}

// sameIncidents wants both exporters to know of the same incidents.
func (w *world) sameIncidents() {
	w.Helper()
	left := slices.Clone(w.exporters[1].app.Incidents())
	for _, i := range w.exporters[0].app.Incidents() {
		n := slices.IndexFunc(left, func(other *incident.Incident) bool { return sameAfterKills(i, other) })
		if n < 0 {
			w.Errorf("the one that was killed does not know of\n%s", w.line(i))
			continue
		}
		left = slices.Delete(left, n, n+1)
	}
	for _, i := range left {
		w.Errorf("only the one that was killed knows of\n%s", w.line(i))
	}
}

func (w *world) line(i *incident.Incident) string {
	return fmt.Sprintf("%s to %s %s, %s, %s: %s", i.Began.Sub(w.began).Round(time.Second), i.Ended.Sub(w.began).Round(time.Second), i.Title,
		i.State, longestOutage(i), problemsOf(i))
}

// problemsOf are the problems of an incident, without the gaps in which nobody watched.
func problemsOf(i *incident.Incident) string {
	var list []string
	for _, p := range i.Problems {
		if p.Alert != health.AlertMonitoringGap {
			list = append(list, fmt.Sprintf("%s %s %s %s", p.Kind, p.Name, p.Alert, p.Severity))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "; ")
}

// longestOutage is how long the target of an incident was down that was down for longest.
func longestOutage(i *incident.Incident) (d time.Duration) {
	for _, o := range i.Outages {
		d = max(d, time.Duration(o.Seconds*float64(time.Second)))
	}
	return d
}

// sameAfterKills compares what two exporters know of an incident. Its times may differ by a reading and the time of a check. So may the
// length of each outage in it; there is at most one in four minutes. A target that flaps has to be up for longer than it was between two
// outages: both times may differ.
func sameAfterKills(a, b *incident.Incident) bool {
	const late = interval + 10*time.Second
	near := func(a, b time.Time, within time.Duration) bool { return a.Sub(b).Abs() <= within }
	ends := late
	if strings.Contains(a.Title, "has been down ") {
		ends = 2 * late
	}
	outages := 1 + max(a.Ended.Sub(a.Began), 0).Minutes()/4
	return problemsOf(a) == problemsOf(b) && a.State == b.State && near(a.Began, b.Began, late) && near(a.Ended, b.Ended, ends) &&
		(longestOutage(a)-longestOutage(b)).Abs().Seconds() <= late.Seconds()*outages
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
