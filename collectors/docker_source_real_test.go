//go:build realservers

package collectors

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealCountersGoOnOverRestartsAndChangesOfTheSource has containers of a real engine work and send, while the exporter restarts and
// changes its source.
func TestRealCountersGoOnOverRestartsAndChangesOfTheSource(t *testing.T) {
	e := startRealEngine(t)
	e.Docker("network", "create", "--internal", e.Name)
	defer e.Docker("network", "rm", e.Name)
	name := e.Run("busy", "--network", e.Name, "--", "fill", "8", "8")
	defer e.Docker("rm", "-f", name)
	e.Await(name, realstack.HealthStatus, container.Healthy)
	e.Docker("kill", "--signal", "USR2", name)
	s, kept := &sourceWatch{host: e.host, root: realCgroups.Root, proc: realCgroups.ProcRoot}, &memory{}
	last := map[string]float64{}
	for i, source := range []string{resourcesEngine, resourcesEngine, resourcesCgroup, resourcesCgroup, resourcesAuto, resourcesEngine} {
		s.start(t, source, kept)
		s.docker.fleet.Rules().Projects = []string{e.Name}
		for round := range 3 {
			s.round()
			now := s.counters()
			if len(now) < 3 {
				t.Errorf("source %d, %s, round %d: got %v, want 3 counters", i, source, round, now)
			}
			for counter, before := range last {
				if now[counter] < before {
					t.Errorf("source %d, %s, round %d: %s is %v, and was %v", i, source, round, counter, now[counter], before)
				}
			}
			last = now
		}
		want := source
		if source == resourcesAuto {
			want = resourcesCgroup
		}
		if page := s.page(); !strings.Contains(page, `source="`+want+`"} 1`) {
			t.Errorf("source %d, %s: want %s:\n%s", i, source, want, page)
		}
	}
}
