package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// keptAt opens a copy of a state file until the end of the test, as a new process would after SIGKILL.
func keptAt(t *testing.T, path string) (*state.File, *past) {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	copied := filepath.Join(t.TempDir(), "state.json")
	must(t, os.WriteFile(copied, raw, 0o600))
	return openPast(t, copied)
}

// openPast opens a state file until the end of the test.
func openPast(t *testing.T, path string) (*state.File, *past) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	p := newPast(log)
	f, notice, err := state.Open(path, log, p)
	must(t, err)
	if notice != "" {
		t.Error(notice)
	}
	t.Cleanup(func() { f.Close() }) //nolint:errcheck // a test that minds closes it itself
	p.begin(f)
	return f, p
}

// TestJudgementIsSavedBeforeItIsShown holds that what a judgement says is in the file when it is returned: problems, incidents and hours.
func TestJudgementIsSavedBeforeItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		f, p := openPast(t, path)
		log := slog.New(slog.DiscardHandler)
		register, err := maintenance.New(f.Value("maintenance"), log)
		must(t, err)
		settings := alerts.Defaults()
		j := newJudge(alerts.Rules(&settings), register, f, p, log)
		judge := func(up bool) {
			t.Helper()
			now := time.Now()
			target := health.Target{
				Name:   "web",
				Read:   true,
				ReadAt: now,
				Up:     up,
				Every:  time.Second,
			}
			result := j.Judge(&health.Facts{Now: now, Targets: []health.Target{target}})
			after, incidents := keptAt(t, path)
			memory, err := memoriesIn(after).Load()
			must(t, err)
			if len(memory.Problems) != len(result.Problems) || (len(result.Problems) > 0) == up {
				t.Errorf("up: %t: %d problems are shown, %d are kept", up, len(result.Problems), len(memory.Problems))
			}
			shown, kept := p.log.All(), incidents.log.All()
			if len(shown) != len(kept) || len(kept) > 0 && !sameIncident(t, kept[0], shown[0]) {
				t.Errorf("the incidents %+v are shown, %+v are kept", shown, kept)
			}
			want, got := p.history.Report(now).Subjects[0].Windows[0].Spent, incidents.history.Report(now).Subjects[0].Windows[0].Spent
			if got != want {
				t.Errorf("the times %v are shown, %v are kept", want, got)
			}
		}
		for _, up := range []bool{true, false, false, true, false, true, true} {
			judge(up)
			time.Sleep(time.Minute)
		}
		for range 10 {
			judge(false)
			time.Sleep(time.Minute)
		}
		if len(p.log.All()) == 0 {
			t.Error("no incident was opened: the test shows less than it could")
		}
		synctest.Wait() // the file writes by itself at this moment, too
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
		result := j.Judge(&health.Facts{Now: time.Now(), Targets: []health.Target{{Name: "web", Read: true, Up: true}}})
		if _, err := f.Status(); len(result.Problems) > 0 || err == nil {
			t.Errorf("the file is a directory: %d problems, %v", len(result.Problems), err)
		}
	})
}
