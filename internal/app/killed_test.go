package app

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
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
