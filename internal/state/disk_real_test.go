//go:build realservers

package state

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestRealFullAndReadOnlyDisksAreToldApart needs root, as the tests against real servers do.
func TestRealFullAndReadOnlyDisksAreToldApart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatalf("mount a tmpfs, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "state.json")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 128<<10), 0o600); err == nil {
		t.Fatal("the disk is not full")
	}
	tell := func(want string) {
		t.Helper()
		j := openAt(t, path)
		if _, err := j.Status(); err == nil || !strings.Contains(err.Error(), want) {
			t.Fatalf("got %v; want %q", err, want)
		}
		if err := j.Value("a").Save(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("saved with %v, want %q", err, want)
		}
		j.Close() //nolint:errcheck // it cannot save
		if notice, err := Inspect(path); err != nil || !strings.Contains(notice, want) {
			t.Errorf("inspected with %q, %v; want %q", notice, err, want)
		}
	}
	tell("its file system is full")
	remount := func(flags uintptr) {
		t.Helper()
		must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|flags, ""))
	}
	remount(syscall.MS_RDONLY)
	tell("its file system is read-only")
	j := openAt(t, path) // what was saved before the disk was ever writable is kept in the end
	j.part.set(j.File, "a", 1)
	remount(0)
	must(t, os.Remove(filler))
	j.save("a", 1)
	j.isKept("the disk takes it again")
	j.end()
}
