//go:build realservers

package drill

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// free is an address of loopback that nobody listens on, nor will: everything else that takes a free port takes one of
// 127.0.0.1.
func free(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // it only held the port
	return l.Addr().String()
}

// drillStack is about a container that others need, as well as targets: the XMPP server is reached through it. Only that one is
// reported.
func (r *rig) drillStack(t *testing.T) {
	t.Helper()
	sim := simstacktest.Start(t, simstack.Options{})
	environ := sim.Environ()
	web, clients := free(t), free(t)
	xmpp, bridge := r.containers.Name+"-stack-xmpp", r.containers.Name+"-stack-bridge"
	s := r.open(t, "stack", r.engineTarget("stack")+fmt.Sprintf(`
  - {kind: xmpp_status, url: "http://%[1]s/status", container: %[3]s}
  - {kind: xmpp_metrics, url: "http://%[1]s/metrics", container: %[3]s}
  - {kind: xmpp_rest, url: "http://%[1]s", token: %[4]q, domain: %[5]s, container: %[3]s}
  - {kind: xmpp_c2s, address: %[2]q, domain: %[5]s, ca_file: %[6]s, container: %[3]s}
`, web, clients, xmpp, environ["XMPP_REST_TOKEN"], simstack.XMPPDomain, sim.CAFile()), nil)
	start := func() {
		s.deploy("xmpp", "--network", "host", "--", "forward", web, strings.TrimPrefix(environ["XMPP_REST_URL"], "http://"), clients,
			sim.XMPPClientAddress())
	}
	start()
	s.deploy("bridge", "--label", "com.docker.compose.depends_on=stack-xmpp:service_healthy:true")
	stopped := is(0, "chatstack_container_state", "container", xmpp, "state", "running")
	// The bridge's health check notices.
	s.try(fault{
		name:   "XMPP container stopped for long, bridge unhealthy",
		shown:  stopped,
		cause:  func() { r.containers.Docker("stop", xmpp); s.signal(bridge, syscall.SIGUSR1) },
		repair: func() { r.containers.Docker("start", xmpp); s.signal(bridge, syscall.SIGUSR1) },
		want:   []notice{{"ContainerDown", "warning", ofContainer(xmpp)}, {"ContainerDown", "critical", ofContainer(xmpp)}},
	})
	s.try(fault{
		name:   "XMPP container removed",
		shown:  is(1, "chatstack_container_state", "container", xmpp, "state", "missing"),
		cause:  func() { r.containers.Docker("rm", "-f", xmpp) },
		repair: start,
		want:   []notice{{"ContainerMissing", "critical", ofContainer(xmpp)}},
	})
}
