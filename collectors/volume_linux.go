package collectors

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// mountInfo lists the mounts that this process sees: proc(5).
const mountInfo = "/proc/self/mountinfo"

// measureVolume calls statfs, as df does. It blocks while the mount hangs.
func measureVolume(path string) (diskUsage, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(path, &s)
	for err == syscall.EINTR { // a signal interrupted it
		err = syscall.Statfs(path, &s)
	}
	if err != nil {
		return diskUsage{}, err
	}
	block := float64(cmp.Or(s.Frsize, s.Bsize))
	u := diskUsage{
		size:       float64(s.Blocks) * block,
		free:       float64(s.Bfree) * block,
		available:  float64(int64(s.Bavail)) * block, //nolint:gosec // the kernel encodes a negative number as a huge one
		inodes:     float64(s.Files),
		inodesFree: float64(s.Ffree),
	}
	u.mounted, u.readOnly, u.mountErr = mountOf(path)
	return u, nil
}

// mountOf reports whether path is a mount point, and whether the file system that contains it is read-only: nil if that is unknown.
func mountOf(path string) (mounted bool, readOnly *bool, err error) {
	list, err := os.ReadFile(mountInfo)
	if err != nil {
		return false, nil, err
	}
	mounts, err := parseMounts(string(list))
	if err != nil {
		return false, nil, err
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return false, nil, err
	}
	id, err := mountID(path)
	if err != nil {
		return slices.ContainsFunc(mounts, func(m mount) bool { return m.at == path }), nil, nil //nolint:nilerr // not every kernel says it
	}
	if i := slices.IndexFunc(mounts, func(m mount) bool { return m.id == id }); i >= 0 {
		return mounts[i].at == path, &mounts[i].readOnly, nil
	}
	return false, nil, nil
}

// mountID returns the id of the mount that contains path. The longest mount point above it may be that of a mount that another one hides.
func mountID(path string) (string, error) {
	place, err := os.OpenFile(path, unix.O_PATH, 0)
	if err != nil {
		return "", err
	}
	defer place.Close() //nolint:errcheck // nothing was written
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", place.Fd()))
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(info)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("the kernel does not say which mount it is on")
}

// octal matches an escape of the kernel in a path: for space, tab, line feed and backslash.
var octal = regexp.MustCompile(`\\[0-7]{3}`)

// mount is a line of mountInfo. readOnly is about its file system: a bind mount may be read-only while its file system is not.
type mount struct {
	id, at   string
	readOnly bool
}

// parseMounts reads a list of mounts. A line may be long: an overlay names each of its layers.
func parseMounts(list string) (mounts []mount, err error) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return nil, fmt.Errorf("read %s: a line of %d fields", mountInfo, len(fields))
		}
		at := octal.ReplaceAllStringFunc(fields[4], func(escaped string) string {
			c, _ := strconv.ParseUint(escaped[1:], 8, 8) // three octal digits
			return string([]byte{byte(c)})
		})
		options := strings.Split(fields[len(fields)-1], ",")
		readOnly := slices.ContainsFunc(options, func(o string) bool { return slices.Contains(readOnlyOptions, o) })
		mounts = append(mounts, mount{fields[0], at, readOnly})
	}
	return mounts, nil
}

// readOnlyOptions are the options of a file system that refuses to be written. Since Linux 6.15, ext4 keeps rw after an error, and adds
// one of the others.
var readOnlyOptions = []string{"ro", "emergency_ro", "shutdown"}
