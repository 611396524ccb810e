//go:build realservers

package drill

import (
	"fmt"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// drillEngines is about a second engine, which has a container of the same name as the first.
func (r *rig) drillEngines(t *testing.T) {
	t.Helper()
	engine := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	containers := engine.Containers()
	s := r.open(t, "engines", r.engineTarget("engines")+fmt.Sprintf(
		"  - {kind: docker, name: second, label: second, host: %q, names: [%s-engines-*], missing_after: 3s}\n",
		engine.Host, r.containers.Name), nil)
	name := s.deploy("docs")
	start := func() {
		containers.Docker("rm", "-f", name)
		containers.Run("engines-docs", "--name", name, "--restart", "unless-stopped")
	}
	start()
	onSecond := of("container", name, "docker_host", "second")
	s.try(fault{
		name:   "container of the second engine stopped",
		cause:  func() { containers.Docker("stop", name) },
		repair: start,
		shown:  is(0, "chatstack_container_state", "container", name, "docker_host", "second", "state", "running"),
		want:   []notice{{"ContainerDown", "warning", onSecond}, {"ContainerDown", "critical", onSecond}},
	})
	second := of("target", "second", "kind", "docker")
	s.try(fault{
		name:   "the second engine stopped, with its container",
		cause:  engine.Stop,
		repair: engine.Start,
		shown:  down("second"),
		want:   []notice{{"TargetDown", "warning", second}, {"TargetDown", "critical", second}},
		after:  []notice{{"ContainerRestarts", "warning", onSecond}},
	})
}
