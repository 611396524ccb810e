//go:build chaos

package chaos

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// shipped is the program as it is shipped, without cgo.
var shipped string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "chaos-binary-")
	if err == nil {
		shipped = filepath.Join(dir, "chatstack_exporter")
		err = exportertest.Build(shipped, "-s -w")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir) //nolint:errcheck,gosec // whoever cleans the directory takes it
	os.Exit(code)
}

// command is the program as a command that is not started: in a directory of its own or the given one, with this
// exporter.yaml, the given environment and nothing else of the test's.
func command(t *testing.T, dir, config string, env map[string]string) *exec.Cmd {
	t.Helper()
	if dir == "" {
		dir = t.TempDir()
	}
	if err := os.WriteFile(filepath.Join(dir, "exporter.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), shipped, "--web.listen-address=127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, []string{"RUNTIME_DIRECTORY=" + dir}
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// prepare has a shell run a script before it becomes the command, so that the process is the same.
func prepare(cmd *exec.Cmd, script string) {
	cmd.Args = append([]string{"sh", "-c", script + ` && exec "$@"`, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
}

// patience bounds the wait for what should be soon, on a busy machine too.
const patience = exportertest.Patience

// exporter is a running exporter. It ends with the test.
type exporter struct {
	*exportertest.Program
	url string

	mu     sync.Mutex
	body   []byte // of the last page, and what it says
	parsed page
}

// start runs a command that is an exporter, and waits until it listens.
func start(t *testing.T, cmd *exec.Cmd) *exporter {
	t.Helper()
	return startBy(t, cmd, (*exec.Cmd).Start)
}

// startBy runs a command in a way of its own.
func startBy(t *testing.T, cmd *exec.Cmd, begin func(*exec.Cmd) error) *exporter {
	t.Helper()
	e := &exporter{Program: exportertest.StartBy(t, cmd, begin)}
	e.url = e.URL(t)
	return e
}

// stop ends the exporter in order, and wants that it went well.
func (e *exporter) stop(t *testing.T) {
	t.Helper()
	e.Terminate(t)
	if code := e.ExitCode(t, patience); code != 0 {
		t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	if strings.Contains(e.Stderr.String(), "collector panicked") {
		t.Error("the log tells of a panic")
	}
}

// page is a scraped text page.
type page = exportertest.Page

// scrape reads the page, which must be there and well formed, whatever happens.
func (e *exporter) scrape(t *testing.T) page {
	t.Helper()
	body, err := exportertest.Fetch(t.Context(), patience, e.url+"/metrics")
	if err != nil {
		t.Fatalf("%v; want 200 whatever happens", err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parsed == nil || !bytes.Equal(body, e.body) {
		e.body, e.parsed = body, parse(t, body, nil)
	}
	return e.parsed
}

// parse reads a page that must be one.
func parse(t *testing.T, body []byte, err error) page {
	t.Helper()
	p, malformed := exportertest.ParsePage(body)
	if err := errors.Join(err, malformed); err != nil {
		t.Fatal(err)
	}
	return p
}

// wait scrapes until the page is as it should be.
func (e *exporter) wait(t *testing.T, what string, reached func(page) bool) (p page) {
	t.Helper()
	if !exportertest.Eventually(patience, 50*time.Millisecond, func() bool { p = e.scrape(t); return reached(p) }) {
		t.Fatalf("never reached: %s; verdicts: %v", what, p.Verdicts())
	}
	return p
}

// descriptors counts what the process has open.
func (e *exporter) descriptors(t *testing.T) int {
	t.Helper()
	n, err := exportertest.Descriptors(e.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// peakMemory is the most that the process has had resident, in bytes.
func (e *exporter) peakMemory(t *testing.T) int {
	t.Helper()
	kib, err := exportertest.ProcNumber(e.Process.Pid, "status", "VmHWM:")
	if err != nil {
		t.Fatal(err)
	}
	return int(kib) << 10 //nolint:gosec // no process is so large
}

func pause(t *testing.T, d time.Duration) {
	t.Helper()
	if !exportertest.Pause(t.Context(), d) {
		t.Fatal(t.Context().Err())
	}
}
