//go:build realservers

package collectors

import (
	"slices"
	"testing"
)

// TestRealContainersAreReachedByName has the exporter in a container on a network, on that container's network, and on none.
func TestRealContainersAreReachedByName(t *testing.T) {
	e := startRealEngine(t)
	e.Docker("network", "create", "--internal", e.Name)
	defer e.Docker("network", "rm", e.Name)
	exporter := e.Run("exporter", "--network", e.Name)
	beside := e.Run("beside", "--network", "container:"+exporter)
	apart := e.Run("apart")
	irc := e.Run("irc", "--network", e.Name, "--network-alias", "irc.example.org")
	defer e.Docker("rm", "-f", exporter, beside, apart, irc)

	hostNames := func(from string) map[string][]string {
		t.Helper()
		mountInfo := "/proc/" + e.Says(from, "{{.State.Pid}}") + "/mountinfo"
		w := reading(t, e.host, mountInfo, func(s *Docker) { s.Projects, s.Exclude = []string{e.Name}, []string{exporter} })
		return w.hostNamesOf()
	}
	wanted := []string{irc, "irc", "irc.example.org"}
	want := func(when, from string, reached bool) {
		t.Helper()
		all := hostNames(from)
		got := all[irc]
		if reached && !slices.Equal(got[:min(len(got), len(wanted))], wanted) || !reached && len(got) > 0 {
			t.Errorf("%s: got the host names %q from %s, want those of %q: %t", when, got, from, wanted, reached)
		}
		if len(all[apart])+len(all[beside]) > 0 {
			t.Errorf("%s: containers on no network of their own have host names: %q", when, all)
		}
	}
	for from, reached := range map[string]bool{exporter: true, beside: true, apart: false} {
		want("running", from, reached)
	}
	e.Docker("stop", "--time", "0", irc)
	want("stopped", exporter, true)
}
