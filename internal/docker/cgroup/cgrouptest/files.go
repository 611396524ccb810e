// Package cgrouptest provides cgroup files for tests.
package cgrouptest

import (
	"os"
	"path/filepath"
	"testing"
)

// WriteTree writes files below a directory.
func WriteTree(tb testing.TB, root string, files map[string]string) {
	tb.Helper()
	for name, content := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
}

// V1 returns the files of a group on a host with v1: 500 MiB used, of which 200 MiB are inactive files here and below.
func V1(group string) map[string]string {
	return map[string]string{
		"memory/release_agent":                       "\n",
		"memory/memory.usage_in_bytes":               "9000000000\n",
		"memory/" + group + "/memory.usage_in_bytes": "524288000\n",
		"memory/" + group + "/memory.stat": "cache 210763776\ninactive_anon 313524224\ninactive_file 104857600\n" +
			"active_file 1048576\ntotal_cache 210763776\ntotal_inactive_anon 1\ntotal_inactive_file 209715200\ntotal_active_file 1048576\n",
		"memory/" + group + "/memory.limit_in_bytes": "9223372036854771712\n",
		"cpuacct/" + group + "/cpuacct.usage":        "93250000000\n",
		"cpuacct/" + group + "/cpuacct.usage_percpu": "50250000000 43000000000 \n",
		"unified/cgroup.controllers":                 "\n", // systemd mounts v2 here beside v1
		"unified/" + group + "/cgroup.controllers":   "\n",
		"unified/" + group + "/cpu.stat":             "usage_usec 1\n",
		"systemd/" + group + "/cgroup.procs":         "77\n",
		"cpu/" + group + "/cpu.shares":               "1024\n",
	}
}

// V2 returns the files of a group on v2, with the same numbers.
func V2(group string) map[string]string {
	return map[string]string{
		"cgroup.controllers":      "cpuset cpu io memory pids\n",
		group + "/cgroup.type":    "domain\n",
		group + "/memory.current": "524288000\n",
		group + "/memory.stat": "anon 313528320\nfile 210763776\ninactive_anon 313524224\nactive_anon 4096\ninactive_file 209715200\n" +
			"active_file 1048576\nworkingset_refault_file 0\n",
		group + "/memory.max":      "max\n",
		group + "/cpu.stat":        "usage_usec 93250000\nuser_usec 72000000\nsystem_usec 21250000\nnr_periods 0\n",
		group + "/cpu.stat.local":  "throttled_usec 0\n",
		group + "/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
	}
}
