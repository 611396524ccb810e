package app

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// TestExporterStartsForFiveMinutes and a first round of probes.
func TestExporterStartsForFiveMinutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(startingMetric(time.Now()))
		for _, c := range []struct {
			pass time.Duration
			want float64
		}{{0, 1}, {5*time.Minute + 29*time.Second, 1}, {time.Second, 0}, {time.Hour, 0}} {
			time.Sleep(c.pass)
			families, err := registry.Gather()
			must(t, err)
			if got := families[0].GetMetric()[0].GetGauge().GetValue(); got != c.want {
				t.Errorf("%s later it is %g, want %g", c.pass, got, c.want)
			}
		}
	})
}
