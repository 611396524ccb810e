package state

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func open(t *testing.T, path string) *File {
	t.Helper()
	f, notice, err := Open(path)
	if err != nil || notice != "" {
		t.Fatalf("open: notice %q, error %v", notice, err)
	}
	return f
}

func TestValuesOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := open(t, path)
	if err := f.Value("plants").Save([]int{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := f.Value("other").Save("kept"); err != nil {
		t.Fatal(err)
	}
	var plants []int
	var other string
	if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), "another exporter uses it") {
		t.Errorf("opened twice: %v", err)
	}
	if err := os.WriteFile(path+".123.tmp", []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, path)
	if err := f.Value("late").Save(1); err == nil {
		t.Error("saved into a file that another process may have by now")
	}
	if err := again.Value("plants").Load(&plants); err != nil {
		t.Fatal(err)
	}
	if err := again.Value("other").Load(&other); err != nil {
		t.Fatal(err)
	}
	if len(plants) != 2 || plants[1] != 2 || other != "kept" {
		t.Errorf("got %v and %q", plants, other)
	}
	unset := 7
	if err := again.Value("unset").Load(&unset); err != nil || unset != 7 {
		t.Errorf("an unset value: %d, %v; want it left as it is", unset, err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 { // and the lock
		t.Errorf("files left behind: %v, %v", entries, err)
	}
}

func TestWithoutPathValuesAreInMemory(t *testing.T) {
	f := open(t, "")
	if err := f.Value("a").Save(1); err != nil {
		t.Fatal(err)
	}
	var got int
	if err := f.Value("a").Load(&got); err != nil || got != 1 {
		t.Errorf("got %d, %v", got, err)
	}
}

func TestDamagedFileIsPutAside(t *testing.T) {
	for name, content := range map[string]string{"cut": `{"version":1,"values":{"a`, "empty": "", "other": `[1]`, "no version": `{}`} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			f, notice, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(notice, "damaged") {
				t.Errorf("notice %q does not say what happened", notice)
			}
			aside, err := filepath.Glob(path + ".damaged-*")
			if err != nil || len(aside) != 1 {
				t.Fatalf("aside: %v, %v", aside, err)
			}
			if kept, err := os.ReadFile(aside[0]); err != nil || string(kept) != content {
				t.Errorf("kept %q, %v; want what was in the file", kept, err)
			}
			if err := f.Value("a").Save(1); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestNewerVersionIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	const newer = `{"version":2,"values":{}}`
	if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v, want the version named", err)
	}
	if kept, err := os.ReadFile(path); err != nil || string(kept) != newer {
		t.Errorf("the file is now %q, %v", kept, err)
	}
}

func TestInspectionTellsWhatOpenWouldAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"good": `{"version":1}`, "damaged": `{"ver`, "newer": `{"version":2}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ notice, err string }{
		"good":         {},
		"new":          {},
		"damaged":      {notice: "rename it and start without its values"},
		"newer":        {err: "is of version 2"},
		"absent/state": {err: "its directory does not exist"},
		"good/state":   {err: "is not a directory"},
		"\x00/x":       {err: "invalid argument"},
	} {
		notice, err := Inspect(filepath.Join(dir, name))
		if (notice == "") != (want.notice == "") || !strings.Contains(notice, want.notice) {
			t.Errorf("%q: notice %q, want %q", name, notice, want.notice)
		}
		if (err == nil) != (want.err == "") || (err != nil && !strings.Contains(err.Error(), want.err)) {
			t.Errorf("%q: %v, want %q", name, err, want.err)
		}
		if absent := errors.Is(err, fs.ErrNotExist); absent != (name == "absent/state") {
			t.Errorf("%q: %v is fs.ErrNotExist: %v", name, err, absent)
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(before) {
		t.Errorf("it left %v, %v", after, err)
	}
	if notice, err := Inspect(""); notice != "" || err != nil {
		t.Errorf("in memory: %q, %v", notice, err)
	}
}

func TestOnlyARegularFileIsOpenedOrReplaced(t *testing.T) {
	for name, put := range map[string]func(t *testing.T, path string){
		"a directory": func(t *testing.T, path string) {
			t.Helper()
			if err := os.Mkdir(path, 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"a symbolic link": func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path+".other", []byte(`{"version":1}`), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(path+".other", path); err != nil {
				t.Fatal(err)
			}
		},
		// A read of one that nobody writes to never ends.
		"a named pipe": func(t *testing.T, path string) {
			t.Helper()
			if err := syscall.Mkfifo(path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"a socket": func(t *testing.T, path string) {
			t.Helper()
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { l.Close() }) //nolint:errcheck // it is only there
		},
	} {
		for _, suffix := range []string{"", ".lock"} {
			t.Run(name+" at PATH"+suffix, func(t *testing.T) {
				t.Chdir(t.TempDir()) // a socket's whole path may be too long for its address
				put(t, "s"+suffix)
				refused(t, "s", "s"+suffix, name)
			})
		}
	}
}

// refused holds that neither Open nor Inspect accepts the file at culprit, and that it stays what it is.
func refused(t *testing.T, path, culprit, is string) {
	t.Helper()
	before, err := os.Lstat(culprit)
	if err != nil {
		t.Fatal(err)
	}
	want := culprit + " is " + is + ", must be a regular file"
	if _, err := Inspect(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("inspect: %v, want %q", err, want)
	}
	f, _, err := Open(path)
	if err == nil {
		f.Close() //nolint:errcheck // it should not be open
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("open: %v, want %q", err, want)
	}
	if after, err := os.Lstat(culprit); err != nil || !os.SameFile(before, after) {
		t.Errorf("it was replaced: %v, %v", after, err)
	}
}

func TestCleaningUpTouchesNoFileOfOthers(t *testing.T) {
	dir := t.TempDir()
	others := []string{"states.1.tmp", "state1.2.tmp", "state[12s].notes.tmp", "state[12s].json.3.tmp"}
	for _, name := range append(others, "state[12s].4.tmp") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, filepath.Join(dir, "state[12s]"))
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state[12s].4.tmp")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own temporary file is left behind: %v", err)
	}
}

func TestFailedSaveLosesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "state.json")
	if _, _, err := Open(path); err == nil || !strings.Contains(err.Error(), "state_file") {
		t.Errorf("a directory that is not there: %v, want what to do", err)
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	if err := f.Value("a").Save("old"); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Dir(path)); err != nil {
		t.Fatal(err)
	}
	if err := f.Value("a").Save("new"); err == nil {
		t.Error("saved into a directory that is gone")
	}
	var got string
	if err := f.Value("a").Load(&got); err != nil || got != "old" {
		t.Errorf("got %q, %v; want what is true of the disk", got, err)
	}
}
