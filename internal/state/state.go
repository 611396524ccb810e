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
	"time"
)

// version is the version of the file's format.
const version = 1

// File is a set of named values that are on the disk when Save returns. It is safe for concurrent use.
type File struct {
	path string
	lock *os.File // held while the file is open; nil in memory

	closed bool

	mu     sync.Mutex
	values map[string]json.RawMessage
}

// content is what stands in the file.
type content struct {
	Version int                        `json:"version"`
	Values  map[string]json.RawMessage `json:"values"`
}

// Open reads the file, or begins with nothing where it does not exist. An empty path keeps values in memory only. A
// file that is damaged is renamed to PATH.damaged-TIME, told in the returned notice, and replaced by an empty one: a
// watchdog that does not start is worse than one that has forgotten. A file of a newer version is an error, since
// writing it would lose what this version does not know. So are a directory that cannot be written, a file that another
// process has open, and anything but a regular file.
func Open(path string) (f *File, notice string, err error) {
	f = &File{path: path, values: map[string]json.RawMessage{}}
	if path == "" {
		return f, "", nil
	}
	if err := onlyRegular(path); err != nil {
		return nil, "", err
	}
	if f.lock, err = lock(path); err != nil {
		return nil, "", fmt.Errorf("%w; name another with state_file", err)
	}
	opened := f
	defer func() {
		if err != nil {
			err = errors.Join(err, opened.Close())
		}
	}()
	opened.sweep()
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, "", fmt.Errorf("read state file: %w; give this user the right to read and write it, or name another with state_file", err)
	default:
		if notice, err = f.parse(raw); err != nil {
			return nil, "", err
		}
	}
	if err := f.write(); err != nil {
		return nil, "", fmt.Errorf("%w; give this user the right to write the directory, or name another file with state_file", err)
	}
	return f, notice, nil
}

// Inspect tells what Open would find, and changes nothing: an error where it would fail, and in words what it would put aside
// because it is damaged. Whether another process has the file open is not asked. An error wraps fs.ErrNotExist if the
// directory is not there. An empty path is in order.
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
	if err := mayWrite(dir); err != nil {
		return "", fmt.Errorf("write directory %s: %w; give the exporter's user the right to write it, or name another file", dir, err)
	}
	if err := onlyRegular(path); err != nil {
		return "", err
	}
	lock := path + ".lock"
	if err := mayWrite(lock); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("write %s: %w; give it to the exporter's user", lock, err)
	}
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read state file: %w; give this user the right to read and write it, or name another", err)
	}
	_, damaged, err := (&File{path: path}).decode(raw)
	if damaged {
		notice = fmt.Sprintf("the state file %s is damaged; the exporter will put it aside and forget what it kept", path)
	}
	return notice, err
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
	if f.lock == nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.lock
	f.lock, f.closed = nil, true
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

func (f *File) parse(raw []byte) (notice string, err error) {
	c, damaged, err := f.decode(raw)
	if err != nil {
		return "", err
	}
	if damaged {
		aside := fmt.Sprintf("%s.damaged-%s", f.path, time.Now().UTC().Format("20060102T150405Z"))
		if err := os.Rename(f.path, aside); err != nil {
			return "", fmt.Errorf("put damaged state file aside: %w", err)
		}
		return fmt.Sprintf("the state file %s was damaged and is now %s; what it kept is forgotten", f.path, aside), nil
	}
	if c.Values != nil {
		f.values = c.Values
	}
	return "", nil
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
	raw, err := json.MarshalIndent(content{version, f.values}, "", "  ")
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	dir := filepath.Dir(f.path)
	tmp, err := os.CreateTemp(dir, filepath.Base(f.path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("write state file: %w", err)
	}
	_, err = tmp.Write(append(raw, '\n'))
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
