//go:build realservers

package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// imageTree makes what the last stage of the Dockerfile copies into the empty image, and returns its root and its user.
func imageTree(t *testing.T) (root string, user uint32) {
	t.Helper()
	content, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	_, stage, ok := strings.Cut(string(content), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the image is not made FROM scratch")
	}
	root = t.TempDir()
	for line := range strings.Lines(stage) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "COPY" {
			continue
		}
		switch at := filepath.Join(root, words[len(words)-1]); words[len(words)-2] {
		case "/out/chatstack_exporter":
			if err := exportertest.Build(at, "-s -w"); err != nil {
				t.Fatal(err)
			}
		case "/out/etc":
			mustMake(t, filepath.Join(at, "chatstack_exporter"))
		case "/out/var/lib/chatstack_exporter":
			mustMake(t, at)
		case "/etc/ssl/certs/ca-certificates.crt":
			mustMake(t, filepath.Dir(at))
		default:
			t.Fatalf("this test does not know what the image has by %s", line)
		}
	}
	return root, 65532
}

func mustMake(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestRealImageKnowsEveryNamedZone runs the program in the image's tree, which has no zone files. It needs root.
func TestRealImageKnowsEveryNamedZone(t *testing.T) {
	root, user := imageTree(t)
	if err := os.Chmod(root, 0o755); err != nil { //nolint:gosec // the image's user enters it
		t.Fatal(err)
	}
	const configuration = `maintenance:
  - {kind: target, name: irc_rpc, schedule: "CRON_TZ=Asia/Kathmandu 0 3 * * *", duration: 30m}
  - {kind: target, name: irc_rpc, schedule: "30 4 * * *", duration: 30m}
`
	//nolint:gosec // as above
	if err := os.WriteFile(filepath.Join(root, "etc/chatstack_exporter/exporter.yaml"), []byte(configuration), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/chatstack_exporter", "check-config")
	cmd.Dir, cmd.Env = "/etc/chatstack_exporter", []string{"TZ=Asia/Tokyo"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: user}}
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("check-config: %v\n%s", err, output)
	}
	for _, want := range []string{" 03:00 +05:45 until ", " 04:30 +09:00 until "} {
		if got := strings.Count(string(output), want); got != 3 {
			t.Errorf("%d windows have %q, want 3:\n%s", got, want, output)
		}
	}
}
