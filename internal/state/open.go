package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	lockSuffix = ".lock"
	// historySuffix is that of a second file, which builds before version 2 had. oldSuffix is that of their files, once they are read.
	historySuffix = ".history"
	oldSuffix     = ".old"
	// newSuffix is that of the file that replaces the present one. A process that ended while it wrote has left it behind.
	newSuffix = ".new.tmp"
	// readWithin is how long the start waits for the disk.
	readWithin = 10 * time.Second
)

// Open reads the file, or begins without values if it does not exist. With an empty path, values are in memory only. It gives the
// series its records, if there is one, and starts the goroutine that writes until Close. log gets when writing begins to fail, and when it
// works again.
//
// A watchdog that does not start is worse than one without its state, so Open succeeds if the disk is full, failing, hanging or read-only.
// What memory has is written when that is over. The notice says why a file could not be read, or that damaged records were left out; such
// a file is kept as PATH.damaged-TIME.
//
// A file of a newer version is an error, since writing it would lose what this version does not support. So are a directory without write
// permission, a file that another process has open, and anything but a regular file with one name.
func Open(path string, log *slog.Logger, series Series) (_ *File, notice string, err error) {
	if series == nil {
		series = &none{}
	}
	f := newFile(log, series)
	if path == "" {
		return f, "", nil
	}
	d := &disk{path: path, log: log}
	f.store = d
	return f.open(d, d.load)
}

// open loads the file, unless that takes too long.
func (f *File) open(d *disk, load func() found) (_ *File, notice string, err error) {
	loaded := make(chan found, 1)
	go func() { loaded <- load() }()
	select {
	case got := <-loaded:
		return f.begin(d, &got)
	case <-time.After(readWithin):
		f.incomplete = true
		go f.run(func() {
			<-loaded
			d.known = nil // what it has read comes too late, so it is set aside
		})
		return f, unread(d.path, errSlow), nil
	}
}

// begin takes over what was found, and starts to write.
func (f *File) begin(d *disk, got *found) (_ *File, notice string, err error) {
	if got.err != nil && !isDiskError(got.err) {
		return nil, "", errors.Join(got.err, d.close())
	}
	c, legacy, err := interpret(got.raw, got.history)
	if err != nil {
		return nil, "", errors.Join(unsupported(d.path, err), d.close())
	}
	f.restore(&c)
	if d.known != nil && d.known.ModTime().Before(f.saved) {
		f.saved = d.known.ModTime()
	}
	name := damagedName(d.path)
	if legacy {
		name = d.path + oldSuffix
	}
	if len(got.history) > 0 { // it is not read again even if the end comes before it is renamed
		d.outdated = []string{d.path + historySuffix}
	}
	switch {
	case got.err != nil:
		notice = unread(d.path, got.err)
	case c.damaged > 0:
		notice = damage(d.path, &c) + "; a copy of the file is " + name
	}
	f.incomplete = notice != "" || legacy || len(got.history) > 0 || d.resume(got.raw) != nil
	if f.incomplete && len(got.raw) > 0 && (legacy || c.damaged > 0) {
		d.aside = map[string][]byte{name: got.raw}
	}
	go f.run(func() {})
	if err := f.wait(waiter{insists: true}); err != nil && !isDiskError(err) {
		f.Close() //nolint:errcheck,gosec // it fails for the same reason
		return nil, "", err
	}
	return f, notice, nil
}

func unread(path string, err error) string {
	return fmt.Sprintf("the state file %s cannot be read, so the exporter starts without it: %v", path, err)
}

func unsupported(path string, err error) error {
	return fmt.Errorf("state file %s is %w, or name another file with state_file", path, err)
}

// damage says what is lost of a damaged file.
func damage(path string, c *content) string {
	if len(c.records) == 0 {
		return fmt.Sprintf("nothing in the state file %s can be read: it is damaged, or another program's", path)
	}
	return fmt.Sprintf("%d records of the state file %s are damaged and left out", c.damaged, path)
}

// found is what the start has found: the file, and the history that an earlier build had beside it.
type found struct {
	raw, history []byte
	err          error
}

// load locks and reads the file.
func (d *disk) load() (got found) {
	if err := d.ensureLock(); err != nil && !isDiskError(err) {
		return found{err: withAdvice(err)}
	}
	os.Remove(d.path + newSuffix) //nolint:errcheck,gosec // a file left behind is harmless
	if got.raw, d.known, got.err = read(d.path); got.err == nil {
		got.history, _, got.err = read(d.path + historySuffix)
	}
	return got
}

func read(path string) ([]byte, fs.FileInfo, error) {
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, fmt.Errorf("read state file: %w; allow this user to read and write it, or name another file with state_file", err)
	}
	info, err := os.Stat(path)
	return raw, info, err
}

// resume makes the disk append to the journal that was read. An error means that it must be rewritten.
func (d *disk) resume(raw []byte) error {
	if d.known == nil || !bytes.HasSuffix(raw, []byte("\n")) {
		return errors.New("it is incomplete")
	}
	file, err := os.OpenFile(d.path, os.O_RDWR, 0)
	if err == nil {
		d.file, d.length = file, int64(len(raw))
	}
	return err
}

// object is what the file was before version 2.
type object struct {
	Version int                        `json:"version"`
	Values  map[string]json.RawMessage `json:"values"`
}

// interpret returns what a file has, and whether it is of an earlier version, whose history was in a second file.
func interpret(raw, history []byte) (c content, legacy bool, err error) {
	var o object
	if err := json.Unmarshal(raw, &o); err == nil && o.Version > 1 {
		return c, false, newer(o.Version)
	} else if err != nil || o.Version < 1 {
		if c, err = decode(raw); err != nil || len(raw) > 0 {
			return c, false, err
		}
	}
	for name, value := range o.Values {
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			c.records = append(c.records, record{name, replaces, compact.Bytes()})
		}
	}
	_, lines, _ := bytes.Cut(history, []byte("\n"))
	for line := range bytes.Lines(lines) {
		sum, rest, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		kind, data, _ := bytes.Cut(rest, []byte(" "))
		switch {
		case string(sum) == sumOf(rest):
			c.records = append(c.records, record{string(kind), adds, data})
		case bytes.HasSuffix(line, []byte("\n")):
			c.damaged++
		}
	}
	return c, len(raw) > 0, nil
}

// Inspect reports what Open would, and changes nothing. It returns an error if Open would fail. The notice says that the file is
// damaged, or why the disk cannot be written. Inspect does not check whether another process has the file open. The error wraps
// fs.ErrNotExist if the directory does not exist. An empty path is valid.
func Inspect(path string) (notice string, err error) {
	if path == "" {
		return "", nil
	}
	if err := requireRegular(path); err != nil {
		return "", err
	}
	raw, _, readErr := read(path)
	writeErr := tryWrite(path, raw)
	for _, err := range []error{writeErr, readErr} {
		if err != nil && !isDiskError(err) {
			return "", err
		}
	}
	c, _, err := interpret(raw, nil)
	if err != nil {
		return "", unsupported(path, err)
	}
	return inspected(path, &c, readErr, writeErr), nil
}

// inspected puts together what is wrong with a file that Open accepts, or "".
func inspected(path string, c *content, readErr, writeErr error) string {
	var notices []string
	if readErr != nil {
		notices = append(notices, unread(path, readErr))
	}
	if c.damaged > 0 {
		notices = append(notices, damage(path, c)+"; the exporter will keep a copy of the file")
	}
	if writeErr != nil {
		notices = append(notices, fmt.Sprintf("the state cannot be saved, so a restart loses it: %v", writeErr))
	}
	return strings.Join(notices, "; ")
}

// tryWrite reports why the files cannot be written. What it writes has a name of its own, and is removed at once.
func tryWrite(path string, content []byte) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, filepath.Base(path)+".*.tmp")
	if err == nil {
		_, err = tmp.Write(append(content, header...))
		err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
	}
	if err != nil {
		return withAdvice(fmt.Errorf("write directory %s: %w", dir, err))
	}
	lock, err := os.OpenFile(path+lockSuffix, os.O_RDWR, 0)
	switch {
	case err == nil:
		return lock.Close()
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return fmt.Errorf("%w; make the exporter's user its owner", err)
}
