//go:build realservers

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	dockerclient "github.com/docker/docker/client"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// dockerPlan is how much is measured.
type dockerPlan struct {
	sizes []int
	// turns is how often each way reads. The serial ones, which take minutes, do so in the first serialTurns only,
	// and measure no more than sample containers, from which the rest is reckoned.
	turns, serialTurns, sample int
	// window is the time between two readings of a whole program, which is watched for so many windows, after as many of
	// warm as make it have done everything that it does once.
	window        time.Duration
	warm, windows int
	// settled is how old every container is before readings are measured: in its first minute, one is inspected again and
	// again, since another run could be of the same age in the words of a list.
	settled time.Duration
	// checked containers change together, as often as there are rounds.
	checked, rounds int
}

var (
	wholePlan = dockerPlan{sizes: []int{10, 50, 200}, turns: 5, serialTurns: 2, sample: 2, window: 30 * time.Second, warm: 1, windows: 3, settled: 65 * time.Second, checked: 10, rounds: 5}
	// shortPlan only shows that all of it runs.
	shortPlan = dockerPlan{sizes: []int{10}, turns: 1, serialTurns: 1, sample: 1, window: time.Second, windows: 1, checked: 2, rounds: 2}
)

// cadvisorVariable names a cAdvisor to measure beside ours.
const cadvisorVariable = "CADVISOR"

// TestRealDockerCost measures what it costs to watch containers of a real engine, beside simpler ways and, where CADVISOR
// names its program, cAdvisor. It prints tables; times are no reason to fail, a way that does not see every container
// is. The containers have no health checks, which would cost the engine more than all that is measured here, but for those
// of the last part.
func TestRealDockerCost(t *testing.T) {
	plan := wholePlan
	if testing.Short() {
		plan = shortPlan
	}
	l := newDockerLab(t, plan)
	var report strings.Builder
	defer func() { t.Log("\n" + report.String()) }()
	for _, n := range plan.sizes {
		l.grow(t, n)
		l.tellReadings(t, &report)
	}
	ours := l.tellPrograms(t, &report)
	l.tellChanges(t, &report, ours)
}

// dockerLab is an engine of one's own with containers that do nothing.
type dockerLab struct {
	*realstack.Containers
	plan   dockerPlan
	docker *realstack.Docker
	client *dockerclient.Client
	// exporter is the program as it is shipped.
	exporter string
	// engine and shims are the engine's processes, running is how many containers there are.
	engine, shims []int
	running       int
	// idle is what they use in a second while nobody asks.
	idle dockerCost
	// shimsTime is the shims' processor time of a reading by each way.
	shimsTime map[string]time.Duration
}

func newDockerLab(t *testing.T, plan dockerPlan) *dockerLab {
	t.Helper()
	exporter := filepath.Join(t.TempDir(), "chatstack_exporter")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", exporter, "github.com/chatstack-exporter/chatstack_exporter/cmd/chatstack_exporter") //nolint:gosec // our own
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build exporter: %v\n%s", err, output)
	}
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	l := &dockerLab{Containers: d.Containers(), plan: plan, docker: d, exporter: exporter, shimsTime: map[string]time.Duration{}}
	var err error
	if l.client, err = dockerclient.NewClientWithOpts(dockerclient.WithHost(d.Host), dockerclient.WithAPIVersionNegotiation()); err != nil {
		t.Fatal(err)
	}
	// To remove hundreds of containers takes a minute; this ends them with the engine.
	t.Cleanup(func() {
		l.client.Close() //nolint:errcheck,gosec // the engine ends as well
		d.Kill()
	})
	return l
}

// atOnce is how many containers are made at once, and removed.
const atOnce = 4

// each calls do for each number below n, some at once.
func each(tb testing.TB, n int, do func(i int) error) {
	tb.Helper()
	errs := make([]error, atOnce)
	var group sync.WaitGroup
	for worker := range atOnce {
		group.Go(func() {
			for i := worker; i < n && errs[worker] == nil; i += atOnce {
				errs[worker] = do(i)
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
}

// grow starts containers without a health check until there are n of them.
func (l *dockerLab) grow(t *testing.T, n int) {
	t.Helper()
	already := l.running
	each(t, n-already, func(i int) error {
		return l.start(t.Context(), fmt.Sprintf("idle-%d", already+i), &container.HealthConfig{Test: []string{"NONE"}})
	})
	l.running = n
	pause(t, l.plan.settled)
	l.engine, l.shims = l.docker.PIDs()
	l.rest(t)
}

// rest measures what the engine uses while nobody asks.
func (l *dockerLab) rest(t *testing.T) {
	t.Helper()
	l.idle = dockerCost{}
	begun := l.begin(t)
	pause(t, l.plan.window)
	c := l.end(t, begun)
	perSecond := func(d time.Duration) time.Duration { return time.Duration(float64(d) / c.span.Seconds()) }
	l.idle = dockerCost{engine: perSecond(c.engine), shims: perSecond(c.shims)}
}

// start starts a container of a service through the engine's API, since the command takes longer than that.
func (l *dockerLab) start(ctx context.Context, service string, check *container.HealthConfig) error {
	labels := map[string]string{l.Name: "", "com.docker.compose.project": l.Name, "com.docker.compose.service": service}
	made, err := l.client.ContainerCreate(ctx,
		&container.Config{Image: l.Name, Labels: labels, Healthcheck: check},
		&container.HostConfig{NetworkMode: "none"}, nil, nil, l.Name+"-"+service)
	if err != nil {
		return err
	}
	return l.client.ContainerStart(ctx, made.ID, container.StartOptions{})
}

// dockerCost is what something cost.
type dockerCost struct {
	// ready is how long it took until health and state were known, measured until memory, CPU and network were.
	ready, measured time.Duration
	// Processor time of our own, of dockerd with containerd, and of the shims between them and the containers.
	own, engine, shims time.Duration
	bytes              int64 // that were read, from the socket and of files
	// looked is when the engine's time was taken, span how long it was looked at, begun when our own was.
	looked, begun time.Time
	span          time.Duration
}

// settle is how long the engine may take to finish what it does after its last answer.
const settle = 250 * time.Millisecond

// begin begins to measure. What end returns lies between the two; what the engine uses without being asked is taken off.
func (l *dockerLab) begin(t *testing.T) dockerCost {
	t.Helper()
	runtime.GC() // so that nobody cleans up after the one before
	c := dockerCost{looked: time.Now(), engine: sumTimes(t, l.engine), shims: sumTimes(t, l.shims)}
	c.own, c.bytes, c.begun = ownTime(t), bytesRead(t), time.Now()
	return c
}

func (l *dockerLab) end(t *testing.T, from dockerCost) dockerCost {
	t.Helper()
	took := time.Since(from.begun)
	c := dockerCost{ready: took, measured: took, own: ownTime(t) - from.own, bytes: bytesRead(t) - from.bytes}
	pause(t, settle)
	c.span = time.Since(from.looked)
	idle := func(perSecond time.Duration) time.Duration {
		return time.Duration(float64(perSecond) * c.span.Seconds())
	}
	c.engine = max(0, sumTimes(t, l.engine)-from.engine-idle(l.idle.engine))
	c.shims = max(0, sumTimes(t, l.shims)-from.shims-idle(l.idle.shims))
	return c
}

func sumTimes(t *testing.T, pids []int) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, pid := range pids {
		sum += cpuTime(t, pid)
	}
	return sum
}

// pause lets what is measured go on.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
}

// way is one to find out about containers.
type way struct {
	name  string
	turns int
	// reckoned says that not every container was measured.
	reckoned bool
	read     func(t *testing.T) dockerCost
	costs    []dockerCost
}

// tellReadings goes all ways, in turns, and tells what a reading costs.
func (l *dockerLab) tellReadings(t *testing.T, report *strings.Builder) {
	t.Helper()
	ways := []*way{
		l.watching(t, "engine"), l.watching(t, "cgroup"), l.listing(),
		l.asking(t, "serial, one-shot", true), l.asking(t, "serial, two samples", false),
	}
	for turn := range l.plan.turns {
		for _, c := range ways {
			if turn < c.turns {
				c.costs = append(c.costs, c.read(t))
			}
		}
	}
	reckoned := ""
	if l.plan.sample < l.running {
		reckoned = fmt.Sprintf(" (%d each of serial, whose stats are reckoned from %d containers)", l.plan.serialTurns, l.plan.sample)
	}
	fmt.Fprintf(report, "%d containers: one reading, medians of %d turns%s; in brackets times the first line\n", l.running, l.plan.turns, reckoned)
	rows := [][]string{{"", "health, state", "resources", "own CPU", "dockerd, containerd CPU", "shims CPU", "read"}}
	first := ways[0].middle()
	for _, c := range ways {
		m := c.middle()
		l.shimsTime[c.name] = m.shims
		shims := beside(m.shims, first.shims)
		if c.reckoned {
			shims = "" // what they do by themselves would be multiplied
		}
		rows = append(rows, []string{
			c.name, beside(m.ready, first.ready), beside(m.measured, first.measured), beside(m.own, first.own),
			beside(m.engine, first.engine), shims, fmt.Sprintf("%d kB", m.bytes/1000),
		})
	}
	write(report, rows)
	fmt.Fprintf(report, "left out is what the engine uses by itself: %.1f ms of CPU a second, its shims %.1f ms\n", milliseconds(l.idle.engine), milliseconds(l.idle.shims))
	l.goal(report, "health and state", first.ready, 50*time.Millisecond)
	l.goal(report, "resources through the API", first.measured, 2*time.Second)
	fmt.Fprintln(report)
}

// watching is the collector, in this process, followed by nothing but the encoding of what it finds.
func (l *dockerLab) watching(t *testing.T, resources string) *way {
	t.Helper()
	w := watchDocker(t, l.docker.Host, resources)
	return &way{name: "ours, resources: " + resources, turns: l.plan.turns, read: func(t *testing.T) dockerCost {
		t.Helper()
		begun := l.begin(t)
		ready, measured := w.read(t)
		c := l.end(t, begun)
		c.ready, c.measured = ready, measured
		w.check(t, l.running)
		return c
	}}
}

// listing is the engine's list alone, read to its end and not looked at: less than that nobody can ask for.
func (l *dockerLab) listing() *way {
	bare := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", strings.TrimPrefix(l.docker.Host, "unix://"))
	}}
	return &way{name: "the list alone, unread", turns: l.plan.turns, read: func(t *testing.T) dockerCost {
		t.Helper()
		begun := l.begin(t)
		if _, err := getBy(t.Context(), bare, "http://engine/containers/json?all=1", "identity"); err != nil {
			t.Fatal(err)
		}
		return l.end(t, begun)
	}}
}

// asking is one call after another.
func (l *dockerLab) asking(t *testing.T, name string, oneShot bool) *way {
	t.Helper()
	s := newSerialDocker(t, l.docker.Host, oneShot)
	return &way{name: name, turns: l.plan.serialTurns, reckoned: l.plan.sample < l.running, read: func(t *testing.T) dockerCost {
		t.Helper()
		begun := l.begin(t)
		ids, err := s.describe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c := l.end(t, begun)
		if len(ids) != l.running {
			t.Fatalf("%d containers run, want %d", len(ids), l.running)
		}
		begun = l.begin(t)
		if err := s.measure(t.Context(), ids[:l.plan.sample]); err != nil {
			t.Fatal(err)
		}
		some := l.end(t, begun)
		all := func(d time.Duration) time.Duration { return d * time.Duration(len(ids)) / time.Duration(l.plan.sample) }
		c.measured += all(some.measured)
		c.own, c.engine, c.shims = c.own+all(some.own), c.engine+all(some.engine), c.shims+all(some.shims)
		c.bytes += some.bytes * int64(len(ids)) / int64(l.plan.sample)
		return c
	}}
}

// middle has the median of each cost.
func (c *way) middle() dockerCost {
	of := func(part func(dockerCost) time.Duration) time.Duration {
		var all []time.Duration
		for _, cost := range c.costs {
			all = append(all, part(cost))
		}
		return quantile(all, 0.5)
	}
	return dockerCost{
		ready:    of(func(c dockerCost) time.Duration { return c.ready }),
		measured: of(func(c dockerCost) time.Duration { return c.measured }),
		own:      of(func(c dockerCost) time.Duration { return c.own }),
		engine:   of(func(c dockerCost) time.Duration { return c.engine }),
		shims:    of(func(c dockerCost) time.Duration { return c.shims }),
		bytes:    int64(of(func(c dockerCost) time.Duration { return time.Duration(c.bytes) })),
	}
}

// beside is a time, and how many times another it is.
func beside(d, other time.Duration) string {
	if d == other || other == 0 {
		return fmt.Sprintf("%.1f ms", milliseconds(d))
	}
	return fmt.Sprintf("%.1f ms (%.2f)", milliseconds(d), float64(d)/float64(other))
}

func write(report *strings.Builder, rows [][]string) {
	w := tabwriter.NewWriter(report, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t")) //nolint:errcheck // into memory
	}
	w.Flush() //nolint:errcheck,gosec // into memory
}

// goalsAt is how many containers the goals are for.
const goalsAt = 200

// goal tells whether a time is what it should be.
func (l *dockerLab) goal(report *strings.Builder, name string, got, most time.Duration) {
	if l.running < goalsAt {
		return
	}
	verdict := "met"
	if got > most {
		verdict = "MISSED"
	}
	fmt.Fprintf(report, "goal: %s %.1f ms, at most %.1f ms: %s\n", name, milliseconds(got), milliseconds(most), verdict)
}

// program is a whole program that watches the engine, and what it cost within a window.
type program struct {
	name string
	argv []string
	addr string
	// shows begins the lines of its page that tell of a container's memory.
	shows string
	// counts begins the line that counts its readings; "" where there is none.
	counts string

	cmd       *exec.Cmd
	started   time.Time
	cost      dockerCost
	rss, peak int64 // in kB
	page      int
}

// freePort is an address on loopback that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only its port was wanted
	return listener.Addr().String()
}

func (l *dockerLab) ours(t *testing.T, resources string) *program {
	t.Helper()
	addr := freePort(t)
	file := filepath.Join(t.TempDir(), "exporter.yaml")
	content := fmt.Appendf(nil, "targets:\n  - kind: docker\n    host: %s\n    resources: %s\n", l.docker.Host, resources)
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	timeout := min(l.plan.window, 10*time.Second)
	return &program{
		name: "ours, resources: " + resources, addr: addr, shows: "chatstack_container_memory_working_set_bytes{",
		counts: `chatstack_probe_attempts_total{target="docker"} `,
		argv: []string{
			l.exporter, "--config.file=" + file, "--web.listen-address=" + addr, "--log.level=warn",
			fmt.Sprintf("--poll.interval=%s", l.plan.window), fmt.Sprintf("--poll.timeout=%s", timeout),
		},
	}
}

// cadvisor is cAdvisor, with its defaults or so that it does no more than ours.
func (l *dockerLab) cadvisor(t *testing.T, path string, tuned bool) *program {
	t.Helper()
	addr := freePort(t)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{
		name: "cAdvisor, default", addr: addr, shows: "container_memory_working_set_bytes{",
		argv: []string{path, "-listen_ip=" + host, "-port=" + port, "-docker=" + l.docker.Host, "-logtostderr"},
	}
	if tuned {
		p.name = "cAdvisor, tuned"
		p.argv = append(p.argv,
			fmt.Sprintf("-housekeeping_interval=%s", l.plan.window), "-allow_dynamic_housekeeping=false",
			"-docker_only=true", "-store_container_labels=false", "-enable_metrics=cpu,memory,network", "-storage_duration=1m")
	}
	return p
}

// tellPrograms runs programs, one at a time, and tells what they cost in the time between two readings, with one scrape in
// it. Ours goes on running.
func (l *dockerLab) tellPrograms(t *testing.T, report *strings.Builder) *program {
	t.Helper()
	fmt.Fprintf(report, "%d containers: a whole program in a window of %s, with one reading and one scrape, mean of %d, after %d more; in brackets times the last line\n",
		l.running, l.plan.window, l.plan.windows, l.plan.warm)
	programs := []*program{}
	if path := os.Getenv(cadvisorVariable); path != "" {
		programs = append(programs, l.cadvisor(t, path, false), l.cadvisor(t, path, true))
	} else {
		fmt.Fprintf(report, "cAdvisor was not measured: %s names no program\n", cadvisorVariable)
	}
	files, ours := l.ours(t, "cgroup"), l.ours(t, "engine")
	programs = append(programs, files, ours)
	for i, p := range programs {
		l.rest(t) // what it uses by itself changes with what it has been asked before
		stop := p.start(t)
		l.watch(t, p)
		if i < len(programs)-1 {
			stop()
		}
	}
	rows := [][]string{
		{"", "own CPU", "dockerd, containerd CPU", "shims CPU, from above", "all CPU", "RSS", "peak", "scrape"},
	}
	for _, p := range programs {
		rows = append(rows, []string{
			p.name, beside(p.cost.own, ours.cost.own), beside(p.cost.engine, ours.cost.engine), beside(p.cost.shims, ours.cost.shims),
			beside(p.all(), ours.all()), fmt.Sprintf("%.1f MB", float64(p.rss)/1000), fmt.Sprintf("%.1f MB", float64(p.peak)/1000), fmt.Sprintf("%d kB", p.page/1000),
		})
	}
	write(report, rows)
	l.goal(report, "own CPU through the API", ours.cost.own, 100*time.Millisecond)
	l.goal(report, "own CPU with cgroup files", files.cost.own, 30*time.Millisecond)
	if len(programs) > 2 {
		for _, p := range []*program{files, ours} {
			l.goal(report, p.name+": all CPU beside cAdvisor's default", p.all(), programs[0].all()/100)
			l.goal(report, p.name+": all CPU beside cAdvisor's tuned", p.all(), programs[1].all()/4)
		}
		if verdict := map[bool]string{true: "met", false: "MISSED"}[ours.rss < programs[1].rss]; l.running >= goalsAt {
			fmt.Fprintf(report, "goal: memory %d kB, less than the %d kB of cAdvisor's tuned: %s\n", ours.rss, programs[1].rss, verdict)
		}
	}
	fmt.Fprintln(report)
	return ours
}

// all is the processor time of everybody.
func (p *program) all() time.Duration { return p.cost.own + p.cost.engine + p.cost.shims }

// start starts the program, and ends it with the test at the latest.
func (p *program) start(t *testing.T) (stop func()) {
	t.Helper()
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), p.argv[0], p.argv[1:]...) //nolint:gosec // what the caller names
	p.cmd.Env = []string{}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var output bytes.Buffer
	p.cmd.Stdout, p.cmd.Stderr = &output, &output
	// The signal for a parent's death comes when the thread ends that started the process: not before the test's.
	runtime.LockOSThread()
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", p.name, err)
	}
	stop = sync.OnceFunc(func() {
		p.cmd.Process.Kill() //nolint:errcheck,gosec // it has ended then
		p.cmd.Wait()         //nolint:errcheck,gosec // killed
		runtime.UnlockOSThread()
		if t.Failed() {
			t.Logf("%s:\n%s", p.name, output.String())
		}
	})
	t.Cleanup(stop)
	return stop
}

func (p *program) scrape(t *testing.T, encoding string) ([]byte, error) {
	t.Helper()
	return get(t.Context(), "http://"+p.addr+"/metrics", encoding)
}

// watch waits until the program knows all containers, and measures it for a window.
func (l *dockerLab) watch(t *testing.T, p *program) {
	t.Helper()
	l.await(t, p.name+" knows every container", func() bool {
		page, err := p.scrape(t, "identity")
		known := 0
		for line := range bytes.Lines(page) {
			if bytes.HasPrefix(line, []byte(p.shows)) && bytes.Contains(line, []byte(l.Name+"-")) {
				known++
			}
		}
		return err == nil && known == l.running
	})
	window := func() {
		pause(t, l.plan.window/2)
		page, err := p.scrape(t, "gzip")
		if err != nil {
			t.Fatal(err)
		}
		p.page = len(page)
		pause(t, l.plan.window/2)
	}
	// Our second reading comes half an interval after the start at the earliest, and one and a half at the latest.
	pause(t, l.plan.window/2-time.Since(p.started))
	for range l.plan.warm {
		window()
	}
	before := p.attempts(t)
	begun, own := l.begin(t), cpuTime(t, p.cmd.Process.Pid)
	for range l.plan.windows {
		window()
	}
	per := func(d time.Duration) time.Duration { return d / time.Duration(l.plan.windows) }
	p.cost = l.end(t, begun)
	p.cost.engine = per(p.cost.engine)
	// In so long a time the shims do more by themselves than for the reading.
	p.cost.shims = l.shimsTime[p.name]
	p.cost.own = per(cpuTime(t, p.cmd.Process.Pid) - own)
	p.rss, p.peak = statusOf(t, p.cmd.Process.Pid, "VmRSS"), statusOf(t, p.cmd.Process.Pid, "VmHWM")
	if p.counts == "" {
		return
	}
	switch got := p.attempts(t) - before; got {
	case 0:
		t.Fatalf("%s: no reading within %d times %s, want one each", p.name, l.plan.windows, l.plan.window)
	case l.plan.windows:
	default: // as the case may be where the window is short
		p.name += fmt.Sprintf(" (%d readings)", got)
	}
}

// attempts is how many readings the program has begun, where it counts them.
func (p *program) attempts(t *testing.T) int {
	t.Helper()
	if p.counts == "" {
		return 0
	}
	page, err := p.scrape(t, "identity")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "\n"+p.counts)
	var n int
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatalf("%s: read %s: %v", p.name, p.counts, err)
	}
	return n
}

func (l *dockerLab) await(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for begun := time.Now(); !ready(); {
		if time.Since(begun) > awaitWithin {
			t.Fatalf("%s: not within %s", what, awaitWithin)
		}
		pause(t, 50*time.Millisecond)
	}
}

// statusOf is a number of kB in /proc/PID/status.
func statusOf(t *testing.T, pid int, key string) int64 {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), key+":")
	var kB int64
	if _, err := fmt.Sscan(rest, &kB); err != nil {
		t.Fatalf("/proc/%d/status: %s: %v", pid, key, err)
	}
	return kB
}

// look is the pause between two looks at a page.
const look = 5 * time.Millisecond

// change is what happens to a container: the event that tells of it, and the series that is 1 then.
type change struct {
	action        events.Action
	family, label string
}

func (c change) line(name string) []byte {
	return fmt.Appendf(nil, "\nchatstack_container_%s{container=%q,docker_host=\"local\",%s} 1", c.family, name, c.label)
}

// checked is the name of a container that has a health check.
func (l *dockerLab) checked(i int) string { return fmt.Sprintf("%s-checked-%d", l.Name, i) }

// tellChanges has containers change and tells how long after the engine's own stamp the page shows it.
func (l *dockerLab) tellChanges(t *testing.T, report *strings.Builder, p *program) {
	t.Helper()
	each(t, l.plan.checked, func(i int) error { return l.start(t.Context(), fmt.Sprintf("checked-%d", i), nil) })
	l.await(t, "every check passed", func() bool {
		page, err := p.scrape(t, "identity")
		healthy := 0
		for line := range bytes.Lines(page) {
			if bytes.HasPrefix(line, []byte(`chatstack_container_health{container="`+l.Name+`-checked-`)) && bytes.Contains(line, []byte(`health="healthy"} 1`)) {
				healthy++
			}
		}
		return err == nil && healthy == l.plan.checked
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	told, errs := l.client.Events(ctx, events.ListOptions{Filters: filters.NewArgs(
		filters.Arg("type", "container"), filters.Arg("event", "health_status"), filters.Arg("event", "die"))})
	var healths, deaths []time.Duration
	for round := range l.plan.rounds {
		last := round == l.plan.rounds-1
		// The signal makes a container unhealthy, and healthy again.
		signal, turned := "SIGUSR1", change{"health_status: unhealthy", "health", `health="unhealthy"`}
		switch {
		case last:
			signal, turned = "SIGKILL", change{"die", "state", `state="exited"`}
		case round%2 == 1:
			turned = change{"health_status: healthy", "health", `health="healthy"`}
		}
		each(t, l.plan.checked, func(i int) error { return l.client.ContainerKill(ctx, l.checked(i), signal) })
		took := l.see(t, p, told, errs, turned)
		if last {
			deaths = took
		} else {
			healths = append(healths, took...)
		}
	}
	fmt.Fprintf(report, "%d containers: from the engine's own stamp of a change to the page that shows it, of which %d at a time change; the page is looked at every %s\n",
		l.running+l.plan.checked, l.plan.checked, look)
	rows := [][]string{{"", "changes", "p50", "p90", "max"}}
	for _, kind := range []struct {
		name string
		took []time.Duration
	}{{"health", healths}, {"end", deaths}} {
		row := []string{kind.name, fmt.Sprint(len(kind.took))}
		for _, q := range []float64{0.5, 0.9, 1} {
			row = append(row, fmt.Sprintf("%.1f ms", milliseconds(quantile(kind.took, q))))
		}
		rows = append(rows, row)
	}
	write(report, rows)
	l.goal(report, "slowest change", max(slices.Max(healths), slices.Max(deaths)), time.Second)
}

// see waits until the page has shown the change of each container that has a health check. On a busy machine checks fail
// by themselves, so of several changes of a container the last counts.
func (l *dockerLab) see(t *testing.T, p *program, told <-chan events.Message, errs <-chan error, turned change) []time.Duration {
	t.Helper()
	var (
		took    []time.Duration
		stamps  = map[string]time.Time{}
		waiting = map[string]bool{}
		late    = time.NewTimer(awaitWithin)
		tick    = time.NewTicker(look)
	)
	defer late.Stop()
	defer tick.Stop()
	for i := range l.plan.checked {
		waiting[l.checked(i)] = true
	}
	for len(waiting) > 0 {
		select {
		case e := <-told:
			if e.Action == turned.action {
				stamps[e.Actor.Attributes["name"]] = time.Unix(0, e.TimeNano)
			}
		case err := <-errs:
			t.Fatalf("events: %v", err)
		case <-late.C:
			t.Fatalf("after %s events have told of %v, and the page lacks %v", awaitWithin, stamps, waiting)
		case <-tick.C:
			page, err := p.scrape(t, "identity")
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now()
			for name := range waiting {
				if at, ok := stamps[name]; ok && bytes.Contains(page, turned.line(name)) {
					took = append(took, now.Sub(at))
					delete(waiting, name)
				}
			}
		}
	}
	return took
}
