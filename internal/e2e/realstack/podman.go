//go:build realservers

package realstack

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Podman is a container engine without a daemon, and the service of its API. It has no systemd: a test runs the health checks.
type Podman struct {
	*Process
	// Host is the address of the API's service as DOCKER_HOST has it.
	Host string

	client []string
}

// StartPodman starts a Podman whose containers end with the test. It requires root.
func StartPodman(tb testing.TB) *Podman {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Fatal("podman without a user's session needs root")
	}
	program := binary(tb, "podman", "podman catatonit")
	p := newProcess(tb, "podman", false)
	// Podman accepts at most 50 characters for this one.
	short, err := os.MkdirTemp("/tmp", "podman-") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	// Root may lack the privilege to raise a limit, which is Podman's default.
	p.write("containers.conf", fmt.Appendf(nil, `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = %q
static_dir = %q
`, short+"/tmp", p.path("static")))
	// Images of the other format have no health check.
	p.environ = []string{"CONTAINERS_CONF=" + p.path("containers.conf"), "BUILDAH_FORMAT=docker"}
	socket := p.path("podman.sock")
	client := []string{program, "--root", p.path("root"), "--runroot", short + "/run", "--storage-driver", "vfs"}
	p.argv = append(slices.Clip(client), "system", "service", "--time", "0", "unix://"+socket)
	p.ready = func(ctx context.Context) error { return pings(ctx, socket) }
	d := &Podman{
		Process: p,
		Host:    "unix://" + socket,
		client:  client,
	}
	tb.Cleanup(func() {
		// Containers outlive the service.
		for _, all := range []string{"pod rm -f -a -t 0", "rm -f -a -t 0"} {
			cmd := p.command(append(slices.Clip(client), strings.Fields(all)...)...)
			if output, err := cmd.CombinedOutput(); err != nil {
				tb.Errorf("podman %s: %v\n%s", all, err, output)
			}
		}
		if err := os.RemoveAll(short); err != nil {
			tb.Error(err)
		}
	})
	p.Start()
	return d
}

// Containers is Docker's Containers.
func (d *Podman) Containers() *Containers {
	d.tb.Helper()
	return containersOf(d.Process, d.client...)
}
