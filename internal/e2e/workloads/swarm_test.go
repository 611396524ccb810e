//go:build realservers

package workloads

import (
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealSwarm is about the tasks of a swarm of one node. A swarm puts a new task in the place of one that has ended, which it keeps.
func TestRealSwarm(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	c := d.Containers()
	c.Docker("swarm", "init", "--advertise-addr", "127.0.0.1", "--listen-addr", "127.0.0.1", "--data-path-addr", "127.0.0.1")
	s := startWatch(t, d.Host, c).service(t, c.Name+"-chat")
	s.workload = s.name
	s.Docker("service", "create", "--detach", "--name", s.name, "--network", "host", "--no-resolve-image", "--no-healthcheck",
		"--restart-delay", "0s", "--container-label", c.Name, c.Name)
	s.is("a service", "instances", 1, "wanted", 1, "restarts_total", 0)

	s.crash(s.task(""))
	s.is("a task that the swarm replaced", "instances", 1, "wanted", 1, "restarts_total", 1, "recreations_total", 0)
	s.awaitProblem("ContainerRestarts warning")
	s.longEnough()
	if got := s.present(); !slices.Equal(got, []string{"ContainerRestarts warning"}) {
		t.Errorf("after the swarm replaced a task: the page lists %q, want the restart alone\n%s", got, s.dump())
	}

	before := s.task("")
	s.Docker("service", "update", "--detach", "--force", s.name)
	s.task(before)
	s.is("an update", "instances", 1, "wanted", 1, "restarts_total", 1, "recreations_total", 1)

	// The node gives its tasks away, and there is no other node.
	s.Docker("node", "update", "--availability", "drain", s.Docker("node", "ls", "-q"))
	s.is("a drained node", "instances", 0)
	s.longEnough()
	for _, one := range s.everShown() {
		if strings.HasSuffix(one, " critical") {
			t.Errorf("the page has shown %q, want warnings at most, as the task may run on another node\n%s", one, s.dump())
		}
	}
}

// task waits for a running task other than the given one, and returns its container.
func (s *service) task(other string) (name string) {
	s.t.Helper()
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		name = s.Docker("ps", "--filter", "label="+s.Name, "--filter", "status=running", "--format", "{{.Names}}")
		return name != "" && name != other && !strings.Contains(name, "\n")
	}) {
		s.t.Fatalf("the swarm runs %q, want one task other than %q", name, other)
	}
	return name
}
