package app

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// jsonOf is a memory as text, without what is kept less exactly.
func jsonOf(t *testing.T, m *health.Memory) string {
	t.Helper()
	m.Saved = m.Saved.Truncate(roughly)
	for target, at := range m.LastUp {
		m.LastUp[target] = at.Truncate(roughly)
	}
	for _, f := range m.Failures {
		for i := range f.Counts {
			f.Counts[i].At = f.Counts[i].At.Truncate(time.Millisecond)
		}
	}
	slices.SortFunc(m.Problems, func(a, b health.SavedProblem) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Alert, b.Alert), cmp.Compare(a.Severity, b.Severity))
	})
	slices.SortFunc(m.Failures, func(a, b health.SavedFailures) int { return cmp.Compare(a.Target, b.Target) })
	slices.SortFunc(m.Restarts, func(a, b health.SavedRestarts) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(m.Unavailable, func(a, b health.SavedSpan) int { return cmp.Compare(a.Name, b.Name) })
	raw, err := json.MarshalIndent(m, "", " ")
	must(t, err)
	return string(raw)
}

// TestMemoryIsKeptInParts holds that the judge's memory is the same after it was taken apart and put together again, in a file of this
// build and of an earlier one.
func TestMemoryIsKeptInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(t, 5, 5)
		engine := &w.facts.Engines[0]
		engine.Host = "unix:///run/docker 1.sock%2F"
		for i := range engine.Containers {
			engine.Containers[i].Host = engine.Host
		}
		w.facts.Targets[1].Container = "container-1"
		w.facts.Engines[0].Containers[2].State = "exited"
		w.facts.Engines[0].Containers[3].Restarts = 7
		w.goOn(20*time.Minute, 10*time.Second, 30*time.Second, func(round int, target *health.Target) {
			target.Up = round%3 == 0 || target.Name != "service-1"
		})
		w.facts.Engines[0].Containers[3].Restarts = 9
		w.goOn(time.Minute, 10*time.Second, 30*time.Second, func(_ int, target *health.Target) { target.Up = target.Name != "service-2" })
		memory := w.judge.health.Memory(time.Now())
		must(t, w.judge.memories.Put(&memory))
		must(t, w.past.file.Flush())
		want := jsonOf(t, &memory)
		f, _ := keptAt(t, w.path)
		got, err := memoriesIn(f).Load()
		must(t, err)
		if diff := gocmp.Diff(want, jsonOf(t, &got)); diff != "" {
			t.Errorf("it is not the same (-want +got):\n%s", diff)
		}
		for _, section := range []string{`"problems": [`, `"restarts": [`, `"unavailable": [`, `"failures": [`, `"well": {`} {
			if !strings.Contains(want, section) {
				t.Errorf("the memory lacks %s: the test shows too little", section)
			}
		}

		path := filepath.Join(t.TempDir(), "state.json")
		must(t, os.WriteFile(path, []byte(`{"version":1,"values":{"problems":`+want+`}}`), 0o600))
		old, _ := openPast(t, path)
		if got, err = memoriesIn(old).Load(); err != nil || jsonOf(t, &got) != want {
			t.Errorf("from an earlier build: %v, %s", err, jsonOf(t, &got))
		}
		must(t, memoriesIn(old).Put(&got))
		must(t, old.Flush())
		f, _ = keptAt(t, path)
		if got, err = memoriesIn(f).Load(); err != nil || jsonOf(t, &got) != want {
			t.Errorf("saved by this build: %v, %s", err, jsonOf(t, &got))
		}
		if former := (&health.Memory{}); f.Value("problems").Load(former) != nil || !former.Saved.IsZero() {
			t.Error("the memory of the earlier build is kept for ever")
		}
	})
}
