//go:build chaos

package chaos

import (
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// hurt is something that happens to the disk or the file of a running exporter.
type hurt struct {
	name string
	do   func(path string) error
	// undo ends it; nil for what the exporter mends alone.
	undo func(path string) error
	// says is in the log and on the page meanwhile.
	says string
}

// The numbers of the ioctls that stop and continue all writing to a file system.
const freeze, thaw = 0xC0045877, 0xC0045878

// control sends such a number to the file system of a file.
func control(request uint) func(path string) error {
	return func(path string) error {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return err
		}
		return errors.Join(unix.IoctlSetInt(int(dir.Fd()), request, 0), dir.Close())
	}
}

var hurts = []hurt{
	{
		"deleted",
		os.Remove,
		nil,
		"",
	},
	{
		"emptied",
		func(path string) error { return os.Truncate(path, 0) },
		nil,
		"",
	},
	{
		"cut",
		func(path string) error { return os.Truncate(path, 100) },
		nil,
		"",
	},
	{
		"replaced",
		func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("no state\n"), 0o600), os.Rename(path+".new", path))
		},
		nil,
		"",
	},
	{
		"without its lock",
		func(path string) error { return os.Remove(path + ".lock") },
		nil,
		"",
	},
	{
		"a directory",
		func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		os.Remove,
		"is a directory",
	},
	{
		"with a second name",
		func(path string) error { return os.Link(path, path+".link") },
		func(path string) error { return os.Remove(path + ".link") },
		"has another name (a hard link)",
	},
	{
		"in a directory that is away",
		func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".away") },
		func(path string) error { return os.Rename(filepath.Dir(path)+".away", filepath.Dir(path)) },
		"create its directory",
	},
	{
		"below a file system that nobody may write",
		func(path string) error {
			return syscall.Mount("tmpfs", filepath.Dir(path), "tmpfs", syscall.MS_RDONLY, "size=64k")
		},
		func(path string) error { return syscall.Unmount(filepath.Dir(path), syscall.MNT_DETACH) },
		"read-only file system",
	},
	{
		"on a full disk",
		func(path string) error {
			f, err := os.Create(path + ".filler")
			for err == nil {
				_, err = f.Write(make([]byte, 1024))
			}
			f.Close() //nolint:errcheck // it is full
			if errors.Is(err, syscall.ENOSPC) {
				return nil
			}
			return err
		},
		func(path string) error { return os.Remove(path + ".filler") },
		"no space left on device",
	},
	{
		"on a disk that hangs",
		control(freeze),
		control(thaw),
		"longer than 2s",
	},
}

// TestStateFileThatIsHurtIsMended hurts the state file of one exporter in all ways, on a disk of its own. Meanwhile probes and scrapes
// go on, metrics and page say that nothing is kept, and afterwards everything is.
func TestStateFileThatIsHurtIsMended(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system; .ci/nightly is root")
	}
	stack := simstacktest.Start(t, simstack.Options{})
	disk := smallDisk(t)
	path := filepath.Join(disk, "dir", "state.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	e := start(t, command(t, "", canary(stack, path), stack.Environ()))
	writable := func(want float64) func(page) bool {
		return func(p page) bool { return p.Sum("chatstack_state_writable") == want }
	}
	e.wait(t, "every target up", func(p page) bool { return p.AllUp() && writable(1)(p) })
	for _, h := range hurts {
		before := e.scrape(t)
		if err := h.do(path); err != nil {
			t.Fatalf("%s: %v", h.name, err)
		}
		if h.undo != nil {
			undone := false
			t.Cleanup(func() {
				if !undone {
					h.undo(path) //nolint:errcheck // the test has failed
				}
			})
			e.wait(t, h.name+": it is not writable", writable(0))
			e.wait(t, h.name+": probes go on", func(p page) bool {
				const attempts = "chatstack_probe_attempts_total"
				return p.Sum(attempts, "target", "xmpp_c2s") > before.Sum(attempts, "target", "xmpp_c2s")+5
			})
			body, err := exportertest.Fetch(t.Context(), patience, e.url+"/")
			if page := string(body); err != nil || !strings.Contains(page, "Nothing is kept since") || !strings.Contains(page, h.says) {
				t.Errorf("%s: %v, the page does not say %q", h.name, err, h.says)
			}
			if err := h.undo(path); err != nil {
				t.Fatalf("%s: %v", h.name, err)
			}
			undone = true
		}
		e.wait(t, h.name+": it is over", func(p page) bool { return p.AllUp() && writable(1)(p) && keeps(t, path) })
	}
	e.stop(t)
	if left := stack.Plants(); len(left) > 0 {
		t.Errorf("plants are left in the store: %v", left)
	}
}

// smallDisk mounts a file system of its own, which can be full and can hang, until the end of the test.
func smallDisk(t *testing.T) string {
	t.Helper()
	image, disk := filepath.Join(t.TempDir(), "image"), t.TempDir()
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 8<<20)); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"mkfs.ext4", "-q", image}, {"mount", "-o", "loop", image, disk}} {
		//nolint:gosec // as above
		if out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk
}

// keeps reports whether a copy of the state file has what the judge and the plant store keep.
func keeps(t *testing.T, path string) bool {
	t.Helper()
	raw, err := os.ReadFile(path)
	copied := filepath.Join(t.TempDir(), "state.json")
	if err == nil {
		err = os.WriteFile(copied, raw, 0o600)
	}
	if err != nil {
		return false
	}
	f, notice, err := state.Open(copied, slog.New(slog.DiscardHandler), nil)
	if err != nil || notice != "" {
		return false
	}
	defer f.Close() //nolint:errcheck // it is a copy
	var debts []any
	return len(f.Group("judge").Load()) > 0 && f.Value("plant_store/plant_store").Load(&debts) == nil && debts != nil
}
