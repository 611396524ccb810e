package app

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// TestForgetEndsWhatIsMissing by the name of a container and by that of its service, over the socket.
func TestForgetEndsWhatIsMissing(t *testing.T) {
	engine := simstacktest.StartEngine(t, nil)
	for _, service := range []string{"irc", "web", "xmpp"} {
		engine.Add(instanceOf(service))
	}
	binary, dir := buildBinary(t), directoryWith(t, "")
	rewrite(t, filepath.Join(dir, "exporter.yaml"), engineTarget(engine, "expected_services: [chat/irc]"))
	e := exporterOf(t, startProgram(t, binary, dir, nil, "--web.listen-address=127.0.0.1:0", "--poll.interval=1s", "--poll.timeout=1s"))
	e.wait(t, "events flow", eventsFlow)
	here := "--web.listen-address=" + strings.TrimPrefix(e.url, "http://")
	forget := func(code int, says string, args ...string) {
		t.Helper()
		p := startProgram(t, binary, dir, nil, append([]string{"forget"}, args...)...)
		got := p.ExitCode(t, patience)
		if text := p.Stdout.String() + p.Stderr.String(); got != code || !strings.Contains(text, says) {
			t.Errorf("forget %q: exit code %d, %s; want %d and %q", args, got, text, code, says)
		}
	}
	gone := func(name string) {
		t.Helper()
		e.wait(t, name+" forgotten", func(p page) bool {
			_, known := p.Value("chatstack_container_restarts_total", "container", name)
			return !known
		})
	}
	forget(1, "exists", "chat/web", here)
	for _, service := range []string{"web", "xmpp"} {
		name := "chat-" + service + "-1"
		engine.Container(name).Remove()
		e.wait(t, name+" missing", isMissing(name, 0))
	}
	forget(0, "chat/web on local is forgotten\n", "chat/web", here)
	gone("chat-web-1")
	forget(0, "chat-xmpp-1 on local is forgotten\n", "--docker-host=local", "chat-xmpp-1", here)
	gone("chat-xmpp-1")
	forget(1, "no such container is known", "chat/web", here)
	forget(1, `no target has the docker_host "far"; it can be one of ["local"]`, "chat/web", "--docker-host=far", here)
	forget(1, "no exporter listens at", "chat/web", "--web.listen-address=127.0.0.1:1")
	forget(2, "NAME is empty", " ", here)
	forget(2, "required argument 'NAME' not provided", here)
}
