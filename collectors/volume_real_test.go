//go:build realservers

package collectors

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// mountTmpfs mounts a file system of 4 MiB and 64 inodes in memory. It needs root, as the tests against real servers do.
func mountTmpfs(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a volume")
	if err := os.Mkdir(path, 0o755); err != nil { //nolint:gosec // a test's
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=4m,nr_inodes=64"); err != nil {
		t.Fatalf("mount a tmpfs, which needs root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, 0); err != nil {
			t.Errorf("unmount %s: %v", path, err)
		}
	})
	return path
}

// df is what df prints of a path: size, used, available, inodes, free inodes.
func df(t *testing.T, path string) [5]float64 {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "df", "-B1", "--output=size,used,avail,itotal,iavail", path).Output()
	if err != nil {
		t.Fatalf("df %s: %v", path, err)
	}
	_, numbers, _ := strings.Cut(string(out), "\n")
	var n [5]float64
	if _, err := fmt.Sscan(numbers, &n[0], &n[1], &n[2], &n[3], &n[4]); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	return n
}

// exported is the same of the page that a reading makes.
func exported(t *testing.T, path string) [5]float64 {
	t.Helper()
	s := &Volume{}
	s.Name, s.Path, s.Mountpoint = "data", path, true
	probe, err := newVolume(newMeasurements(measureVolume))(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	b := readUp(t, probe)
	value := map[string]float64{}
	for line := range strings.Lines(string(pageOf(t, b, true))) {
		var v float64
		name, rest, _ := strings.Cut(line, `{volume="data"} `)
		if _, err := fmt.Sscan(rest, &v); err == nil && !strings.HasPrefix(line, "#") {
			value[strings.TrimPrefix(name, "chatstack_volume_")] = v
		}
	}
	if value["size_bytes"] == 0 || value["error"] != 0 { // inodes are left out where df says 0
		t.Fatalf("exported %v", value)
	}
	return [5]float64{
		value["size_bytes"], value["size_bytes"] - value["free_bytes"], value["available_bytes"], value["inodes"], value["inodes_free"],
	}
}

// fill writes to a file until nothing more fits.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path) //nolint:gosec // a test's
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // it is full
	for block := make([]byte, 64<<10); err == nil; {
		_, err = f.Write(block)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func TestRealVolumeAgreesWithDf(t *testing.T) {
	path := mountTmpfs(t)
	for _, step := range []struct {
		name string
		do   func()
		want func(n [5]float64) bool
	}{
		{"empty", func() {}, func(n [5]float64) bool { return n[0] == 4<<20 && n[1] == 0 && n[3] == 64 }},
		{"some files", func() {
			for i := range 5 {
				if err := os.WriteFile(filepath.Join(path, fmt.Sprint(i)), make([]byte, 5000), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}, func(n [5]float64) bool { return n[1] == 5*8192 && n[3]-n[4] == 6 }},
		{"full", func() { fill(t, filepath.Join(path, "full")) }, func(n [5]float64) bool { return n[1] == n[0] && n[2] == 0 }},
	} {
		step.do()
		got, want := exported(t, path), df(t, path)
		if got != want {
			t.Errorf("%s: size, used, available, inodes, free inodes: got %v, df says %v", step.name, got, want)
		}
		if !step.want(want) {
			t.Errorf("%s: df says %v, which this test did not mean to make", step.name, want)
		}
	}
}

// TestVolumeKnowsWhatRootKeepsBack reads the disk that this runs on, since a tmpfs keeps nothing back for root. Others may
// write to it between the two looks, so it looks more than once.
func TestRealVolumeKnowsWhatRootKeepsBack(t *testing.T) {
	var got, want [5]float64
	for range 20 {
		got, want = exported(t, "/"), df(t, "/")
		if got == want {
			return
		}
	}
	t.Errorf("size, used, available, inodes, free inodes: got %v, df says %v", got, want)
}

func TestRealMountThatWasTakenAwayIsToldApart(t *testing.T) {
	path := mountTmpfs(t)
	s := &Volume{}
	s.Name, s.Path, s.Mountpoint = "data", path, true
	probe, err := newVolume(newMeasurements(measureVolume))(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, probe, 10*time.Second); err != nil {
		t.Error(err)
	}
	if err := syscall.Unmount(path, 0); err != nil {
		t.Fatal(err)
	}
	mustFail(t, probe, failure.Mismatch)
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t, probe, 10*time.Second); err != nil {
		t.Error(err)
	}
}

// TestRealRemountIsToldFromABindMount has a file system that is bound elsewhere read-only, is hidden, and turns read-only.
func TestRealRemountIsToldFromABindMount(t *testing.T) {
	path, bound := mountTmpfs(t), t.TempDir()
	below := filepath.Join(path, "below")
	if err := os.Mkdir(below, 0o755); err != nil { //nolint:gosec // a test's
		t.Fatal(err)
	}
	mount := func(source, target string, flags uintptr, options string) {
		t.Helper()
		if err := syscall.Mount(source, target, "tmpfs", flags, options); err != nil {
			t.Fatal(err)
		}
	}
	mount(below, bound, syscall.MS_BIND, "")
	t.Cleanup(func() { syscall.Unmount(bound, 0) }) //nolint:errcheck // the next mount fails
	mount("", bound, syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	if err := os.WriteFile(filepath.Join(bound, "file"), nil, 0o600); !errors.Is(err, syscall.EROFS) {
		t.Fatalf("write to the bind mount: %v", err)
	}
	expect := func(when string, want bool, paths ...string) {
		t.Helper()
		for _, path := range paths {
			u, err := measureVolume(path)
			if err != nil || u.mountErr != nil || u.readOnly == nil || *u.readOnly != want {
				t.Errorf("%s, %s: %+v, %v, want read-only: %t", when, path, u, err, want)
			}
		}
	}
	expect("bound read-only", false, path, below, bound)
	mount("tmpfs", path, syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	expect("remounted", true, path, below, bound)
	over := filepath.Dir(path)
	mount("tmpfs", over, 0, "size=1m")
	t.Cleanup(func() { syscall.Unmount(over, 0) })    //nolint:errcheck // the directory's removal fails
	if err := os.MkdirAll(below, 0o755); err != nil { //nolint:gosec // a test's
		t.Fatal(err)
	}
	expect("hidden by another mount", false, path, below)
	if u, err := measureVolume(path); err != nil || u.mountErr != nil || u.mounted {
		t.Errorf("a directory at the place of a hidden mount: %+v, %v, want that nothing is mounted there", u, err)
	}
	expect("still bound", true, bound)
}
