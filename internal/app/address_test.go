package app

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

func TestTargetFindsItsContainerByItsAddress(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := simstacktest.StartEngine(t, networkOf(t))
		for name, service := range map[string]string{
			"chat-exporter-1": "exporter", "chat-irc-1": "irc", "chat-web-1": "web", "chat-web-2": "web", "lone": "",
		} {
			engine.Add(simstack.ContainerSpec{
				Name:    name,
				Image:   "chat:1",
				Service: service,
				Restart: "always",
			})
		}
		mounts := filepath.Join(t.TempDir(), "mountinfo")
		rewrite(t, mounts, fmt.Sprintf("1 2 8:1 /var/lib/docker/containers/%s/hosts /etc/hosts rw - ext4 /dev/sda1 rw\n",
			engine.Container("chat-exporter-1").ID()))
		content := engineTarget(engine)
		for _, address := range []string{"irc:6667", "web:80", "lone:80"} {
			name, _, _ := strings.Cut(address, ":")
			content += fmt.Sprintf("  - {kind: tcp, name: %s, address: %q}\n", name, address)
		}
		log := &logBuffer{}
		o := options(nil, log).with(content)
		o.MountInfo = mounts
		e := startApp(t, o, log)
		container := func(p page, target string) string {
			info := p.Samples("chatstack_target_info", "target", target)
			if len(info) != 1 {
				return ""
			}
			return exportertest.Label(info[0], "container") + "@" + exportertest.Label(info[0], "docker_host")
		}
		p := e.wait(t, "the container of the target irc", func(p page) bool { return container(p, "irc") == "chat-irc-1@local" })
		for target, want := range map[string]string{"web": "chat-web-1@local", "lone": "@"} { // web is one service
			if got := container(p, target); got != want {
				t.Errorf("container of the target %s: got %s, want %s", target, got, want)
			}
		}
		e.reportWhen(t, "how the containers were found", func(r *status.Report) bool {
			irc := serviceOf(r, "irc")
			return irc != nil && irc.ContainerOrigin == "chat-irc-1 (found by the address)" && irc.Container == "chat-irc-1"
		})
		says(t, "check", tableOf(t, check(t, o)), "note: container chat-irc-1 (found by the address)\n",
			"note: container chat-web-1 (found by the address)\n")

		engine.Container("chat-irc-1").Stop()
		e.wait(t, "the target irc excused by its container", func(p page) bool {
			is, _ := p.Value("chatstack_excuse_info", "name", "irc", "reason", "container", "cause", "chat-irc-1")
			return is == 1
		})
	})
}

func TestUnwatchedContainerIsWarnedAbout(t *testing.T) {
	const engine = "\n  - {kind: docker, host: 'unix:///none'}"
	for _, tt := range []struct {
		keys string
		want bool
	}{
		{"", false},
		{", container: irc", true},
		{", container: irc, container_host: docker-a", false},
		{", service: chat/irc", true},
		{", service: chat/irc, container_host: docker-a", true},
		{", service: chat/irc}" + strings.TrimSuffix(engine, "}"), false},
		{", container: irc}" + strings.TrimSuffix(engine, "}"), false},
	} {
		cfg, err := LoadConfig(options(nil, io.Discard).with("targets:\n  - {kind: tcp, address: 'irc.test:1'" + tt.keys + "}\n"))
		must(t, err)
		if w := Warnings(cfg); len(w) > 1 || (len(w) == 1 && strings.Contains(w[0].Text, "container_host")) != tt.want {
			t.Errorf("%q: got the warnings %v, want one: %t", tt.keys, w, tt.want)
		}
	}
}
