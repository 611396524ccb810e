//go:build chaos

package chaos

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// realState is the state file of an exporter that was killed while it owed the deletion of canaries.
func realState(t *testing.T) (content []byte, cfg string, stack *simstack.Stack) {
	t.Helper()
	stack = simstacktest.Start(t, simstack.Options{})
	if err := stack.Switch("plant_store", "refuse_delete", true); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.json")
	cfg = canary(stack, path)
	e := start(t, command(t, "", cfg, stack.Environ()))
	e.wait(t, "orphans", func(p page) bool {
		return p.Sum("chatstack_plant_store_orphans") >= 2 && p.Verdict("docker") == "up"
	})
	if err := e.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-e.Ended
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := stack.Switch("plant_store", "refuse_delete", false); err != nil {
		t.Fatal(err)
	}
	return content, cfg, stack
}

// fastDir is a directory in memory where there is one, since what is written is synced each time.
func fastDir(t *testing.T) string {
	t.Helper()
	const inMemory = "/dev/shm"
	if info, err := os.Stat(inMemory); err != nil || !info.IsDir() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(inMemory, "chaos-") //nolint:usetesting // t.TempDir is on a disk
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestStateFileDamagedAnywhereStopsNothing damages every byte of a real state file, in one of three ways by turns.
// Whatever comes out, the exporter starts, and what cannot be read is set aside and told. It runs beside nothing that
// starts processes, which would hold the lock of a file for a moment.
func TestStateFileDamagedAnywhereStopsNothing(t *testing.T) {
	whole, text, stack := realState(t)
	env := stack.Environ()
	cfg, err := config.Load(config.Source{
		File:    "exporter.yaml",
		Content: []byte(text),
		Kinds:   collectors.ConfigKinds(),
		Lookup:  func(name string) (string, bool) { v, ok := env[name]; return v, ok },
	})
	if err != nil {
		t.Fatal(err)
	}
	dir := fastDir(t)
	path := filepath.Join(dir, "state.json")
	aside, parsed := 0, 0
	for i := range whole {
		name, damaged := "cut", whole[:i]
		switch i % 3 {
		case 1:
			name, damaged = "flipped", slices.Concat(whole[:i], []byte{whole[i] ^ 2}, whole[i+1:])
		case 2:
			name, damaged = "zeroed", slices.Concat(whole[:i], []byte{0}, whole[i+1:])
		}
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		f, notice, err := state.Open(path, slog.New(slog.DiscardHandler), nil)
		if err != nil {
			if name == "flipped" && strings.Contains(err.Error(), "is of version") {
				continue // the byte that says so
			}
			t.Fatalf("byte %d %s: %v", i, name, err)
		}
		if parsed++; notice != "" {
			aside, parsed = aside+1, parsed-1
		}
		for _, settings := range cfg.Targets {
			makeCollector(t, cfg, settings, f)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		set, err := filepath.Glob(path + ".damaged-*")
		if err != nil || (notice != "") != (len(set) == 1) {
			t.Fatalf("byte %d %s: set aside: %v, notice %q", i, name, set, notice)
		}
		for _, file := range set {
			if kept, err := os.ReadFile(file); err != nil || string(kept) != string(damaged) {
				t.Fatalf("byte %d %s: what is set aside is not what was there: %v", i, name, err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	if aside == 0 || parsed == 0 {
		t.Errorf("%d set aside and %d read: the test shows nothing", aside, parsed)
	}
	t.Logf("%d bytes; %d damaged files were set aside, %d could still be read", len(whole), aside, parsed)
}

// makeCollector has a collector read what is kept for it.
func makeCollector(t *testing.T, cfg *config.Config, settings config.Settings, f *state.File) {
	t.Helper()
	common := settings.Common()
	kind, _ := collectors.KindOf(common.Kind)
	if _, err := kind.New(settings, collectors.Deps{
		Limits:    cfg.Limits,
		Log:       slog.New(slog.DiscardHandler),
		State:     f.Value(common.Kind + "/" + common.Name),
		UserAgent: "test",
	}); err != nil {
		t.Fatalf("%s: %v", common.Name, err)
	}
}
