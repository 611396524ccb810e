//go:build realservers

package collectors

import (
	"slices"
	"testing"
)

// TestRealLogTellsFailedLogins reads the log of a real container, with and without a terminal. Its program says one line
// at each start, which ends it: that its argument is no number.
func TestRealLogTellsFailedLogins(t *testing.T) {
	e := startRealEngine(t)
	for name, options := range map[string][]string{"log-plain": nil, "log-terminal": {"--tty"}} {
		container := e.Run(name, append(options, "--no-healthcheck", "--", "exit", failedLogin)...)
		e.Docker("wait", container)
		s := newXMPPMetricsSettings()
		s.Name, s.URL = "xmpp_metrics", metricsPage(t, "# EOF\n")+"/metrics"
		s.Log.Container, s.Log.DockerHost = container, e.host
		c := newProbe(t, newXMPPMetrics, s)
		for _, want := range []string{"0", "0", "1", "4"} {
			for range map[string]int{"1": 1, "4": 3}[want] {
				e.Docker("start", container)
				e.Docker("wait", container)
			}
			b, err := read(t, c, realDeadline)
			if err != nil {
				t.Fatal(err)
			}
			if got := ownSeries(t, b, authFailures); !slices.Equal(got, []string{authFailures + " " + want}) || len(b.Notes) > 0 {
				t.Errorf("%s: got %q, want %s; notes %q", name, got, want, b.Notes)
			}
		}
	}
}
