//go:build bench && realservers

package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	dockerclient "github.com/docker/docker/client"
	dto "github.com/prometheus/client_model/go"
	"github.com/robfig/cron/v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// dockerLab is an engine of one's own with containers that do nothing.
type dockerLab struct {
	*realstack.Containers
	*suite
	docker *realstack.Docker
	client *dockerclient.Client
	// engine are the processes of dockerd and containerd, shims those between them and the containers.
	engine, shims []int
	running       int
	busy          bool          // the containers work
	window        time.Duration // of a program that is watched
	idle          dockerCost    // of a second while nobody asks
	shimsTime     map[string]time.Duration
}

// dockerCost is what something cost.
type dockerCost struct {
	// ready is how long it took until health and state were known, measured until memory, CPU and network were.
	ready, measured time.Duration
	// Processor time of our own, of dockerd with containerd, and of the shims.
	own, engine, shims time.Duration
}

func (c dockerCost) both() float64 { return milliseconds(c.own + c.engine) }

// measureContainers measures readings of a real engine, and whole programs that watch it. The containers have no health
// checks, which would cost the engine more than all that is measured here.
func (s *suite) measureContainers(t *testing.T) {
	t.Helper()
	if realstack.Installed("dockerd") == "" || os.Getuid() != 0 {
		return
	}
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	l := &dockerLab{Containers: d.Containers(), suite: s, docker: d, shimsTime: map[string]time.Duration{}}
	l.client = must(dockerclient.NewClientWithOpts(dockerclient.WithHost(d.Host), dockerclient.WithAPIVersionNegotiation()))
	// To remove hundreds of containers takes a minute; this ends them with the engine.
	t.Cleanup(func() {
		l.client.Close() //nolint:errcheck,gosec // the engine ends as well
		d.Kill()
	})
	s.idle().Image = l.imageSize(t)
	for _, n := range s.plan.containers {
		// The goals are for as long a window as life has; fewer containers are quickly measured.
		if l.window = s.plan.window; n < goalContainers {
			l.window = min(l.window, usualInterval/3)
		}
		l.grow(t, n)
		l.measureReadings(t)
		l.measurePrograms(t)
	}
	l.toggleWork(t)
	l.busy = true
	l.measurePrograms(t)
}

// grow starts containers through the engine's API, since the command takes longer, until there are n of them.
func (l *dockerLab) grow(t *testing.T, n int) {
	t.Helper()
	for ; l.running < n; l.running++ {
		service := fmt.Sprintf("idle-%d", l.running)
		made := must(l.client.ContainerCreate(t.Context(),
			&container.Config{
				Image: l.Name, Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
				Labels: map[string]string{l.Name: "", "com.docker.compose.project": l.Name, "com.docker.compose.service": service},
			},
			&container.HostConfig{NetworkMode: "none"}, nil, nil, l.Name+"-"+service))
		must(0, l.client.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
	}
	time.Sleep(l.plan.settled)
	l.engine, l.shims = l.docker.PIDs()
	l.measureIdle(t)
}

// toggleWork makes all containers work, or rest again.
func (l *dockerLab) toggleWork(t *testing.T) {
	t.Helper()
	for _, c := range must(l.client.ContainerList(t.Context(), container.ListOptions{})) {
		must(0, l.client.ContainerKill(t.Context(), c.ID, "SIGUSR2"))
	}
}

// measureIdle measures the engine's own usage without requests, for one window.
func (l *dockerLab) measureIdle(t *testing.T) {
	t.Helper()
	l.idle = dockerCost{}
	c := l.cost(t, func(*dockerCost) { time.Sleep(l.window) })
	l.idle = dockerCost{engine: perSecond(c.engine, l.window+settle), shims: perSecond(c.shims, l.window+settle)}
}

func perSecond(d, span time.Duration) time.Duration {
	return time.Duration(float64(d) / span.Seconds())
}

// settle is how long the engine may take to finish what it does after its last answer.
const settle = 250 * time.Millisecond

// cost is that of doing something, less what the engine uses without being asked.
func (l *dockerLab) cost(t *testing.T, do func(*dockerCost)) (c dockerCost) {
	t.Helper()
	runtime.GC() // so that nobody cleans up after the one before
	begun, engine, shims := time.Now(), cpuTime(l.engine...), cpuTime(l.shims...)
	own, asked := ownTime(), time.Now()
	do(&c)
	c.own = ownTime() - own
	if c.ready == 0 {
		c.ready = time.Since(asked)
	}
	if c.measured == 0 {
		c.measured = c.ready
	}
	time.Sleep(settle)
	span := time.Since(begun).Seconds()
	c.engine = max(0, cpuTime(l.engine...)-engine-time.Duration(float64(l.idle.engine)*span))
	c.shims = max(0, cpuTime(l.shims...)-shims-time.Duration(float64(l.idle.shims)*span))
	return c
}

// ownTime is how long this process has been on a processor, in user mode and in the kernel.
func ownTime() time.Duration {
	var used syscall.Rusage
	must(0, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// way is one to find out about containers.
type way struct {
	name  string
	turns int
	read  func(*testing.T) dockerCost
	costs []dockerCost
}

// measureReadings goes all ways, in turns.
func (l *dockerLab) measureReadings(t *testing.T) {
	t.Helper()
	ways := []*way{
		l.watching(t, oursEngine), l.watching(t, oursFiles), l.listing(),
		l.asking("serial, one-shot", l.client.ContainerStatsOneShot),
		l.asking("serial, two samples", func(ctx context.Context, id string) (container.StatsResponseReader, error) {
			return l.client.ContainerStats(ctx, id, false)
		}),
	}
	for turn := range l.plan.readings {
		for _, w := range ways {
			if turn < w.turns {
				w.costs = append(w.costs, w.read(t))
			}
		}
	}
	for _, w := range ways {
		var ratios []float64
		for i, c := range w.costs {
			ratios = append(ratios, c.both()/ways[0].costs[i].both())
		}
		middle := func(part func(dockerCost) time.Duration) time.Duration {
			var all []time.Duration
			for _, c := range w.costs {
				all = append(all, part(c))
			}
			return median(all)
		}
		l.shimsTime[w.name] = middle(func(c dockerCost) time.Duration { return c.shims })
		l.Readings = append(l.Readings, readingRow{
			Containers: l.running, Way: w.name, Ratio: median(ratios),
			Ready:    milliseconds(middle(func(c dockerCost) time.Duration { return c.ready })),
			Measured: milliseconds(middle(func(c dockerCost) time.Duration { return c.measured })),
			Own:      milliseconds(middle(func(c dockerCost) time.Duration { return c.own })),
			Engine:   milliseconds(middle(func(c dockerCost) time.Duration { return c.engine })),
		})
	}
}

// watching is the collector, in this process, followed by nothing but the encoding of what it finds.
func (l *dockerLab) watching(t *testing.T, name string) *way {
	t.Helper()
	w := watchDocker(t, l.docker.Host, strings.TrimPrefix(name, oursPrefix))
	return &way{name: name, turns: l.plan.readings, read: func(t *testing.T) dockerCost {
		t.Helper()
		defer w.check(t, l.running)
		return l.cost(t, func(c *dockerCost) { c.ready, c.measured = w.read(t) })
	}}
}

// dockerWatch follows an engine all the time, as the exporter does, and is read when a benchmark says so.
type dockerWatch struct {
	collectors.Follower
	target  poll.Target
	changed chan struct{}
	// later says that resources are measured after a reading, which does not wait for the engine's answers.
	later bool
}

// watchDocker begins to follow an engine. resources is the setting of that name. The engine has been read twice when this
// returns, so that the next reading is one of many.
func watchDocker(t *testing.T, host, resources string) *dockerWatch {
	t.Helper()
	cfg := must(config.Load(config.Source{
		File: "exporter.yaml", Kinds: collectors.ConfigKinds(), Lookup: func(string) (string, bool) { return "", false },
		Content: fmt.Appendf(nil, "targets:\n  - {kind: docker, host: %q, resources: %s, max_containers: 100000}\n", host, resources),
	}))
	file, _, err := state.Open("")
	must(file, err)
	settings := cfg.Targets[0]
	kind, _ := collectors.KindOf(settings.Common().Kind)
	collector := must(kind.New(settings, collectors.Deps{Limits: cfg.Limits, Log: discardLog, State: file.Value(kind.Name)}))
	w := &dockerWatch{
		Follower: collector.(collectors.Follower), changed: make(chan struct{}, 1), later: resources == "engine",
		target: poll.Target{
			Name: settings.Common().Name, Kind: kind.Name, Collector: collector, Schedule: cron.Every(usualInterval), Timeout: time.Minute,
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		w.Follow(ctx, func() {
			select {
			case w.changed <- struct{}{}:
			default: // somebody looks soon
			}
		})
	}()
	w.awaitChange(t)
	if following := w.values(t, "chatstack_docker_feature_available"); len(following) != 1 || following[0] != 1 {
		t.Fatalf("events of %s: got %v, want them followed", host, following)
	}
	// Events of the past, such as those of containers' starts, come first.
	for quiet := false; !quiet; {
		select {
		case <-w.changed:
		case <-time.After(500 * time.Millisecond):
			quiet = true
		}
	}
	for range 2 {
		w.read(t)
	}
	return w
}

func (w *dockerWatch) awaitChange(t *testing.T) {
	t.Helper()
	select {
	case <-w.changed:
	case <-time.After(time.Minute):
		t.Fatal("nothing new of the engine within a minute")
	}
}

// read makes one reading. ready is how long it took until health and state were known and encoded, measured until memory,
// CPU and network were known too.
func (w *dockerWatch) read(t *testing.T) (ready, measured time.Duration) {
	t.Helper()
	select {
	case <-w.changed:
	default:
	}
	begun := time.Now()
	status, _, _ := poll.Once(t.Context(), w.target, discardLog)
	ready = time.Since(begun)
	if !status.Up {
		t.Fatalf("read the engine: %s", status.Error)
	}
	if w.later {
		w.awaitChange(t) // the end of measuring
	}
	return ready, time.Since(begun)
}

// values are those of a family's series, as they would stand on the page.
func (w *dockerWatch) values(t *testing.T, family string) (values []float64) {
	t.Helper()
	b := &collectors.Batch{}
	w.Present(b)
	for _, m := range b.Metrics(true) {
		if !strings.Contains(m.Desc().String(), fmt.Sprintf("fqName: %q", family)) {
			continue
		}
		var series dto.Metric
		must(0, m.Write(&series))
		values = append(values, series.GetGauge().GetValue()+series.GetCounter().GetValue())
	}
	return values
}

// check ends the benchmark unless the health, in its four states, and the memory of so many containers are known.
func (w *dockerWatch) check(t *testing.T, containers int) {
	t.Helper()
	healths, memories := len(w.values(t, "chatstack_container_health"))/4, len(w.values(t, "chatstack_container_memory_working_set_bytes"))
	if healths != containers || memories != containers {
		t.Fatalf("known are the health of %d containers and the memory of %d, want %d", healths, memories, containers)
	}
}

// listing is the engine's list alone, read to its end and not looked at: less than that nobody can ask for.
func (l *dockerLab) listing() *way {
	bare := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(l.docker.Host, "unix://"))
	}}
	return &way{name: "the list alone, unread", turns: l.plan.readings, read: func(t *testing.T) dockerCost {
		t.Helper()
		return l.cost(t, func(*dockerCost) { must(get(t.Context(), bare, "http://engine/containers/json?all=1", "identity")) })
	}}
}

// asking is one call after another. What containers use is reckoned from a sample of them.
func (l *dockerLab) asking(name string, ask func(context.Context, string) (container.StatsResponseReader, error)) *way {
	return &way{name: name, turns: l.plan.serialTurns, read: func(t *testing.T) dockerCost {
		t.Helper()
		var ids []string
		c := l.cost(t, func(*dockerCost) { ids = describeSerially(t.Context(), l.client) })
		if len(ids) != l.running {
			t.Fatalf("%d containers run, want %d", len(ids), l.running)
		}
		some := l.cost(t, func(*dockerCost) { measureSerially(t.Context(), ids[:l.plan.sample], ask) })
		all := func(d time.Duration) time.Duration { return d * time.Duration(len(ids)) / time.Duration(l.plan.sample) }
		return dockerCost{ready: c.ready, measured: c.measured + all(some.measured), own: c.own + all(some.own), engine: c.engine + all(some.engine), shims: c.shims + all(some.shims)}
	}}
}

// describeSerially finds out health and state of all containers the naive way, one call after another, and returns the ids
// of those that run.
func describeSerially(ctx context.Context, client *dockerclient.Client) (running []string) {
	for _, listed := range must(client.ContainerList(ctx, container.ListOptions{All: true})) {
		if described := must(client.ContainerInspect(ctx, listed.ID)); described.State.Running {
			running = append(running, described.ID)
		}
	}
	return running
}

// measureSerially finds out what containers use, by ask.
func measureSerially(ctx context.Context, ids []string, ask func(context.Context, string) (container.StatsResponseReader, error)) {
	for _, id := range ids {
		answer := must(ask(ctx, id))
		var used container.StatsResponse
		err := json.NewDecoder(answer.Body).Decode(&used)
		answer.Body.Close() //nolint:errcheck,gosec // only read
		if err != nil || used.MemoryStats.Usage == 0 {
			panic(fmt.Errorf("read stats of container %s: %d bytes of memory, error %w", id, used.MemoryStats.Usage, err))
		}
	}
}

// measurePrograms runs whole programs, one at a time.
func (l *dockerLab) measurePrograms(t *testing.T) {
	t.Helper()
	programs := map[string]string{oursEngine: l.exporter, oursFiles: l.exporter}
	if l.before != "" {
		programs[before+", resources: engine"], programs[before+", resources: cgroup"] = l.before, l.before
	}
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		config := fmt.Sprintf("targets:\n  - {kind: docker, host: %q, resources: %s}\n", l.docker.Host, name[strings.LastIndexByte(name, ' ')+1:])
		l.watch(t, name, "chatstack_container_memory_working_set_bytes{", func(t *testing.T) (*realstack.Process, string) {
			t.Helper()
			e := realstack.StartExporter(t, programs[name], config, nil, "--log.level=warn",
				fmt.Sprintf("--poll.interval=%s", l.window), fmt.Sprintf("--poll.timeout=%s", min(l.window, 10*time.Second)))
			return e.Process, e.Addr
		})
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
			p := realstack.StartProgram(t, "cadvisor", "/healthz", nil, func(p *realstack.Program) []string {
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
	t.Run(fmt.Sprintf("containers=%d/busy=%t/%s", l.running, l.busy, name), func(t *testing.T) {
		l.measureIdle(t) // what the engine uses by itself changes with what it has been asked before
		begun := time.Now()
		p, addr := start(t)
		must(0, await(awaitWithin, func() error {
			page, err := getPage(t.Context(), addr)
			known := 0
			for line := range bytes.Lines(page) {
				if bytes.HasPrefix(line, []byte(memory)) && bytes.Contains(line, []byte(l.Name+"-")) {
					known++
				}
			}
			if err == nil && known != l.running {
				err = fmt.Errorf("%s knows %d of %d containers", name, known, l.running)
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
		made, own := attempts(), cpuTime(p.PID())
		c := l.cost(t, func(*dockerCost) { windows(l.plan.windows) })
		per := func(d time.Duration) time.Duration { return d / time.Duration(l.plan.windows) }
		used := per(cpuTime(p.PID()) - own)
		if strings.Contains(name, "resources: ") && attempts() == made {
			t.Fatalf("no reading within %d times %s, want one each", l.plan.windows, l.window)
		}
		every := usualInterval
		if name == cadvisorDefault {
			every = l.window // reads each second or so, whatever the window
		}
		// In so long a time the shims do more by themselves than for the reading, so theirs is a reading's.
		all := used + per(c.engine) + l.shimsTime[name]
		rss, peak := memoryOf(p.PID())
		l.Watching = append(l.Watching, watchRow{
			Containers: l.running, Busy: l.busy, Program: name, Window: l.window.Seconds(), Own: milliseconds(used), All: milliseconds(all),
			RSS: rss, Peak: peak, Share: 100 * all.Seconds() / every.Seconds(),
		})
	})
}

// imageSize builds the last stage of the Dockerfile, of files from this machine, and returns what it holds in MB.
func (l *dockerLab) imageSize(t *testing.T) float64 {
	t.Helper()
	_, last, ok := strings.Cut(string(must(os.ReadFile("../../Dockerfile"))), "\nFROM scratch\n")
	if !ok {
		t.Fatal("the last stage of the Dockerfile is not FROM scratch")
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{
		"Dockerfile":                           []byte("FROM scratch\n" + strings.ReplaceAll(last, "--from=build ", "")),
		"etc/ssl/certs/ca-certificates.crt":    must(os.ReadFile("/etc/ssl/certs/ca-certificates.crt")),
		"out/chatstack_exporter":               must(os.ReadFile(l.exporter)),
		"out/etc/chatstack_exporter/.keep":     nil,
		"out/var/lib/chatstack_exporter/.keep": nil,
	} {
		path := filepath.Join(dir, name)
		must(0, os.MkdirAll(filepath.Dir(path), 0o755)) //nolint:gosec // what an image has
		must(0, os.WriteFile(path, content, 0o755))     //nolint:gosec // what an image has
	}
	id := l.Docker("build", "-q", dir)
	return must(strconv.ParseFloat(l.Docker("image", "inspect", "--format", "{{.Size}}", id), 64)) / 1e6
}
