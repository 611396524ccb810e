//go:build realservers

package collectors

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// realWatch is a watch over a real engine in one of three ways: by its events, by its events with the stream cut in the
// middle of everything that happens, and by readings alone.
type realWatch struct {
	*watch
	*realstack.Containers
	t       *testing.T
	way     string
	relay   *realstack.Relay
	process *realstack.Docker
}

func watchRealEngine(t *testing.T, way string) *realWatch {
	t.Helper()
	d := realstack.StartDocker(t, realstack.DockerOptions{Own: true})
	r := realstack.StartRelay(t, d.Host)
	w := &realWatch{
		watch:      &watch{t: t, changed: make(chan struct{}, 1)},
		Containers: d.Containers(),
		t:          t,
		way:        way,
		relay:      r,
		process:    d,
	}
	s := dockerSettings(r.Host)
	s.Resources, s.Projects = resourcesNone, []string{w.Containers.Name}
	s.Timeout = config.Duration(realDeadline)
	w.docker = w.collector(s, nil, false)
	w.docker.patience = maxEventDelay // a stream that is cut again and again would be opened ever later
	w.read()
	if way != "readings" {
		w.start()
		t.Cleanup(func() { w.stop() })
	}
	return w
}

// does something to containers, and wants lines of the page afterwards. ready, where not nil, waits for the engine to have
// got there, so that a reading finds it.
func (w *realWatch) does(what string, do func(), ready func(), lines ...string) {
	w.t.Helper()
	if w.way == "cut" {
		w.relay.Cut()
	}
	do()
	if ready != nil {
		ready()
	}
	if w.way == "readings" {
		w.read()
	}
	for _, line := range lines {
		if w.way == "readings" {
			w.wantNow(what, "container_"+line)
			continue
		}
		w.want(what, line)
	}
	if w.way == "readings" {
		return
	}
	// The list is the truth: it changes nothing of what events have told.
	w.read()
	for _, line := range lines {
		w.wantNow(what+", and a reading", "container_"+line)
	}
}

// want waits until a line is presented, without a reading where the engine answers in time. It holds a container's lock while
// it starts it; an inspection that waits too long for that is left to the next reading, which in use is every 30 s. Of a new
// container, nothing is known until then.
func (w *realWatch) want(what, line string) {
	w.t.Helper()
	reading, late := time.NewTicker(15*time.Second), time.NewTimer(realDeadline)
	defer reading.Stop()
	defer late.Stop()
	for !strings.Contains(w.page(), "\nchatstack_container_"+line+"\n") {
		select {
		case <-w.changed:
		case <-reading.C:
			_, name, _ := strings.Cut(line, `container="`)
			name, _, _ = strings.Cut(name, `"`)
			unsure := false
			w.docker.locked(func() {
				_, known := w.docker.fleet.Counts()[name]
				unsure = w.docker.unsure || !known
			})
			if unsure {
				w.read()
			}
		case <-late.C:
			w.t.Fatalf("%s: not within %s: %s\n%s", what, realDeadline, line, w.page())
		}
	}
}

func (w *realWatch) sameAsListed(name string) {
	w.t.Helper()
	chosen, err := w.docker.list(w.t.Context(), w.session(1), &Batch{})
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range chosen.All {
		if fleet.OwnName(chosen.All[i].Names) != name {
			continue
		}
		got := fleet.StatusOfSummary(&chosen.All[i], w.docker.fleet.Rules())
		w.wantNow("the list's words", fmt.Sprintf(`container_state{container="%s",state="%s"} 1`, name, got.State),
			fmt.Sprintf(`container_health{container="%s",health="%s"} 1`, name, got.Health))
		return
	}
	w.t.Errorf("%s is not listed", name)
}

func TestRealEngineWatch(t *testing.T) {
	for _, way := range []string{"events", "cut", "readings"} {
		if testing.Short() && way != "events" {
			continue // each takes half a minute
		}
		t.Run(way, func(t *testing.T) {
			w := watchRealEngine(t, way)
			w.lives()
			w.crashes()
			w.deploys()
			w.engineRestarts()
		})
	}
}

// crash kills a container's process, which the engine starts again by its policy.
func (w *realWatch) crash(name string) {
	w.t.Helper()
	pid, err := strconv.Atoi(w.Says(name, "{{.State.Pid}}"))
	if err == nil {
		err = syscall.Kill(pid, syscall.SIGKILL)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.Await(name, "{{.RestartCount}} {{.State.Status}}", "1 running")
}

func line(family, name, labels, value string) string {
	return fmt.Sprintf(`%s{container="%s"%s} %s`, family, name, labels, value)
}

// lives goes through what happens to one container from its start on.
func (w *realWatch) lives() {
	w.t.Helper()
	name := w.Containers.Name + "-irc"
	is := func(health, state string, restarts int) []string {
		return []string{
			line("health", name, `,health="`+health+`"`, "1"), line("state", name, `,state="`+state+`"`, "1"),
			line("restarts_total", name, "", strconv.Itoa(restarts)), line("recreations_total", name, "", "0"),
			line("expected", name, "", "1"),
		}
	}
	healthy := func() { w.Await(name, realstack.HealthStatus, container.Healthy) }
	w.does("run", func() { w.Run("irc", "--restart", "unless-stopped") }, healthy, is("healthy", "running", 0)...)
	w.sameAsListed(name)
	w.does("unhealthy", func() { w.Turn(name) }, func() { w.Await(name, realstack.HealthStatus, container.Unhealthy) },
		is("unhealthy", "running", 0)...)
	w.sameAsListed(name)
	w.since(name)
	w.does("pause while unhealthy", func() { w.Docker("pause", name) }, nil, is("none", "paused", 0)...)
	w.does("unpause while unhealthy", func() { w.Docker("unpause", name) }, nil, is("unhealthy", "running", 0)...)
	w.does("healthy again", func() { w.Turn(name) }, healthy, is("healthy", "running", 0)...)
	w.does("docker restart", func() { w.Docker("restart", "-t", "1", name) }, healthy, is("healthy", "running", 1)...)
	w.does("pause", func() { w.Docker("pause", name) }, nil, is("none", "paused", 1)...)
	w.sameAsListed(name)
	w.does("unpause", func() { w.Docker("unpause", name) }, healthy, is("healthy", "running", 1)...)
	w.does("kill -9 with a restart policy", func() { w.crash(name) }, healthy, is("healthy", "running", 2)...)
	w.does("stop", func() { w.Docker("stop", "-t", "1", name) }, nil, append(is("none", "exited", 2), line("exit_code", name, "", "0"))...)
	w.sameAsListed(name)
	w.does("start", func() { w.Docker("start", name) }, healthy, is("healthy", "running", 3)...)
	project, started := w.Containers.Name, fleet.ParseTime(w.Says(name, realstack.StartedAt))
	w.wantNow("start", "container_"+line("start_time_seconds", name, "", fmt.Sprint(epochSeconds(started))),
		fmt.Sprintf(`container_info{compose_project=%q,compose_service="irc",container=%q,image=%q,role="irc"} 1`, project, name, project))
	w.restLives()
}

// restLives goes through what happens to others: one that was not started, and one that is checked once an hour, so that the engine's
// stale verdict stays after a pause.
func (w *realWatch) restLives() {
	w.t.Helper()
	slow, created := w.Containers.Name+"-slow", w.Containers.Name+"-created"
	starting := []string{line("health", slow, `,health="starting"`, "1"), line("state", slow, `,state="running"`, "1")}
	w.does("one that is not checked yet", func() { w.Run("slow", "--health-interval", "1h") }, nil, starting...)
	w.does("pause", func() { w.Docker("pause", slow) }, nil, line("state", slow, `,state="paused"`, "1"))
	w.does("unpause", func() { w.Docker("unpause", slow) }, nil, starting...)
	if got := w.Says(slow, realstack.HealthStatus+" "+realstack.FailingStreak); got != "unhealthy 0" {
		w.t.Errorf("the engine says %q after an unpause, this test expects it to say unhealthy 0", got)
	}
	w.does("create", func() { w.Create("created") }, nil, line("state", created, `,state="created"`, "1"))
	w.does("kill", func() { w.Docker("start", created); w.Docker("kill", created) }, nil, line("state", created, `,state="exited"`, "1"),
		line("exit_code", created, "", "137"), line("health", created, `,health="none"`, "1"))
	w.Docker("rm", "-f", slow, created)
}

// since compares what is said of an unhealthy container with the checks that the engine keeps: its streak is short.
func (w *realWatch) since(name string) {
	w.t.Helper()
	oldest := w.Says(name, `{{range .State.Health.Log}}{{if ne .ExitCode 0}}{{.Start.UnixNano}} {{end}}{{end}}`)
	first, _, _ := strings.Cut(oldest, " ")
	nano, err := strconv.ParseInt(first, 10, 64)
	if err != nil {
		w.t.Fatalf("the engine's failing checks are %q: %v", oldest, err)
	}
	got := -1.0
	for l := range strings.SplitSeq(w.page(), "\n") {
		if rest, ok := strings.CutPrefix(l, `chatstack_container_unhealthy_since_timestamp_seconds{container="`+name+`"} `); ok {
			if got, err = strconv.ParseFloat(rest, 64); err != nil {
				w.t.Fatal(err)
			}
		}
	}
	// By the time of the question the engine may have let go of the first of its five checks, one second apart.
	if at := epochSeconds(time.Unix(0, nano)); got > at || got < at-5 {
		w.t.Errorf("unhealthy since %f, the oldest failing check that the engine keeps is of %f", got, at)
	}
}

// crashes goes through a crash loop and an end for want of memory.
func (w *realWatch) crashes() {
	w.t.Helper()
	loop := w.Containers.Name + "-bridge"
	w.does("crash loop", func() { w.Run("bridge", "--restart", "on-failure:4", "--no-healthcheck", "--", "exit", "3") },
		func() { w.Await(loop, "{{.RestartCount}} {{.State.Status}}", "4 exited") },
		line("state", loop, `,state="exited"`, "1"), line("exit_code", loop, "", "3"), line("expected", loop, "", "1"))
	// Readings alone see the container first when it has ended, and what was before the first sight does not count.
	want := map[string]string{"readings": "0"}[w.way]
	if want == "" {
		want = "4"
	}
	w.want("crash loop", line("restarts_total", loop, "", want))

	again := w.Containers.Name + "-again"
	w.Run("again", "--restart", "always", "--no-healthcheck", "--", "exit", "3")
	waits := "\nchatstack_container_" + line("state", again, `,state="restarting"`, "1") + "\n"
	for end := time.Now().Add(realDeadline); !strings.Contains(w.page(), waits) && time.Now().Before(end); {
		w.read() // the engine waits longer after each crash
	}
	if page := w.page(); !strings.Contains(page, waits) || strings.Contains(page, line("exit_code", again, "", "3")) {
		w.t.Errorf("a container that waits for its restart is not restarting, or has an exit code:\n%s", page)
	}
	w.Docker("rm", "-f", again)

	hungry := w.Containers.Name + "-docs"
	w.does("out of memory", func() { w.Run("docs", "--memory", "32m", "--no-healthcheck", "--", "starve", "300") },
		func() { w.Await(hungry, "{{.State.Status}} {{.State.OOMKilled}}", "exited true") },
		line("oom_events_total", hungry, "", "1"), line("exit_code", hungry, "", "137"), line("restarts_total", hungry, "", "0"))

	once := w.Containers.Name + "-migrate"
	w.does("one-shot", func() { w.Run("migrate", "--no-healthcheck", "--", "exit", "0") },
		func() { w.Await(once, realstack.ContainerIs, "exited") },
		line("exit_code", once, "", "0"), line("expected", once, "", "0"), line("restarts_total", once, "", "0"))
}

// deploys puts a new container in the place of another.
func (w *realWatch) deploys() {
	w.t.Helper()
	name := w.Containers.Name + "-irc"
	w.does("rm and run", func() {
		w.Docker("rm", "-f", name)
		w.Run("irc", "--restart", "unless-stopped")
	}, func() { w.Await(name, realstack.HealthStatus, container.Healthy) },
		line("restarts_total", name, "", "3"), line("recreations_total", name, "", "1"), line("state", name, `,state="running"`, "1"))
	created := fleet.ParseTime(w.Says(name, "{{.Created}}"))
	w.wantNow("rm and run", "container_"+line("created_timestamp_seconds", name, "", fmt.Sprint(epochSeconds(created))))
	w.does("a crash after the deploy", func() { w.crash(name) }, nil, line("restarts_total", name, "", "4"))

	gone := w.Containers.Name + "-docs"
	w.missingAfter(time.Nanosecond)
	w.does("rm", func() { w.Docker("rm", "-f", gone) }, func() { w.read() }, line("state", gone, `,state="missing"`, "1"),
		line("oom_events_total", gone, "", "1"))
	w.missingAfter(time.Minute)
}

func (w *realWatch) missingAfter(d time.Duration) {
	w.docker.mu.Lock()
	defer w.docker.mu.Unlock()
	w.docker.fleet.Rules().MissingAfter = d
}

// engineRestarts ends the engine and starts it again.
func (w *realWatch) engineRestarts() {
	w.t.Helper()
	name, single := w.Containers.Name+"-irc", w.Containers.Name+"-web"
	w.does("run", func() { w.Run("web") }, nil, line("restarts_total", single, "", "0"))
	w.process.Stop()
	if err := w.try(); failure.ReasonOf(err) != failure.Refused && failure.ReasonOf(err) != failure.Closed {
		w.t.Errorf("reading without an engine: %v, want refused or closed", err)
	}
	w.does("dockerd restarted", w.process.Start, func() { w.Await(name, realstack.HealthStatus, container.Healthy) },
		line("restarts_total", name, "", "5"), line("state", name, `,state="running"`, "1"),
		line("restarts_total", single, "", "0"), line("state", single, `,state="exited"`, "1"), line("recreations_total", name, "", "1"))
	if w.way != "readings" {
		w.does("events flow again", func() { w.Docker("restart", "-t", "1", name) }, nil, line("restarts_total", name, "", "6"))
	}
}
