//go:build realservers

package workloads

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealPodman is about what only Podman has: health checks that somebody else runs, and pods of Kubernetes' files.
func TestRealPodman(t *testing.T) {
	t.Parallel()
	d := realstack.StartPodman(t)
	c := d.Containers()
	w := startWatch(t, d.Host, c)
	t.Run("case", func(t *testing.T) {
		t.Run("health", func(t *testing.T) { t.Parallel(); podmanHealth(w.service(t, "health")) })
		t.Run("pod", func(t *testing.T) { t.Parallel(); podmanPod(w.service(t, "pod")) })
	})
}

// podmanHealth runs a container's checks again and again, as a timer of systemd does: the event of a check comes before its result.
func podmanHealth(s *service) {
	name := s.Run(s.name+"-1", "--label", "com.docker.compose.service="+s.name, "--health-retries", "1")
	is := func(health string) {
		s.t.Helper()
		s.await(name+" to be "+health, func(p exportertest.Page) bool {
			s.Succeeds("healthcheck", "run", name)
			value, _ := p.Value("chatstack_container_health", "container", name, "health", health)
			return value == 1
		})
	}
	is("healthy")
	s.Turn(name)
	is("unhealthy")
	s.awaitProblem("ContainerUnhealthy warning")
	s.Turn(name)
	is("healthy")
	s.is("health", "restarts_total", 0, "recreations_total", 0)
}

// podmanPod plays a file of Kubernetes twice, as a deploy does. The pod's own container has another name each time.
func podmanPod(s *service) {
	file := filepath.Join(s.t.TempDir(), "pod.yaml")
	pod := `apiVersion: v1
kind: Pod
metadata:
  name: ` + s.name + `
  labels: {` + s.Name + `: ""}
spec:
  hostNetwork: true
  containers:
  - name: web
    image: localhost/` + s.Name + `:latest
    imagePullPolicy: Never
`
	if err := os.WriteFile(file, []byte(pod), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.workload = s.name + "-web"
	s.Docker("kube", "play", file)
	defer s.Docker("pod", "rm", "-f", "-t", "1", s.name)
	s.is("a pod", "instances", 1, "wanted", 1, "restarts_total", 0)
	s.Docker("kube", "play", "--replace", file)
	// Podman 4.3 may kill the pod's containers, and only the pod has an event of that: so this may count as a restart.
	s.await("the pod's second container to be counted", func(p exportertest.Page) bool {
		return p.Sum("chatstack_workload_restarts_total", "workload", s.workload)+
			p.Sum("chatstack_workload_recreations_total", "workload", s.workload) == 1
	})
	s.longEnough()
	s.is("a pod again", "instances", 1, "wanted", 1)
	for _, one := range s.present() {
		if one != "ContainerRestarts warning" {
			s.t.Errorf("the page lists %q\n%s", one, s.dump())
		}
	}
}
