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
	// baseMemory is what the exporter takes with everything but foreign metrics pages.
	baseMemory = 28 << 20
	// pageMemory is how many bytes one byte of a foreign page takes at most: read, as lines, and on the own page in every
	// encoding, of which the last one is still served while the next is made.
	pageMemory = 12
	// leastPage is a page that is always let in: less than what a small server has to say.
	leastPage = 256 << 10
)

// fitMemory has the exporter mind a memory limit of its control group, for the kernel kills whoever crosses it: the
// garbage collector works harder near the limit, and a metrics page that is too large for it even alone is refused, which
// is told as too_large, before it is read whole. How many pages there are does not count: most are small, and a large one
// that was taken must not be refused because a target was added. Without a limit it changes nothing.
func (a *App) fitMemory(cfg *config.Config) {
	a.pageLimit = 0
	limit := memoryLimit("/")
	if limit == 0 {
		return
	}
	if goLimit, set := a.options.Lookup("GOMEMLIMIT"); !set || goLimit == "" {
		debug.SetMemoryLimit(limit / 4 * 3) // the program's text counts too
	}
	if fits := largestPage(limit); fits < int64(cfg.Limits.MetricsBody) {
		a.log.Warn("memory is too small for limits.metrics_body, larger pages are refused; raise the memory limit of the container or service",
			"memory_limit", limit, "configured", int64(cfg.Limits.MetricsBody), "limited_to", fits)
		a.pageLimit = config.Bytes(fits)
	}
}

// limitsOf returns a configuration whose limits are those of the target: its own, but for a metrics page that the memory
// is too small for. What else is read within limits.metrics_body, such as an engine's list, does not stay in memory.
func (a *App) limitsOf(cfg *config.Config, settings config.Settings) *config.Config {
	kind := settings.Common().Kind
	if a.pageLimit == 0 || a.pageLimit >= cfg.Limits.MetricsBody || kind != "xmpp_metrics" && kind != "openmetrics" {
		return cfg
	}
	limited := *cfg
	limited.Limits.MetricsBody = a.pageLimit
	return &limited
}

// largestPage is how many bytes a page may have under a memory limit.
func largestPage(limit int64) int64 { return max(leastPage, (limit-baseMemory)/pageMemory) }

// memoryLimit is the lowest limit of the control groups that the process is in, in bytes; 0 where there is none. root is
// where /proc and /sys are.
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
		// In a container the path may be the host's, of which nothing is mounted but the end.
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			if n, ok := readLimit(filepath.Join(root, mount, group, file)); ok {
				lowest = min(lowest, n)
			}
			if group == "/" {
				break
			}
		}
	}
	if lowest > 1<<60 { // version 1 writes no limit as a number
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
