//go:build realservers

package collectors

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// realEngine is a Docker Engine with containers of the test's own.
type realEngine struct {
	*realstack.Containers
	host string
}

func startRealEngine(t *testing.T) *realEngine {
	t.Helper()
	d := realstack.StartDocker(t, realstack.DockerOptions{})
	return &realEngine{d.Containers(), d.Host}
}

// realDeadline bounds every wait for a real engine.
const realDeadline = time.Minute

// lines are the sample lines of one container on the page of one reading, without its name and the engine's.
func (e *realEngine) lines(t *testing.T, name string) []string {
	t.Helper()
	s := dockerSettings(e.host)
	s.Projects, s.Label = []string{e.Name}, "real"
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	return realLines(string(pageOf(t, b, true)), name)
}

var sampleLine = regexp.MustCompile(`(?m)^chatstack_container_(exit_code|health|info|start_time_seconds|state)\{(.*)\} (\S+)$`)

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
	lines = append(lines, fmt.Sprintf("info{compose_project=%q,compose_service=%q,image=%q,role=%q} 1", e.Name, service, e.Name, role))
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
	service := strings.TrimPrefix(name, e.Name+"-")
	var start string
	if at := fleet.ParseTime(e.Says(name, realstack.StartedAt)); !at.IsZero() {
		start = fmt.Sprint(epochSeconds(at))
	}
	got := e.lines(t, name)
	want := e.want(health, state, start, exit, service, map[string]string{"irc-services": "irc_services"}[service])
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestRealEngineHealthFollowsTheContainer(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("irc-services")
	e.Await(name, realstack.HealthStatus, container.Healthy)
	e.check(t, "healthy", name, "healthy", "running")

	e.Turn(name)
	e.Await(name, realstack.HealthStatus, container.Unhealthy)
	e.check(t, "unhealthy", name, "unhealthy", "running")

	e.Docker("pause", name)
	if got := e.Says(name, realstack.HealthStatus); got != container.Unhealthy {
		t.Errorf("the engine says %q of a paused container, this test expects it to say unhealthy", got)
	}
	e.check(t, "paused while unhealthy", name, "none", "paused")
	e.Docker("unpause", name)
	e.check(t, "unpaused while unhealthy", name, "unhealthy", "running")

	e.Turn(name)
	e.Await(name, realstack.HealthStatus, container.Healthy)
	e.check(t, "healthy again", name, "healthy", "running")

	e.Docker("pause", name)
	if got := e.Says(name, realstack.HealthStatus+" "+realstack.FailingStreak); got != "unhealthy 0" {
		t.Errorf("the engine says %q of a paused healthy container, this test expects it to say unhealthy 0", got)
	}
	e.check(t, "paused while healthy", name, "none", "paused")
	e.Docker("unpause", name)
	e.Await(name, realstack.HealthStatus, container.Healthy)
	e.check(t, "unpaused and checked", name, "healthy", "running")
}

// With an hour between checks the engine's stale verdict stays until somebody looks.
func TestRealEngineUnpausedContainerIsStarting(t *testing.T) {
	e := startRealEngine(t)
	name := e.Run("slow", "--health-interval", "1h")
	e.check(t, "not checked yet", name, "starting", "running")
	e.Docker("pause", name)
	e.Docker("unpause", name)
	if got := e.Says(name, realstack.HealthStatus+" "+realstack.FailingStreak); got != "unhealthy 0" {
		t.Errorf("the engine says %q after an unpause, this test expects it to say unhealthy 0", got)
	}
	e.check(t, "unpaused, not checked yet", name, "starting", "running")
}

func TestRealEngineStoppedContainers(t *testing.T) {
	e := startRealEngine(t)
	created := e.Create("created")
	e.check(t, "created", created, "none", "created")

	name := e.Run("stopped")
	e.Await(name, realstack.HealthStatus, container.Healthy) // it may miss a signal before
	e.Turn(name)
	e.Await(name, realstack.HealthStatus, container.Unhealthy)
	first := e.Says(name, realstack.StartedAt)
	e.Docker("stop", name)
	e.check(t, "stopped while unhealthy", name, "none", "exited", "0")

	e.Docker("start", name)
	second := e.Says(name, realstack.StartedAt)
	if first == second {
		t.Errorf("start time is %s after a restart as before", first)
	}
	e.Docker("kill", name)
	e.check(t, "killed", name, "none", "exited", "137")
	if got := e.Says(name, realstack.StartedAt); got != second {
		t.Errorf("start time of a killed container: got %s, want %s as before", got, second)
	}

	before := startTime(t, e.lines(t, name))
	e.Docker("restart", name)
	if after := startTime(t, e.lines(t, name)); after == before {
		t.Errorf("start time on the page is %s after a restart as before", after)
	}

	failed := e.Run("failed", "--", "exit", "7")
	e.Await(failed, realstack.ContainerIs, container.StateExited)
	e.check(t, "exited by itself", failed, "none", "exited", "7")

	plain := e.Run("plain", "--no-healthcheck")
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
	name := e.Run("loop", "--restart", "always", "--", "exit", "3")
	// The engine waits longer after each crash, so that a later wait outlasts a reading. That it did shows in the same
	// account before and after.
	account := realstack.ContainerIs + " " + realstack.StartedAt
	for end := time.Now().Add(realDeadline); time.Now().Before(end); {
		before := e.Says(name, account)
		got := e.lines(t, name)
		if e.Says(name, account) != before || !strings.HasPrefix(before, container.StateRestarting) {
			continue
		}
		start := fmt.Sprint(epochSeconds(fleet.ParseTime(strings.TrimPrefix(before, container.StateRestarting+" "))))
		if want := e.want("none", "restarting", start, nil, "loop", ""); !slices.Equal(got, want) {
			t.Errorf("restarting: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return
	}
	t.Fatalf("container %s was never seen restarting within %s", name, realDeadline)
}

func TestRealEngineLeavesOutComposesOwn(t *testing.T) {
	e := startRealEngine(t)
	lasting := e.Run("lasting")
	e.Docker("run", "-d", "--network", "none", "--name", "0123456789ab_"+lasting, "--label", e.Name,
		"--label", fleet.ComposeProject+"="+e.Name, e.Name)
	e.Docker("run", "-d", "--network", "none", "--name", lasting+"-run", "--label", e.Name,
		"--label", fleet.ComposeProject+"="+e.Name, "--label", fleet.ComposeOneOff+"=True", e.Name)
	s := dockerSettings(e.host)
	s.Labels = []string{e.Name}
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{lasting}; !slices.Equal(got, want) {
		t.Errorf("containers: got %q, want %q", got, want)
	}
}
