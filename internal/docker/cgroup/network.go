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

// hintProc is for a mount that is not the host's.
const hintProc = "mount the host's /proc there, read-only, or leave proc_root empty"

// processNetworks reads network numbers of processes.
type processNetworks struct {
	files    *kernelFiles
	procRoot string
	host     os.FileInfo
	// asked counts the processes whose numbers were asked for, found those that were there.
	asked, found int
	err          error // the first
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

// read sums what the interfaces of a process's network have carried. On the host's own network, and without any interface,
// nothing is known, as with the engine.
func (n *processNetworks) read(pid int, r *usage.Usage) {
	if n.host == nil || pid <= 0 {
		return
	}
	n.asked++
	// The kernel has one such file for each network namespace, so it is the same one for all processes in it.
	if info, err := os.Stat(n.file(pid)); err == nil && os.SameFile(info, n.host) {
		n.found++
		return
	}
	content, there, err := n.files.read(n.file(pid))
	if there {
		n.found++
		r.Received, r.Transmitted, r.HasNetwork, err = sumInterfaces(string(content))
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
