//go:build chaos

package chaos

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// shipped is the program as it is shipped, without cgo, built once.
var shipped = sync.OnceValues(func() (string, error) {
	path := filepath.Join(binaryDir(), "chatstack_exporter")
	return path, exportertest.Build(path, "-s -w")
})

// binaryDir is where this process's program is; TestMain removes it.
func binaryDir() string {
	return filepath.Join(os.TempDir(), "chaos-binary-"+strconv.Itoa(os.Getpid()))
}

// command is the binary as a command that is not started: in a directory of its own or the given one, with this
// exporter.yaml, the given environment and nothing else of the test's.
func command(t *testing.T, dir, config string, env map[string]string) *exec.Cmd {
	t.Helper()
	path, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "exporter.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path, "--web.listen-address=127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, []string{"RUNTIME_DIRECTORY=" + dir}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}
