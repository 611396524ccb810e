package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// hintProc is for a mount of another /proc than the host's.
const hintProc = "in a container, mount the host's /proc at /host/proc, read-only; else correct proc_root, or set resources: engine"

// NetworkError says that only network numbers cannot be read.
type NetworkError struct{ error }

// Unwrap returns what failed.
func (e *NetworkError) Unwrap() error { return e.error }

// processNetworks reads the network traffic of processes.
type processNetworks struct {
	files    *kernelFiles
	procRoot string
	host     os.FileInfo
	// requested counts all processes, found the existing ones.
	requested, found int
	err              error // the first
}

func newNetworks(procRoot string, files *kernelFiles) *processNetworks {
	n := &processNetworks{files: files, procRoot: procRoot}
	if procRoot == "" {
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

// read sums the traffic of the interfaces that the engine has put into a process's network. Like the engine, it leaves the traffic
// unknown on the host's network and without such interfaces.
func (n *processNetworks) read(subject *usage.Subject, r *usage.Usage) {
	pid := subject.PID
	if n.host == nil || pid <= 0 {
		return
	}
	n.requested++
	// In another /proc than the host's, this may be another process.
	groups, _, err := n.files.read(filepath.Join(n.procRoot, strconv.Itoa(pid), "cgroup"))
	named := strings.Contains(string(groups), subject.ID)
	if err != nil || !named && !isRoot(string(groups)) {
		return
	}
	// All processes in one network namespace have the same file.
	if info, err := os.Stat(n.file(pid)); err == nil && os.SameFile(info, n.host) {
		if named {
			n.found++
		}
		return
	}
	content, exists, err := n.files.read(n.file(pid))
	if exists {
		n.found++
		r.Received, r.Transmitted, r.HasNetwork, err = sumInterfaces(string(content))
	}
	if err != nil && n.err == nil {
		n.err = fmt.Errorf("read network of a container: %w", err)
	}
}

// isRoot reports whether all groups of a process are called /, as in the exporter's own container.
func isRoot(groups string) bool {
	for line := range strings.Lines(groups) {
		if !strings.HasSuffix(strings.TrimRight(line, "\n"), ":/") {
			return false
		}
	}
	return groups != ""
}

// failure returns the first error, or one that says that no process was found.
func (n *processNetworks) failure() error {
	if n.err == nil && n.requested > 0 && n.found == 0 {
		n.err = failure.Errorf(failure.NotFound, "read networks in %s: none of the processes of %d containers exists there",
			n.procRoot, n.requested).WithHint(hintProc)
	}
	if n.err != nil {
		return &NetworkError{n.err}
	}
	return nil
}

// sumInterfaces sums the bytes of the interfaces that the engine makes, eth0 and so on, in a net/dev file. Others, such as a VPN's, would
// count the same traffic again. known is false if there are none.
func sumInterfaces(content string) (received, transmitted uint64, known bool, err error) {
	for line := range strings.Lines(content) {
		name, numbers, ok := strings.Cut(line, ":")
		if name = strings.TrimSpace(name); !ok || !strings.HasPrefix(name, "eth") {
			continue
		}
		const in, out = 0, 8 // columns
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
