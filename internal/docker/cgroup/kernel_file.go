package cgroup

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// kernelFile is a small file that the kernel makes up.
type kernelFile struct {
	path string
	// stays says that it stays open from one reading to the next, while there is room for it: opening and closing one costs
	// the kernel twice as much as reading it.
	stays bool
	open  *os.File
}

func (f *kernelFile) close() {
	if f.open != nil {
		f.open.Close() //nolint:errcheck,gosec // only read
		f.open = nil
	}
}

// kernelFiles reads such files, one after another. os.ReadFile asks the kernel twice as much for each.
type kernelFiles struct {
	buffer []byte
	// room is how many more may stay open.
	room int
}

// number reads a number from a file: the one after the key and a space, or the only one. known is false where there is no
// such file any more, or no such line.
func (k *kernelFiles) number(file *kernelFile, key string) (number uint64, known bool, err error) {
	content, known, err := k.read(file)
	if err != nil || !known {
		return 0, false, err
	}
	return numberOf(file.path, content, key)
}

func numberOf(path string, content []byte, key string) (number uint64, known bool, err error) {
	for line := range bytes.Lines(content) {
		text := bytes.TrimSpace(line)
		if key != "" {
			if len(text) <= len(key) || string(text[:len(key)]) != key || text[len(key)] != ' ' {
				continue
			}
			text = text[len(key)+1:]
		}
		if number, err = strconv.ParseUint(string(text), 10, 64); err != nil {
			return 0, false, failure.Errorf(failure.Malformed, "read %s: %q is no number", path, failure.OneLine(string(text)))
		}
		return number, true, nil
	}
	return 0, false, nil
}

// inactiveFile reads the file cache from a memory.stat.
func (k *kernelFiles) inactiveFile(file *kernelFile) (cache usage.InactiveFile, known bool, err error) {
	content, known, err := k.read(file)
	if err != nil || !known {
		return cache, false, err
	}
	if cache.Total, _, err = numberOf(file.path, content, "total_inactive_file"); err != nil {
		return cache, false, err
	}
	cache.Own, _, err = numberOf(file.path, content, "inactive_file")
	return cache, err == nil, err
}

// read reads a file that may be gone, or whose group or process may go while it is read. What it returns is good until
// the next call.
func (k *kernelFiles) read(file *kernelFile) (content []byte, there bool, err error) {
	if content, err = k.whole(file); err != nil {
		file.close()
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH) {
		return nil, false, nil
	}
	return content, err == nil, err
}

const (
	// kernelFileSize is more than most of these files have.
	kernelFileSize = 8 << 10
	// wholeAtOnce is a length up to which the kernel gives such a file in one piece: it makes at least a page of it at a
	// time, of lines that are far shorter than the rest of that.
	wholeAtOnce = 2 << 10
)

func (k *kernelFiles) whole(file *kernelFile) ([]byte, error) {
	if file.open != nil {
		fd := int(file.open.Fd()) //nolint:gosec // the system's own number
		var info syscall.Stat_t
		if err := syscall.Fstat(fd, &info); err != nil || info.Nlink == 0 {
			return nil, &fs.PathError{Op: "read", Path: file.path, Err: syscall.ENODEV} // as the kernel's own say when they are removed
		}
		return k.all(fd, file.path)
	}
	fd, err := syscall.Open(file.path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	for errors.Is(err, syscall.EINTR) {
		fd, err = syscall.Open(file.path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: file.path, Err: err}
	}
	if file.stays && k.room > 0 {
		k.room--
		// Unlike os.Open's, such a file is not watched by the runtime, which costs more than it is worth.
		file.open = os.NewFile(uintptr(fd), file.path)
	} else {
		defer syscall.Close(fd) //nolint:errcheck // only read
	}
	return k.all(fd, file.path)
}

// all reads an open file from its beginning to its end.
func (k *kernelFiles) all(fd int, path string) ([]byte, error) {
	if k.buffer == nil {
		k.buffer = make([]byte, kernelFileSize)
	}
	for size := 0; ; {
		n, err := syscall.Pread(fd, k.buffer[size:], int64(size))
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		case n <= 0:
			return k.buffer[:size], nil
		}
		if size == 0 && n <= wholeAtOnce && k.buffer[n-1] == '\n' {
			return k.buffer[:n], nil // another call would only say that this is the end
		}
		if size += n; size == len(k.buffer) {
			k.buffer = append(k.buffer, make([]byte, size)...)
		}
	}
}
