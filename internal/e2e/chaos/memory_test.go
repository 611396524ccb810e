//go:build chaos

package chaos

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// limitMemory puts a command into a control group of its own with so much memory, and returns how often the kernel has
// killed something in it for want of memory. Swap does not count as memory.
func limitMemory(t *testing.T, cmd *exec.Cmd, limit int) (kills func() int) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, for a control group; .ci/nightly is root")
	}
	const v1 = "/sys/fs/cgroup/memory"
	dir, most, kept := v1, "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(v1); err != nil {
		dir, most, kept = "/sys/fs/cgroup", "memory.max", "memory.events"
	}
	dir = filepath.Join(dir, fmt.Sprintf("chaos-%d-%d", os.Getpid(), time.Now().UnixNano()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatalf("make a control group: %v", err)
	}
	t.Cleanup(func() {
		for range 100 { // the last process may still be on its way out
			if os.Remove(dir) == nil {
				return
			}
			rest(50 * time.Millisecond)
		}
		t.Errorf("control group %s is left", dir)
	})
	write := func(name, value string) error { return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600) }
	if err := write(most, strconv.Itoa(limit)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"memory.swappiness": "0", "memory.swap.max": "0"} {
		write(name, value) //nolint:errcheck // each is of one version
	}
	// A shell moves itself and becomes the command, so that no page of it is counted elsewhere.
	args := append([]string{"sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
	cmd.Path, cmd.Args = "/bin/sh", args
	return func() int {
		events, err := os.ReadFile(filepath.Join(dir, kept))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(events)) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "oom_kill "); ok {
				kills, err := strconv.Atoi(n)
				if err != nil {
					t.Fatal(err)
				}
				return kills
			}
		}
		t.Fatalf("%s tells of no kills", kept)
		return 0
	}
}

// TestMemoryLimitIsKeptWithALargeUpstream runs the exporter in 64 MiB: a page of 10,000 series fits, and one of 100,000 is
// refused, before the kernel would have to kill it.
func TestMemoryLimitIsKeptWithALargeUpstream(t *testing.T) {
	t.Parallel()
	for series, want := range map[int]string{10_000: "up", 100_000: "too_large"} {
		t.Run(fmt.Sprintf("%d series", series), func(t *testing.T) {
			t.Parallel()
			stack := simstacktest.Start(t, simstack.Options{UpstreamSeries: series})
			cmd := command(t, "", canaryEvery(2*time.Second, stack, filepath.Join(t.TempDir(), "state.json")), stack.Environ())
			kills := limitMemory(t, cmd, 64<<20)
			e := start(t, cmd)
			p := e.wait(t, "five readings of the page", func(p page) bool {
				return p.Sum("chatstack_probe_attempts_total", "target", "xmpp_metrics") > 5
			})
			for target, verdict := range p.Verdicts() {
				if target == "xmpp_metrics" && verdict != want || target != "xmpp_metrics" && verdict != "up" {
					t.Errorf("%s is %q", target, verdict)
				}
			}
			if want != "up" && !strings.Contains(e.Stderr.String(), "memory is too small for limits.metrics_body") {
				t.Error("the log does not say why the page is refused")
			}
			peak := e.peakMemory(t)
			e.stop(t)
			if n := kills(); n > 0 {
				t.Errorf("the kernel killed it %d times", n)
			}
			t.Logf("at most %d MiB resident", peak>>20)
		})
	}
}

// TestMemoryLimitIsKeptWithALongPrefix has lines that grow tenfold: as many as fit are served in 64 MiB, and more are refused.
func TestMemoryLimitIsKeptWithALongPrefix(t *testing.T) {
	t.Parallel()
	for lines, want := range map[int]string{12_000: "up", 80_000: "too_large"} {
		t.Run(fmt.Sprintf("%d lines", lines), func(t *testing.T) {
			t.Parallel()
			var text strings.Builder
			text.WriteString("# TYPE a counter\n")
			for i := range lines {
				fmt.Fprintf(&text, "a_total{b=\"%x\"} 1 # {} 1\n", i)
			}
			text.WriteString("# EOF\n")
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
				io.WriteString(w, text.String()) //nolint:errcheck // a test's server
			}))
			t.Cleanup(server.Close)
			config := fmt.Sprintf("poll: {interval: 2s, timeout: 2s}\ntargets:\n  - {kind: openmetrics, name: long, url: %q, prefix: %q}\n",
				server.URL, strings.Repeat("p", 200))
			cmd := command(t, "", config, nil)
			kills := limitMemory(t, cmd, 64<<20)
			e := start(t, cmd)
			p := e.wait(t, "five readings of the page", func(p page) bool {
				return p.Sum("chatstack_probe_attempts_total", "target", "long") > 5
			})
			if got := p.Verdict("long"); got != want {
				t.Errorf("the page is %q, want %q", got, want)
			}
			peak := e.peakMemory(t)
			e.stop(t)
			if n := kills(); n > 0 {
				t.Errorf("the kernel killed it %d times", n)
			}
			t.Logf("at most %d MiB resident", peak>>20)
		})
	}
}
