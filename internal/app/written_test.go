package app

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
)

// watching judges targets and containers in virtual time, and counts the bytes that it writes to its state file.
type watching struct {
	t       *testing.T
	path    string
	judge   *judge
	past    *past
	file    os.FileInfo
	written int64
	steps   int
	facts   health.Facts
}

func watch(t *testing.T, targets, containers int) *watching {
	t.Helper()
	w := &watching{t: t, path: filepath.Join(t.TempDir(), "state.json")}
	w.begin()
	for i := range targets {
		w.facts.Targets = append(w.facts.Targets, health.Target{
			Name: fmt.Sprintf("service-%d", i),
			Kind: "xmpp_c2s",
			Read: true,
			Up:   true,
		})
	}
	w.facts.Engines = []health.Engine{{Host: "local", Read: true}}
	for i := range containers {
		w.facts.Engines[0].Containers = append(w.facts.Engines[0].Containers, health.Container{
			Host:     "local",
			Name:     fmt.Sprintf("container-%d", i),
			State:    health.Running,
			Expected: true,
		})
	}
	return w
}

// begin begins a process with what the file has.
func (w *watching) begin() {
	w.t.Helper()
	f, p := openPast(w.t, w.path)
	log := slog.New(slog.DiscardHandler)
	register, err := maintenance.New(f.Value("maintenance"), log)
	must(w.t, err)
	settings := alerts.Defaults()
	w.past, w.judge = p, newJudge(alerts.Rules(&settings), register, f, p, log)
}

// goOn judges every step for a time. read changes the facts of each step, which are those of a poll of all targets in each interval.
func (w *watching) goOn(lasts, step, interval time.Duration, read func(round int, target *health.Target)) {
	w.t.Helper()
	steps := int(interval / step)
	for range int(lasts / step) {
		k := w.steps
		w.steps++
		now := time.Now()
		w.facts.Now = now
		for i := k % steps; i < len(w.facts.Targets); i += steps {
			target := &w.facts.Targets[i]
			target.ReadAt, target.Every, target.Took = now, interval, time.Duration(10+k%7)*time.Millisecond
			read(k/steps, target)
			if !target.Up {
				target.Failed++
			}
		}
		facts := w.facts
		facts.Targets = append([]health.Target(nil), facts.Targets...)
		w.judge.Judge(&facts)
		w.count()
		time.Sleep(step)
	}
}

// count adds what the file has grown by, or all of a new one.
func (w *watching) count() {
	w.t.Helper()
	info, err := os.Stat(w.path)
	must(w.t, err)
	w.written += info.Size()
	if w.file != nil && os.SameFile(w.file, info) {
		w.written -= w.file.Size()
	}
	w.file = info
}

// rewrittenAt is the size at which the file of these tests is rewritten.
const rewrittenAt = 8 << 20

// aDay is how many bytes a day are written if it goes on like this for a time, with the rewrites.
func (w *watching) aDay(lasts time.Duration, goOn func(time.Duration)) float64 {
	w.t.Helper()
	must(w.t, os.Remove(w.path))
	goOn(10 * time.Second) // until it is written whole
	w.count()
	size, before := float64(w.file.Size()), w.written
	goOn(lasts)
	appended := float64(w.written-before) * float64(24*time.Hour/lasts)
	w.t.Logf("%.1f MB a day, after which the file would have %.1f MB", appended/1e6, size/1e6)
	return appended * (1 + size/(rewrittenAt-size))
}

// TestFlappingTargetsWriteLittle has 50 targets of which each probe has another result than the one before, every 5 seconds.
func TestFlappingTargetsWriteLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 50, 20)
		flap := func(round int, target *health.Target) { target.Up = round%2 == 0 }
		w.goOn(45*time.Minute, 2500*time.Millisecond, 5*time.Second, flap) // until incidents are open
		day := w.aDay(time.Minute, func(lasts time.Duration) { w.goOn(lasts, 250*time.Millisecond, 5*time.Second, flap) })
		if len(w.past.log.All()) == 0 {
			t.Error("there is no incident: the test shows too little")
		}
		if day > 500e6 {
			t.Errorf("%.0f MB a day", day/1e6)
		}
	})
}

func TestQuietStackWritesLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 50, 200)
		day := w.aDay(30*time.Minute, func(lasts time.Duration) {
			w.goOn(lasts, 5*time.Second, 30*time.Second, func(int, *health.Target) {})
		})
		if day > 20e6 {
			t.Errorf("%.1f MB a day", day/1e6)
		}
	})
}
