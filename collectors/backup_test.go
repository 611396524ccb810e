package collectors

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// backupProbe is a collector of backups below a directory, of which the newest must be a day old at most and have 10 bytes.
func backupProbe(t *testing.T, all *measurements[newest], path string) Collector {
	t.Helper()
	s := newBackupSettings()
	s.Name, s.Path, s.MaxAge, s.MinSize = "nightly", path, config.Duration(24*time.Hour), 10
	c, err := newBackup(all)(s, deps(&memory{}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// backupFile writes a file of that size and age.
func backupFile(t *testing.T, path string, size int, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	//nolint:gosec // a test's
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, make([]byte, size), 0o600),
		os.Chtimes(path, at, at)); err != nil {
		t.Fatal(err)
	}
}

// isOld reports whether the backup counts as a problem.
func isOld(t *testing.T, b *Batch) bool {
	t.Helper()
	list := b.Conditions(nil)
	i := slices.IndexFunc(list, func(c health.Condition) bool { return c.Alert == health.AlertBackupOld })
	if i < 0 {
		t.Fatalf("the conditions are %+v", list)
	}
	return list[i].Holds
}

func TestNewestBackupIsYoungAndLargeEnough(t *testing.T) {
	const day = 24 * time.Hour
	type file struct {
		name string
		size int
		age  time.Duration
	}
	for name, c := range map[string]struct {
		files []file
		glob  string
		// size is that of the newest file; 0 if there is none. note is why it is a problem.
		size float64
		note string
	}{
		"young": {
			[]file{{"a.tar", 10, day - time.Minute}},
			"*.tar",
			10,
			"",
		},
		"old": {
			[]file{{"a.tar", 10, day + time.Minute}},
			"*.tar",
			10,
			"a.tar, was written 24h1m0s ago, more than max_age: 24h0m0s",
		},
		"one of several": {
			[]file{{"a.tar", 10, 3 * day}, {"b.tar", 11, time.Hour}, {"c.tar", 12, 2 * day}},
			"*.tar",
			11,
			"",
		},
		"small": {
			[]file{{"a.tar", 100, day - time.Minute}, {"b.tar", 9, time.Minute}},
			"*.tar",
			9,
			"b.tar, has 9 bytes, less than min_size: 10",
		},
		"none": {
			nil,
			"*.tar",
			0,
			"no file matches",
		},
		"others only": {
			[]file{{"a.log", 10, 0}},
			"*.tar",
			0,
			"no file matches",
		},
		"a directory": {
			[]file{{"a.tar/part", 10, 0}},
			"*.tar",
			0,
			"no file matches",
		},
		"in directories": {
			[]file{{"mon/a.tar", 10, 2 * day}, {"tue/a.tar", 10, time.Hour}},
			"*/a.tar",
			10,
			"",
		},
		"without wildcards": {
			[]file{{"a.tar", 10, time.Hour}},
			"a.tar",
			10,
			"",
		},
		"gone": {
			nil,
			"a.tar",
			0,
			"no file matches",
		},
		"a clock ahead": {
			[]file{{"a.tar", 10, -time.Minute}},
			"*.tar",
			10,
			"",
		},
		"from the future": {
			[]file{{"a.tar", 10, -day}, {"b.tar", 11, 2 * day}},
			"*.tar",
			11,
			"b.tar, was written 48h0m0s ago",
		},
		"all from the future": {
			[]file{{"a.tar", 10, -day}},
			"*.tar",
			0,
			"no file matches",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for _, f := range c.files {
				backupFile(t, filepath.Join(dir, f.name), f.size, f.age)
			}
			b := readUp(t, backupProbe(t, newMeasurements(newestFile), filepath.Join(dir, c.glob)))
			page := string(pageOf(t, b, true))
			if want := fmt.Sprintf("chatstack_backup_size_bytes{target=\"nightly\"} %g\n",
				c.size); strings.Contains(page, want) != (c.size > 0) {
				t.Errorf("page %s, want %s", page, want)
			}
			if strings.Contains(page, "chatstack_backup_last_timestamp_seconds{") != (c.size > 0) {
				t.Errorf("page %s, want the time of the newest file alone", page)
			}
			if isOld(t, b) != (c.note != "") || !strings.Contains(strings.Join(b.Notes, "\n"), c.note) {
				t.Errorf("a problem: %t, with notes %q; want %q", isOld(t, b), b.Notes, c.note)
			}
			if future := strings.Contains(strings.Join(b.Notes, "\n"), "from the future"); future != strings.Contains(name, "future") {
				t.Errorf("notes %q", b.Notes)
			}
		})
	}
}

func TestBackupGrowsOldByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := time.Now()
		probe := backupProbe(t, newMeasurements(func(string) (newest, error) {
			return newest{
				"/a.tar",
				written,
				10,
				0,
			}, nil
		}), "/*.tar")
		b := readUp(t, probe)
		goldenPage(t, "backup/young", b)
		time.Sleep(24 * time.Hour)
		if isOld(t, readUp(t, probe)) {
			t.Error("a backup that is as old as it may be is a problem")
		}
		time.Sleep(time.Second)
		if !isOld(t, readUp(t, probe)) {
			t.Error("an older one is none")
		}
	})
}

func TestLinkToTheLatestBackupCounts(t *testing.T) {
	dir := t.TempDir()
	backupFile(t, filepath.Join(dir, "data"), 10, time.Hour)
	for link, to := range map[string]string{"latest.tar": "data", "broken.tar": "nowhere"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if b := readUp(t, backupProbe(t, newMeasurements(newestFile), filepath.Join(dir, "*.tar"))); isOld(t, b) {
		t.Errorf("notes %q", b.Notes)
	}
}

// TestDirectoryThatCannotBeListedIsNoMissingBackup since it would look empty.
func TestDirectoryThatCannotBeListedIsNoMissingBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "absent", "*.tar")
	if _, err := readFails(t, backupProbe(t, newMeasurements(newestFile), path), failure.NotFound); !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name the path", err)
	}
	for cause, want := range map[error]struct {
		reason failure.Reason
		hint   string
	}{
		syscall.EACCES:  {failure.Forbidden, "it reads only names, sizes and times"},
		syscall.EPERM:   {failure.Forbidden, "security profile"},
		syscall.ESTALE:  {failure.Closed, "mount it again"},
		syscall.ENOTDIR: {failure.NotFound, "a part of the path is a file"},
	} {
		broken := newMeasurements(func(string) (newest, error) { return newest{}, &os.PathError{Op: "open", Path: "/b", Err: cause} })
		_, err := readFails(t, backupProbe(t, broken, "/b/*.tar"), want.reason)
		if !strings.Contains(failure.HintOf(err), want.hint) {
			t.Errorf("%v: the hint is %q", err, failure.HintOf(err))
		}
		wantListed(t, "backup", want.reason)
	}
}

func TestBackupOnAHungMountTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		probe := backupProbe(t, newMeasurements(func(string) (newest, error) { <-hang; return newest{}, nil }), "/b/*.tar")
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := probe.Collect(ctx, &Batch{}); failure.ReasonOf(err) != failure.Timeout ||
			!strings.Contains(failure.HintOf(err), "hangs") {
			t.Errorf("%v, with hint %q", err, failure.HintOf(err))
		}
		close(hang)
	})
}
