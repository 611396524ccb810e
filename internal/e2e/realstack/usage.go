//go:build realservers

package realstack

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// Usage is what a server has used so far.
type Usage struct {
	// CPU is its processor time, with children and the kernel's work for them.
	CPU time.Duration
	// Descriptors is how many files it has open now.
	Descriptors int
	// LogLines is how many lines it has logged.
	LogLines int
}

// Usage returns what the running server has used.
func (p *Process) Usage() (u Usage) {
	p.tb.Helper()
	for pid := range p.states() {
		u.CPU += p.cpu(pid)
		open, err := exportertest.Descriptors(pid)
		if err != nil {
			p.tb.Fatal(err)
		}
		u.Descriptors += open
	}
	u.LogLines = strings.Count(p.Log(), "\n")
	return u
}

// cpu adds up the threads. /proc/PID/stat counts hundredths of a second, which is more than a check takes.
func (p *Process) cpu(pid int) (used time.Duration) {
	p.tb.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		p.tb.Fatal(err)
	}
	for _, thread := range threads {
		var onCPU int64
		content, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/schedstat", pid, thread.Name()))
		if err == nil {
			_, err = fmt.Sscan(string(content), &onCPU)
		}
		if err != nil {
			p.tb.Fatal(err)
		}
		used += time.Duration(onCPU)
	}
	return used
}

// Connections returns how many clients are connected to an address of IPv4 on this machine.
func (p *Process) Connections(address string) (count int) {
	p.tb.Helper()
	local, err := netip.ParseAddrPort(address)
	if err != nil {
		p.tb.Fatal(err)
	}
	content, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		p.tb.Fatal(err)
	}
	ip := net.IP(local.Addr().AsSlice())
	want := fmt.Sprintf("%02X%02X%02X%02X:%04X", ip[3], ip[2], ip[1], ip[0], local.Port())
	for line := range strings.Lines(string(content)) {
		const established = "01"
		if fields := strings.Fields(line); len(fields) > 3 && fields[1] == want && fields[3] == established {
			count++
		}
	}
	return count
}
