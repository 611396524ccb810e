package app

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// TestItSaysWhatARestartForgets: in the log at its start and on the page, unless it has a state file.
func TestItSaysWhatARestartForgets(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    bool
	}{
		"no state file": {"targets:\n  - {kind: tcp, name: gone, address: '127.0.0.1:1'}\n", true},
		"a state file":  {"state_file: " + filepath.Join(t.TempDir(), "state.json") + "\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			e := startExporter(t, nil, c.content)
			if got := strings.Contains(e.log.String(), `forgets="how long targets have been down`); got != c.want {
				t.Errorf("the log says so: %t, want %t", got, c.want)
			}
			if got := e.app.statusInput().Forgets != ""; got != c.want {
				t.Errorf("the page says so: %t, want %t", got, c.want)
			}
		})
	}
}

// TestExporterStartsForAWhile.
func TestExporterStartsForAWhile(t *testing.T) {
	for _, lasts := range []time.Duration{5*time.Minute + 30*time.Second, 30 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			registry := prometheus.NewPedanticRegistry()
			registry.MustRegister(startingMetric(lasts))
			for _, c := range []struct {
				pass time.Duration
				want float64
			}{{0, 1}, {lasts - time.Second, 1}, {time.Second, 0}, {time.Hour, 0}} {
				time.Sleep(c.pass)
				families, err := registry.Gather()
				must(t, err)
				if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != c.want {
					t.Errorf("%s of %s later it is %g, want %g", c.pass, lasts, got, c.want)
				}
			}
		})
	}
}

// TestOnlyARecentRecordIsRemembered.
func TestOnlyARecentRecordIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPast(slog.New(slog.DiscardHandler))
		const within = 5 * time.Minute
		if p.isRecent(within) {
			t.Error("an exporter without a record remembers")
		}
		r := emptyRound(health.Milli(time.Now().UnixMilli()))
		p.apply(&r)
		for _, c := range []struct {
			pass time.Duration
			want bool
		}{{0, true}, {within - time.Second, true}, {time.Second, false}} {
			time.Sleep(c.pass)
			if got := p.isRecent(within); got != c.want {
				t.Errorf("%s later it remembers: %t, want %t", c.pass, got, c.want)
			}
		}
	})
}

// TestItStartsUnlessItRemembers holds that an exporter with a recent state file knows what was before, unless it cannot read what its judge
// saved.
func TestItStartsUnlessItRemembers(t *testing.T) {
	for well, want := range map[string]string{`"2026-01-02T03:04:05Z"`: "0", `"yesterday"`: "1"} {
		path := filepath.Join(t.TempDir(), "state.json")
		f, _ := openPast(t, path)
		r := emptyRound(health.Milli(time.Now().UnixMilli()))
		f.Add(record{Round: &r})
		must(t, f.Group("judge").Put(map[string]any{"saved": time.Now(), "well/gone": json.RawMessage(well)}))
		must(t, f.Flush())
		must(t, f.Close())
		e := startExporter(t, nil, "state_file: "+path+"\ntargets:\n  - {kind: tcp, name: gone, address: '127.0.0.1:1'}\n")
		if page := string(e.get(t, "/metrics", nil).body); !strings.Contains(page, "\nchatstack_exporter_starting "+want+"\n") {
			t.Errorf("last up at %s: the page lacks that starting is %s", well, want)
		}
	}
}
