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
	dir, limitFile, eventsFile := v1, "memory.limit_in_bytes", "memory.oom_control"
	if _, err := os.Stat(v1); err != nil {
		dir, limitFile, eventsFile = "/sys/fs/cgroup", "memory.max", "memory.events"
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
			wait(50 * time.Millisecond)
		}
		t.Errorf("control group %s is left", dir)
	})
	write := func(name, value string) error { return os.WriteFile(filepath.Join(dir, name), []byte(value), 0o600) }
	if err := write(limitFile, strconv.Itoa(limit)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"memory.swappiness": "0", "memory.swap.max": "0"} {
		write(name, value) //nolint:errcheck // each is of one version
	}
	// The shell moves itself, so that no page of the command is counted elsewhere.
	prepare(cmd, "echo $$ >"+filepath.Join(dir, "cgroup.procs"))
	return func() int {
		events, err := os.ReadFile(filepath.Join(dir, eventsFile))
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
		t.Fatalf("%s reports no kills", eventsFile)
		return 0
	}
}

// TestMemoryLimitIsKept runs the exporter in 64 MiB: a page of 10,000 series fits, and one of 100,000 is refused, before the
// kernel would have to kill it. Of lines that a long prefix makes ten times as long, as many as fit are served. A line of
// many labels takes no more than any other.
func TestMemoryLimitIsKept(t *testing.T) {
	t.Parallel()
	served := func(text, prefix string) func(*testing.T) (string, map[string]string) {
		return func(t *testing.T) (string, map[string]string) {
			t.Helper()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
				io.WriteString(w, "# TYPE a counter\n"+text+"# EOF\n") //nolint:errcheck // a test's server
			}))
			t.Cleanup(server.Close)
			return fmt.Sprintf("poll: {interval: 2s, timeout: 2s}\ntargets:\n  - {kind: openmetrics, name: long, url: %q, prefix: %q}\n",
				server.URL, prefix), nil
		}
	}
	prefixed := func(lines int) func(*testing.T) (string, map[string]string) {
		var text strings.Builder
		for i := range lines {
			fmt.Fprintf(&text, "a_total{b=\"%x\"} 1 # {} 1\n", i)
		}
		return served(text.String(), strings.Repeat("p", 200))
	}
	// The largest page that is let in, as one line of as many parts as fit.
	labels := strings.Repeat(`l="",`, 600_000)
	upstream := func(series int) func(*testing.T) (string, map[string]string) {
		return func(t *testing.T) (string, map[string]string) {
			t.Helper()
			stack := simstacktest.Start(t, simstack.Options{UpstreamSeries: series})
			return canaryEvery(2*time.Second, stack, filepath.Join(t.TempDir(), "state.json")), stack.Environ()
		}
	}
	for _, c := range []struct {
		name, target, want string
		watch              func(*testing.T) (config string, env map[string]string)
	}{
		{
			"10,000 series",
			"xmpp_metrics",
			"up",
			upstream(10_000),
		},
		{
			"100,000 series",
			"xmpp_metrics",
			"too_large",
			upstream(100_000),
		},
		{
			"12,000 lines",
			"long",
			"up",
			prefixed(12_000),
		},
		{
			"80,000 lines",
			"long",
			"too_large",
			prefixed(80_000),
		},
		{
			"600,000 labels",
			"long",
			"up",
			served("a_total{"+labels+"} 1\nb 1\n", "p_"),
		},
		{
			"600,000 labels of an exemplar",
			"long",
			"up",
			served("a_total 1 # {"+labels+"} 1\nb 1\n", "p_"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config, env := c.watch(t)
			cmd := command(t, "", config, env)
			kills := limitMemory(t, cmd, 64<<20)
			e := start(t, cmd)
			p := e.wait(t, "five readings of the page", func(p page) bool {
				return p.Sum("chatstack_probe_attempts_total", "target", c.target) > 5
			})
			for target, verdict := range p.Verdicts() {
				if target == c.target && verdict != c.want || target != c.target && verdict != "up" {
					t.Errorf("%s is %q", target, verdict)
				}
			}
			if says := strings.Contains(e.Stderr.String(),
				"memory limit is too low for limits.metrics_body"); c.name == "100,000 series" && !says {
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
