// Package exportertest runs the exporter's program for tests, and reads its metrics page.
package exportertest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds the wait for a process that should react soon, even on a busy machine.
const Patience = 60 * time.Second

// Build builds the program as it is shipped, without cgo, at the path.
func Build(path, linkerFlags string) error {
	//nolint:noctx // it ends by itself
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", linkerFlags, "-o", path,
		"github.com/chatstack-exporter/chatstack_exporter/cmd/chatstack_exporter")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, output)
	}
	return nil
}

// Log may be read while it is written. The zero value is empty.
type Log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// String returns everything that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Program is a running process. It ends with its test.
type Program struct {
	*exec.Cmd
	Stdout, Stderr Log
	// Ended is closed when the process has ended.
	Ended chan struct{}
}

// Start runs a command in a directory of its own, with these environment variables and nothing else of the test's.
func Start(tb testing.TB, cmd *exec.Cmd, dir string, env map[string]string) *Program {
	tb.Helper()
	cmd.Dir = dir
	cmd.Env = append(cmd.Env, "RUNTIME_DIRECTORY="+dir) // the last assignment of a name counts
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return StartBy(tb, cmd, (*exec.Cmd).Start)
}

// StartBy runs an unchanged command with the caller's start function.
func StartBy(tb testing.TB, cmd *exec.Cmd, begin func(*exec.Cmd) error) *Program {
	tb.Helper()
	p := &Program{Cmd: cmd, Ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.Stdout, &p.Stderr
	if err := begin(cmd); err != nil {
		tb.Fatal(err)
	}
	go func() {
		defer close(p.Ended)
		cmd.Wait() //nolint:errcheck // tests read the exit code
	}()
	tb.Cleanup(func() {
		cmd.Process.Kill() //nolint:errcheck // it may have ended
		<-p.Ended
		if tb.Failed() {
			tb.Logf("%s\n%s%s", strings.Join(cmd.Args, " "), &p.Stdout, lastLines(p.Stderr.String(), 200))
		}
	})
	return p
}

func lastLines(text string, n int) string {
	lines := strings.SplitAfter(text, "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

// listening matches the address in a logfmt log.
var listening = regexp.MustCompile(`msg="Listening on" address=(127\.0\.0\.1:\d+)`)

// Listens reports whether the log says that the program listens, and where: host:port.
func (p *Program) Listens() (address string, ok bool) {
	if m := listening.FindStringSubmatch(p.Stderr.String()); m != nil {
		return m[1], true
	}
	return "", false
}

// URL waits until the program listens, and returns its URL without a slash at the end.
func (p *Program) URL(tb testing.TB) string {
	tb.Helper()
	for end := time.Now().Add(Patience); time.Now().Before(end); {
		if address, ok := p.Listens(); ok {
			return "http://" + address
		}
		select {
		case <-p.Ended:
			tb.Fatalf("ended at once: %s\n%s", p.ProcessState, &p.Stderr)
		case <-time.After(5 * time.Millisecond):
		}
	}
	tb.Fatalf("the log names no address after %s", Patience)
	return ""
}

// Terminate sends SIGTERM.
func (p *Program) Terminate(tb testing.TB) {
	tb.Helper()
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		tb.Fatal(err)
	}
}

// ExitCode waits for the end of the process, at most for within.
func (p *Program) ExitCode(tb testing.TB, within time.Duration) int {
	tb.Helper()
	select {
	case <-p.Ended:
	case <-time.After(within):
		p.Process.Signal(syscall.SIGQUIT) //nolint:errcheck // the log then shows where it hangs
		Eventually(time.Second, 10*time.Millisecond, func() bool { return p.Process.Signal(syscall.Signal(0)) != nil })
		tb.Fatalf("still running after %s", within)
	}
	return p.ProcessState.ExitCode()
}
