// Package state saves small values across restarts of the process, in one JSON file.
package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// version is the version of the file's format.
const version = 1

// File is a set of named values. Each Save writes them to the disk. It is safe for concurrent use.
type File struct {
	path string
	lock *os.File // nil without a path, and until the disk accepts the lock file
	// damaged is true if the file on the disk is invalid. The next write renames it first.
	damaged bool
	// movedTo is the new name of a damaged file.
	movedTo string

	closed bool

	mu     sync.Mutex
	values map[string]json.RawMessage
}

// content is the content of the file.
type content struct {
	Version int                        `json:"version"`
	Values  map[string]json.RawMessage `json:"values"`
}

// Open reads the file, or begins without values if it does not exist. With an empty path, values are in memory only.
//
// A damaged file is renamed to PATH.damaged-TIME and replaced by an empty one; the notice says so. The notice also says why the
// disk cannot be written: it is full, failing or read-only. Open succeeds then, and each Save tries again, because a watchdog that
// does not start is worse than one without its state.
//
// A file of a newer version is an error, since writing it would lose values that this version does not support. So are a
// directory without write permission, a file that another process has open, and anything but a regular file.
func Open(path string) (_ *File, notice string, err error) {
	f := &File{path: path, values: map[string]json.RawMessage{}}
	if path == "" {
		return f, "", nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close())
		}
	}()
	if err := requireRegular(path); err != nil {
		return nil, "", err
	}
	if err := f.ensureLock(); err != nil && !isDiskError(err) {
		return nil, "", err
	}
	f.removeTemporary()
	if err := f.read(); err != nil {
		return nil, "", err
	}
	damaged := f.damaged
	if err = f.write(); err != nil && !isDiskError(err) {
		return nil, "", err
	}
	return f, f.problem(damaged, err), nil
}

// problem returns what is wrong with a file that Open accepts, or "".
func (f *File) problem(damaged bool, writeErr error) string {
	var problems []string
	switch {
	case f.movedTo != "":
		problems = append(problems,
			fmt.Sprintf("the state file %s was damaged and has been renamed to %s; its values are lost", f.path, f.movedTo))
	case damaged:
		problems = append(problems, fmt.Sprintf("the state file %s is damaged; its values are lost", f.path))
	}
	if writeErr != nil {
		problems = append(problems, fmt.Sprintf("the state cannot be saved, so a restart loses it: %v", writeErr))
	}
	return strings.Join(problems, "; ")
}

// isDiskError reports whether an error is the disk's, which may pass while the exporter runs, rather than the configuration's.
func isDiskError(err error) bool {
	for _, cause := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE,
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

// ensureLock locks the file for this process, unless it already is.
func (f *File) ensureLock() (err error) {
	if f.lock == nil {
		f.lock, err = lock(f.path)
	}
	if err != nil {
		return withAdvice(err)
	}
	return nil
}

// Inspect reports what Open would, and changes nothing. It returns an error if Open would fail. The notice says that the file is
// damaged, or why the disk cannot be written. Inspect does not check whether another process has the file open. The error wraps
// fs.ErrNotExist if the directory does not exist. An empty path is valid.
func Inspect(path string) (notice string, err error) {
	if path == "" {
		return "", nil
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("its directory does not exist: %w; create it, writable for the exporter's user, or name another file", err)
	case err != nil:
		return "", fmt.Errorf("read its directory: %w; allow this user to enter it, or name another file", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is not a directory; name another file", dir)
	}
	f := &File{path: path, values: map[string]json.RawMessage{}}
	writeErr := mayWrite(dir)
	if writeErr != nil {
		writeErr = withAdvice(fmt.Errorf("write directory %s: %w", dir, writeErr))
	}
	if writeErr != nil && !isDiskError(writeErr) {
		return "", writeErr
	}
	if err := requireRegular(path); err != nil {
		return "", err
	}
	lock := path + ".lock"
	if err := mayWrite(lock); err != nil && !errors.Is(err, fs.ErrNotExist) && !isDiskError(err) {
		return "", fmt.Errorf("write %s: %w; make the exporter's user its owner", lock, err)
	}
	if err := f.read(); err != nil {
		return "", err
	}
	if writeErr == nil {
		writeErr = f.tryWrite()
	}
	if f.damaged && writeErr == nil {
		return fmt.Sprintf("the state file %s is damaged; the exporter will rename it and start without its values", path), nil
	}
	return f.problem(f.damaged, writeErr), nil
}

// read loads the values from the disk.
func (f *File) read() error {
	raw, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read state file: %w; allow this user to read and write it, or name another file with state_file", err)
	}
	c, damaged, err := f.decode(raw)
	if err != nil {
		return err
	}
	f.damaged = damaged
	if c.Values != nil {
		f.values = c.Values
	}
	return nil
}

// tryWrite reports why the disk cannot be written. It writes a nameless file, so that it leaves nothing behind.
func (f *File) tryWrite() error {
	raw, err := f.encode()
	if err != nil {
		return err
	}
	tmp, err := openUnnamed(filepath.Dir(f.path))
	if err == nil {
		_, err = tmp.Write(raw)
		err = errors.Join(err, tmp.Close())
	}
	if !isDiskError(err) {
		return nil // not every file system supports nameless files
	}
	return withAdvice(fmt.Errorf("write state file: %w", err))
}

// requireRegular refuses anything but a regular file: reading a pipe hangs, and a rename would replace a device, or a symbolic
// link instead of its target.
func requireRegular(path string) error {
	for _, name := range []string{path, path + ".lock"} {
		info, err := os.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is %s, must be a regular file or absent; name another file with state_file", name, typeOf(info.Mode()))
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

// Close unlocks the file for other processes. Afterwards values can be read, but not saved.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = f.path != ""
	if f.lock == nil {
		return nil
	}
	l := f.lock
	f.lock = nil
	return l.Close()
}

// removeTemporary removes the temporary files of a process that ended during a write. The number in their names distinguishes
// them from other files.
func (f *File) removeTemporary() { removeTemporary(f.path) }

func removeTemporary(path string) {
	dir, base := filepath.Split(path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return // the first write reports the error
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), base+".")
		number, temporary := strings.CutSuffix(number, ".tmp")
		if _, err := strconv.ParseUint(number, 10, 64); ours && temporary && err == nil && e.Type().IsRegular() {
			os.Remove(filepath.Join(dir, e.Name())) //nolint:errcheck,gosec // a file left behind is harmless
		}
	}
}

// renameDamaged renames a damaged file, so that it is never overwritten.
func (f *File) renameDamaged() error {
	if !f.damaged {
		return nil
	}
	newName := fmt.Sprintf("%s.damaged-%s", f.path, time.Now().UTC().Format("20060102T150405Z"))
	if err := os.Rename(f.path, newName); err != nil {
		return fmt.Errorf("rename damaged state file: %w", err)
	}
	f.damaged, f.movedTo = false, newName
	return nil
}

// decode parses the file's content. A newer version is an error.
func (f *File) decode(raw []byte) (c content, damaged bool, err error) {
	if err := json.Unmarshal(raw, &c); err != nil || c.Version < 1 {
		return content{}, true, nil //nolint:nilerr // the kind of damage does not matter
	}
	if c.Version > version {
		return content{}, false, fmt.Errorf("state file %s is of version %d, this program supports up to %d: run the newer program, "+
			"or name another file with state_file",
			f.path, c.Version, version)
	}
	return c, false, nil
}

// write replaces the file atomically, and syncs it and its directory.
func (f *File) write() error {
	if f.path == "" {
		return nil
	}
	if err := f.ensureLock(); err != nil {
		return err
	}
	err := f.renameDamaged()
	if err == nil {
		err = f.replace()
	}
	if err != nil {
		return withAdvice(err)
	}
	return nil
}

// encode returns the file's new content.
func (f *File) encode() ([]byte, error) {
	raw, err := json.MarshalIndent(content{version, f.values}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write state file: %w", err)
	}
	return append(raw, '\n'), nil
}

func (f *File) replace() error {
	raw, err := f.encode()
	if err == nil {
		err = replaceFile(f.path, func(w io.Writer) error { _, err := w.Write(raw); return err })
	}
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	return nil
}

// replaceFile replaces a file, so that at every moment the disk has the old content or the new one.
func replaceFile(path string, write func(io.Writer) error) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	err = errors.Join(write(tmp), tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("sync its directory: %w", err)
	}
	return nil
}

// Value is one named value of a file.
type Value struct {
	file *File
	name string
}

// Value returns the value with this name, which need not exist yet.
func (f *File) Value(name string) *Value { return &Value{f, name} }

// Load decodes the last saved value into a pointer, or leaves it unchanged if there is none.
func (v *Value) Load(into any) error {
	v.file.mu.Lock()
	raw, ok := v.file.values[v.name]
	v.file.mu.Unlock()
	if !ok {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read %s from state file: %w", v.name, err)
	}
	return nil
}

// Save saves the value. When it returns nil, the value is on the disk, if the file has a path. After an error, the disk has the old
// value, or the new one if only the directory could not be synced.
func (v *Value) Save(value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write %s to state file: %w", v.name, err)
	}
	v.file.mu.Lock()
	defer v.file.mu.Unlock()
	if v.file.closed {
		return fmt.Errorf("write %s to state file: it is closed", v.name)
	}
	before, had := v.file.values[v.name]
	v.file.values[v.name] = raw
	if err := v.file.write(); err != nil {
		if had {
			v.file.values[v.name] = before
		} else {
			delete(v.file.values, v.name)
		}
		return err
	}
	return nil
}
