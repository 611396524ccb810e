//go:build realservers

package workloads

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// agreeWithin is how soon after the engine's answer the page must say the same.
const agreeWithin = 2 * time.Second

// TestRealSlowStarts has containers that take long to start, while which the engine describes them to nobody. The page must agree with
// the engine soon after it answers, other containers' changes must count meanwhile, and the engine must not be down.
func TestRealSlowStarts(t *testing.T) {
	t.Parallel()
	delays := []string{"1.3", "3.4", "5.3", "11"}
	if testing.Short() {
		delays = delays[:2]
	}
	dir := engineVisible(t)
	runtimes := map[string]string{}
	for _, delay := range delays {
		wrapper := filepath.Join(dir, "slow"+delay)
		script := fmt.Sprintf("#!/bin/sh\nfor word; do\n\t[ \"$word\" != start ] || sleep %s\ndone\nexec runc \"$@\"\n", delay)
		if err := os.WriteFile(wrapper, []byte(script), 0o755); err != nil { //nolint:gosec // the engine runs it
			t.Fatal(err)
		}
		runtimes["slow"+delay] = wrapper
	}
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true, Runtimes: runtimes})
	w := startWatch(t, d.Host, d.Containers())
	t.Run("start", func(t *testing.T) {
		for _, delay := range delays {
			t.Run(delay, func(t *testing.T) {
				t.Parallel()
				slowStart(w.service(t, "slow"+strings.ReplaceAll(delay, ".", "")), "slow"+delay)
			})
		}
		t.Run("another container", func(t *testing.T) {
			t.Parallel()
			s := w.service(t, "quick")
			name := s.run(1, always...)
			for range 5 {
				s.Docker("restart", "-t", "1", name)
			}
			s.is("restarts beside slow starts", "restarts_total", 5, "recreations_total", 0)
		})
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for p := range w.shown {
		if strings.HasPrefix(p.Alert, "Target") && p.Alert != health.AlertTargetSlow { // a reading that waits is slow
			t.Errorf("the page has shown %+v", p)
		}
	}
}

// engineVisible returns a directory whose files every engine sees.
func engineVisible(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "slow-runtimes-") //nolint:usetesting // an engine of another Debian sees no other directory
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary directory
	return dir
}

func slowStart(s *service, runtime string) {
	name := s.run(1, append([]string{"--runtime", runtime}, always...)...)
	s.agrees("docker run", name, 0)
	s.Docker("restart", "-t", "1", name)
	s.agrees("docker restart", name, 1)
	s.crash(name)
	s.Await(name, "{{.RestartCount}} {{.State.Status}}", "1 running")
	s.agrees("a restart by the engine", name, 2)
	s.Docker("rm", "-f", name)
	s.run(1, append([]string{"--runtime", runtime}, always...)...)
	s.is("a deploy", "restarts_total", 2, "recreations_total", 1)
	s.agrees("a deploy", name, 2)
}

// agrees fails unless the page says the same as the engine within agreeWithin.
func (s *service) agrees(what, name string, restarts int) {
	s.t.Helper()
	answered := time.Now()
	started := float64(fleet.ParseTime(s.Says(name, realstack.StartedAt)).UnixMicro()) / 1e6
	if !exportertest.Eventually(patience, pollEvery, func() bool {
		p := s.page()
		running, _ := p.Value("chatstack_container_state", "container", name, "state", "running")
		since, _ := p.Value("chatstack_container_start_time_seconds", "container", name)
		count, _ := p.Value("chatstack_workload_restarts_total", "workload", s.workload)
		return running == 1 && since > started-0.01 && since < started+0.01 && int(count) == restarts
	}) {
		s.t.Fatalf("%s: %s: the page does not agree with the engine\n%s", s.workload, what, s.dump())
	}
	if took := time.Since(answered); took > agreeWithin {
		s.t.Errorf("%s: %s: the page agrees after %s, want %s at most", s.workload, what, took.Round(time.Millisecond), agreeWithin)
	}
}
