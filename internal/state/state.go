// Package state keeps small values over restarts of the process, in one JSON file.
package state

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
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

// File is a set of named values that are on the disk when Save returns. It is safe for concurrent use.
type File struct {
	path string
	lock *os.File // held while the file is open; nil in memory, and until the disk lets it be made
	// damaged tells that what is on the disk cannot be read, and is put aside before anything is written.
	damaged bool
	aside   string // where it was put

	closed bool

	mu     sync.Mutex
	values map[string]json.RawMessage
}

// content is what stands in the file.
type content struct {
	Version int                        `json:"version"`
	Values  map[string]json.RawMessage `json:"values"`
}

// Open reads the file, or begins with nothing where it does not exist. An empty path keeps values in memory only. The
// notice says what happened to a file that is damaged: it is renamed to PATH.damaged-TIME and replaced by an empty one. It
// also says why a disk that is full, failing or read-only cannot be written: each Save tries again. A watchdog that does not
// start is worse than one that has forgotten. A file of a newer version is an error, since
// writing it would lose what this version does not know. So are a directory that cannot be written, a file that another
// process has open, and anything but a regular file.
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
	if err := onlyRegular(path); err != nil {
		return nil, "", err
	}
	if err := f.hold(); err != nil && !mayPass(err) {
		return nil, "", err
	}
	f.sweep()
	if err := f.read(); err != nil {
		return nil, "", err
	}
	damaged := f.damaged
	if err = f.write(); err != nil && !mayPass(err) {
		return nil, "", err
	}
	return f, f.problem(damaged, err), nil
}

// problem says what is wrong with a file that was opened all the same; "" where nothing is.
func (f *File) problem(damaged bool, writeErr error) string {
	var problems []string
	switch {
	case f.aside != "":
		problems = append(problems, fmt.Sprintf("the state file %s was damaged and is now %s; what it kept is forgotten", f.path, f.aside))
	case damaged:
		problems = append(problems, fmt.Sprintf("the state file %s is damaged; what it kept is forgotten", f.path))
	}
	if writeErr != nil {
		problems = append(problems, fmt.Sprintf("nothing can be kept for after a restart: %v", writeErr))
	}
	return strings.Join(problems, "; ")
}

// mayPass reports whether a fault is the disk's, which may be over before the exporter ends, and not the configuration's.
func mayPass(err error) bool {
	for _, cause := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// withAdvice adds what to do about a file that cannot be written.
func withAdvice(err error) error {
	for _, row := range []struct {
		cause  error
		advice string
	}{
		{syscall.ENOSPC, "its file system is full: free space or inodes there"},
		{syscall.EDQUOT, "the disk quota is used up: free space, or raise the quota of the exporter's user"},
		{syscall.EROFS, "its file system is read-only: mount it for writing; in a container give the directory a volume, in a systemd unit StateDirectory="},
		{syscall.EIO, "the disk fails: read the kernel's log"},
		{syscall.EFBIG, "files may not be so large here: raise the limit (ulimit -f, LimitFSIZE=)"},
		{syscall.EMFILE, "raise the exporter's limit of open files (ulimit -n, LimitNOFILE=)"},
		{syscall.ENFILE, "the machine has too many open files: raise fs.file-max"},
		{fs.ErrPermission, "give the exporter's user the right to write the directory"},
		{fs.ErrNotExist, "create its directory"},
	} {
		if errors.Is(err, row.cause) {
			return fmt.Errorf("%w; %s, or name another file with state_file", err, row.advice)
		}
	}
	return err
}

// hold takes the file for this process, unless it has it.
func (f *File) hold() (err error) {
	if f.lock == nil {
		f.lock, err = lock(f.path)
	}
	if err != nil {
		return withAdvice(err)
	}
	return nil
}

// Inspect tells what Open would find, and changes nothing: an error where it would fail, and in words what it would put aside
// because it is damaged, or why the disk takes nothing. Whether another process has the file open is not asked. An error wraps
// fs.ErrNotExist if the directory is not there. An empty path is in order.
func Inspect(path string) (notice string, err error) {
	if path == "" {
		return "", nil
	}
	dir := filepath.Dir(path)
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("its directory is not there: %w; make it, writable for the exporter's user, or name another file", err)
	case err != nil:
		return "", fmt.Errorf("look at its directory: %w; give this user the right to enter it, or name another file", err)
	case !info.IsDir():
		return "", fmt.Errorf("%s is no directory; name another file", dir)
	}
	f := &File{path: path, values: map[string]json.RawMessage{}}
	writeErr := mayWrite(dir)
	if writeErr != nil {
		writeErr = withAdvice(fmt.Errorf("write directory %s: %w", dir, writeErr))
	}
	if writeErr != nil && !mayPass(writeErr) {
		return "", writeErr
	}
	if err := onlyRegular(path); err != nil {
		return "", err
	}
	lock := path + ".lock"
	if err := mayWrite(lock); err != nil && !errors.Is(err, fs.ErrNotExist) && !mayPass(err) {
		return "", fmt.Errorf("write %s: %w; give it to the exporter's user", lock, err)
	}
	if err := f.read(); err != nil {
		return "", err
	}
	if writeErr == nil {
		writeErr = f.tryWrite()
	}
	if f.damaged && writeErr == nil {
		return fmt.Sprintf("the state file %s is damaged; the exporter will put it aside and forget what it kept", path), nil
	}
	return f.problem(f.damaged, writeErr), nil
}

// read takes over what is on the disk.
func (f *File) read() error {
	raw, err := os.ReadFile(f.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read state file: %w; give this user the right to read and write it, or name another with state_file", err)
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

// tryWrite reports why the disk would not take the file, by a file that never has a name.
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
	if !mayPass(err) {
		return nil // not every file system has files without a name
	}
	return withAdvice(fmt.Errorf("write state file: %w", err))
}

// onlyRegular refuses what must be neither read nor replaced: a read of a pipe hangs, a rename takes a device away, and a
// symbolic link would be replaced instead of what it points to.
func onlyRegular(path string) error {
	for _, name := range []string{path, path + ".lock"} {
		info, err := os.Lstat(name)
		if err == nil && !info.Mode().IsRegular() {
			return fmt.Errorf("%s is %s, must be a regular file or absent; name another file with state_file", name, typeOf(info.Mode()))
		}
	}
	return nil
}

// typeOf is the type of a file that is not regular, in words.
func typeOf(mode fs.FileMode) string {
	for bit, name := range map[fs.FileMode]string{
		fs.ModeDir: "a directory", fs.ModeSymlink: "a symbolic link", fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket", fs.ModeDevice: "a device",
	} {
		if mode&bit != 0 {
			return name
		}
	}
	return "a special file"
}

// Close lets another process have the file. Values can still be read, but not saved any more.
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

// sweep removes the temporary files of a process that ended during a write. The number in their names tells them from files
// of others.
func (f *File) sweep() {
	dir, base := filepath.Split(f.path)
	entries, err := os.ReadDir(cmp.Or(dir, "."))
	if err != nil {
		return // whether the directory can be used, the first write tells
	}
	for _, e := range entries {
		number, ours := strings.CutPrefix(e.Name(), base+".")
		number, temporary := strings.CutSuffix(number, ".tmp")
		if _, err := strconv.ParseUint(number, 10, 64); ours && temporary && err == nil && e.Type().IsRegular() {
			os.Remove(filepath.Join(dir, e.Name())) //nolint:errcheck,gosec // it does no harm
		}
	}
}

// putAside renames a damaged file, so that it is never overwritten.
func (f *File) putAside() error {
	if !f.damaged {
		return nil
	}
	aside := fmt.Sprintf("%s.damaged-%s", f.path, time.Now().UTC().Format("20060102T150405Z"))
	if err := os.Rename(f.path, aside); err != nil {
		return fmt.Errorf("put damaged state file aside: %w", err)
	}
	f.damaged, f.aside = false, aside
	return nil
}

// decode reads what stands in the file; one of a newer version is an error.
func (f *File) decode(raw []byte) (c content, damaged bool, err error) {
	if err := json.Unmarshal(raw, &c); err != nil || c.Version < 1 {
		return content{}, true, nil //nolint:nilerr // how it is damaged is of no use
	}
	if c.Version > version {
		return content{}, false, fmt.Errorf("state file %s is of version %d, this program knows up to %d: run the newer program, or name another file with state_file", f.path, c.Version, version)
	}
	return c, false, nil
}

// write replaces the file by one that is whole on the disk, and syncs the directory so that the name is too.
func (f *File) write() error {
	if f.path == "" {
		return nil
	}
	if err := f.hold(); err != nil {
		return err
	}
	err := f.putAside()
	if err == nil {
		err = f.replace()
	}
	if err != nil {
		return withAdvice(err)
	}
	return nil
}

// encode is what is to stand in the file.
func (f *File) encode() ([]byte, error) {
	raw, err := json.MarshalIndent(content{version, f.values}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write state file: %w", err)
	}
	return append(raw, '\n'), nil
}

func (f *File) replace() error {
	raw, err := f.encode()
	if err != nil {
		return err
	}
	dir := filepath.Dir(f.path)
	tmp, err := os.CreateTemp(dir, filepath.Base(f.path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	_, err = tmp.Write(raw)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), f.path)
	}
	if err != nil {
		return fmt.Errorf("write state file: %w", errors.Join(err, os.Remove(tmp.Name())))
	}
	d, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("sync directory of state file: %w", err)
	}
	if err := errors.Join(d.Sync(), d.Close()); err != nil {
		return fmt.Errorf("sync directory of state file: %w", err)
	}
	return nil
}

// Value is one named value of a file.
type Value struct {
	file *File
	name string
}

// Value returns the value of that name, which need not exist yet.
func (f *File) Value(name string) *Value { return &Value{f, name} }

// Load fills v, a pointer, with the value kept last, or leaves it as it is where there is none.
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

// Save keeps value. When it returns nil, the value is on the disk, if there is a file. With an error, the
// disk holds what it held before, or the new value if only the directory could not be synced.
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
