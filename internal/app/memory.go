package app

import (
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

const (
	// baseMemory is the exporter's memory in bytes, without the metrics of other programs.
	baseMemory = 28 << 20
	// pageMemory is the most memory in bytes per byte of a metrics page of another program: as read, as lines, and on the exporter's own
	// page in every encoding, twice while a new page replaces the old.
	pageMemory = 12
	// garbagePercent is how much the heap grows between two collections of garbage. Go's default of 100 takes a tenth more memory, and
	// saves 4 % of the little processor time.
	garbagePercent = 50
	// leastPage is the largest page that is always accepted, below the size of a small server's page.
	leastPage = 256 << 10
)

// fitMemory keeps the exporter within the memory limit of its control group, since the kernel kills a process that exceeds it. The garbage
// collector works harder near the limit, and a metrics page that would exceed it alone fails with too_large. The number of pages does
// not matter, so that a new target never makes the page of another one fail. Without a memory limit, no page is refused. GOGC and
// GOMEMLIMIT take precedence.
func (a *App) fitMemory(cfg *config.Config) {
	if goPercent, set := a.options.Lookup("GOGC"); !set || goPercent == "" {
		debug.SetGCPercent(garbagePercent)
	}
	a.pageLimit = 0
	limit := memoryLimit("/")
	if limit == 0 {
		return
	}
	if goLimit, set := a.options.Lookup("GOMEMLIMIT"); !set || goLimit == "" {
		debug.SetMemoryLimit(limit / 4 * 3) // the limit also counts the program's code
	}
	if fits := largestPage(limit); fits < int64(cfg.Limits.MetricsBody) {
		a.log.Warn("memory limit is too low for limits.metrics_body, larger metrics pages fail; "+
			"raise the memory limit of the container or service",
			"memory_limit", limit, "configured", int64(cfg.Limits.MetricsBody), "limited_to", fits)
		a.pageLimit = config.Bytes(fits)
	}
}

// limitsOf returns the configuration with the limits for a target: pageLimit lowers limits.metrics_body for metrics pages. It does not for
// other responses, such as an engine's list, since they do not stay in memory.
func (a *App) limitsOf(cfg *config.Config, settings config.Settings) *config.Config {
	if a.pageLimit == 0 || a.pageLimit >= cfg.Limits.MetricsBody || !rowOf(settings).ServesPage {
		return cfg
	}
	limited := *cfg
	limited.Limits.MetricsBody = a.pageLimit
	return &limited
}

// largestPage returns the largest metrics page, in bytes, for a memory limit.
func largestPage(limit int64) int64 { return max(leastPage, (limit-baseMemory)/pageMemory) }

// memoryLimit returns the lowest limit of the process's control groups in bytes; 0 if there is none. root is the directory that has
// proc and sys.
func memoryLimit(root string) int64 {
	groups, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	lowest := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		// hierarchy:controllers:path, where version 2 names no controllers
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		switch fields[1] {
		case "":
		case "memory":
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		// In a container the path may be the host's, while only its end is mounted.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if n, ok := readLimit(filepath.Join(root, mount, group, file)); ok {
				lowest = min(lowest, n)
			}
			if group == "/" {
				break
			}
		}
	}
	if lowest > 1<<60 { // version 1 reports a huge number if there is no limit
		return 0
	}
	return lowest
}

func readLimit(name string) (int64, bool) {
	raw, err := os.ReadFile(name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(raw)), 10, 64)
	return n, err == nil && n > 0
}
