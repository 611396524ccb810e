//go:build realservers

package collectors

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

// realEngine drives a Docker Engine with the docker command, which may write, so that the collector need not.
type realEngine struct {
	host string
	// name begins the names of everything that the test makes.
	name string
}

// startRealEngine builds the image of testdata/docker/workload on the engine that CHATSTACK_TEST_DOCKER names. CI
// starts one; the test does not run without.
func startRealEngine(t *testing.T) *realEngine {
	t.Helper()
	host := os.Getenv("CHATSTACK_TEST_DOCKER")
	if host == "" {
		t.Fatal("CHATSTACK_TEST_DOCKER is not set; name a Docker Engine, such as unix:///var/run/docker.sock")
	}
	e := &realEngine{host: host, name: fmt.Sprintf("chatstack-test-%d", os.Getpid())}
	dir := t.TempDir()
	source := filepath.Join("testdata", "docker", "workload")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(dir, "workload"), "./"+source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build workload: %v\n%s", err, out)
	}
	file, err := os.ReadFile(filepath.Join(source, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), file, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// t.Context is over by now.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if ids := strings.Fields(e.dockerIn(ctx, t, "ps", "-aq", "--filter", "label="+e.name)); len(ids) > 0 {
			e.dockerIn(ctx, t, append([]string{"rm", "-f"}, ids...)...)
		}
		e.dockerIn(ctx, t, "rmi", "-f", e.name)
	})
	e.docker(t, "build", "-q", "-t", e.name, dir)
	return e
}

func (e *realEngine) docker(t *testing.T, args ...string) string {
	t.Helper()
	return e.dockerIn(t.Context(), t, args...)
}

func (e *realEngine) dockerIn(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, "docker", append([]string{"-H", e.host}, args...)...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// make makes a container of the workload with the command run or create, and returns its name. args are options of
// that command; what follows "--" is the container's own command.
func (e *realEngine) make(t *testing.T, how []string, service string, args ...string) string {
	t.Helper()
	name := e.name + "-" + service
	line := slices.Concat(how, []string{
		"--network", "none", "--name", name, "--label", e.name,
		"--label", composeProject + "=" + e.name, "--label", composeService + "=" + service,
	})
	options, command := args, []string(nil)
	if i := slices.Index(args, "--"); i >= 0 {
		options, command = args[:i], args[i+1:]
	}
	e.docker(t, slices.Concat(line, options, []string{e.name}, command)...)
	return name
}

// says is the engine's own word about a container, in a format of docker inspect.
func (e *realEngine) says(t *testing.T, name, format string) string {
	t.Helper()
	return e.docker(t, "inspect", "-f", format, name)
}

// realDeadline bounds every wait for a real engine.
const realDeadline = time.Minute

// waitForWord asks again and again until the engine says what is wanted.
func (e *realEngine) waitForWord(t *testing.T, name, format, want string) {
	t.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	deadline := time.After(realDeadline)
	for {
		got := e.says(t, name, format)
		if got == want {
			return
		}
		select {
		case <-again.C:
		case <-deadline:
			t.Fatalf("container %s: %s is still %q after %s, want %q", name, format, got, realDeadline, want)
		}
	}
}

const (
	formatHealth = "{{.State.Health.Status}}"
	formatStreak = "{{.State.Health.FailingStreak}}"
	formatState  = "{{.State.Status}}"
	formatStart  = "{{.State.StartedAt}}"
)

// lines are the sample lines of one container on the page of one reading, without its name and the engine's.
func (e *realEngine) lines(t *testing.T, name string) []string {
	t.Helper()
	s := dockerSettings(e.host)
	s.Projects, s.Label = []string{e.name}, "real"
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return realLines(string(pageOf(t, b, true)), name)
}

var sampleLine = regexp.MustCompile(`(?m)^chatstack_container_(\w+)\{(.*)\} (\S+)$`)

func realLines(page, name string) []string {
	var lines []string
	for _, m := range sampleLine.FindAllStringSubmatch(page, -1) {
		labels := strings.Split(m[2], ",")
		of := slices.Index(labels, fmt.Sprintf("container=%q", name))
		if of < 0 || !slices.Contains(labels, `docker_host="real"`) {
			continue
		}
		labels = slices.DeleteFunc(labels, func(l string) bool {
			return strings.HasPrefix(l, "container=") || strings.HasPrefix(l, "docker_host=")
		})
		lines = append(lines, m[1]+"{"+strings.Join(labels, ",")+"} "+m[3])
	}
	return lines
}

// want is the whole of what a page says of a container of the test's.
func (e *realEngine) want(health, state, start string, exit []string, service, role string) []string {
	var lines []string
	for _, code := range exit {
		lines = append(lines, "exit_code{} "+code)
	}
	bit := func(b bool) string { return map[bool]string{true: "1", false: "0"}[b] }
	for _, h := range []string{"healthy", "none", "starting", "unhealthy"} {
		lines = append(lines, fmt.Sprintf("health{health=%q} %s", h, bit(h == health)))
	}
	lines = append(lines, fmt.Sprintf("info{compose_project=%q,compose_service=%q,image=%q,role=%q} 1", e.name, service, e.name, role))
	if start != "" {
		lines = append(lines, "start_time_seconds{} "+start)
	}
	for _, s := range []string{"created", "dead", "exited", "missing", "paused", "removing", "restarting", "running"} {
		lines = append(lines, fmt.Sprintf("state{state=%q} %s", s, bit(s == state)))
	}
	return lines
}

// check compares a page with what it must say of one container; the start time is the engine's own.
func (e *realEngine) check(t *testing.T, when, name, health, state string, exit ...string) {
	t.Helper()
	service := strings.TrimPrefix(name, e.name+"-")
	var start string
	if at := parseDockerTime(e.says(t, name, formatStart)); !at.IsZero() {
		start = fmt.Sprint(epochSeconds(at))
	}
	got := e.lines(t, name)
	want := e.want(health, state, start, exit, service, map[string]string{"irc-services": "irc_services"}[service])
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

var runDetached = []string{"run", "-d"}

func TestRealEngineHealthFollowsTheContainer(t *testing.T) {
	e := startRealEngine(t)
	name := e.make(t, runDetached, "irc-services")
	e.waitForWord(t, name, formatHealth, container.Healthy)
	e.check(t, "healthy", name, "healthy", "running")

	e.docker(t, "kill", "-s", "USR1", name)
	e.waitForWord(t, name, formatHealth, container.Unhealthy)
	e.check(t, "unhealthy", name, "unhealthy", "running")

	e.docker(t, "pause", name)
	if got := e.says(t, name, formatHealth); got != container.Unhealthy {
		t.Errorf("the engine says %q of a paused container, this test expects it to say unhealthy", got)
	}
	e.check(t, "paused while unhealthy", name, "none", "paused")
	e.docker(t, "unpause", name)
	e.check(t, "unpaused while unhealthy", name, "unhealthy", "running")

	e.docker(t, "kill", "-s", "USR1", name)
	e.waitForWord(t, name, formatHealth, container.Healthy)
	e.check(t, "healthy again", name, "healthy", "running")

	e.docker(t, "pause", name)
	if got := e.says(t, name, formatHealth+" "+formatStreak); got != "unhealthy 0" {
		t.Errorf("the engine says %q of a paused healthy container, this test expects it to say unhealthy 0", got)
	}
	e.check(t, "paused while healthy", name, "none", "paused")
	e.docker(t, "unpause", name)
	e.waitForWord(t, name, formatHealth, container.Healthy)
	e.check(t, "unpaused and checked", name, "healthy", "running")
}

// With an hour between checks the engine's stale verdict stays until somebody looks.
func TestRealEngineUnpausedContainerIsStarting(t *testing.T) {
	e := startRealEngine(t)
	name := e.make(t, runDetached, "slow", "--health-interval", "1h")
	e.check(t, "not checked yet", name, "starting", "running")
	e.docker(t, "pause", name)
	e.docker(t, "unpause", name)
	if got := e.says(t, name, formatHealth+" "+formatStreak); got != "unhealthy 0" {
		t.Errorf("the engine says %q after an unpause, this test expects it to say unhealthy 0", got)
	}
	e.check(t, "unpaused, not checked yet", name, "starting", "running")
}

func TestRealEngineStoppedContainers(t *testing.T) {
	e := startRealEngine(t)
	created := e.make(t, []string{"create"}, "created")
	e.check(t, "created", created, "none", "created")

	name := e.make(t, runDetached, "stopped")
	e.docker(t, "kill", "-s", "USR1", name)
	e.waitForWord(t, name, formatHealth, container.Unhealthy)
	first := e.says(t, name, formatStart)
	e.docker(t, "stop", name)
	e.check(t, "stopped while unhealthy", name, "none", "exited", "0")

	e.docker(t, "start", name)
	second := e.says(t, name, formatStart)
	if first == second {
		t.Errorf("start time is %s after a restart as before", first)
	}
	e.docker(t, "kill", name)
	e.check(t, "killed", name, "none", "exited", "137")
	if got := e.says(t, name, formatStart); got != second {
		t.Errorf("start time of a killed container: got %s, want %s as before", got, second)
	}

	before := startTime(t, e.lines(t, name))
	e.docker(t, "restart", name)
	if after := startTime(t, e.lines(t, name)); after == before {
		t.Errorf("start time on the page is %s after a restart as before", after)
	}

	failed := e.make(t, runDetached, "failed", "--", "exit", "7")
	e.waitForWord(t, failed, formatState, container.StateExited)
	e.check(t, "exited by itself", failed, "none", "exited", "7")

	plain := e.make(t, runDetached, "plain", "--no-healthcheck")
	e.check(t, "without a check", plain, "none", "running")
}

func startTime(t *testing.T, lines []string) string {
	t.Helper()
	for _, line := range lines {
		if value, ok := strings.CutPrefix(line, "start_time_seconds{} "); ok {
			return value
		}
	}
	t.Fatalf("no start time in %q", lines)
	return ""
}

func TestRealEngineCrashLoop(t *testing.T) {
	e := startRealEngine(t)
	name := e.make(t, runDetached, "loop", "--restart", "always", "--", "exit", "3")
	// The engine waits longer after each crash, so that a later wait outlasts a reading. That it did shows in the same
	// account before and after.
	account := formatState + " " + formatStart
	for end := time.Now().Add(realDeadline); time.Now().Before(end); {
		before := e.says(t, name, account)
		got := e.lines(t, name)
		if e.says(t, name, account) != before || !strings.HasPrefix(before, container.StateRestarting) {
			continue
		}
		start := fmt.Sprint(epochSeconds(parseDockerTime(strings.TrimPrefix(before, container.StateRestarting+" "))))
		if want := e.want("none", "restarting", start, nil, "loop", ""); !slices.Equal(got, want) {
			t.Errorf("restarting: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return
	}
	t.Fatalf("container %s was never seen restarting within %s", name, realDeadline)
}

func TestRealEngineLeavesOutComposesOwn(t *testing.T) {
	e := startRealEngine(t)
	lasting := e.make(t, runDetached, "lasting")
	e.docker(t, "run", "-d", "--network", "none", "--name", "0123456789ab_"+lasting, "--label", e.name,
		"--label", composeProject+"="+e.name, e.name)
	e.docker(t, "run", "-d", "--network", "none", "--name", lasting+"-run", "--label", e.name,
		"--label", composeProject+"="+e.name, "--label", composeOneOff+"=True", e.name)
	s := dockerSettings(e.host)
	s.Labels = []string{e.name}
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{lasting}; !slices.Equal(got, want) {
		t.Errorf("containers: got %q, want %q", got, want)
	}
}
