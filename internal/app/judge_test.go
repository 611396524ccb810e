package app

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// TestProblemIsSavedBeforeItIsShown has a judgement wait for the disk, but not for one that hangs, and try again after one that
// fails.
func TestProblemIsSavedBeforeItIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory, _, err := state.Open("")
		must(t, err)
		log := slog.New(slog.DiscardHandler)
		register, err := maintenance.New(memory.Value("maintenance"), log)
		must(t, err)
		settings := alerts.Defaults()
		var written bytes.Buffer
		j := newJudge(alerts.Rules(&settings), register, memory.Value("problems"), slog.New(slog.NewTextHandler(&written, nil)))
		// The disk takes so long, is full, was written so often, and has a problem.
		var (
			takes atomic.Int64
			full  atomic.Bool
			saves atomic.Int64
			saved atomic.Bool
		)
		j.save = func(m any) error {
			saves.Add(1)
			time.Sleep(time.Duration(takes.Load()))
			if full.Load() {
				return errors.New("full")
			}
			saved.Store(len(m.(health.Memory).Problems) > 0)
			return nil
		}
		judge := func(down bool) (took time.Duration) {
			t.Helper()
			begun := time.Now()
			web := health.Target{
				Name:   "web",
				Read:   true,
				Up:     !down,
				ReadAt: begun,
			}
			result := j.Judge(&health.Facts{Now: begun, Targets: []health.Target{web}})
			if got := len(result.Problems) > 0; got != down {
				t.Errorf("there is a problem: %t, want %t", got, down)
			}
			return time.Since(begun)
		}
		is := func(what string, down bool) {
			t.Helper()
			synctest.Wait()
			if got := saved.Load(); got != down {
				t.Errorf("%s: a problem is saved: %t, want %t", what, got, down)
			}
		}
		judge(false)
		takes.Store(int64(time.Second))
		if took := judge(true); took != time.Second {
			t.Errorf("it took %s, want as long as the disk", took)
		}
		is("opened", true)
		judge(false)
		is("closed", false)
		if before := saves.Load(); judge(false) != 0 || saves.Load() != before {
			t.Errorf("saved %d times although nothing has changed", saves.Load()-before)
		}

		takes.Store(int64(time.Hour))
		if took := judge(true); took != saveWithin {
			t.Errorf("it took %s, want %s", took, saveWithin)
		}
		if took := judge(false); took != 0 {
			t.Errorf("the next one took %s although the disk hangs", took)
		}
		is("the disk hangs", false)
		takes.Store(0)
		time.Sleep(2 * time.Hour)
		is("the disk has written", true)
		judge(false)
		is("what has happened meanwhile is saved", false)

		full.Store(true)
		judge(true)
		judge(true)
		is("the disk is full", false)
		full.Store(false)
		judge(true)
		is("it is no longer full", true)
		for text, want := range map[string]int{"cannot save problems": 2, "problems are saved again": 2} {
			if got := strings.Count(written.String(), text); got != want {
				t.Errorf("the log says %q %d times, want %d:\n%s", text, got, want, &written)
			}
		}
	})
}
