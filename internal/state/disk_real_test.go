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
		f, notice, err := Open(path)
		if err != nil || !strings.Contains(notice, want) {
			t.Fatalf("got %q, %v; want %q", notice, err, want)
		}
		if err := f.Value("a").Save(1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("saved with %v, want %q", err, want)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if notice, err := Inspect(path); err != nil || !strings.Contains(notice, want) {
			t.Errorf("inspected with %q, %v; want %q", notice, err, want)
		}
	}
	tell("its file system is full")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	tell("its file system is read-only")
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if err := f.Value("a").Save(1); err != nil {
		t.Errorf("the disk takes it again: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
