package cgroup

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// kernelFileSize is larger than most files of the kernel.
const kernelFileSize = 8 << 10

// kernelFiles reads files of the kernel, one after another. os.ReadFile reads a file in several pieces, and the kernel formats all of it
// for each.
type kernelFiles struct{ buffer []byte }

// number reads the number after the key and a space in a file, or the only number if key is "". known is false if the file or the
// line does not exist.
func (k *kernelFiles) number(path, key string) (number uint64, known bool, err error) {
	content, known, err := k.read(path)
	if err != nil || !known {
		return 0, false, err
	}
	return numberOf(path, content, key)
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
			return 0, false, failure.Errorf(failure.Malformed, "read %s: %q is not a number", path, failure.OneLine(string(text)))
		}
		return number, true, nil
	}
	return 0, false, nil
}

// inactiveFile reads the file cache from a memory.stat.
func (k *kernelFiles) inactiveFile(path string) (cache usage.InactiveFile, known bool, err error) {
	content, known, err := k.read(path)
	if err != nil || !known {
		return cache, false, err
	}
	if cache.Total, _, err = numberOf(path, content, "total_inactive_file"); err != nil {
		return cache, false, err
	}
	cache.Own, _, err = numberOf(path, content, "inactive_file")
	return cache, err == nil, err
}

// read reads a file. exists is false if its group or process is gone, even if it ends during the read. The content is valid until
// the next call.
func (k *kernelFiles) read(path string) (content []byte, exists bool, err error) {
	content, err = k.readAll(path)
	if isGone(err) {
		return nil, false, nil
	}
	return content, err == nil, err
}

// isGone reports whether the error means that the file's group or process is gone. Reading an open file then fails with ENODEV
// or ESRCH.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ESRCH)
}

func (k *kernelFiles) readAll(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // below the configured roots
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	for size := 0; ; {
		n, err := f.Read(k.buffer[size:])
		size += n
		switch {
		case err == io.EOF: // readers return it unwrapped
			return k.buffer[:size], nil
		case err != nil:
			return nil, err
		case size == len(k.buffer):
			k.buffer = append(k.buffer, make([]byte, size)...)
		}
	}
}
