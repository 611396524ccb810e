//go:build realservers

package drill

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// engineTarget is the configuration of a site's part of the engine: the containers whose services begin with its name.
func (r *rig) engineTarget(env string) string {
	return fmt.Sprintf("  - kind: docker\n    host: %s\n    names: [%s-%s-*]\n    missing_after: 3s\n", r.engine, r.containers.Name, env)
}

// deploy starts a container of a site, after it has removed one of the same name.
func (s *site) deploy(service string, options ...string) string {
	s.t.Helper()
	service = s.env + "-" + service
	s.containers.Docker("rm", "-f", s.containers.Name+"-"+service)
	// The engine takes a health check that ends with its container for a failure, so that a single one must not count.
	name := s.containers.Run(service, append([]string{"--restart", "unless-stopped", "--health-retries", "2"}, options...)...)
	s.containers.Await(name, realstack.HealthStatus, "healthy")
	return name
}

// ofContainer are the labels of an alert about a container.
func ofContainer(name string) map[string]string { return of("container", name, "docker_host", "local") }

// drillContainers is about containers that fail by themselves.
func (r *rig) drillContainers(t *testing.T) {
	t.Helper()
	s := r.open(t, "containers", r.engineTarget("containers"), nil)
	docs := s.deploy("docs")
	turn := func() { s.signal(docs, syscall.SIGUSR1) }
	labels := ofContainer(docs)
	unhealthy := is(1, "chatstack_container_health", "container", docs, "health", "unhealthy")
	s.try(fault{
		name:   "container unhealthy for long",
		cause:  turn,
		repair: turn,
		shown:  unhealthy,
		want:   []notice{{"ContainerUnhealthy", "warning", labels}, {"ContainerUnhealthy", "critical", labels}},
	})
	s.try(fault{
		name:   "crash loop of 4",
		cause:  func() { s.kill(docs, 4) },
		repair: func() {},
		shown:  above(3, "chatstack_container_restarts_total", "container", docs),
		want:   []notice{{"ContainerRestarts", "critical", labels}},
		may:    []notice{{"ContainerRestarts", "warning", labels}},
	})
	s.tryOneShot()
}

// tryOneShot has a container that does its work fail once.
func (s *site) tryOneShot() {
	s.t.Helper()
	name := s.containers.Run(s.env+"-job", "--", "exit", "0", "0", "1", "0")
	exited := is(1, "chatstack_container_state", "container", name, "state", "exited")
	s.await("the first run to end", func() bool { return exited(s.page()) })
	s.containers.Docker("start", "--attach", name)
	failed := is(1, "chatstack_container_exit_code", "container", name)
	s.try(fault{
		name:   "job fails",
		cause:  func() { s.containers.Succeeds("start", "--attach", name) },
		repair: func() { s.containers.Docker("start", "--attach", name) },
		shown:  failed,
		want:   []notice{{"OneShotFailed", "warning", ofContainer(name)}},
	})
}

// drillFlapping is about a container that ends again and again while its service is dead all along: it hides nothing.
func (r *rig) drillFlapping(t *testing.T) {
	t.Helper()
	var dead atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if dead.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	name := r.containers.Name + "-flapping-docs"
	s := r.open(t,
		"flapping", r.engineTarget("flapping")+fmt.Sprintf("  - {kind: http, name: docs, url: %s, container: %s}\n", server.URL, name), nil)
	s.deploy("docs")
	down := of("target", "docs", "kind", "http")
	s.try(fault{
		name:   "container ends every 9 s, its service is dead all along",
		shown:  above(1, "chatstack_container_restarts_total", "container", name),
		cause:  func() { dead.Store(true); s.deploy("docs", "--", "last", "9") },
		repair: func() { s.deploy("docs"); dead.Store(false) },
		want:   []notice{{"ContainerRestarts", "warning", ofContainer(name)}, {"TargetDown", "critical", down}},
		may:    []notice{{"TargetDown", "warning", down}},
	})
}

// kill ends a container's process again and again, as soon as the engine has started it anew.
func (s *site) kill(name string, times int) {
	s.t.Helper()
	for range times {
		before := s.containers.Says(name, "{{.RestartCount}}")
		s.signal(name, syscall.SIGKILL)
		s.await("the engine to restart "+name, func() bool {
			return s.containers.Says(name, "{{.RestartCount}}") != before && s.containers.Says(name, realstack.ContainerIs) == "running"
		})
	}
}

// signal sends a signal to a container's process. The engine is not asked to: it would restart none that it has sent one to.
func (s *site) signal(name string, signal syscall.Signal) {
	s.t.Helper()
	pid, err := strconv.Atoi(s.containers.Says(name, "{{.State.Pid}}"))
	if err != nil || pid <= 0 {
		s.t.Fatalf("process of %s: %d, %v", name, pid, err)
	}
	if err := syscall.Kill(pid, signal); err != nil {
		s.t.Fatal(err)
	}
}

// mountVolume mounts a file system of that size until the end of the test, and returns where.
func mountVolume(t *testing.T, size, inodes int) string {
	t.Helper()
	volume := filepath.Join(t.TempDir(), "volume")
	if err := os.Mkdir(volume, 0o755); err != nil { //nolint:gosec // nothing is in it
		t.Fatal(err)
	}
	if err := syscall.Mount("drill", volume, "tmpfs", 0, fmt.Sprintf("size=%d,nr_inodes=%d", size, inodes)); err != nil {
		t.Fatalf("mount a volume, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(volume, 0); err != nil {
			t.Errorf("unmount the volume: %v", err)
		}
	})
	return volume
}

// drillResources is about containers and volumes that grow.
func (r *rig) drillResources(t *testing.T) {
	t.Helper()
	const size, inodes = 16 << 20, 200
	volume, archive := mountVolume(t, size, inodes), mountVolume(t, size, inodes)
	backups := t.TempDir()
	written := func(ago time.Duration) func() {
		return func() {
			path, at := filepath.Join(backups, "nightly.tar"), time.Now().Add(-ago)
			if err := errors.Join(os.WriteFile(path, []byte("data"), 0o600), os.Chtimes(path, at, at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	written(time.Hour)()
	s := r.open(t, "resources", r.engineTarget("resources")+"  - kind: volume\n    name: data\n    path: "+volume+
		"\n  - kind: volume\n    name: archive\n    page: false\n    path: "+archive+
		"\n  - kind: backup\n    name: nightly\n    path: "+filepath.Join(backups, "*.tar")+"\n", nil)
	xmpp, docs := s.deploy("xmpp"), s.deploy("docs")
	using := func(name string, bytes float64) func(page) bool {
		return above(bytes, "chatstack_container_memory_working_set_bytes", "container", name)
	}
	s.try(fault{
		name:   "XMPP server holds 550 MB",
		shown:  using(xmpp, 5e8),
		cause:  func() { s.deploy("xmpp", "--", "hold", "530") },
		repair: func() { s.deploy("xmpp") },
		want:   []notice{{"ContainerMemory", "warning", ofContainer(xmpp)}},
	})
	s.try(fault{
		name:   "container holds 1.05 GB",
		shown:  using(docs, 1e9),
		cause:  func() { s.deploy("docs", "--", "hold", "1005") },
		repair: func() { s.deploy("docs") },
		want:   []notice{{"ContainerMemory", "critical", ofContainer(docs)}},
	})
	file := filepath.Join(volume, "file")
	remove := func() {
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	for percent, f := range map[int]fault{
		85: {want: []notice{{"DataVolumeUsage", "warning", of("volume", "data")}}},
		97: {
			want: []notice{{"DataVolumeUsage", "critical", of("volume", "data")}},
			may:  []notice{{"DataVolumeUsage", "warning", of("volume", "data")}},
		},
	} {
		f.name, f.repair = fmt.Sprintf("volume %d %% full", percent), remove
		f.shown = below(size*float64(101-percent)/100, "chatstack_volume_available_bytes", "volume", "data")
		f.cause = func() {
			if err := os.WriteFile(file, make([]byte, size*percent/100), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s.try(f)
	}
	full := of("target", "data")
	for percent, f := range map[uint64]fault{
		94:  {want: []notice{{"DataVolumeInodes", "warning", full}}},
		100: {want: []notice{{"DataVolumeInodes", "critical", full}}, may: []notice{{"DataVolumeInodes", "warning", full}}},
	} {
		made := 0
		f.name, f.shown = fmt.Sprintf("volume with %d %% of its inodes used", percent),
			above(0.92, "chatstack_volume_inodes_used_ratio", "volume", "data")
		f.cause = func() {
			var of syscall.Statfs_t
			for ; ; made++ {
				if err := syscall.Statfs(volume, &of); err != nil || (of.Files-of.Ffree)*100 >= of.Files*percent {
					return
				}
				f, err := os.Create(filepath.Join(volume, fmt.Sprint("empty-", made)))
				if errors.Is(err, syscall.ENOSPC) {
					return
				}
				if err := errors.Join(err, f.Close()); err != nil {
					t.Fatal(err)
				}
			}
		}
		f.repair = func() {
			for i := range made {
				if err := os.Remove(filepath.Join(volume, fmt.Sprint("empty-", i))); err != nil {
					t.Fatal(err)
				}
			}
		}
		s.try(f)
	}
	// Without MS_BIND, it is the file system that changes, not the mount.
	remount := func(volume string, flags uintptr) func() {
		return func() {
			if err := syscall.Mount("drill", volume, "tmpfs", syscall.MS_REMOUNT|flags,
				fmt.Sprintf("size=%d,nr_inodes=%d", size, inodes)); err != nil {
				t.Fatalf("remount the volume: %v", err)
			}
		}
	}
	for name, f := range map[string]fault{
		"data": {
			cause:  remount(volume, syscall.MS_RDONLY),
			repair: remount(volume, 0),
			want:   []notice{{"DataVolumeReadOnly", "critical", full}},
		},
		"archive": {
			cause:  remount(archive, syscall.MS_RDONLY),
			repair: remount(archive, 0),
			want:   []notice{{"DataVolumeReadOnly", "warning", of("target", "archive")}},
		},
	} {
		f.name, f.shown = "volume "+name+" turns read-only", above(0, "chatstack_volume_read_only", "volume", name)
		s.try(f)
	}
	s.try(fault{
		name:   "backup of two days ago",
		shown:  below(float64(time.Now().Add(-47*time.Hour).Unix()), "chatstack_backup_last_timestamp_seconds", "target", "nightly"),
		cause:  written(48 * time.Hour),
		repair: written(time.Hour),
		want:   []notice{{"BackupOld", "warning", of("target", "nightly")}},
	})
	// A kill counts where the container and its predecessor did not end within half a minute of it.
	s.patience = 3 * time.Minute
	s.try(fault{
		name:   "a child process is killed for want of memory, its container goes on",
		shown:  above(0, "chatstack_container_recent_oom_kills", "container", docs),
		cause:  func() { s.deploy("docs", "--memory", "64m", "--", "lose", "300", "35") },
		repair: func() {},
		want:   []notice{{"ContainerOOMKill", "warning", ofContainer(docs)}},
	})
}
