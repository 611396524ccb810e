package app

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/history"
	"github.com/chatstack-exporter/chatstack_exporter/internal/incident"
)

// TestKilledAtAnyMomentItLosesNothingThatWasShown has targets that flap at random, and looks at what the file has at 200 moments: after a
// judgement, all that it shows; in the middle of writing, each incident as before or as after it.
func TestKilledAtAnyMomentItLosesNothingThatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(5, 6)) //nolint:gosec // it is to be repeated
		w := watch(t, 6, 3)
		quiet := false
		steps := func(n int) {
			w.goOn(time.Duration(n)*time.Minute, time.Minute, 2*time.Minute, func(_ int, target *health.Target) {
				target.Up = quiet || random.IntN(8) == 0
			})
		}
		known := func() map[string]*incident.Incident {
			all := map[string]*incident.Incident{}
			for _, i := range w.past.log.All() {
				all[i.ID] = i
			}
			return all
		}
		midway, closed := 0, 0
		for range 200 {
			quiet = !quiet
			steps(random.IntN(30))
			before, file := known(), w.file
			steps(1)
			after := known()
			raw, err := os.ReadFile(w.path)
			must(t, err)
			cut := len(raw)
			if file != nil && os.SameFile(file, w.file) && random.IntN(2) == 0 {
				cut = int(file.Size()) + random.IntN(len(raw)-int(file.Size())+1)
				midway++
			}
			path := filepath.Join(t.TempDir(), "state.json")
			must(t, os.WriteFile(path, raw[:cut], 0o600))
			f, p := openPast(t, path)
			must(t, f.Close())
			restored := map[string]*incident.Incident{}
			for _, i := range p.log.All() {
				restored[i.ID] = i
			}
			for id, i := range after {
				got, was := restored[id], before[id]
				if got == nil && was == nil && cut < len(raw) {
					continue // it was opened by the judgement that was cut off
				}
				if got == nil || !sameIncident(t, got, i) && (cut == len(raw) || was == nil || !sameIncident(t, got, was)) {
					t.Fatalf("cut at %d of %d: incident %s is kept as %+v, shown as %+v, before as %+v", cut, len(raw), id, got, i, was)
				}
				if i.State == incident.Closed {
					closed++
				}
			}
		}
		if midway < 50 || closed == 0 {
			t.Errorf("%d times in the middle, %d closed incidents: the test shows too little", midway, closed)
		}
		t.Logf("%d times in the middle of writing, %d incidents", midway, len(known()))
	})
}

// kill goes on with a new process, which has what the file has.
func (w *watching) kill() {
	w.t.Helper()
	raw, err := os.ReadFile(w.path)
	must(w.t, err)
	w.path = filepath.Join(w.t.TempDir(), "state.json")
	must(w.t, os.WriteFile(w.path, raw, 0o600))
	must(w.t, w.past.file.Close())
	w.file = nil
	w.begin()
}

// TestKilledProcessGoesOnAsIfItHadNotBeen judges the same random facts by a process that is never killed and by one that is, at random
// moments, and people write about the incidents. What follows is the same but for the times in between, which nobody watched: their hours
// are not counted, and what ended then ended at the latest when somebody looked again.
func TestKilledProcessGoesOnAsIfItHadNotBeen(t *testing.T) {
	const step = 20 * time.Second
	for seed := range uint64(4) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 7)) //nolint:gosec // it is to be repeated
			one, other := watch(t, 5, 5), watch(t, 5, 5)
			kills, ended, written := 0, 0, 0
			for n := range 3000 {
				if random.IntN(20) == 0 {
					one.change(random)
				}
				for _, w := range []*watching{one, other} {
					facts := one.facts
					facts.Now = time.Now()
					facts.Targets = slices.Clone(facts.Targets)
					for i := range facts.Targets {
						facts.Targets[i].ReadAt = facts.Now
					}
					facts.Engines = slices.Clone(facts.Engines)
					facts.Engines[0].Containers = slices.Clone(facts.Engines[0].Containers)
					w.judge.Judge(&facts)
				}
				if all := one.past.log.All(); len(all) > 0 && random.IntN(40) == 0 {
					id, text, what := all[random.IntN(len(all))].ID, strconv.Itoa(n), random.IntN(3)
					for _, w := range []*watching{one, other} {
						w.write(id, text, what)
					}
					written++
				}
				watched := slices.ContainsFunc(one.past.log.All(), func(i *incident.Incident) bool { return i.State == incident.Watching })
				if random.IntN(30) == 0 && !watched && n < 2999 { // else it would get the whole quiet period again
					other.kill()
					kills++
				}
				time.Sleep(step)
			}
			want, got := lasting(t, one), lasting(t, other)
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, %d kills (-never killed +killed):\n%s", seed, kills, diff)
			}
			for _, i := range one.past.log.All() {
				if i.State == incident.Closed {
					ended++
				}
			}
			all, some := one.past.history.Report(time.Now()), other.past.history.Report(time.Now())
			for k := range all.Subjects {
				unwatched := all.Subjects[k].Windows[0].Spent
				for state, spent := range some.Subjects[k].Windows[0].Spent {
					unwatched[state] -= spent
				}
				if more := -unwatched[history.NotWatched]; more != time.Duration(kills)*step {
					t.Errorf("seed %d, %s: not watched for %s more, killed %d times", seed, all.Subjects[k].Key, more, kills)
				}
			}
			if kills < 20 || ended < 5 || written < 20 {
				t.Errorf("%d kills, %d incidents that ended, %d texts: the test shows too little", kills, ended, written)
			}
		})
	}
}

// write does what people do with an incident. One that is closed cannot be acknowledged.
func (w *watching) write(id, text string, what int) {
	w.t.Helper()
	a := appOf(w.past)
	change := []func(id, by, text string) (*incident.Incident, []string, error){a.AddNote, a.AddUpdate, a.Acknowledge}[what]
	if _, warnings, err := change(id, text, text); err != nil && !errors.Is(err, incident.ErrClosed) || len(warnings) > 0 {
		w.t.Errorf("%q, %v", warnings, err)
	}
}

// change has something happen at random.
func (w *watching) change(random *rand.Rand) {
	c := &w.facts.Engines[0].Containers[random.IntN(len(w.facts.Engines[0].Containers))]
	switch random.IntN(8) {
	case 0, 1:
		t := &w.facts.Targets[random.IntN(len(w.facts.Targets))]
		t.Up, t.RefusesUs = !t.Up, t.Up && random.IntN(2) == 0
	case 2:
		c.State = map[string]string{"exited": health.Running, health.Running: "exited"}[c.State]
	case 3:
		c.Restarts++
	case 4: // another instance takes over
		if !c.Shared {
			c.Workload, c.Shared, c.Was, c.Instances, c.Wanted = "chat/"+c.Name, true, []string{c.Name}, 2, 2
		}
		c.Name += "2"
		c.Members = []string{c.Name}
	case 5:
		if c.Shared && c.State == health.Running {
			c.Instances = 3 - c.Instances
		}
	default: // all is well for a while
		for i := range w.facts.Targets {
			w.facts.Targets[i].Up = true
		}
		for i := range w.facts.Engines[0].Containers {
			w.facts.Engines[0].Containers[i].State = health.Running
		}
	}
}

// lasting is what is known of incidents, without what depends on when somebody has looked: when they were closed, and whether an end was at
// the latest.
func lasting(t *testing.T, w *watching) (list []string) {
	t.Helper()
	for _, i := range w.past.log.All() {
		shown := *i
		shown.Closed, shown.Updated, shown.EndedAtLatest = time.Time{}, time.Time{}, false
		shown.Problems, shown.Outages, shown.Timeline = slices.Clone(i.Problems), slices.Clone(i.Outages), nil
		for k := range shown.Problems {
			shown.Problems[k].AtLatest = false
		}
		for k := range shown.Outages {
			shown.Outages[k].AtMost = false
		}
		for _, e := range i.Timeline {
			if e.Kind == incident.EventBegan || e.Kind == incident.EventAlert || e.Kind == incident.EventExcused ||
				e.Kind == incident.EventAcknowledged {
				shown.Timeline = append(shown.Timeline, e)
			}
		}
		raw, err := json.MarshalIndent(&shown, "", " ")
		must(t, err)
		list = append(list, string(raw))
	}
	return list
}
