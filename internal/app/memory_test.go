package app

import (
	"io"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimitIsTheLowestOfTheControlGroups(t *testing.T) {
	const none = "9223372036854771712\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {},
		"version 2": {map[string]string{
			"proc/self/cgroup": "0::/system.slice/exporter.service\n", "sys/fs/cgroup/system.slice/memory.max": "max\n",
			"sys/fs/cgroup/system.slice/exporter.service/memory.max": "67108864\n",
		}, 64 << 20},
		"version 2, of a parent": {map[string]string{
			"proc/self/cgroup": "0::/pod/exporter\n", "sys/fs/cgroup/pod/memory.max": "1000\n",
			"sys/fs/cgroup/pod/exporter/memory.max": "2000\n",
		}, 1000},
		"version 1": {map[string]string{
			"proc/self/cgroup":                                    "9:cpu,cpuacct:/docker/1\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":          none,
			"sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "134217728\n",
		}, 128 << 20},
		"version 1, in a container": {map[string]string{
			"proc/self/cgroup": "4:memory:/docker/1\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "134217728\n",
		}, 128 << 20},
		"none": {files: map[string]string{"proc/self/cgroup": "4:memory:/\n0::/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": none}},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for file, content := range c.files {
				path := filepath.Join(root, file)
				must(t, os.MkdirAll(filepath.Dir(path), 0o700))
				rewrite(t, path, content)
			}
			if got := memoryLimit(root); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestPagesMustFitTheMemory(t *testing.T) {
	for _, c := range []struct{ limit, want int64 }{
		{64 << 20, 3 << 20},
		{32 << 20, 1 << 20 / 3},
		{16 << 20, leastPage},
		{256 << 20, 19 << 20},
	} {
		if got := largestPage(c.limit); got != c.want {
			t.Errorf("%d bytes: got %d, want %d", c.limit, got, c.want)
		}
	}
}

func TestMemoryLimitsMetricsPagesAlone(t *testing.T) {
	cfg, err := LoadConfig(options(map[string]string{"XMPP_REST_URL": "http://127.0.0.1:1", "DOCKER_HOST": "tcp://127.0.0.1:1"},
		io.Discard))
	must(t, err)
	configured := cfg.Limits.MetricsBody
	a := &App{pageLimit: 1 << 20}
	for _, settings := range cfg.Targets {
		want := configured
		if settings.Common().Kind == "xmpp_metrics" {
			want = 1 << 20
		}
		if got := a.limitsOf(cfg, settings).Limits.MetricsBody; got != want {
			t.Errorf("%s: got %d, want %d", settings.Common().Kind, got, want)
		}
	}
	if cfg.Limits.MetricsBody != configured || len(cfg.Targets) < 3 {
		t.Errorf("the configuration has changed: %+v", cfg.Limits)
	}
}
