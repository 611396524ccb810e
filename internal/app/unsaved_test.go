package app

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestUnsavedStateIsTold has a directory at the path of the state file for a while. Metrics, the page and the API say since when nothing is
// kept, probes go on, and everything is written once it is gone.
func TestUnsavedStateIsTold(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		e, _ := startWithFile(t, nil, "state_file: "+path+"\n"+oneTarget, func(*Options) {})
		d := describe(t, e)
		metric := func(name string) float64 {
			t.Helper()
			value, known := e.scrape(t).Value("chatstack_state_" + name)
			if !known {
				t.Fatalf("there is no %s", name)
			}
			return value
		}
		time.Sleep(5 * time.Minute)
		if saved := metric("last_saved_timestamp_seconds"); metric("writable") != 1 || float64(time.Now().Unix())-saved > 60 {
			t.Errorf("not writable, or saved %v s ago", float64(time.Now().Unix())-saved)
		}
		must(t, os.Remove(path))
		must(t, os.Mkdir(path, 0o700))
		hurt := time.Now()
		time.Sleep(5 * time.Minute)
		if before := float64(hurt.Unix()) - metric("last_saved_timestamp_seconds"); metric("writable") != 0 || before < -1 || before > 60 {
			t.Errorf("writable, or saved %v s before it was hurt", before)
		}
		attempts, _ := e.scrape(t).Value("chatstack_probe_attempts_total")
		says(t, "the page", string(e.get(t, "/", nil).body), "Nothing is kept since ", "is a directory")
		_, body := e.exchange(t, http.MethodGet, "/api/v1/status", "")
		says(t, "the API", string(body), `"state_not_saved":{"since":"`)
		d.hold(t, schemaOf("/api/v1/status", "get", "200"), body)
		says(t, "the log", e.log.String(), "cannot save the state; a restart of the exporter forgets what happens from now on")
		time.Sleep(5 * time.Minute)
		if more, _ := e.scrape(t).Value("chatstack_probe_attempts_total"); more <= attempts {
			t.Errorf("%v probes, %v before", more, attempts)
		}
		must(t, os.Remove(path))
		time.Sleep(5 * time.Minute)
		if metric("writable") != 1 || float64(time.Now().Unix())-metric("last_saved_timestamp_seconds") > 60 {
			t.Error("it is not saved again")
		}
		says(t, "the log", e.log.String(), "the state is saved again")
		f, _ := keptAt(t, path)
		if memory, err := memoriesIn(f).Load(); err != nil || len(memory.Problems) == 0 {
			t.Errorf("what memory had is not in the file: %v, %v", memory, err)
		}
	})
}

func TestWithoutStateFileThereAreNoMetricsOfIt(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e, _ := startWithFile(t, nil, oneTarget, func(*Options) {})
		if value, known := e.scrape(t).Value("chatstack_state_writable"); known {
			t.Errorf("writable is %v without a state file", value)
		}
	})
}
