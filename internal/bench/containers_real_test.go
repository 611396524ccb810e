//go:build bench && realservers

package bench

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// dockerLab is an engine of one's own with containers, which do nothing until they are made busy.
type dockerLab struct {
	*realstack.Containers
	*suite
	docker *realstack.Docker
	client *dockerclient.Client
	// engine are the processes of dockerd and containerd with its shims.
	engine []int
	ids    []string // of the containers
	busy   bool
	window time.Duration // of a program that is watched
}

// measureContainers measures whole programs that watch a real engine. The containers have no health checks, which would cost
// the engine more than all that is measured here.
func (s *suite) measureContainers(t *testing.T) {
	t.Helper()
	if realstack.Installed("dockerd") == "" || os.Getuid() != 0 {
		return
	}
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	l := &dockerLab{Containers: d.Containers(), suite: s, docker: d}
	l.client = must(dockerclient.NewClientWithOpts(dockerclient.WithHost(d.Host), dockerclient.WithAPIVersionNegotiation()))
	// To remove hundreds of containers takes a minute; this ends them with the engine.
	t.Cleanup(func() {
		l.client.Close() //nolint:errcheck,gosec // the engine ends as well
		d.Kill()
	})
	for _, n := range s.plan.containers {
		// Fewer containers than the goals are for are quickly measured.
		if l.window = s.plan.window; n < goalContainers {
			l.window = min(l.window, usualInterval/6)
		}
		l.grow(t, n)
		l.measurePrograms(t)
	}
	for _, id := range l.ids {
		must(0, l.client.ContainerKill(t.Context(), id, "SIGUSR2"))
	}
	l.busy = true
	l.measurePrograms(t)
}

// grow starts containers through the engine's API, since the command takes longer, until there are n of them.
func (l *dockerLab) grow(t *testing.T, n int) {
	t.Helper()
	for i := len(l.ids); i < n; i++ {
		service := fmt.Sprintf("service-%d", i)
		made := must(l.client.ContainerCreate(t.Context(),
			&container.Config{
				Image: l.Name, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
				Labels: map[string]string{l.Name: "", "com.docker.compose.project": l.Name, "com.docker.compose.service": service},
			},
			&container.HostConfig{NetworkMode: "none"}, nil, nil, l.Name+"-"+service))
		must(0, l.client.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
		l.ids = append(l.ids, made.ID)
	}
	time.Sleep(l.plan.settled)
	engine, shims := l.docker.PIDs()
	l.engine = append(engine, shims...)
}

// measurePrograms runs whole programs, one at a time.
func (l *dockerLab) measurePrograms(t *testing.T) {
	t.Helper()
	for _, setting := range []string{"engine", "cgroup"} {
		config := fmt.Sprintf("targets:\n  - {kind: docker, host: %q, resources: %s}\n", l.docker.Host, setting)
		for _, e := range l.exporters {
			l.watch(t, e.name+resources+setting, "chatstack_container_memory_working_set_bytes{",
				func(t *testing.T) (*realstack.Process, string) {
					t.Helper()
					p := realstack.StartExporter(t, e.path, config, nil, "--log.level=warn",
						fmt.Sprintf("--poll.interval=%s", l.window), fmt.Sprintf("--poll.timeout=%s", min(l.window, 10*time.Second)))
					return p.Process, p.Addr
				})
		}
	}
	path := os.Getenv(cadvisorVariable)
	if path == "" {
		return
	}
	for _, name := range []string{cadvisorDefault, cadvisorTuned} {
		argv := []string{path, "-docker=" + l.docker.Host, "-logtostderr"}
		if name == cadvisorTuned { // so that it does no more than ours
			argv = append(argv, fmt.Sprintf("-housekeeping_interval=%s", l.window), "-allow_dynamic_housekeeping=false",
				"-docker_only=true", "-store_container_labels=false", "-enable_metrics=cpu,memory,network", "-storage_duration=1m")
		}
		l.watch(t, name, "container_memory_working_set_bytes{", func(t *testing.T) (*realstack.Process, string) {
			t.Helper()
			p := realstack.StartProgram(t, "cadvisor", "/metrics", nil, func(p *realstack.Program) []string {
				host, port, _ := strings.Cut(p.Addr, ":")
				return append(argv, "-listen_ip="+host, "-port="+port)
			})
			return p.Process, p.Addr
		})
	}
}

// watch starts a program, waits until it knows all containers by the lines of its page that begin with memory, and measures
// it for some windows, with one reading and one scrape in each.
func (l *dockerLab) watch(t *testing.T, name, memory string, start func(*testing.T) (*realstack.Process, string)) {
	t.Helper()
	t.Run(fmt.Sprintf("containers=%d/%s/%s", len(l.ids), does(l.busy), name), func(t *testing.T) {
		// What the engine uses by itself changes with what it has been asked before.
		engine := cpuTime(l.engine...)
		time.Sleep(2 * l.window)
		atRest := float64(cpuTime(l.engine...)-engine) / (2 * l.window).Seconds() // in each second
		begun := time.Now()
		p, addr := start(t)
		must(0, await(patience, func() error {
			page, err := getPage(t.Context(), addr)
			known := 0
			for line := range bytes.Lines(page) {
				if bytes.HasPrefix(line, []byte(memory)) && bytes.Contains(line, []byte(l.Name+"-")) {
					known++
				}
			}
			if err == nil && known != len(l.ids) {
				err = fmt.Errorf("%s knows %d of %d containers", name, known, len(l.ids))
			}
			return err
		}))
		windows := func(n int) {
			for range n {
				time.Sleep(l.window / 2)
				must(get(t.Context(), http.DefaultTransport, "http://"+addr+"/metrics", "gzip"))
				time.Sleep(l.window / 2)
			}
		}
		attempts := func() float64 {
			_, sum := count(must(getPage(t.Context(), addr)), "chatstack_probe_attempts_total{")
			return sum
		}
		// Our second reading comes half an interval after the start at the earliest, and one and a half at the latest.
		time.Sleep(l.window/2 - time.Since(begun))
		windows(l.plan.warm)
		before, own, measured := attempts(), cpuTime(p.PID()), time.Now()
		engine = cpuTime(l.engine...)
		windows(l.plan.windows)
		per := func(d time.Duration) time.Duration { return d / time.Duration(l.plan.windows) }
		used := per(cpuTime(p.PID()) - own)
		asked := cpuTime(l.engine...) - engine - time.Duration(atRest*time.Since(measured).Seconds())
		if strings.Contains(name, resources) && attempts() == before {
			t.Fatalf("no reading within %d times %s, want one each", l.plan.windows, l.window)
		}
		every := usualInterval
		if name == cadvisorDefault {
			every = l.window // reads each second or so, whatever the window
		}
		all := used + per(max(0, asked))
		rss, peak := memoryOf(p.PID())
		l.Watching = append(l.Watching, watchRow{
			Containers: len(l.ids),
			Busy:       l.busy,
			Program:    name,
			Window:     l.window.Seconds(),
			Own:        milliseconds(used),
			All:        milliseconds(all),
			RSS:        rss,
			Peak:       peak,
			Share:      100 * all.Seconds() / every.Seconds(),
		})
	})
}
