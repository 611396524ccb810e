//go:build realservers

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// TestRealInitFindsAComposeStack runs init on the machine of a stack, as somebody who has just installed the package.
func TestRealInitFindsAComposeStack(t *testing.T) {
	engine := os.Getenv("CHATSTACK_TEST_DOCKER")
	if engine == "" {
		t.Fatal("CHATSTACK_TEST_DOCKER names no container engine; make test-deploy says how this is run")
	}
	dir := t.TempDir()
	for from, to := range map[string]string{"compose.yaml": "compose.yaml", "env": ".env"} {
		content, err := os.ReadFile(filepath.Join("testdata/stack", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	compose, err := filepath.Abs(root + "/bin/docker-compose")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "chatstack_exporter")
	if err := exportertest.Build(program, ""); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) (string, error) {
		cmd := exec.Command(name, args...) //nolint:noctx // it also clears up
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DOCKER_HOST=" + engine}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(name string, args ...string) string {
		t.Helper()
		out, err := run(name, args...)
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return out
	}
	t.Cleanup(func() {
		if out, err := run(compose, "down", "--volumes"); err != nil {
			t.Errorf("clear up: %v\n%s", err, out)
		}
	})
	must(compose, "up", "--detach", "--wait")

	begun := time.Now()
	said := must(program, "init", "--project=chatstack-init", "--domain=chat.example.org")
	took := time.Since(begun)
	t.Logf("%.1f s\n%s", took.Seconds(), said)
	if took > time.Minute {
		t.Errorf("init took %s, want a minute at most", took)
	}
	content, err := os.ReadFile(filepath.Join(dir, "exporter.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	var kinds []string
	for _, m := range regexp.MustCompile(`(?m)^  - kind: (\w+)$`).FindAllStringSubmatch(text, -1) {
		kinds = append(kinds, m[1])
	}
	want := []string{
		"docker", "xmpp_status", "xmpp_metrics", "xmpp_proxy", "irc_tls", "irc_services", "identity", "web_irc", "docs_search",
		"plant_store", "http", "volume",
	}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("targets (-want +got):\n%s\n%s", diff, text)
	}
	for _, want := range []string{
		`projects: ["chatstack-init"]`, `"chatstack-init-talk-1": "irc"`, `service: "chatstack-init/xmpp"`, "# - kind: irc_rpc",
		"# - kind: xmpp_c2s", "# - kind: relay",
		"Not recognised, so only their containers are watched: chatstack-init-postgres-1.",
		dir + "/.env sets IRC_RPC_USER, IRC_RPC_PASSWORD, BRIDGE_IDENTITY_TOKEN.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the file lacks %s:\n%s", want, text)
		}
	}
	if !regexp.MustCompile(`url: "https://127\.0\.0\.1:\d+/health"\n`).MatchString(text) {
		t.Errorf("the published port is not used:\n%s", text)
	}
	for _, secret := range []string{"adminsecret", "hunter2secret", "token'secret"} {
		if strings.Contains(text+said, secret) {
			t.Errorf("the value %s is shown", secret)
		}
	}
	must(program, "check-config")
	for _, target := range []string{"docker", "xmpp_status", "xmpp_metrics", "irc_services", "data"} {
		if !regexp.MustCompile(`(?m)^` + target + ` +up `).MatchString(said) {
			t.Errorf("the check of the file does not show %s up:\n%s", target, said)
		}
	}
	if out, err := run(program, "init"); err == nil || !strings.Contains(out, "exporter.yaml is already there") {
		t.Errorf("a second init: %v\n%s", err, out)
	}
	if again, err := os.ReadFile(filepath.Join(dir, "exporter.yaml")); err != nil || !slices.Equal(again, content) {
		t.Errorf("a second init changed the file: %v", err)
	}
}
