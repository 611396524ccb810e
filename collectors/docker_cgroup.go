package collectors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// cgroupTree reads what containers use from the host's cgroup file system, v1 or v2, without asking the engine. root is where
// that is mounted, best read-only. procRoot is where the host's /proc is, for network numbers, which are not known where it
// is "".
type cgroupTree struct {
	root, procRoot string
	// groups remembers from one reading to the next where containers' groups are, by their ids. A nil one remembers nothing.
	groups map[string]*cgroupGroup
}

// cgroupGroup is the group of one container.
type cgroupGroup struct {
	// path is below a controller's directory.
	path             string
	usage, stat, cpu kernelFile
}

func (g *cgroupGroup) close() {
	for _, f := range []*kernelFile{&g.usage, &g.stat, &g.cpu} {
		f.close()
	}
}

// forget closes the files of groups that are not to be kept, and forgets those.
func (t cgroupTree) forget(kept func(id string) bool) {
	maps.DeleteFunc(t.groups, func(id string, g *cgroupGroup) bool {
		if kept(id) {
			return false
		}
		g.close()
		return true
	})
}

func (t cgroupTree) forgetAll() { t.forget(func(string) bool { return false }) }

// What to do about mounts that are not the host's.
const (
	hintCgroup = "mount the host's /sys/fs/cgroup there, read-only, or set resources: engine"
	hintProc   = "mount the host's /proc there, read-only, or leave proc_root empty"
)

// cgroupLayout is where the numbers are in one version of cgroups.
type cgroupLayout struct {
	// memory and cpu are the directories of the two controllers, one and the same on v2. On v1 one may be "": not mounted.
	memory, cpu string
	// usage and cpuTime are names of files in a group's directory; in the latter, cpuKey begins the line of the number,
	// "" where there is nothing else.
	usage, cpuTime, cpuKey string
	// perSecond is how many of the CPU's units of time make a second.
	perSecond float64
	// onlyTop is a file that only the top of the host's tree has, onlyBelow one that only the groups below have. Each version
	// knows one of them.
	onlyTop, onlyBelow string
}

func (t cgroupTree) layout() (cgroupLayout, error) {
	if _, err := os.Stat(filepath.Join(t.root, "cgroup.controllers")); err == nil {
		return cgroupLayout{
			memory: t.root, cpu: t.root, usage: "memory.current", cpuTime: "cpu.stat", cpuKey: "usage_usec", perSecond: 1e6,
			onlyBelow: "cgroup.type",
		}, nil
	}
	l := cgroupLayout{usage: "memory.usage_in_bytes", cpuTime: "cpuacct.usage", perSecond: 1e9, onlyTop: "release_agent"}
	l.memory = firstDirectory(t.root, "memory")
	l.cpu = firstDirectory(t.root, "cpuacct", "cpu,cpuacct", "cpuacct,cpu")
	if l.memory == "" && l.cpu == "" {
		return l, failure.Errorf(failure.NotFound, "read cgroups in %s: there is no cgroup tree, of v1 or v2", t.root).WithHint(hintCgroup)
	}
	return l, nil
}

// firstDirectory is the path of the first of these below root that exists, or "".
func firstDirectory(root string, names ...string) string {
	for _, name := range names {
		if path := filepath.Join(root, name); isDirectory(path) {
			return path
		}
	}
	return ""
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// top is the directory of the one controller whose groups are looked for; the other has them under the same paths.
func (l *cgroupLayout) top() string {
	if l.memory != "" {
		return l.memory
	}
	return l.cpu
}

// isHosts reports whether the tree is the host's, rather than the part of it that a container sees as its own.
func (l *cgroupLayout) isHosts() bool {
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(l.top(), name))
		return err == nil
	}
	if l.onlyTop != "" {
		return exists(l.onlyTop)
	}
	return !exists(l.onlyBelow)
}

// resources reads the numbers of all subjects until ctx is done. The result has an entry for each whose group is there; one
// whose group is gone has stopped and is missing. The error is the first one that means more than one container, beside
// what was got nevertheless.
func (t cgroupTree) resources(ctx context.Context, subjects []resourceSubject) (map[string]containerResources, error) {
	if len(subjects) == 0 {
		t.forgetAll()
		return nil, nil
	}
	l, err := t.layout()
	if err != nil {
		t.forgetAll()
		return nil, err
	}
	var (
		got   = make(map[string]containerResources, len(subjects))
		files = &kernelFiles{room: t.room()}
		found = cgroupFinder{layout: &l, groups: t.groups, files: files}
		nets  = t.networks(files)
	)
	for _, subject := range subjects {
		if err := ctx.Err(); err != nil {
			return got, fmt.Errorf("read cgroups in %s: %w", t.root, err)
		}
		r, failed := found.read(ctx, subject.id)
		if err == nil {
			err = failed
		}
		if failed != nil || !r.hasMemory && !r.hasCPU {
			continue
		}
		if r.hasMemory {
			r.limit = uint64(max(subject.limit, 0))
		}
		nets.read(subject.pid, &r)
		got[subject.id] = r
	}
	t.forget(func(id string) bool {
		_, still := got[id]
		return still
	})
	switch {
	case err != nil:
		return got, err
	// One may have vanished since it was listed. That all of several did is not to be believed.
	case len(got) == 0 && (len(subjects) > 1 || !l.isHosts()):
		return got, failure.Errorf(failure.NotFound, "read cgroups in %s: none of %d running containers is there", t.root, len(subjects)).WithHint(hintCgroup)
	}
	return got, nets.failure()
}

// read reads the numbers of one group; what is not there is not known.
func (l *cgroupLayout) read(files *kernelFiles, group *cgroupGroup) (containerResources, error) {
	var r containerResources
	if l.memory != "" {
		usage, known, err := files.number(&group.usage, "")
		if err != nil {
			return r, err
		}
		cache, there, err := files.inactiveFile(&group.stat)
		if err != nil {
			return r, err
		}
		r.hasMemory = known && there && usage > 0
		r.workingSet = workingSet(usage, cache)
	}
	if l.cpu != "" {
		used, known, err := files.number(&group.cpu, l.cpuKey)
		if err != nil {
			return r, err
		}
		r.hasCPU, r.cpuSeconds = known && used > 0, float64(used)/l.perSecond
	}
	return r, nil
}

// group is a group by its path below a controller's directory.
func (l *cgroupLayout) group(path string) *cgroupGroup {
	file := func(controller, name string) kernelFile {
		return kernelFile{path: filepath.Join(controller, path, name), stays: true}
	}
	return &cgroupGroup{path: path, usage: file(l.memory, l.usage), stat: file(l.memory, "memory.stat"), cpu: file(l.cpu, l.cpuTime)}
}

// whole reports whether every controller that there is has told its numbers.
func (l *cgroupLayout) whole(r *containerResources) bool {
	return (l.memory == "" || r.hasMemory) && (l.cpu == "" || r.hasCPU)
}

// cgroupFinder finds containers' groups.
type cgroupFinder struct {
	layout *cgroupLayout
	files  *kernelFiles
	// groups are those that were found before.
	groups map[string]*cgroupGroup
	// others are the groups in unusual places by their containers' ids, once it was looked for them.
	others map[string]string
}

// read reads the numbers of a container, where it was found before or is found now; of none that has no group.
func (f *cgroupFinder) read(ctx context.Context, id string) (containerResources, error) {
	if group := f.groups[id]; group != nil {
		if r, err := f.layout.read(f.files, group); err == nil && f.layout.whole(&r) {
			return r, nil
		}
		group.close()
		delete(f.groups, id) // it may have moved, one controller after another
	}
	path := f.group(ctx, id)
	if path == "" {
		return containerResources{}, nil
	}
	group := f.layout.group(path)
	if f.groups == nil {
		defer group.close()
	} else {
		f.groups[id] = group
	}
	return f.layout.read(f.files, group)
}

// group is the path of a container's group below a controller's directory, or "".
func (f *cgroupFinder) group(ctx context.Context, id string) string {
	if !isContainerID(id) {
		return "" // nothing that the engine says leads elsewhere
	}
	top := f.layout.top()
	// The engine's driver is cgroupfs or systemd.
	if group := filepath.Join("docker", id); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if group := filepath.Join("system.slice", "docker-"+id+".scope"); isDirectory(filepath.Join(top, group)) {
		return group
	}
	if f.others == nil {
		f.others = map[string]string{}
		f.search(ctx)
	}
	return f.others[id]
}

// search looks through the whole tree: for engines without root, engines in containers, and those with cgroup-parent.
func (f *cgroupFinder) search(ctx context.Context) {
	top := f.layout.top()
	//nolint:errcheck // what cannot be read is passed over
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fs.SkipAll
		case err != nil: // the group is gone
			return nil //nolint:nilerr // as said above
		case !entry.IsDir():
			return nil
		}
		name := entry.Name()
		if scope, ok := strings.CutPrefix(name, "docker-"); ok {
			name = strings.TrimSuffix(scope, ".scope")
		}
		if group, err := filepath.Rel(top, path); err == nil && isContainerID(name) {
			f.others[name] = group
		}
		return nil
	})
}

// isContainerID reports whether it is a whole id, as engines make them.
func isContainerID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// maxKeptFiles bounds the files of groups that stay open: the kernel uses about five kilobytes for each.
const maxKeptFiles = 3 << 10

// room is how many more files of groups may stay open: of each engine a quarter of what this process may open, so that
// connections have theirs.
func (t cgroupTree) room() int {
	var limit syscall.Rlimit
	if t.groups == nil || syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	room := int(min(limit.Cur/4, maxKeptFiles)) //nolint:gosec // it is small
	for _, g := range t.groups {
		for _, f := range []*kernelFile{&g.usage, &g.stat, &g.cpu} {
			switch {
			case f.open == nil:
			case room > 0:
				room--
			default: // the limit was lowered
				f.close()
			}
		}
	}
	return room
}

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

// inactiveFile reads a memory.stat.
func (k *kernelFiles) inactiveFile(file *kernelFile) (cache inactiveFile, known bool, err error) {
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

// processNetworks reads network numbers of processes.
type processNetworks struct {
	files    *kernelFiles
	procRoot string
	host     os.FileInfo
	// asked counts the processes whose numbers were asked for, found those that were there.
	asked, found int
	err          error // the first
}

func (t cgroupTree) networks(files *kernelFiles) *processNetworks {
	n := &processNetworks{files: files, procRoot: t.procRoot}
	if t.procRoot == "" {
		return n
	}
	var err error
	if n.host, err = os.Stat(n.file(1)); err != nil {
		n.err = failure.Errorf(failure.ReasonOf(err), "find the host's network: %w", err).WithHint(hintProc)
	}
	return n
}

func (n *processNetworks) file(pid int) string {
	return filepath.Join(n.procRoot, strconv.Itoa(pid), "net", "dev")
}

// read sums what the interfaces of a process's network have carried. On the host's own network, and without any interface,
// nothing is known, as with the engine.
func (n *processNetworks) read(pid int, r *containerResources) {
	if n.host == nil || pid <= 0 {
		return
	}
	n.asked++
	// The kernel has one such file for each network namespace, so it is the same one for all processes in it.
	if info, err := os.Stat(n.file(pid)); err == nil && os.SameFile(info, n.host) {
		n.found++
		return
	}
	content, there, err := n.files.read(&kernelFile{path: n.file(pid)})
	if there {
		n.found++
		r.received, r.transmitted, r.hasNetwork, err = sumInterfaces(string(content))
	}
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("read network of a container: %w", err)
	}
}

// failure is why numbers are not known, of more than one container.
func (n *processNetworks) failure() error {
	if n.err == nil && n.asked > 1 && n.found == 0 {
		return failure.Errorf(failure.NotFound, "read networks in %s: none of %d containers' processes is there", n.procRoot, n.asked).WithHint(hintProc)
	}
	return n.err
}

// sumInterfaces sums the bytes of a net/dev, over all interfaces but lo. known tells whether there is any.
func sumInterfaces(content string) (received, transmitted uint64, known bool, err error) {
	for line := range strings.Lines(content) {
		name, numbers, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || name == "lo" {
			continue
		}
		const in, out = 0, 8
		fields := strings.Fields(numbers)
		if len(fields) <= out {
			return 0, 0, false, failure.Errorf(failure.Malformed, "interface %s has %d numbers", failure.OneLine(name), len(fields))
		}
		r, errIn := strconv.ParseUint(fields[in], 10, 64)
		t, errOut := strconv.ParseUint(fields[out], 10, 64)
		if err := errors.Join(errIn, errOut); err != nil {
			return 0, 0, false, failure.Errorf(failure.Malformed, "interface %s: %w", failure.OneLine(name), err)
		}
		received, transmitted, known = received+r, transmitted+t, true
	}
	return received, transmitted, known, nil
}
