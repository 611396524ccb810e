//go:build realservers

package collectors

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// TestRealEngineSlowStarts restarts containers with a runtime that waits. The page agrees with the engine within 2 s of its answer,
// and a poll begins at every moment of the start.
func TestRealEngineSlowStarts(t *testing.T) {
	dir := t.TempDir()
	delay, slow := filepath.Join(dir, "delay"), filepath.Join(dir, "slow")
	script := fmt.Sprintf("#!/bin/sh\ncase \" $* \" in *' start '*) sleep \"$(cat %s)\";; esac\nexec runc \"$@\"\n", delay)
	write := func(path, content string) {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	write(slow, script)
	write(delay, "0")
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true, Runtimes: map[string]string{"slow": slow}})
	all := d.Containers()
	all.Run("quick", "--restart", "always", "--no-healthcheck")
	all.Run("slow", "--restart", "always", "--no-healthcheck", "--runtime", "slow")
	s := dockerSettings(d.Host)
	s.Resources, s.Projects, s.Timeout = resourcesNone, []string{all.Name}, config.Duration(10*time.Second)
	w := &watch{t: t, changed: make(chan struct{}, 1)}
	w.docker = w.collector(s, nil, false)
	w.docker.patience = maxEventDelay
	w.read()
	w.start()
	t.Cleanup(func() { w.stop() })
	ctx, cancel := context.WithCancel(t.Context())
	var polling sync.WaitGroup
	polling.Go(func() {
		for ctx.Err() == nil {
			poll, end := context.WithTimeout(ctx, 10*time.Second)
			if err := w.docker.Collect(poll, &Batch{}); err != nil && ctx.Err() == nil {
				t.Errorf("poll: %v", err)
			}
			end()
			time.Sleep(time.Second)
		}
	})
	defer polling.Wait()
	defer cancel()
	name := all.Name + "-slow"
	for i, takes := range []string{"1.3", "3.4", "5.3", "11"} {
		write(delay, takes)
		all.Docker("restart", "-t", "0", name)
		answered := time.Now()
		want := []string{
			"chatstack_container_" + restarts(name, i+1), `chatstack_container_state{container="` + name + `",state="running"} 1`,
		}
		for !containsAll(w.page(), want) && time.Since(answered) < realDeadline {
			time.Sleep(10 * time.Millisecond)
		}
		if took := time.Since(answered); took > 2*time.Second {
			t.Errorf("a start of %s s: the page agrees with the engine after %s", takes, took)
		}
	}
}

func containsAll(page string, lines []string) bool {
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			return false
		}
	}
	return true
}
