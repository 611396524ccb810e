package state

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// today is the state file of a build before version 2, and the history that it had beside it.
const today, todaysHistory = `{
  "version": 1,
  "values": {
    "maintenance": [],
    "plant_store/store": [
      {
        "id": 7
      }
    ]
  }
}
`, "chatstack_exporter history 1\n"

// TestFilesOfAnEarlierBuildAreReadOnce holds that nothing of them is lost.
func TestFilesOfAnEarlierBuildAreReadOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	history := todaysHistory
	for _, line := range []string{"availability 1", "incident 2", "incident x"} {
		history += sumOf([]byte(line)) + " " + line + "\n"
	}
	history += "01234567 n 100\nhalf a li"
	must(t, os.WriteFile(path, []byte(today), 0o600))
	must(t, os.WriteFile(path+historySuffix, []byte(history), 0o600))
	for n := range 3 {
		j := openAt(t, path)
		want := ""
		if n == 0 {
			want = "2 records of the state file " + path + " are damaged and left out; a copy of the file is " + path + ".old"
		}
		if j.notice != want {
			t.Errorf("notice %q, want %q", j.notice, want)
		}
		var debts []struct{ ID int }
		must(t, j.Value("plant_store/store").Load(&debts))
		if len(debts) != 1 || debts[0].ID != 7 || j.part.sum != 2 {
			t.Errorf("got %v, and %d of the history", debts, j.part.sum)
		}
		j.isKept("read")
		j.end()
		for name, want := range map[string]string{path: today, path + historySuffix: history} {
			if raw, err := os.ReadFile(name + oldSuffix); err != nil || string(raw) != want {
				t.Errorf("%s.old has %q, %v", name, raw, err)
			}
		}
		if _, err := os.Stat(path + historySuffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the old history is still there: %v", err)
		}
		must(t, os.WriteFile(path+historySuffix, []byte(history), 0o600)) // as if the end had come before it was renamed
	}
}

func TestDamagedFileIsPutAside(t *testing.T) {
	r := record{"a", replaces, []byte("1")}
	good := string(r.appendTo(nil))
	for name, c := range map[string]struct{ content, notice string }{
		"cut":        {`{"version":1,"values":{"a`, "it is damaged, or another program's"},
		"other":      {`[1]`, "it is damaged, or another program's"},
		"no version": {`{}`, "it is damaged, or another program's"},
		"a line":     {header + good + strings.Replace(good, "1\n", "2\n", 1), "1 records of the state file"},
		"a record":   {header + good + string((&record{seriesName, adds, []byte("[]")}).appendTo(nil)), "1 records of the state file"},
		"header":     {strings.Replace(header, "2", "3", 1) + good, "1 records of the state file"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.json")
			must(t, os.WriteFile(path, []byte(c.content), 0o600))
			j := openAt(t, path)
			if set := asides(t, path); len(set) != 1 || set[0] != c.content || !strings.Contains(j.notice, c.notice) ||
				!strings.Contains(j.notice, path+".damaged-") {
				t.Errorf("notice %q, set aside %q", j.notice, set)
			}
			var a int
			if err := j.Value("a").Load(&a); err != nil || (a == 1) != strings.Contains(c.content, good) {
				t.Errorf("a is %d, %v", a, err)
			}
			j.save("b", 1)
			j.end()
			if again := openAt(t, path); again.notice != "" {
				t.Errorf("opened again: %q", again.notice)
			}
		})
	}
}

func TestNewerVersionIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, newer := range []string{headerStart + "3\nsomething\n", `{"version":3,"values":{}}`} {
		must(t, os.WriteFile(path, []byte(newer), 0o600))
		if _, _, err := Open(path, nil, nil); err == nil || !strings.Contains(err.Error(), "is of version 3,") {
			t.Errorf("got %v, want the version named", err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != newer {
			t.Errorf("the file is now %q, %v", kept, err)
		}
	}
}

func TestOpenWithoutDirectoryOrLockFails(t *testing.T) {
	dir := t.TempDir()
	if _, _, err := Open(filepath.Join(dir, "absent", "state.json"), nil, nil); err == nil || !strings.Contains(err.Error(), "state_file") {
		t.Errorf("a directory that is not there: %v, want what to do", err)
	}
	j := open(t)
	if _, _, err := Open(j.path, nil, nil); err == nil || !strings.Contains(err.Error(), "another exporter uses it") {
		t.Errorf("opened twice: %v", err)
	}
	if _, err := os.Stat(j.path); err != nil {
		t.Error(err)
	}
}

// TestStartDoesNotWaitForADiskThatHangs holds that what could not be read is set aside later.
func TestStartDoesNotWaitForADiskThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.json")
		must(t, os.WriteFile(path, []byte(header+"unread"), 0o600))
		read := make(chan struct{})
		d := &disk{path: path, log: slog.New(slog.DiscardHandler)}
		j := newJournal(t, d)
		load := func() found { <-read; return d.load() }
		waits := took(func() { _, j.notice, _ = j.open(d, load) })
		if waits != readWithin || !strings.Contains(j.notice, "cannot be read") {
			t.Errorf("waited %s, notice %q", waits, j.notice)
		}
		j.part.add(j.File, 1)
		time.Sleep(patience)
		if waits := took(func() { j.Flush() }); waits != 0 { //nolint:errcheck // it is about the time
			t.Errorf("waited %s", waits)
		}
		if _, err := j.Status(); err == nil {
			t.Error("nothing says that the disk hangs")
		}
		close(read)
		synctest.Wait()
		j.isKept("the disk works again")
		if set := asides(t, path); len(set) != 1 || set[0] != header+"unread" {
			t.Errorf("set aside: %q", set)
		}
		j.end()
	})
}

func TestInspectionTellsWhatOpenWouldAndChangesNothing(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"good": `{"version":1}`, "damaged": `{"ver`, "newer": headerStart + "3\n"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	before, err := os.ReadDir(dir)
	must(t, err)
	for name, want := range map[string]struct{ notice, err string }{
		"good":         {},
		"new":          {},
		"damaged":      {notice: "another program's; the exporter will keep a copy"},
		"newer":        {err: "is of version 3, this program supports up to 2: run the newer"},
		"absent/state": {err: "create its directory"},
		"good/state":   {err: "not a directory"},
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
			must(t, os.Mkdir(path, 0o700))
		},
		"a symbolic link": func(t *testing.T, path string) {
			t.Helper()
			must(t, os.WriteFile(path+".other", []byte(header), 0o600))
			must(t, os.Symlink(path+".other", path))
		},
		"a hard link": func(t *testing.T, path string) {
			t.Helper()
			must(t, os.WriteFile(path+".other", []byte(header), 0o600))
			must(t, os.Link(path+".other", path))
		},
		// A read of one that nobody writes to never ends.
		"a named pipe": func(t *testing.T, path string) {
			t.Helper()
			must(t, syscall.Mkfifo(path, 0o600))
		},
		"a socket": func(t *testing.T, path string) {
			t.Helper()
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
			must(t, err)
			t.Cleanup(func() { l.Close() }) //nolint:errcheck // it is only there
		},
	} {
		for _, suffix := range []string{"", lockSuffix} {
			t.Run(name+" at PATH"+suffix, func(t *testing.T) {
				t.Chdir(t.TempDir()) // a socket's whole path may be too long for its address
				put(t, "s"+suffix)
				says := "is " + name
				if name == "a hard link" {
					says = "has another name (a hard link)"
				}
				refused(t, "s", "s"+suffix, says)
			})
		}
	}
}

// refused holds that neither Open nor Inspect accepts the file at culprit, and that it stays what it is.
func refused(t *testing.T, path, culprit, says string) {
	t.Helper()
	before, err := os.Lstat(culprit)
	must(t, err)
	want := culprit + " " + says
	if _, err := Inspect(path); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("inspect: %v, want %q", err, want)
	}
	f, _, err := Open(path, nil, nil)
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
	others := []string{"state.tmp", "states.new.tmp", "state.1.tmp", "state.json.new.tmp"}
	for _, name := range append(others, "state"+newSuffix) {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	openAt(t, filepath.Join(dir, "state"))
	for _, name := range others {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s was removed: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "state"+newSuffix)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its own temporary file is left behind: %v", err)
	}
}
