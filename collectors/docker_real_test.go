//go:build realservers

package collectors

import (
	"slices"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// realEngine is a Docker Engine with containers of the test's own.
type realEngine struct {
	*realstack.Containers
	host string
}

func startRealEngine(t *testing.T) *realEngine {
	t.Helper()
	d := realstack.StartDocker(t, realstack.DockerOptions{})
	return &realEngine{d.Containers(), d.Host}
}

// realDeadline bounds every wait for a real engine.
const realDeadline = time.Minute

func TestRealEngineLeavesOutComposesOwn(t *testing.T) {
	e := startRealEngine(t)
	lasting := e.Run("lasting")
	e.Docker("run", "-d", "--network", "none", "--name", "0123456789ab_"+lasting, "--label", e.Name,
		"--label", fleet.ComposeProject+"="+e.Name, e.Name)
	e.Docker("run", "-d", "--network", "none", "--name", lasting+"-run", "--label", e.Name,
		"--label", fleet.ComposeProject+"="+e.Name, "--label", fleet.ComposeOneOff+"=True", e.Name)
	s := dockerSettings(e.host)
	s.Labels = []string{e.Name}
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{lasting}; !slices.Equal(got, want) {
		t.Errorf("containers: got %q, want %q", got, want)
	}
}
