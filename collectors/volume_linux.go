package collectors

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// mountInfo lists the mounts that this process sees: proc(5).
const mountInfo = "/proc/self/mountinfo"

// measureVolume calls statfs, as df does. It blocks while the mount hangs.
func measureVolume(path string) (diskUsage, error) {
	var s syscall.Statfs_t
	if err := retry(func() error { return syscall.Statfs(path, &s) }); err != nil {
		return diskUsage{}, err
	}
	block := float64(s.Frsize)
	if block == 0 {
		block = float64(s.Bsize)
	}
	u := diskUsage{
		size: float64(s.Blocks) * block, free: float64(s.Bfree) * block,
		available: float64(int64(s.Bavail)) * block, //nolint:gosec // the kernel encodes a negative number as a huge one
		inodes:    float64(s.Files), inodesFree: float64(s.Ffree),
	}
	u.mounted, u.mountErr = isMountPoint(path)
	return u, nil
}

func isMountPoint(path string) (bool, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false, err
	}
	mounts, err := os.Open(mountInfo)
	if err != nil {
		return false, err
	}
	defer mounts.Close() //nolint:errcheck // it was only read
	return mountedAt(mounts, path)
}

// retry repeats a call that a signal interrupted.
func retry(call func() error) error {
	for {
		if err := call(); err != syscall.EINTR { //nolint:errorlint // the kernel's own, as it is
			return err
		}
	}
}

// octal matches an escape of the kernel in a path: for space, tab, line feed and backslash.
var octal = regexp.MustCompile(`\\[0-7]{3}`)

// mountedAt reports whether a list of mounts has one at path, bind mounts among them.
func mountedAt(mounts io.Reader, path string) (bool, error) {
	lines := bufio.NewScanner(mounts)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return false, fmt.Errorf("read %s: a line of %d fields", mountInfo, len(fields))
		}
		at := octal.ReplaceAllStringFunc(fields[4], func(escaped string) string {
			c, _ := strconv.ParseUint(escaped[1:], 8, 8) // three octal digits
			return string([]byte{byte(c)})
		})
		if at == path {
			return true, nil
		}
	}
	return false, lines.Err()
}
