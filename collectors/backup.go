package collectors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

var (
	backupTimeDesc = readDesc("chatstack_backup_last_timestamp_seconds",
		"Unix time at which the newest backup was last written. Absent if no file matches.", "target")
	backupSizeDesc = readDesc("chatstack_backup_size_bytes",
		"Size of the newest backup in bytes. Absent if no file matches.", "target")
)

// Backup is the block of files that a backup job writes.
type Backup struct {
	config.Target `yaml:",inline"`
	// Path is a glob that matches the backups, absolute.
	Path string `yaml:"path"`
	// MaxAge is how old the newest backup may be.
	MaxAge config.Duration `yaml:"max_age"`
	// MinSize is how large the newest backup must be at least.
	MinSize config.Bytes `yaml:"min_size"`
}

func newBackupSettings() *Backup {
	return &Backup{MaxAge: config.Duration(26 * time.Hour), MinSize: 1}
}

// Configured implements config.Settings.
func (s *Backup) Configured() bool { return s.Path != "" }

// Place implements config.Settings.
func (s *Backup) Place() string { return s.Path }

// HostName implements config.Settings.
func (s *Backup) HostName() string { return "" }

// Check implements config.Settings.
func (s *Backup) Check(r *config.Report) {
	if !filepath.IsAbs(s.Path) {
		r.Faultf("path", "is %q, must be an absolute path such as /var/backups/prosody-*.tar.gz", s.Path)
	} else if _, err := filepath.Match(s.Path, ""); err != nil {
		r.Faultf("path", "is %q, which is not a valid glob: a [ needs its ], and a backslash quotes the next character", s.Path)
	}
	if s.MaxAge.Std() < time.Minute {
		r.Faultf("max_age", "is %s, must be at least 1m", s.MaxAge.Std())
	}
	if s.MinSize < 0 {
		r.Faultf("min_size", "is %d, must be at least 0", s.MinSize)
	}
}

// Warnings implements config.Settings.
func (s *Backup) Warnings() []string {
	switch {
	case strings.ContainsAny(s.Path, "{}"):
		return []string{"path has braces, which match only themselves; use *, ? and [a-z], or one target for each"}
	case strings.Contains(s.Path, "**"):
		return []string{"path has **, which matches one level of directories, as * does; write */* for two"}
	}
	return nil
}

// backup looks at the newest of the files that match a glob. It reads only their names, sizes and times.
type backup struct {
	*Backup
	path string
	all  *measurements[newest]
}

// newBackup returns what makes a collector of a backup's settings. The collectors share the measurements.
func newBackup(all *measurements[newest]) func(*Backup, Deps) (Collector, error) {
	return func(s *Backup, _ Deps) (Collector, error) {
		return &backup{s, filepath.Clean(s.Path), all}, nil
	}
}

// newest is the newest of the files that match, "" if there is none.
type newest struct {
	path    string
	written time.Time
	size    int64
	// ahead are the files whose time is so far in the future that they would hide for as long that there are no newer ones.
	ahead int
	// directory is one that matches, "" if none does. It is no backup.
	directory string
	// unread is why the first of the directories and files that cannot be looked at cannot, nil if all can. It may hide a newer file.
	unread error
}

// clockTolerance is how far the clock of another machine, which writes the backup, may be ahead.
const clockTolerance = time.Hour

// newestFile finds the newest file that matches a glob, by the time of its last change.
func newestFile(pattern string) (found newest, err error) {
	paths, unread := expand(pattern)
	found.unread = unread
	latest := time.Now().Add(clockTolerance)
	for _, path := range paths {
		switch info, err := os.Stat(path); {
		case isAbsent(err): // removed meanwhile, or a link to nothing
		case err != nil:
			found.unread = cmp.Or(found.unread, err)
		case info.IsDir():
			found.directory = path
		case !info.Mode().IsRegular():
		case info.ModTime().After(latest):
			found.ahead++
		case found.path == "" || info.ModTime().After(found.written):
			found.path, found.written, found.size = path, info.ModTime(), info.Size()
		}
	}
	if found == (newest{}) {
		_, err = os.Stat(config.GlobParent(pattern) + "/") // an error if it is a file
	}
	return found, err
}

// expand returns the paths that an absolute glob may match. The error is about the first directory that cannot be listed, which
// filepath.Glob takes for empty.
func expand(pattern string) (paths []string, unread error) {
	paths = []string{"/"}
	for part := range strings.SplitSeq(pattern[1:], "/") {
		dirs := paths
		paths = nil
		for _, dir := range dirs {
			if !strings.ContainsAny(part, `*?[\`) {
				paths = append(paths, filepath.Join(dir, part))
				continue
			}
			entries, err := os.ReadDir(dir)
			if !isAbsent(err) {
				unread = cmp.Or(unread, err)
			}
			for _, e := range entries {
				if matches, _ := filepath.Match(part, e.Name()); matches {
					paths = append(paths, filepath.Join(dir, e.Name()))
				}
			}
		}
	}
	return paths, unread
}

// isAbsent reports whether an error says that nothing has this path.
func isAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// Collect implements Collector.
func (c *backup) Collect(ctx context.Context, b *Batch) error {
	file, err := c.all.await(ctx, "look for", c.path)
	if err == nil && file.path == "" {
		err = fileSystemError("look for", c.path, file.unread)
	}
	if errors.Is(err, syscall.EACCES) {
		return failure.Errorf(failure.Forbidden, "%w", err).
			WithHint("run the exporter as a user or group that may list and enter the directory; it reads only names, sizes and times")
	}
	if err != nil {
		return err
	}
	if file.unread != nil {
		b.Note(fmt.Sprintf("not all that match can be read: %v", file.unread))
	}
	if file.ahead > 0 {
		b.Note(fmt.Sprintf("%d of the files are from the future, so they do not count", file.ahead))
	}
	problem := c.problem(&file)
	if problem != "" {
		b.Note(problem)
	}
	b.Condition(health.AlertBackupOld, "", problem != "")
	if file.path != "" {
		b.Gauge(backupTimeDesc, float64(file.written.UnixNano())/1e9, c.Name)
		b.Gauge(backupSizeDesc, float64(file.size), c.Name)
		b.Figure(Figure{Name: "newest backup", Value: float64(file.size), Unit: "bytes"})
	}
	return nil
}

// problem says what is wrong with the newest backup, "" if nothing is.
func (c *backup) problem(file *newest) string {
	age := time.Since(file.written)
	switch {
	case file.path == "" && file.ahead > 0:
		return "no other file matches " + c.path
	case file.path == "" && file.directory != "":
		return fmt.Sprintf("no file matches %s, but the directory %s does: match the files in it", c.path, file.directory)
	case file.path == "":
		return "no file matches " + c.path
	case age > c.MaxAge.Std():
		return fmt.Sprintf("the newest file, %s, was written %s ago; max_age is %s",
			file.path, wording.Duration(age), wording.Duration(c.MaxAge.Std()))
	case file.size < int64(c.MinSize):
		return fmt.Sprintf("the newest file, %s, has %d bytes, less than min_size: %d", file.path, file.size, int64(c.MinSize))
	}
	return ""
}
