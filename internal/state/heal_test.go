package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestFileThatIsHurtIsWrittenAgain hurts the file of a running exporter in many ways. What memory has is in the file afterwards, and so is
// what comes later.
func TestFileThatIsHurtIsWrittenAgain(t *testing.T) {
	for name, hurt := range map[string]func(t *testing.T, path string){
		"deleted":      func(t *testing.T, path string) { t.Helper(); must(t, os.Remove(path)) },
		"emptied":      func(t *testing.T, path string) { t.Helper(); must(t, os.Truncate(path, 0)) },
		"cut":          func(t *testing.T, path string) { t.Helper(); must(t, os.Truncate(path, 40)) },
		"longer":       func(t *testing.T, path string) { t.Helper(); must(t, os.Truncate(path, 1<<20)) },
		"replaced":     func(t *testing.T, path string) { t.Helper(); replace(t, path, "something else\n") },
		"renamed":      func(t *testing.T, path string) { t.Helper(); must(t, os.Rename(path, path+".away")) },
		"lock deleted": func(t *testing.T, path string) { t.Helper(); must(t, os.Remove(path+lockSuffix)) },
		"all deleted": func(t *testing.T, path string) {
			t.Helper()
			must(t, os.RemoveAll(filepath.Dir(path)))
			must(t, os.Mkdir(filepath.Dir(path), 0o700))
		},
		"by an older copy": func(t *testing.T, path string) {
			t.Helper()
			raw, err := os.ReadFile(path)
			must(t, err)
			replace(t, path, string(raw))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(j *journal, _ *slow) {
				j.save("v", 1)
				j.part.add(j.File, 5)
				j.part.set(j.File, "a", 1)
				must(t, j.Flush())
				hurt(t, j.path)
				j.part.set(j.File, "b", 1)
				must(t, j.Flush())
				j.isKept("the next record")
				hurt(t, j.path)
				time.Sleep(retryEvery)
				synctest.Wait()
				j.isKept("nothing to write")
				j.save("v", 2)
				j.part.add(j.File, 7)
				must(t, j.Flush())
				j.isKept("later records")
				if _, err := Inspect(j.path); err != nil {
					t.Error(err)
				}
				if other, _, err := Open(j.path, nil, nil); err == nil {
					other.Close() //nolint:errcheck // it should not be open
					t.Error("another exporter may open it")
				}
			})
		})
	}
}

// replace puts another file at the path.
func replace(t *testing.T, path, content string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(content), 0o600))
	must(t, os.Rename(path+".new", path))
}

// TestWhatCannotBeReplacedIsLikeAFullDisk puts what Open refuses at the path of a running exporter.
func TestWhatCannotBeReplacedIsLikeAFullDisk(t *testing.T) {
	for name, c := range map[string]struct {
		put  func(path string) error
		undo func(path string) error
		want string
	}{
		"second name": {
			func(path string) error { return os.Link(path, path+".link") },
			func(path string) error { return os.Remove(path + ".link") },
			"has another name (a hard link)",
		},
		"directory": {
			func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
			os.Remove,
			"is a directory",
		},
		"link": {
			func(path string) error { return errors.Join(os.Remove(path), os.Symlink("nowhere", path)) },
			os.Remove,
			"is a symbolic link",
		},
		"no directory": {
			func(path string) error { return os.Rename(filepath.Dir(path), filepath.Dir(path)+".away") },
			func(path string) error { return os.Rename(filepath.Dir(path)+".away", filepath.Dir(path)) },
			"create its directory",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "dir")
				must(t, os.Mkdir(dir, 0o700))
				j := openAt(t, filepath.Join(dir, "state.json"))
				j.save("v", 1)
				synctest.Wait() // a write between the two steps of put would mend it
				must(t, c.put(j.path))
				j.part.add(j.File, 1)
				if err := j.Flush(); err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("flushed with %v, want %q", err, c.want)
				}
				time.Sleep(time.Minute)
				must(t, c.undo(j.path))
				time.Sleep(retryEvery)
				synctest.Wait()
				j.isKept("it is gone")
				j.logged(map[string]int{"cannot save the state": 1, "the state is saved again": 1})
				j.end()
			})
		})
	}
}

// TestFileThatIsReplacedAgainAndAgainFillsNoDisk as by a program that restores a copy, or an exporter on a disk without locks.
func TestFileThatIsReplacedAgainAndAgainFillsNoDisk(t *testing.T) {
	inVirtualTime(t, func(j *journal, _ *slow) {
		j.save("v", 1)
		for range 3 * maxForeign {
			replace(t, j.path, "something else\n")
			time.Sleep(retryEvery)
			synctest.Wait()
			j.isKept("it was replaced")
		}
		if got := len(asides(t, j.path)); got != maxForeign {
			t.Errorf("%d files were set aside, want %d", got, maxForeign)
		}
	})
}

// TestForeignFileIsSetAside holds that what this process has not written is not lost when it writes.
func TestForeignFileIsSetAside(t *testing.T) {
	j := open(t)
	j.save("v", 1)
	replace(t, j.path, "a backup")
	j.save("v", 2)
	if got := asides(t, j.path); len(got) != 1 || got[0] != "a backup" {
		t.Errorf("set aside: %q", got)
	}
	j.isKept("replaced")
	j.logged(map[string]int{"another file was in place of the state file; it was renamed": 1})
}

// asides are the contents of the copies that were set aside.
func asides(t *testing.T, path string) (contents []string) {
	t.Helper()
	names, err := filepath.Glob(path + ".damaged-*")
	must(t, err)
	for _, name := range names {
		raw, err := os.ReadFile(name)
		must(t, err)
		contents = append(contents, string(raw))
	}
	return contents
}
