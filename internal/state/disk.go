package state

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// store is where the journal is: a disk, or what tests put in its place. One goroutine uses it.
type store interface {
	// intact reports whether the file is as the last write left it. An error means that nothing can be written there.
	intact() (bool, error)
	// append adds lines; after an error, the file must be rewritten.
	append(lines []byte) error
	// rewrite replaces all lines, and syncs.
	rewrite(write func(io.Writer)) error
	sync() error
	// size is the file's length in bytes.
	size() int64
	close() error
}

// disk is the file on the disk.
type disk struct {
	path string
	log  *slog.Logger
	lock *os.File // nil until the disk accepts the lock file
	// known is the file that was read or written; nil if there was none, or it could not be read.
	known fs.FileInfo
	// file is nil until known may be appended to.
	file   *os.File
	length int64
	// aside are contents to keep under other names before they are replaced, outdated the files to rename to NAME.old afterwards.
	aside    map[string][]byte
	outdated []string
	// foreign is how many files of others were set aside.
	foreign int
}

// maxForeign is how many files of others are kept: who replaces the file again and again must not fill the disk.
const maxForeign = 10

// intact implements store.
func (d *disk) intact() (bool, error) {
	if err := d.ensureLock(); err != nil {
		return false, err
	}
	info, err := os.Lstat(d.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find state file: %w", err)
	}
	return d.file != nil && os.SameFile(info, d.known) && info.Size() == d.length, nil
}

// ensureLock locks the file for this process, unless it already is. A file that may not be replaced is an error.
func (d *disk) ensureLock() error {
	if err := requireRegular(d.path); err != nil {
		return err
	}
	if d.lock != nil {
		locked, err := d.lock.Stat()
		now, nowErr := os.Stat(d.path + lockSuffix)
		if err == nil && nowErr == nil && os.SameFile(locked, now) {
			return nil
		}
		d.lock.Close() //nolint:errcheck,gosec // nobody else can find it
	}
	var err error
	d.lock, err = lock(d.path)
	return err
}

// append implements store.
func (d *disk) append(lines []byte) error {
	if _, err := d.file.WriteAt(lines, d.length); err != nil {
		err = errors.Join(err, d.file.Truncate(d.length))
		d.forget()
		return fmt.Errorf("write state file: %w", err)
	}
	d.length += int64(len(lines))
	return nil
}

// sync implements store.
func (d *disk) sync() error {
	if d.file == nil {
		return nil
	}
	if err := d.file.Sync(); err != nil {
		d.forget()
		return fmt.Errorf("sync state file: %w", err)
	}
	return nil
}

func (d *disk) size() int64 { return d.length }

// forget makes the next write a rewrite.
func (d *disk) forget() {
	if d.file != nil {
		d.file.Close() //nolint:errcheck,gosec // it is given up
		d.file = nil
	}
}

// rewrite implements store. At every moment the disk has the old content or the new one. After an error, the old file is as it was.
func (d *disk) rewrite(write func(io.Writer)) error {
	for name, content := range d.aside {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			return fmt.Errorf("keep a copy of the state file: %w", err)
		}
		delete(d.aside, name)
	}
	dir := filepath.Dir(d.path)
	file, err := os.OpenFile(d.path+newSuffix, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	b := bufio.NewWriterSize(file, 64<<10)
	write(b)
	var info fs.FileInfo
	if err = b.Flush(); err == nil {
		err = file.Sync()
	}
	if err == nil {
		info, err = file.Stat()
	}
	if err == nil {
		err = d.setForeignAside()
	}
	if err == nil {
		err = os.Rename(file.Name(), d.path)
	}
	if err != nil {
		return fmt.Errorf("write state file: %w", errors.Join(err, file.Close(), os.Remove(file.Name())))
	}
	d.forget()
	d.file, d.known, d.length = file, info, info.Size()
	for _, name := range d.outdated {
		os.Rename(name, name+oldSuffix) //nolint:errcheck,gosec // nobody reads it any more
	}
	d.outdated = nil
	parent, err := os.Open(dir)
	if err == nil {
		err = errors.Join(parent.Sync(), parent.Close())
	}
	if err != nil {
		d.forget()
		return fmt.Errorf("sync the directory of the state file: %w", err)
	}
	return nil
}

// setForeignAside renames a file that this process has neither read nor written, so that it is not overwritten.
func (d *disk) setForeignAside() error {
	info, err := os.Lstat(d.path)
	if err != nil || d.known != nil && os.SameFile(info, d.known) || info.Size() == 0 || d.foreign >= maxForeign {
		return nil //nolint:nilerr // there is none
	}
	d.foreign++
	name := damagedName(d.path)
	d.log.Warn("another file was in place of the state file; it was renamed", "file", name)
	return os.Rename(d.path, name)
}

func damagedName(path string) string {
	return fmt.Sprintf("%s.damaged-%s", path, time.Now().UTC().Format("20060102T150405Z"))
}

// close implements store: it unlocks the file for other processes.
func (d *disk) close() error {
	err := d.sync()
	d.forget()
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
		d.lock = nil
	}
	return err
}

// isDiskError reports whether an error is the disk's, which may pass while the exporter runs, rather than the configuration's.
func isDiskError(err error) bool {
	for _, cause := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE, syscall.ESTALE, errSlow,
	} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// withAdvice adds what to do to an error of writing the file.
func withAdvice(err error) error {
	for _, row := range []struct {
		cause  error
		advice string
	}{
		{syscall.ENOSPC, "its file system is full: free space or inodes there"},
		{syscall.EDQUOT, "the disk quota is used up: free space, or raise the quota of the exporter's user"},
		{
			syscall.EROFS,
			"its file system is read-only: mount it for writing; in a container give the directory a volume, " +
				"in a systemd unit StateDirectory=",
		},
		{syscall.EIO, "the disk is failing: check the kernel's log"},
		{errSlow, "the disk is failing or overloaded: check the kernel's log"},
		{syscall.EFBIG, "the file exceeds the size limit: raise it (ulimit -f, LimitFSIZE=)"},
		{syscall.EMFILE, "raise the exporter's limit of open files (ulimit -n, LimitNOFILE=)"},
		{syscall.ENFILE, "the machine has too many open files: raise fs.file-max"},
		{fs.ErrPermission, "allow the exporter's user to write the directory"},
		{fs.ErrNotExist, "create its directory"},
	} {
		if errors.Is(err, row.cause) {
			return fmt.Errorf("%w; %s, or name another file with state_file", err, row.advice)
		}
	}
	return err
}

// requireRegular refuses what cannot be replaced: reading a pipe hangs, a rename would replace a device, or a symbolic link instead of
// its target, and another name of the file would keep the old content.
func requireRegular(path string) error {
	for _, name := range []string{path, path + lockSuffix} {
		info, err := os.Lstat(name)
		if err != nil {
			continue
		}
		if !info.Mode().IsRegular() {
			return fmt.Errorf("%s is %s, must be a regular file or absent; name another file with state_file", name, typeOf(info.Mode()))
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
			return fmt.Errorf("%s has another name (a hard link), which would keep old content: "+
				"remove one of the names, or name another file with state_file", name)
		}
	}
	return nil
}

// typeOf names the type of a file that is not regular.
func typeOf(mode fs.FileMode) string {
	for bit, name := range map[fs.FileMode]string{
		fs.ModeDir: "a directory", fs.ModeSymlink: "a symbolic link", fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket",
		fs.ModeDevice: "a device",
	} {
		if mode&bit != 0 {
			return name
		}
	}
	return "a special file"
}
