package collectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
)

// port has the containers of a simulated engine, and a fleet that watches them. Time is the port's own.
type port struct {
	t     *testing.T
	fleet *fleet
	now   time.Time
	boxes map[string]*container.InspectResponse // by id
	// lost has events get lost.
	lost bool
}

var portOpened = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func openPort(t *testing.T, change ...func(*Docker)) *port {
	t.Helper()
	s := newDockerSettings()
	for _, c := range change {
		c(s)
	}
	return &port{t: t, fleet: newFleet(s), now: portOpened, boxes: map[string]*container.InspectResponse{}}
}

// pass lets time go by.
func (p *port) pass(d time.Duration) { p.now = p.now.Add(d) }

func (p *port) stamp() string { return p.now.UTC().Format(time.RFC3339Nano) }

// make creates a container.
func (p *port) make(id, name string, change ...func(*container.InspectResponse)) {
	b := plainContainer(name, map[string]string{composeService: name, composeProject: "chat"})
	b.ID, b.Created = id, p.stamp()
	b.State = &container.State{Status: container.StateCreated, StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z"}
	b.HostConfig = &container.HostConfig{RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped}}
	for _, c := range change {
		c(&b)
	}
	p.boxes[id] = &b
	p.emit(id, events.ActionCreate)
}

// emit sends an event of the moment and, as the collector does, has the container inspected where it says so.
func (p *port) emit(id string, action events.Action) {
	p.t.Helper()
	p.pass(time.Millisecond)
	b := p.boxes[id]
	attributes := map[string]string{"name": strings.TrimPrefix(b.Name, "/")}
	maps.Copy(attributes, b.Config.Labels)
	if action == events.ActionDestroy {
		delete(p.boxes, id)
	}
	if p.lost {
		return
	}
	e := &events.Message{Action: action, Actor: events.Actor{ID: id, Attributes: attributes}, TimeNano: p.now.UnixNano()}
	if p.fleet.event(e, p.now) {
		p.inspect(id, p.fleet.mark)
	}
}

func (p *port) inspect(id string, mark uint64) {
	p.t.Helper()
	b, ok := p.boxes[id]
	if !ok {
		if !p.fleet.newerThan(mark, id) {
			p.fleet.gone(id, p.now)
		}
		return
	}
	if err := p.fleet.described(clone(p.t, b), mark, p.now); err != nil {
		p.t.Fatal(err)
	}
}

// clone is what comes over the wire: a copy.
func clone(t *testing.T, b *container.InspectResponse) *container.InspectResponse {
	t.Helper()
	content, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	var c container.InspectResponse
	if err := json.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func (p *port) start(id string) {
	p.pass(time.Second)
	s := p.boxes[id].State
	s.Status, s.Running, s.Restarting, s.StartedAt, s.Pid = container.StateRunning, true, false, p.stamp(), 42
	p.emit(id, events.ActionStart)
}

func (p *port) run(id, name string, change ...func(*container.InspectResponse)) {
	p.make(id, name, change...)
	p.start(id)
}

func (p *port) die(id string, exit int) {
	s := p.boxes[id].State
	s.Status, s.Running, s.ExitCode, s.FinishedAt, s.Pid = container.StateExited, false, exit, p.stamp(), 0
	p.emit(id, events.ActionDie)
}

// crash ends a container, which its policy starts again.
func (p *port) crash(id string) {
	b := p.boxes[id]
	b.RestartCount++
	s := b.State
	s.Status, s.Restarting, s.ExitCode, s.FinishedAt = container.StateRestarting, true, 1, p.stamp()
	p.emit(id, events.ActionDie)
	p.start(id)
}

func (p *port) stop(id string) {
	p.die(id, 0)
	p.emit(id, events.ActionStop)
}

func (p *port) restart(id string) {
	p.stop(id)
	p.boxes[id].RestartCount = 0
	p.start(id)
	p.emit(id, events.ActionRestart)
}

func (p *port) rename(id, name string) {
	p.boxes[id].Name = "/" + name
	p.emit(id, events.ActionRename)
}

func (p *port) remove(id string) {
	if p.boxes[id].State.Running {
		p.die(id, 137)
	}
	p.emit(id, events.ActionDestroy)
}

// poll makes one reading. following says that events flow.
func (p *port) poll(full, following bool) (asked []string) {
	p.t.Helper()
	mark := p.fleet.mark
	all := p.list()
	for _, l := range p.fleet.listed(all, all, mark, full, following, p.now) {
		asked = append(asked, l.ID)
		p.inspect(l.ID, mark)
	}
	p.fleet.expect(p.now)
	p.fleet.tidy(p.now)
	slices.Sort(asked)
	return asked
}

func (p *port) list() []container.Summary {
	var all []container.Summary
	for id, b := range p.boxes {
		l := container.Summary{ID: id, Names: []string{b.Name}, State: b.State.Status, Labels: b.Config.Labels}
		if b.State.Health != nil && b.State.Running {
			l.Status = fmt.Sprintf("Up 2 minutes (%s)", strings.Replace(b.State.Health.Status, "starting", "health: starting", 1))
		}
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b container.Summary) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// want compares lines of the page that is presented, given without prefix and docker_host.
func (p *port) want(when string, lines ...string) {
	p.t.Helper()
	b := &Batch{}
	p.fleet.present(b, p.now)
	page := strings.ReplaceAll(string(pageOf(p.t, b, true)), `,docker_host="local"`, "")
	for _, line := range lines {
		absent := strings.HasPrefix(line, "!")
		line = "\nchatstack_container_" + strings.TrimPrefix(line, "!")
		if !absent {
			line += "\n"
		}
		if strings.Contains(page, line) == absent {
			p.t.Errorf("%s: want %q (absent: %v) on the page:\n%s", when, line, absent, page)
		}
	}
}

func restarts(name string, n int) string {
	return fmt.Sprintf(`restarts_total{container="%s"} %d`, name, n)
}

func TestEveryKindOfRestartCounts(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.want("first sight", restarts("irc", 0), `recreations_total{container="irc"} 0`)
	p.crash("1")
	p.crash("1")
	p.want("two crashes", restarts("irc", 2))
	p.restart("1")
	p.want("docker restart", restarts("irc", 3))
	p.stop("1")
	p.want("stop", restarts("irc", 3), `expected{container="irc"} 1`, `exit_code{container="irc"} 0`)
	p.start("1")
	p.want("start", restarts("irc", 4))
	p.poll(false, true)
	p.poll(true, true)
	p.want("two readings later", restarts("irc", 4))
}

func TestDeployIsARecreationAndNoRestart(t *testing.T) {
	for name, replace := range map[string]func(*port){
		"removed and run": func(p *port) { p.remove("1"); p.run("2", "irc") },
		"compose: the new one bears the temporary name": func(p *port) {
			p.make("2", "0123456789ab_irc")
			p.stop("1")
			p.emit("1", events.ActionDestroy)
			p.boxes["2"].Name = "/irc"
			p.emit("2", events.ActionRename)
			p.start("2")
		},
		"compose: the old one bears the temporary name": func(p *port) {
			p.stop("1")
			p.boxes["1"].Name = "/0123456789ab_irc"
			p.emit("1", events.ActionRename)
			p.run("2", "irc")
			p.emit("1", events.ActionDestroy)
		},
		"events were lost": func(p *port) {
			p.lost = true
			p.remove("1")
			p.run("2", "irc")
			p.lost = false
			p.poll(true, false)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := openPort(t)
			p.run("1", "irc")
			p.crash("1")
			replace(p)
			p.poll(false, true)
			p.want("after the deploy", restarts("irc", 1), `recreations_total{container="irc"} 1`, `state{container="irc",state="running"} 1`,
				fmt.Sprintf(`last_recreated_timestamp_seconds{container="irc"} %g`, epochSeconds(parseDockerTime(p.boxes["2"].Created))))
			p.crash("2")
			p.want("a crash of the new one", restarts("irc", 2), `recreations_total{container="irc"} 1`)
		})
	}
}

func TestLostEventsAreMadeUpForAsDocumented(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.lost = true
	p.crash("1")
	p.crash("1")
	p.crash("1")
	p.lost = false
	p.poll(true, false)
	p.want("three by policy", restarts("irc", 3))
	p.lost = true
	p.restart("1")
	p.restart("1")
	p.lost = false
	p.poll(true, false)
	p.want("two by hand, of which one is seen", restarts("irc", 4))
	p.crash("1")
	p.want("with events again", restarts("irc", 5))
}

func TestDaemonRestartCountsOneForEachContainer(t *testing.T) {
	p := openPort(t)
	for id := range 3 {
		p.run(fmt.Sprint(id), fmt.Sprintf("c%d", id))
	}
	p.crash("0")
	p.lost = true
	for id := range 3 {
		p.die(fmt.Sprint(id), 0)
		p.start(fmt.Sprint(id))
	}
	p.lost = false
	p.poll(true, false)
	p.want("after it", restarts("c0", 2), restarts("c1", 1), restarts("c2", 1))
}

func TestExporterRestartInventsNothing(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.crash("1")
	p.run("2", "xmpp")
	p.remove("2")
	p.pass(10 * time.Minute)

	kept, err := json.Marshal(p.fleet.remember())
	if err != nil {
		t.Fatal(err)
	}
	again := func() {
		var m fleetMemory
		if err := json.Unmarshal(kept, &m); err != nil {
			t.Fatal(err)
		}
		p.fleet = newFleet(p.fleet.settings)
		p.fleet.recall(m, p.now)
	}
	again()
	p.poll(true, false)
	p.want("nothing happened", restarts("irc", 1), `recreations_total{container="irc"} 0`, `state{container="xmpp",state="missing"} 1`)
	p.crash("1")
	p.want("a crash", restarts("irc", 2))

	again()
	p.poll(true, false)
	p.want("that crash was while nobody looked", restarts("irc", 2))

	again()
	p.lost = true
	p.remove("1")
	p.run("3", "irc")
	p.lost = false
	p.poll(true, false)
	p.want("a deploy while nobody looked", restarts("irc", 1), `recreations_total{container="irc"} 1`)

	// Of containers that are not watched any more nothing is missing.
	again()
	p.fleet.settings.Exclude = []string{"xmpp"}
	again()
	p.poll(true, false)
	p.want("other containers are watched", `!state{container="xmpp"`)
}

func TestWithoutAStateFileCountersBeginAtZero(t *testing.T) {
	p := openPort(t)
	p.lost = true
	p.run("1", "irc")
	p.crash("1")
	p.lost = false
	p.poll(true, false)
	p.want("first reading", restarts("irc", 0))
	p.crash("1")
	p.want("a crash", restarts("irc", 1))
}

func TestGoneContainerIsMissingUnlessItWasThrownAway(t *testing.T) {
	oneShot := func(b *container.InspectResponse) { b.HostConfig.RestartPolicy.Name = container.RestartPolicyDisabled }
	thrownAway := func(b *container.InspectResponse) { b.HostConfig.AutoRemove = true }
	p := openPort(t)
	p.run("1", "irc")
	p.run("2", "migrate", oneShot)
	p.die("2", 0)
	p.want("the one-shot has done its work", `expected{container="migrate"} 0`, `expected{container="irc"} 1`)
	p.run("3", "shell", thrownAway)
	p.run("4", "web", oneShot)
	p.run("5", "worker", oneShot)
	p.stop("5")
	p.want("stopped by hand is not done", `expected{container="worker"} 1`)
	for _, id := range []string{"1", "2", "3", "4", "5"} {
		p.remove(id)
	}
	p.poll(false, true)
	p.want("at once", `!state{container="irc"`, `!health{container="irc"`, restarts("irc", 0))
	p.pass(time.Minute)
	p.poll(false, true)
	p.want("a minute later", `state{container="irc",state="missing"} 1`, `state{container="irc",state="running"} 0`,
		`health{container="irc",health="none"} 1`, `expected{container="irc"} 1`, `info{compose_project="chat",compose_service="irc",container="irc",image="image",role="irc"} 1`,
		`state{container="web",state="missing"} 1`, `state{container="worker",state="missing"} 1`,
		`!state{container="migrate"`, `!state{container="shell"`, `!restarts_total{container="shell"`, `!start_time_seconds{container="irc"`)
	p.pass(24 * time.Hour)
	p.poll(false, true)
	p.want("a day later", `!state{container="irc"`, `!restarts_total{container="irc"`)
}

func TestConfiguredContainerIsMissedFromTheStart(t *testing.T) {
	p := openPort(t, func(s *Docker) { s.Expected = []string{"prosody"} })
	p.poll(true, false)
	p.want("first reading", `!state{container="prosody"`)
	p.pass(72 * time.Hour)
	p.poll(false, true)
	p.want("later", `state{container="prosody",state="missing"} 1`, `info{compose_project="",compose_service="",container="prosody",image="",role="xmpp"} 1`)
	p.run("1", "prosody")
	p.want("when it comes", `state{container="prosody",state="missing"} 0`, `state{container="prosody",state="running"} 1`,
		restarts("prosody", 0), `recreations_total{container="prosody"} 0`)
}

func TestNumbersBelongToNames(t *testing.T) {
	t.Run("renamed", func(t *testing.T) {
		p := openPort(t)
		p.run("1", "irc")
		p.crash("1")
		p.rename("1", "ircd")
		p.want("at once", restarts("irc", 1), restarts("ircd", 0), `recreations_total{container="ircd"} 0`, `!state{container="irc"`)
		p.pass(time.Hour)
		p.poll(false, true)
		p.want("later", restarts("ircd", 0), `!state{container="irc"`, `!restarts_total{container="irc"`)
	})
	t.Run("one put in the place of another", func(t *testing.T) {
		p := openPort(t)
		p.run("1", "app")
		p.run("2", "app-new")
		for range 4 {
			p.crash("2")
		}
		p.rename("1", "app-old")
		p.rename("2", "app")
		p.poll(true, false)
		p.want("", restarts("app", 0), `recreations_total{container="app"} 1`)
		p.crash("2")
		p.want("a crash", restarts("app", 1))
	})
	t.Run("renamed, and another run", func(t *testing.T) {
		p := openPort(t)
		p.run("1", "app")
		for range 4 {
			p.crash("1")
		}
		p.rename("1", "app-old")
		p.run("2", "app")
		p.want("", restarts("app", 4), `recreations_total{container="app"} 1`)
	})
	t.Run("renamed and back", func(t *testing.T) {
		p := openPort(t)
		p.run("1", "app")
		p.crash("1")
		p.rename("1", "app-old")
		p.rename("1", "app")
		p.poll(true, false)
		p.want("", restarts("app", 1), `recreations_total{container="app"} 0`, `expected{container="app"} 1`)
	})
}

func TestListIsTheTruthAndOnlyDoubtsAreInspected(t *testing.T) {
	p := openPort(t)
	for id := range 20 {
		p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
	}
	p.poll(true, true)
	seen := map[string]bool{}
	for range 10 {
		asked := p.poll(false, true)
		if len(asked) > 2 {
			t.Errorf("%d of 20 quiet containers were inspected, want 2 in turn", len(asked))
		}
		for _, id := range asked {
			seen[id] = true
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d of 20 containers were inspected in ten rounds, want all", len(seen))
	}
	p.lost = true
	p.die("07", 1)
	p.remove("13")
	p.run("20", "c20")
	p.lost = false
	asked := p.poll(false, true)
	for _, id := range []string{"07", "20"} {
		if !slices.Contains(asked, id) {
			t.Errorf("%s was not inspected: %v", id, asked)
		}
	}
	p.want("what events did not tell", `state{container="c07",state="exited"} 1`, `!state{container="c13"`, `state{container="c20",state="running"} 1`)
	if p.fleet.deaf(p.now, deafAfter) {
		t.Error("deaf at once; want some patience")
	}
	p.pass(deafAfter)
	if !p.fleet.deaf(p.now, deafAfter) {
		t.Error("changes without events, and the stream is not taken for deaf")
	}
}

func TestLateEventMakesNobodyDeaf(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.poll(true, true)
	p.boxes["1"].State.Status = container.StatePaused
	p.poll(false, true) // the list was faster
	p.emit("1", events.ActionPause)
	p.pass(time.Minute)
	if p.fleet.deaf(p.now, deafAfter) {
		t.Error("the event came, and the stream is taken for deaf")
	}
}

func TestDescriptionOlderThanAnEventIsThrownAway(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	mark := p.fleet.mark
	all := p.list()
	old := clone(t, p.boxes["1"])
	p.die("1", 3) // while the list and the description are under way
	p.run("2", "xmpp")
	if err := p.fleet.described(old, mark, p.now); err != nil {
		t.Fatal(err)
	}
	p.want("an old description", `state{container="irc",state="exited"} 1`)
	p.fleet.listed(all, all, mark, false, true, p.now)
	p.want("an old list", `state{container="xmpp",state="running"} 1`)
}

// failingChecks has the last checks of container 1 fail.
func failingChecks(p *port, interval time.Duration, streak int) {
	const id = "1"
	h := &container.Health{Status: container.Unhealthy, FailingStreak: streak}
	for i := min(streak, 5) - 1; i >= 0; i-- {
		at := p.now.Add(-time.Duration(i) * interval)
		h.Log = append(h.Log, &container.HealthcheckResult{Start: at, End: at.Add(time.Second), ExitCode: 1})
	}
	p.boxes[id].State.Health = h
	p.boxes[id].Config.Healthcheck = &container.HealthConfig{Interval: interval - time.Second, Retries: 3}
}

func TestUnhealthySinceTheFirstFailingCheck(t *testing.T) {
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(time.Hour)
	since := func(at time.Time) string {
		return fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(at))
	}
	begin := p.now
	p.want("healthy", `!unhealthy_since_timestamp_seconds{container="xmpp"`)
	p.pass(20 * time.Second)
	failingChecks(p, 10*time.Second, 3)
	p.emit("1", events.ActionHealthStatusUnhealthy)
	p.want("three checks", `health{container="xmpp",health="unhealthy"} 1`, since(begin))
	p.pass(70*time.Second - time.Millisecond)
	failingChecks(p, 10*time.Second, 10)
	p.poll(false, true)
	p.want("ten checks, of which five are kept", since(begin))
	// Another exporter, that saw nothing of this, comes to the same.
	p.fleet = newFleet(p.fleet.settings)
	p.poll(true, false)
	p.want("after a restart of the exporter", since(begin))
	p.boxes["1"].State.Health = &container.Health{Status: container.Healthy}
	p.emit("1", events.ActionHealthStatusHealthy)
	p.want("healthy again", `!unhealthy_since_timestamp_seconds{container="xmpp"`)
}

func TestUnhealthySinceIsNeverBeforeTheStart(t *testing.T) {
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(5 * time.Second)
	failingChecks(p, 10*time.Second, 20) // the log holds checks of the run before
	p.emit("1", events.ActionHealthStatusUnhealthy)
	b := p.boxes["1"]
	p.want("since the only check of this run or its start", fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %g`, epochSeconds(parseDockerTime(b.State.StartedAt))))
}

func TestDependenciesAreTold(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.run("2", "db")
	needs := func(label string) func(*container.InspectResponse) {
		return func(b *container.InspectResponse) { b.Config.Labels[composeDepends] = label }
	}
	p.run("3", "services", func(b *container.InspectResponse) { b.HostConfig.NetworkMode = "container:1" })
	p.run("4", "bridge", needs("irc:service_started:false,db:service_healthy:true,unknown:service_started:false"))
	p.run("5", "other", needs("irc:service_started:false"), func(b *container.InspectResponse) { b.Config.Labels[composeProject] = "another" })
	p.want("", `dependency{container="services",depends_on="irc"} 1`, `dependency{container="bridge",depends_on="irc"} 1`,
		`dependency{container="bridge",depends_on="db"} 1`, `!dependency{container="bridge",depends_on="unknown"`, `!dependency{container="other"`)
	p.remove("2")
	p.pass(time.Hour)
	p.want("a dependency that is missing", `dependency{container="bridge",depends_on="db"} 1`)
}

func TestListAloneLosesNoNumber(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.crash("1")
	created := p.boxes["1"].Created
	l := p.list()[0]
	l.Created = parseDockerTime(created).Unix()
	l.Status = "Up 2 minutes"
	if err := p.fleet.described(fromSummary(&l), p.fleet.mark, p.now); err != nil {
		t.Fatal(err)
	}
	p.want("the engine could only list it", restarts("irc", 1), `expected{container="irc"} 1`, `state{container="irc",state="running"} 1`,
		fmt.Sprintf(`last_recreated_timestamp_seconds{container="irc"} %g`, epochSeconds(parseDockerTime(created))),
		fmt.Sprintf(`start_time_seconds{container="irc"} %g`, epochSeconds(parseDockerTime(p.boxes["1"].State.StartedAt))))
}

func TestOutOfMemoryIsTold(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.emit("1", events.ActionOOM)
	p.boxes["1"].State.OOMKilled = true
	p.die("1", 137)
	p.want("once", `oom_events_total{container="irc"} 1`, `exit_code{container="irc"} 137`)
	p.boxes["1"].State.OOMKilled = false
	p.start("1")
	p.lost = true
	p.boxes["1"].State.OOMKilled = true
	p.die("1", 137)
	p.lost = false
	p.poll(true, false)
	p.want("a lost one", `oom_events_total{container="irc"} 2`)
}

// describeAs takes in a description that was made earlier.
func (p *port) describeAs(b *container.InspectResponse, mark uint64) {
	p.t.Helper()
	if err := p.fleet.described(b, mark, p.now); err != nil {
		p.t.Fatal(err)
	}
}

func TestDescriptionOfARemovedContainerIsThrownAway(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	for range 4 {
		p.crash("1")
	}
	mark, all, old := p.fleet.mark, p.list(), clone(t, p.boxes["1"])
	p.remove("1")
	p.fleet.listed(all, all, mark, false, true, p.now) // an old list
	p.describeAs(clone(t, old), mark)
	p.want("removed", `!state{container="irc"`)
	p.run("2", "irc")
	p.describeAs(old, mark)
	p.poll(false, true)
	p.want("deployed", restarts("irc", 4), `recreations_total{container="irc"} 1`)
	p.pass(time.Minute)
	if p.fleet.deaf(p.now, deafAfter) {
		t.Error("an old list makes the stream look deaf")
	}
	if n := len(p.fleet.touched); n != 1 {
		t.Errorf("%d containers are remembered that had an event, want the one that is there", n)
	}
}

func TestOneShotThatIsBeingRemovedIsNotMissed(t *testing.T) {
	p := openPort(t)
	p.run("1", "migrate", func(b *container.InspectResponse) { b.HostConfig.RestartPolicy.Name = container.RestartPolicyDisabled })
	p.die("1", 0)
	p.run("2", "irc")
	for _, id := range []string{"1", "2"} {
		p.boxes[id].State.Status = container.StateRemoving
	}
	p.poll(false, true)
	p.want("removing", `expected{container="migrate"} 0`, `expected{container="irc"} 1`)
	p.emit("1", events.ActionDestroy)
	p.emit("2", events.ActionDestroy)
	p.pass(10 * time.Minute)
	p.poll(false, true)
	p.want("gone", `!state{container="migrate"`, `state{container="irc",state="missing"} 1`)
}

func TestFirstSightByAListCountsNoRestart(t *testing.T) {
	p := openPort(t)
	p.lost = true
	p.run("1", "irc")
	for range 7 {
		p.crash("1")
	}
	p.lost = false
	l := p.list()[0]
	l.Status = "Up 2 minutes"
	p.describeAs(fromSummary(&l), p.fleet.mark)
	p.want("listed", restarts("irc", 0))
	p.poll(true, false)
	p.want("described", restarts("irc", 0))
	p.crash("1")
	p.want("a crash", restarts("irc", 1))
}

func TestNetworkOfAContainerThatIsGoneIsADependency(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.run("3", "services", func(b *container.InspectResponse) { b.HostConfig.NetworkMode = "container:1" })
	const edge = `dependency{container="services",depends_on="irc"} 1`
	p.want("", edge)
	p.remove("1")
	p.pass(time.Hour)
	p.poll(false, true)
	p.want("missing", `state{container="irc",state="missing"} 1`, edge)
	kept := p.fleet.remember()
	p.fleet = newFleet(p.fleet.settings)
	p.fleet.recall(kept, p.now)
	p.poll(true, false)
	p.want("after a restart of the exporter", edge)
	p.run("4", "irc")
	p.want("made anew", edge)
}

func TestUnhealthySinceTheLastTimeItWasHealthy(t *testing.T) {
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(time.Hour)
	failingChecks(p, 5*time.Second, 3)
	p.poll(true, false)
	p.pass(10 * time.Minute)
	// Nobody saw that it was healthy in between, but the engine's log shows it.
	failingChecks(p, 5*time.Second, 3)
	h := p.boxes["1"].State.Health
	passed := &container.HealthcheckResult{Start: p.now.Add(-15 * time.Second), End: p.now.Add(-14 * time.Second)}
	h.Log = append([]*container.HealthcheckResult{passed}, h.Log...)
	p.poll(true, false)
	p.want("", fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(h.Log[1].Start)))
	// A streak that has become shorter has begun anew.
	p.pass(10 * time.Minute)
	failingChecks(p, 5*time.Second, 2)
	p.poll(true, false)
	p.want("a shorter streak", fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(p.boxes["1"].State.Health.Log[0].Start)))
}

func TestEstimateOfUnhealthySinceDoesNotMoveForward(t *testing.T) {
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(time.Hour)
	begin := p.now
	p.pass(90 * time.Second)
	failingChecks(p, 10*time.Second, 10)
	p.poll(true, false)
	want := fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(begin))
	p.want("estimated", want)
	p.pass(47 * time.Second) // the engine was busy: four checks instead of five
	failingChecks(p, 10*time.Second, 14)
	p.poll(true, false)
	p.want("later", want)
}

func TestAnotherEngineUnderTheSameLabelIsNotMissed(t *testing.T) {
	p := openPort(t, func(s *Docker) { s.Host = "tcp://a:2375" })
	p.run("1", "irc")
	p.run("2", "only-there")
	kept := p.fleet.remember()
	q := openPort(t, func(s *Docker) { s.Host = "tcp://b:2375" })
	q.fleet.recall(kept, q.now)
	q.run("7", "irc")
	q.pass(10 * time.Minute)
	q.poll(false, true)
	q.want("another engine", `!state{container="only-there"`, restarts("irc", 0), `recreations_total{container="irc"} 0`)
}

func TestMissingContainerIsMissedAfterASelectionThatKeepsIt(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.run("2", "xmpp")
	p.remove("2")
	p.pass(5 * time.Minute)
	p.poll(false, true)
	kept := p.fleet.remember()
	p.fleet.settings.Exclude = []string{"portainer"}
	p.fleet = newFleet(p.fleet.settings)
	p.fleet.recall(kept, p.now)
	p.poll(true, false)
	p.want("", `state{container="xmpp",state="missing"} 1`)
}

func TestNamesThatAreNeverUsedAgainDoNotPileUp(t *testing.T) {
	p := openPort(t, func(s *Docker) { s.ForgetAfter = 0; s.Expected = []string{"irc"} })
	p.poll(true, true)
	for i := range maxGone + 50 {
		id := fmt.Sprint(i)
		p.run(id, "job-"+id)
		p.die(id, 1)
		p.remove(id)
	}
	p.pass(time.Hour)
	p.poll(false, true)
	if n := len(p.fleet.members); n != maxGone+1 {
		t.Errorf("%d containers are remembered, want %d and the expected one", n, maxGone)
	}
	p.want("the newest stay", fmt.Sprintf(`state{container="job-%d",state="missing"} 1`, maxGone+49), `state{container="irc",state="missing"} 1`, `!state{container="job-0"`)
	for name, n := range map[string]int{"names": len(p.fleet.names), "newborn": len(p.fleet.newborn), "touched": len(p.fleet.touched)} {
		if n != 0 {
			t.Errorf("%d %s are kept of containers that are gone", n, name)
		}
	}
}

func TestCrashLoopOfAContainerMadeInAGapCounts(t *testing.T) {
	p := openPort(t)
	p.fleet.followed = p.now
	p.pass(time.Second)
	p.lost = true
	p.run("1", "bridge")
	for range 4 {
		p.crash("1")
	}
	p.lost = false
	p.poll(true, true)
	p.want("", restarts("bridge", 4))
	p.crash("1")
	p.want("with events again", restarts("bridge", 5))
}
