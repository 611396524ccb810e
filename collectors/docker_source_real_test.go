//go:build realservers

package collectors

import (
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
	s := &sourceWatch{host: e.host, root: realCgroups.Root, proc: realCgroups.ProcRoot}
	s.goOn(t, 3, func() {}, func(d *Docker) { d.Projects = []string{e.Name} })
}
