package state

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// largest is how large a file of this process may be during a test. The test's own log is smaller.
const largest = 4 << 20

// limitFileSize has the kernel refuse what is larger, as a full disk does. It returns what ends that.
func limitFileSize(t *testing.T) (end func()) {
	t.Helper()
	var usual unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, nil, &usual); err != nil {
		t.Fatal(err)
	}
	set := func(to unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(0, unix.RLIMIT_FSIZE, &to, nil); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: largest, Max: usual.Max})
	end = func() { set(usual) }
	t.Cleanup(end)
	return end
}

func TestDiskThatTakesNothingEndsNobody(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	content := `{"version":1,"values":{"a":"` + strings.Repeat("a", largest) + `"}}`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	end := limitFileSize(t)
	inspected, err := Inspect(path)
	if err != nil {
		t.Fatalf("inspected with %v, want a notice", err)
	}
	j := openAt(t, path)
	for _, want := range []string{"cannot be saved", syscall.EFBIG.Error(), "ulimit -f", "state_file"} {
		if !strings.Contains(inspected, want) {
			t.Errorf("the inspection's notice %q lacks %q", inspected, want)
		}
		if _, err := j.Status(); want != "cannot be saved" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("the status %v lacks %q", err, want)
		}
	}
	var a string
	if err := j.Value("a").Load(&a); err != nil || len(a) != largest {
		t.Errorf("read %d bytes of what was kept, %v", len(a), err)
	}
	if err := j.Value("b").Save(2); err == nil {
		t.Error("saved what is not on the disk")
	}
	if left, err := os.ReadFile(path); err != nil || string(left) != content {
		t.Errorf("the file has now %d bytes, %v", len(left), err)
	}
	end()
	j.save("b", 2)
	j.isKept("the disk takes it again")
	j.logged(map[string]int{"cannot save the state": 1, "ulimit -f": 1, "the state is saved again": 1})
}

// A file system that nobody may write is refused to every user, root included.
func TestInspectionSeesADirectoryThatCannotBeWritten(t *testing.T) {
	_, err := Inspect("/proc/self/state.json")
	if err == nil || !strings.Contains(err.Error(), "write directory /proc/self: ") {
		t.Errorf("got %v, want what cannot be written", err)
	}
}
