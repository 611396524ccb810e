package collectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/go-units"
)

// port has the containers of a simulated engine, and a fleet that watches them. Time is the port's own.
type port struct {
	t     *testing.T
	fleet *fleet
	now   time.Time
	boxes map[string]*container.InspectResponse // by id
	// lost has events get lost, vague has lists tell no age of runs that anybody knows.
	lost, vague bool
	// late has containers inspected only once somebody says so: events come faster than that.
	late bool
	// ahead is by how much the clock that answers are stamped with is before the engine's own.
	ahead time.Duration
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
	if action == events.ActionDie {
		attributes["exitCode"] = strconv.Itoa(b.State.ExitCode)
	}
	if action == events.ActionDestroy {
		delete(p.boxes, id)
	}
	if p.lost {
		return
	}
	e := &events.Message{Action: action, Actor: events.Actor{ID: id, Attributes: attributes}, TimeNano: p.now.UnixNano()}
	if p.fleet.event(e, p.now) && !p.late {
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
	if err := p.fleet.described(clone(p.t, b), mark, p.now.Add(p.ahead), p.now); err != nil {
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
	made := clockSpan{p.now.Add(p.ahead), p.now.Add(p.ahead + time.Second)}
	for _, l := range p.fleet.listed(&listing{all: all, chosen: all, made: made, mark: mark, full: full, following: following}, p.now) {
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
		all = append(all, container.Summary{ID: id, Names: []string{b.Name}, State: b.State.Status, Labels: b.Config.Labels, Status: p.says(b.State)})
	}
	slices.SortFunc(all, func(a, b container.Summary) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// says tells a state in the engine's words for people.
func (p *port) says(s *container.State) string {
	ago := func(stamp string) string {
		if p.vague {
			return "for long"
		}
		return units.HumanDuration(p.now.Sub(parseDockerTime(stamp)))
	}
	switch {
	case s.Status == container.StateExited:
		return fmt.Sprintf("Exited (%d) %s ago", s.ExitCode, ago(s.FinishedAt))
	case !s.Running:
		return s.Status // nothing is read in these
	case s.Health != nil:
		return fmt.Sprintf("Up %s (%s)", ago(s.StartedAt), strings.Replace(s.Health.Status, "starting", "health: starting", 1))
	}
	return "Up " + ago(s.StartedAt)
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
		`health{container="irc",health="none"} 1`, `info{compose_project="chat",compose_service="irc",container="irc",image="image",role="irc"} 1`,
		`state{container="web",state="missing"} 1`, `state{container="worker",state="missing"} 1`,
		`!state{container="migrate"`, `!state{container="shell"`, `!restarts_total{container="shell"`, `!start_time_seconds{container="irc"`)
	p.pass(24 * time.Hour)
	p.poll(false, true)
	p.want("a day later", `!state{container="irc"`, `!restarts_total{container="irc"`)
}

func TestContainerThatSomebodyRemovedIsForgottenAfterAnHour(t *testing.T) {
	remove := func(p *port) { p.remove("1") }
	for _, c := range []struct {
		name   string
		change func(*Docker)
		gone   func(*port)
		kept   bool
	}{
		{"removed", func(*Docker) {}, remove, false},
		{"removed, forget_after 0", func(s *Docker) { s.ForgetAfter = 0 }, remove, false},
		{"removed, the event is slower than a list", func(*Docker) {}, func(p *port) {
			there := p.boxes
			p.boxes = nil
			p.poll(false, true)
			p.boxes = there
			p.emit("1", events.ActionDestroy)
		}, false},
		{"removed, under expected", func(s *Docker) { s.Expected = []string{"web"} }, remove, true},
		{"removed, in roles", func(s *Docker) { s.Roles = map[string]string{"web": "web_irc"} }, remove, true},
		{"no event told of it", func(*Docker) {}, func(p *port) {
			p.lost = true
			p.remove("1")
			p.lost = false
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPort(t, c.change)
			p.run("1", "web")
			p.poll(true, true)
			c.gone(p)
			p.poll(false, true)
			expected := fmt.Sprintf(`expected{container="web"} %d`, map[bool]int{true: 1}[c.kept])
			p.pass(time.Minute)
			p.want("a minute later", `state{container="web",state="missing"} 1`, expected)
			kept := p.fleet.remember()
			p.fleet = newFleet(p.fleet.settings)
			p.fleet.recall(kept, p.now)
			p.pass(58 * time.Minute)
			p.poll(true, true)
			p.want("after a restart of the exporter", `state{container="web",state="missing"} 1`, expected)
			p.pass(time.Minute)
			p.poll(false, true)
			if c.kept {
				p.want("an hour later", `state{container="web",state="missing"} 1`, expected)
			} else {
				p.want("an hour later", `!state{container="web"`, `!expected{container="web"`)
			}
			p.run("2", "web")
			p.want("made again", `state{container="web",state="running"} 1`, `expected{container="web"} 1`)
		})
	}
}

// TestDeployThatEndsHalfWayIsMissed has compose end after it has removed the old container, and before the new one has its name.
func TestDeployThatEndsHalfWayIsMissed(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.poll(true, true)
	p.make("2", "0123456789ab_irc")
	p.stop("1")
	p.remove("1")
	for range 2 {
		p.pass(2 * time.Hour)
		p.poll(false, true)
		p.want("half a deploy", `state{container="irc",state="missing"} 1`, `expected{container="irc"} 1`)
	}
	p.rename("2", "irc")
	p.start("2")
	p.want("it goes on", `state{container="irc",state="running"} 1`, `recreations_total{container="irc"} 1`, restarts("irc", 0))
	p.remove("2")
	p.pass(2 * time.Minute)
	p.want("somebody removes it", `state{container="irc",state="missing"} 1`, `expected{container="irc"} 0`)
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

// TestRenameThereAndBackInventsNothing has a container be restarted, or run out of memory, under another name for a while.
func TestRenameThereAndBackInventsNothing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for _, ways := range [][]string{{"tmp"}, {"tmp", "spare"}} {
			t.Run(fmt.Sprintf("events lost: %t, over %s", lost, ways), func(t *testing.T) {
				p := openPort(t)
				p.run("1", "app")
				p.crash("1")
				p.poll(true, true)
				p.lost = lost
				for _, name := range ways {
					p.rename("1", name)
					p.poll(true, true)
				}
				p.boxes["1"].State.OOMKilled = true
				p.restart("1")
				p.poll(true, true)
				last := ways[len(ways)-1]
				p.want("under another name", restarts(last, 1), fmt.Sprintf(`oom_events_total{container="%s"} 1`, last))
				p.rename("1", "app")
				p.poll(true, true)
				p.want("back", restarts("app", 1), `oom_events_total{container="app"} 0`, `recreations_total{container="app"} 0`, `expected{container="app"} 1`)
				p.boxes["1"].State.OOMKilled = false
				p.restart("1")
				p.poll(true, true)
				p.want("restarted", restarts("app", 2))
			})
		}
	}
	t.Run("started for the first time under another name", func(t *testing.T) {
		p := openPort(t)
		p.make("1", "app")
		p.rename("1", "tmp")
		p.start("1")
		p.rename("1", "app")
		p.want("back", restarts("app", 0))
		p.restart("1")
		p.want("restarted", restarts("app", 1))
	})
	t.Run("the exporter is restarted meanwhile", func(t *testing.T) {
		for range 20 { // what is kept is in no order
			p := openPort(t)
			p.run("1", "app")
			p.rename("1", "tmp")
			p.restart("1")
			kept := p.fleet.remember()
			p.fleet = newFleet(p.fleet.settings)
			p.fleet.recall(kept, p.now)
			p.poll(true, true)
			p.want("under another name", restarts("tmp", 1))
			p.rename("1", "app")
			p.poll(true, true)
			p.want("back", restarts("app", 0))
		}
	})
}

func TestListIsTheTruthAndOnlyDoubtsAreInspected(t *testing.T) {
	for _, c := range []struct {
		name   string
		vague  bool
		rounds int
		each   int
	}{
		{"which tells how long each runs", false, slowTurn, 1},
		{"which does not", true, quickTurn, 2},
	} {
		t.Run(c.name, func(t *testing.T) { onlyDoubtsAreInspected(t, c.vague, c.rounds, c.each) })
	}
}

func onlyDoubtsAreInspected(t *testing.T, vague bool, rounds, each int) {
	t.Helper()
	p := openPort(t)
	p.vague = vague
	for id := range 20 {
		p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
	}
	p.pass(3 * time.Hour)
	p.poll(true, true)
	seen := map[string]bool{}
	for range rounds {
		asked := p.poll(false, true)
		if len(asked) > each {
			t.Errorf("%d of 20 quiet containers were inspected, want %d in turn", len(asked), each)
		}
		for _, id := range asked {
			seen[id] = true
		}
	}
	if len(seen) != 20 {
		t.Errorf("%d of 20 containers were inspected in %d rounds, want all", len(seen), rounds)
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

// TestTurnIsKnownAheadOfTheList wants to know before each list whom it would have inspected for no reason, and has nobody
// inspected again who was in the meantime, unless the list knows something else.
func TestTurnIsKnownAheadOfTheList(t *testing.T) {
	p := openPort(t)
	for id := range 100 {
		p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
	}
	p.pass(3 * time.Hour)
	if ahead := p.fleet.turnAhead(p.now); len(ahead) > 0 {
		t.Errorf("before the first list it is the turn of %d", len(ahead))
	}
	p.poll(true, true)
	ids := func(ahead []container.Summary) (ids []string) {
		for _, c := range ahead {
			ids = append(ids, c.ID)
		}
		return ids
	}
	for range slowTurn + 5 {
		p.pass(30 * time.Second)
		ahead := ids(p.fleet.turnAhead(p.now))
		if asked := p.poll(false, true); len(ahead) == 0 || !slices.Equal(asked, ahead) {
			t.Errorf("%v are inspected in turn, and ahead of the list it was %v", asked, ahead)
		}
	}
	p.remove("99")
	for range slowTurn {
		p.pass(30 * time.Second)
		ahead := p.fleet.turnAhead(p.now)
		var looked []inspection
		for _, c := range ahead {
			looked = append(looked, inspection{InspectResponse: p.boxes[c.ID], made: p.now})
		}
		changed := ids(ahead)[0]
		mark := p.fleet.mark
		early, err := p.fleet.describedEarly(ahead, looked, mark, p.now)
		if err != nil {
			t.Fatal(err)
		}
		p.lost = true
		p.die(changed, 1)
		p.lost = false
		l := &listing{all: p.list(), mark: mark, following: true, early: early, made: clockSpan{p.now, p.now.Add(time.Second)}}
		l.chosen = l.all
		for _, id := range ids(p.fleet.listed(l, p.now)) {
			p.inspect(id, p.fleet.mark)
			if id != changed && slices.Contains(ids(ahead), id) {
				t.Errorf("%s is inspected twice", id)
			}
		}
		if got := p.fleet.members["c"+changed].status.state; got != container.StateExited {
			t.Errorf("c%s is %s, and the list, which knew more than its early description, says that it has ended", changed, got)
		}
	}
}

// TestLostRestartIsSeenInTheNextList has events lost of restarts that look as if nothing had been, but for the age.
func TestLostRestartIsSeenInTheNextList(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*port)
		want []string
	}{
		{"by policy", func(p *port) { p.crash("2") }, []string{restarts("b", 1)}},
		{"three times by policy", func(p *port) { p.crash("2"); p.crash("2"); p.crash("2") }, []string{restarts("b", 3)}},
		{"by hand", func(p *port) { p.restart("2") }, []string{restarts("b", 1)}},
		{"a job that fails again", func(p *port) { p.start("3"); p.die("3", 1) }, []string{restarts("c", 1)}},
		{"a job that fails otherwise", func(p *port) { p.boxes["3"].State.ExitCode = 2 }, []string{`exit_code{container="c"} 2`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPort(t)
			for i, name := range []string{"a", "b", "c", "d"} {
				p.run(strconv.Itoa(i+1), name)
			}
			p.die("3", 1)
			p.pass(5 * time.Hour)
			p.poll(true, true)
			p.pass(30 * time.Second)
			p.fleet.slow = turn{}
			if asked := p.poll(false, true); !slices.Equal(asked, []string{"1"}) {
				t.Fatalf("%v were inspected of quiet containers, want the first one in its turn", asked)
			}
			p.fleet.slow = turn{} // the first one's turn again
			p.lost = true
			c.do(p)
			p.lost = false
			p.pass(5 * time.Second)
			if asked := p.poll(false, true); len(asked) != 2 {
				t.Errorf("%v were inspected, want the first one in its turn and the one that changed", asked)
			}
			p.want(c.name, c.want...)
		})
	}
}

// TestAgesByAnotherClockAreGivenUp has a proxy in between stamp the lists with its own clock, an hour ahead.
func TestAgesByAnotherClockAreGivenUp(t *testing.T) {
	p := openPort(t)
	for id := range 20 {
		p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
	}
	p.pass(3 * time.Hour)
	p.poll(true, true)
	p.ahead = time.Hour
	if asked := p.poll(false, true); len(asked) != 20 {
		t.Errorf("%d of 20 containers were inspected whose ages differ, want all", len(asked))
	}
	for range quickTurn {
		if asked := p.poll(false, true); len(asked) > 3 {
			t.Errorf("%d of 20 containers were inspected whose ages are known to lie, want a few in turn", len(asked))
		}
	}
	p.ahead = 0
	p.restart("07")
	p.seesLostRestart("07")
}

// seesLostRestart wants a restart without an event to be seen by the next list, although it is not the container's turn.
func (p *port) seesLostRestart(id string) {
	p.t.Helper()
	p.pass(10 * time.Minute)
	p.poll(false, true) // it is as old as its age is coarse
	p.pass(10 * time.Minute)
	p.fleet.quick, p.fleet.slow = turn{}, turn{}
	p.lost = true
	p.restart(id)
	p.lost = false
	if asked := p.poll(false, true); !slices.Contains(asked, id) {
		p.t.Errorf("%v were inspected, want %s among them, whose age is another one", asked, id)
	}
}

// TestAgesThatWereRightAreBelievedStill has ages differ for good reasons.
func TestAgesThatWereRightAreBelievedStill(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*port)
	}{
		{"an end that no event told of, of one that had ended before", func(p *port) {
			p.lost = true
			p.die("07", 1)
			p.lost = false
			p.poll(false, true)
			p.start("07")
		}},
		{"a start that failed, which changes the exit code alone", func(p *port) {
			p.die("07", 1)
			p.pass(time.Hour)
			p.poll(false, true)
			p.boxes["07"].State.ExitCode = 127
			p.poll(false, true)
			if p.fleet.members["c07"].agesLie {
				p.t.Error("the ages of one whose start failed are given up")
			}
			p.start("07")
		}},
		{"a restart that no event told of, and an event of something else", func(p *port) {
			p.lost = true
			p.restart("07")
			p.lost = false
			p.poll(false, true)
			p.emit("07", events.ActionUpdate)
		}},
		{"a list that is older than an event", func(p *port) {
			mark, all, made := p.fleet.mark, p.list(), clockSpan{p.now, p.now.Add(time.Second)}
			p.restart("07")
			for _, l := range p.fleet.listed(&listing{all: all, chosen: all, made: made, mark: mark, following: true}, p.now) {
				p.inspect(l.ID, mark)
			}
			p.emit("07", events.ActionUpdate)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openPort(t)
			for id := range 20 {
				p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
			}
			p.restart("07")
			p.pass(3 * time.Hour)
			p.poll(true, true)
			p.pass(time.Minute)
			c.do(p)
			if p.fleet.members["c07"].agesLie {
				t.Error("the ages are given up, want them believed")
			}
			p.seesLostRestart("07")
		})
	}
}

// TestRestartRightAfterTheDescriptionIsSeen has a container restarted so soon that its age looks the same.
func TestRestartRightAfterTheDescriptionIsSeen(t *testing.T) {
	p := openPort(t)
	for id := range 20 {
		p.run(fmt.Sprintf("%02d", id), fmt.Sprintf("c%02d", id))
	}
	p.restart("07")
	p.lost = true
	p.crash("07")
	p.lost = false
	p.pass(30 * time.Second)
	p.poll(false, true)
	p.want("a restart after a second", restarts("c07", 2))
}

// TestStumbleProvesNothing has the engine fail to describe a container, of which the list's words are taken instead.
func TestStumbleProvesNothing(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.poll(true, true)
	known := p.fleet.members["irc"].described
	p.pass(time.Hour)
	l := p.list()[0]
	if err := p.fleet.described(fromSummary(&l), p.fleet.mark, p.now, p.now); err != nil {
		t.Fatal(err)
	}
	if got := p.fleet.members["irc"].described; !got.Equal(known) {
		t.Errorf("described at %s, want %s: the list describes nothing", got, known)
	}
}

func TestRareListsHaveEverybodysTurnSooner(t *testing.T) {
	for _, c := range []struct {
		distance time.Duration
		want     int
	}{{0, 60}, {30 * time.Second, 60}, {time.Minute, 30}, {2 * time.Minute, 15}, {10 * time.Minute, 10}, {24 * time.Hour, 10}} {
		if got := slowLists(c.distance); got != c.want {
			t.Errorf("lists every %s: all have their turn in %d, want %d", c.distance, got, c.want)
		}
	}
}

// TestAgeThatAgreesProvesThatNothingRanSince draws runs at random: whatever the engine's words hide, no other run is taken
// for the known one, and the known one is never taken for another. Answers are stamped by another clock, to the second.
func TestAgeThatAgreesProvesThatNothingRanSince(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // no secret
	some := func(most time.Duration) time.Duration {
		return time.Duration(math.Exp(r.Float64() * math.Log(float64(most)))) // as often hours as seconds
	}
	const year = 365 * 24 * time.Hour
	counted := map[age]int{}
	for range 400_000 {
		state := []string{container.StateRunning, container.StateExited}[r.IntN(2)]
		known := containerStatus{stopped: state == container.StateExited, exitCode: 1}
		known.started = portOpened.Add(time.Duration(r.Float64() * float64(time.Second)))
		described := known.started.Add(some(3 * year))
		begun := known.started
		if r.IntN(2) == 0 {
			begun = described.Add(some(3 * year))
		}
		listed := begun
		if described.After(begun) {
			listed = described
		}
		listed = listed.Add(some(3 * year))
		says := "Up " + units.HumanDuration(listed.Sub(begun))
		if known.stopped {
			known.started, known.ended = time.Time{}, known.started
			says = "Exited (1) " + units.HumanDuration(listed.Sub(begun)) + " ago"
		}
		// A clock that is up to a second beside the engine's is told to the second; the answers took a while.
		ahead := time.Duration(r.Float64()*2*float64(time.Second)) - time.Second
		stamp := func(at time.Time) time.Time { return at.Add(ahead).Truncate(time.Second) }
		made := clockSpan{stamp(listed).Add(-some(3 * time.Second)), stamp(listed).Add(time.Second)}
		told := stamp(described).Add(-some(3 * time.Second))
		got := known.compareAge(&container.Summary{State: state, Status: says}, made, told)
		other := begun.After(described)
		if got == ageUntold || other && got == ageAgrees || !other && got == ageDiffers {
			t.Fatalf("seed %d: a run %s old when described is the same: %t; a list %s later says %q: got %d", seed, described.Sub(known.started), !other, listed.Sub(described), says, got)
		}
		counted[got]++
	}
	for _, a := range []age{ageAgrees, ageDiffers, ageTooCoarse} {
		if counted[a] < 10_000 {
			t.Errorf("verdict %d came %d times only", a, counted[a])
		}
	}
}

// TestRunsOfOneAgeInWordsAreToldApart goes to the limits: a second run began the moment after the first was described, and
// the words are as coarse as they get.
func TestRunsOfOneAgeInWordsAreToldApart(t *testing.T) {
	const (
		hour = time.Hour
		day  = 24 * hour
		year = 365 * day
		// span is what the list's moment leaves open, with the slack at both ends.
		span = time.Second + 2*ageSlack
	)
	for _, c := range []struct {
		words  string
		old    time.Duration // the known run's age in the list
		coarse time.Duration
	}{
		{"5 seconds", 5500 * time.Millisecond, time.Second},
		{"About a minute", 90 * time.Second, time.Minute},
		{"59 minutes", 59*time.Minute + 30*time.Second, time.Minute},
		{"About an hour", 75 * time.Minute, hour},
		{"3 hours", 3 * hour, hour},
		{"5 days", 5*day + 12*hour, day},
		{"3 weeks", 24 * day, 7 * day},
		{"4 months", 135 * day, 30 * day},
		{"3 years", 3*year + year/2, year},
	} {
		known := containerStatus{started: portOpened}
		listed := portOpened.Add(c.old)
		made := clockSpan{listed, listed.Add(time.Second)}
		for _, described := range []struct {
			age  time.Duration
			want age
		}{{0, ageTooCoarse}, {c.coarse, ageTooCoarse}, {c.coarse + span - 1, ageTooCoarse}, {c.coarse + span, ageAgrees}} {
			got := known.compareAge(&container.Summary{State: container.StateRunning, Status: "Up " + c.words}, made, portOpened.Add(described.age))
			if got != described.want {
				t.Errorf("%q, described at an age of %s: got %d, want %d", c.words, described.age, got, described.want)
			}
		}
	}
	// A clock beside the engine's, by up to the slack, makes nobody differ.
	for _, c := range []struct {
		ahead time.Duration
		want  age
	}{{-ageSlack - 2*time.Second, ageDiffers}, {-ageSlack, ageAgrees}, {ageSlack, ageAgrees}, {ageSlack + 2*time.Second, ageDiffers}} {
		known := containerStatus{started: portOpened}
		listed := portOpened.Add(30*time.Second + 500*time.Millisecond + c.ahead)
		made := clockSpan{listed, listed.Add(time.Second)}
		if got := known.compareAge(&container.Summary{State: container.StateRunning, Status: "Up 30 seconds"}, made, portOpened.Add(29*time.Second)); got != c.want {
			t.Errorf("a clock %s ahead: got %d, want %d", c.ahead, got, c.want)
		}
	}
}

// TestRunInTheFutureIsNotInspectedForever has the engine's clock set back by a year, which takes that long to pass.
func TestRunInTheFutureIsNotInspectedForever(t *testing.T) {
	known := containerStatus{started: portOpened.Add(365 * 24 * time.Hour)}
	made := clockSpan{portOpened, portOpened.Add(time.Second)}
	got := known.compareAge(&container.Summary{State: container.StateRunning, Status: "Up Less than a second"}, made, portOpened.Add(-time.Minute))
	if got != ageUntold {
		t.Errorf("got %d, want %d: its age tells nothing", got, ageUntold)
	}
}

func TestAgesOfOtherEnginesAreNotCompared(t *testing.T) {
	at := clockSpan{portOpened, portOpened.Add(time.Second)}
	known := containerStatus{started: portOpened.Add(-time.Hour), ended: portOpened.Add(-time.Hour), stopped: true}
	for _, c := range []struct {
		state, status string
		made          clockSpan
		want          age
	}{
		{container.StateRunning, "Up 5 minutes", at, ageDiffers},
		{container.StateRunning, "Up 5 minutes (unhealthy)", at, ageDiffers},
		{container.StateRunning, "Up About an hour (healthy)", at, ageTooCoarse},
		{container.StateExited, "Exited (0) 5 minutes ago", at, ageDiffers},
		{container.StateExited, "Exited (1) About an hour ago", at, ageDiffers},
		{container.StateExited, "Exited (0) About an hour ago", at, ageTooCoarse},
		{container.StatePaused, "Up 5 minutes (Paused)", at, ageDiffers},
		{container.StateRunning, "Up 5 minutes", clockSpan{}, ageUntold},
		{container.StateRunning, "", at, ageUntold},
		{container.StateRunning, "Up", at, ageUntold},
		{container.StateRunning, "Up ", at, ageUntold},
		{container.StateRunning, "running", at, ageUntold},
		{container.StateRunning, "Up since yesterday", at, ageUntold},
		{container.StateExited, "Exited", at, ageUntold},
		{container.StateExited, "Exited (0)", at, ageUntold},
		{container.StateExited, "Exited () 5 minutes ago", at, ageUntold},
		{container.StateExited, "Exited (0) 5 minutes", at, ageUntold},
		{container.StateCreated, "Created", at, ageUntold},
		{container.StateRestarting, "Restarting (1) 5 seconds ago", at, ageUntold},
	} {
		if got := known.compareAge(&container.Summary{State: c.state, Status: c.status}, c.made, portOpened); got != c.want {
			t.Errorf("%s, %q: got %d, want %d", c.state, c.status, got, c.want)
		}
	}
	known.started = time.Time{}
	five := &container.Summary{State: container.StateRunning, Status: "Up 5 minutes"}
	if got := known.compareAge(five, at, portOpened); got != ageUntold {
		t.Errorf("without a known start: got %d, want %d", got, ageUntold)
	}
	known.started = portOpened.Add(-5 * time.Minute)
	if got := known.compareAge(five, at, time.Time{}); got != ageUntold {
		t.Errorf("without the time of the description: got %d, want %d", got, ageUntold)
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
	if err := p.fleet.described(old, mark, p.now, p.now); err != nil {
		t.Fatal(err)
	}
	p.want("an old description", `state{container="irc",state="exited"} 1`)
	p.fleet.listed(&listing{all: all, chosen: all, mark: mark, following: true}, p.now)
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
	if err := p.fleet.described(fromSummary(&l), p.fleet.mark, p.now, p.now); err != nil {
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
	if err := p.fleet.described(b, mark, p.now, p.now); err != nil {
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
	p.fleet.listed(&listing{all: all, chosen: all, mark: mark, following: true}, p.now) // an old list
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

func TestOneShotThatIsRemovedAtOnceIsNotMissed(t *testing.T) {
	oneShot := func(b *container.InspectResponse) { b.HostConfig.RestartPolicy.Name = container.RestartPolicyDisabled }
	missing := `state{container="migrate",state="missing"} 1`
	ends := func(code int) func(p *port) { return func(p *port) { p.die("1", code) } }
	for _, c := range []struct {
		name    string
		ends    func(p *port)
		restart container.RestartPolicyMode
		want    string
	}{
		{"done", ends(0), container.RestartPolicyDisabled, "!" + missing},
		{"failed", ends(1), container.RestartPolicyDisabled, missing},
		{"done, after failures", ends(0), container.RestartPolicyOnFailure, "!" + missing},
		{"stopped", func(p *port) { p.stop("1") }, container.RestartPolicyDisabled, missing},
		{"a service that ended", ends(0), container.RestartPolicyAlways, missing},
	} {
		for _, listFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, a list without it comes first: %t", c.name, listFirst), func(t *testing.T) {
				p := openPort(t)
				p.run("1", "migrate", oneShot, func(b *container.InspectResponse) { b.HostConfig.RestartPolicy.Name = c.restart })
				p.late = true
				if listFirst {
					there := p.boxes
					p.boxes = nil
					p.poll(false, true)
					p.boxes = there
				}
				c.ends(p)
				p.emit("1", events.ActionDestroy)
				p.pass(10 * time.Minute)
				p.poll(false, true)
				p.want("later", c.want)
			})
		}
	}
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
	p.pass(10 * time.Minute)
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

// TestSlowChecksDoNotMoveTheBeginningOfFastOnes has checks fail at once at first, and then after long waits.
func TestSlowChecksDoNotMoveTheBeginningOfFastOnes(t *testing.T) {
	const interval = 5 * time.Second
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(time.Hour)
	begin := p.now
	h := &container.Health{Status: container.Unhealthy}
	p.boxes["1"].State.Health = h
	p.boxes["1"].Config.Healthcheck = &container.HealthConfig{Interval: interval, Retries: 3}
	fail := func(took time.Duration) {
		start := p.now
		p.pass(took)
		h.FailingStreak++
		h.Log = append(h.Log, &container.HealthcheckResult{Start: start, End: p.now, ExitCode: 1})
		h.Log = h.Log[max(0, len(h.Log)-5):]
		p.pass(interval)
	}
	since := fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(begin))
	for range 3 {
		fail(0)
	}
	p.emit("1", events.ActionHealthStatusUnhealthy)
	p.want("fast ones", since)
	l := p.list()[0]
	p.describeAs(fromSummary(&l), p.fleet.mark) // the engine stumbled over the container
	p.want("by a list", since)
	for n := 4; n <= 12; n++ {
		fail(30 * time.Second)
		p.poll(false, true)
		p.want(fmt.Sprintf("%d checks", n), since)
	}
}

// TestEstimateOfUnhealthySinceIsAfterAPass has an engine that keeps none of the first failing checks when it says unhealthy.
func TestEstimateOfUnhealthySinceIsAfterAPass(t *testing.T) {
	p := openPort(t)
	p.run("1", "xmpp")
	p.pass(time.Hour)
	passed := &container.HealthcheckResult{Start: p.now.Add(-time.Second), End: p.now}
	p.boxes["1"].State.Health = &container.Health{Status: container.Healthy, Log: []*container.HealthcheckResult{passed}}
	p.poll(true, true)
	p.pass(time.Minute)
	failingChecks(p, 10*time.Second, 8)
	for _, result := range p.boxes["1"].State.Health.Log {
		result.End = result.Start.Add(30 * time.Second)
	}
	p.emit("1", events.ActionHealthStatusUnhealthy)
	p.want("since the last check that passed", fmt.Sprintf(`unhealthy_since_timestamp_seconds{container="xmpp"} %v`, epochSeconds(passed.End)))
}

func TestAnotherEngineUnderTheSameLabelIsNotMissed(t *testing.T) {
	p := openPort(t, func(s *Docker) { s.Host = "tcp://a:2375" })
	p.run("1", "irc")
	p.restart("1")
	p.run("2", "only-there")
	kept := p.fleet.remember()
	q := openPort(t, func(s *Docker) { s.Host = "tcp://b:2375" })
	q.fleet.recall(kept, q.now)
	q.run("7", "irc")
	q.pass(10 * time.Minute)
	q.poll(false, true)
	q.want("another engine", `!state{container="only-there"`, restarts("irc", 0), `recreations_total{container="irc"} 0`)

	// The same engine behind a proxy has the same containers.
	r := openPort(t, func(s *Docker) { s.Host = "tcp://proxy:2375" })
	r.fleet.recall(kept, r.now)
	if got := r.fleet.remember(); len(got.Containers) != len(kept.Containers) {
		t.Errorf("%d containers are kept on before the first list, want %d", len(got.Containers), len(kept.Containers))
	}
	r.boxes["1"] = clone(t, p.boxes["1"])
	r.poll(true, true)
	r.pass(time.Hour)
	r.want("the same engine", restarts("irc", 1), `state{container="only-there",state="missing"} 1`)
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
	p.pass(10 * time.Minute)
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

// TestDeployThatSetsTheOldContainerAside replaces a container as some tools do, and people: by renaming it.
func TestDeployThatSetsTheOldContainerAside(t *testing.T) {
	aside := func(p *port) { p.rename("1", "irc-old") }
	anew := func(p *port) { p.run("2", "irc") }
	for _, c := range []struct {
		name string
		do   []func(*port)
	}{
		{"stopped, renamed, made anew", []func(*port){func(p *port) { p.stop("1") }, aside, anew}},
		{"renamed, made anew, stopped", []func(*port){aside, anew, func(p *port) { p.stop("1") }}},
		{"made under another name, both renamed", []func(*port){func(p *port) { p.run("2", "irc-new") }, aside, func(p *port) { p.rename("2", "irc") }}},
	} {
		for _, lost := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, events lost: %t", c.name, lost), func(t *testing.T) {
				p := openPort(t)
				p.run("1", "irc")
				p.poll(true, true)
				p.lost = lost
				for _, do := range c.do {
					do(p)
				}
				p.poll(true, true)
				p.want("with the old one kept", `expected{container="irc-old"} 0`, `expected{container="irc"} 1`, `state{container="irc",state="running"} 1`)
				p.remove("1")
				p.poll(false, true)
				p.pass(time.Hour)
				p.poll(false, true)
				p.want("with the old one removed", `!state{container="irc-old"`, `expected{container="irc"} 1`, `!state{container="irc-new"`)
				// The new one is watched as the old one was.
				p.remove("2")
				p.poll(false, true)
				p.pass(10 * time.Minute)
				p.poll(false, true)
				p.want("with the new one removed too", `state{container="irc",state="missing"} 1`, `!state{container="irc-old"`)
			})
		}
	}
}

func TestOneThatGoesBackToItsNameIsExpectedAgain(t *testing.T) {
	p := openPort(t)
	p.run("1", "irc")
	p.stop("1")
	p.rename("1", "irc-old")
	p.run("2", "irc")
	p.want("set aside", `expected{container="irc-old"} 0`)
	p.remove("2")
	p.rename("1", "irc")
	p.start("1")
	p.want("gone back to", `expected{container="irc"} 1`, `state{container="irc",state="running"} 1`)
	p.remove("1")
	p.pass(time.Hour)
	p.want("removed", `state{container="irc",state="missing"} 1`)
}

// TestNameThatIsTakenLaterSetsNobodyAside renames a container for good, and has another one of its former name long after.
func TestNameThatIsTakenLaterSetsNobodyAside(t *testing.T) {
	p := openPort(t)
	p.run("1", "chat")
	p.rename("1", "chat-main")
	p.pass(replacedWithin)
	p.run("2", "chat")
	p.stop("1")
	p.want("another one of the former name", `expected{container="chat-main"} 1`, `expected{container="chat"} 1`)
}

// TestDeployThatDoesNotComeUpIsAnOutage puts one that was never started in the place of one that ran.
func TestDeployThatDoesNotComeUpIsAnOutage(t *testing.T) {
	plain := func(b *container.InspectResponse) {
		b.HostConfig.RestartPolicy.Name = container.RestartPolicyDisabled
		delete(b.Config.Labels, composeService)
	}
	p := openPort(t)
	p.run("1", "irc", plain)
	p.poll(true, true)
	p.remove("1")
	p.make("2", "irc", plain)
	p.want("one that was never started", `state{container="irc",state="created"} 1`, `expected{container="irc"} 1`)
	p.poll(true, true)
	p.want("after a reading", `expected{container="irc"} 1`)
	p.make("3", "new", plain)
	p.want("another one that was never started", `expected{container="new"} 0`)
	p.start("2")
	p.die("2", 0)
	p.want("one that did its work", `expected{container="irc"} 0`)
	p.remove("2")
	p.make("4", "irc", plain)
	p.want("one in the place of that", `expected{container="irc"} 0`)
}

// TestContainerIsNotExpectedBeforeWhatItNeedsIsHealthy starts containers one after the other, as compose does.
func TestContainerIsNotExpectedBeforeWhatItNeedsIsHealthy(t *testing.T) {
	needs := func(label string) func(*container.InspectResponse) {
		return func(b *container.InspectResponse) { b.Config.Labels[composeDepends] = label }
	}
	expected := func(name string, is int) string { return fmt.Sprintf(`expected{container="%s"} %d`, name, is) }
	begin := func() *port {
		p := openPort(t)
		p.make("1", "db")
		p.make("2", "app", needs("db:service_healthy:true"))
		p.make("3", "web", needs("cache:service_started:false,app:service_healthy:false"))
		p.make("4", "cache", needs("db:service_started:false"))
		return p
	}
	health := func(p *port, id, status string) {
		h := &container.Health{Status: status}
		if status == container.Unhealthy {
			h.FailingStreak = 3
		}
		p.boxes[id].State.Health = h
		p.emit(id, events.Action("health_status: "+status))
	}
	start := func(p *port, id string) {
		p.boxes[id].State.Health = &container.Health{Status: container.Starting}
		p.start(id)
	}
	t.Run("as planned", func(*testing.T) {
		p := begin()
		start(p, "1")
		p.pass(10 * time.Minute)
		p.poll(false, true)
		p.want("db is starting", expected("db", 1), expected("app", 0), expected("web", 0), expected("cache", 1))
		health(p, "1", container.Healthy)
		p.want("db is healthy", expected("app", 1), expected("web", 1))
		start(p, "2")
		p.want("app is starting", expected("app", 1), expected("web", 0))
		health(p, "2", container.Healthy)
		start(p, "3")
		p.want("all run", expected("web", 1))
		p.die("3", 1)
		health(p, "2", container.Starting)
		p.want("one that ran has ended", expected("web", 1))
	})
	t.Run("what it needs fails", func(*testing.T) {
		p := begin()
		start(p, "1")
		p.want("db is starting", expected("app", 0), expected("web", 0))
		health(p, "1", container.Unhealthy)
		p.want("db is unhealthy", expected("app", 1))
		p.remove("1")
		p.want("db is gone", expected("app", 1))
	})
	t.Run("what it needs waits itself", func(t *testing.T) {
		for _, condition := range []string{"service_started", "service_completed_successfully"} {
			p := openPort(t)
			p.make("1", "db")
			p.make("2", "app", needs("db:service_healthy:true"))
			p.make("3", "proxy", needs("app:"+condition+":false"))
			p.want("nothing has started", expected("db", 1), expected("app", 1), expected("proxy", 1))
			start(p, "1")
			p.pass(10 * time.Minute)
			p.want(condition+", db is starting", expected("db", 1), expected("app", 0), expected("proxy", 0))
			health(p, "1", container.Healthy)
			start(p, "2")
			p.want(condition+", app has started", expected("app", 1), expected("proxy", 1))
		}
	})
	t.Run("it cannot be started", func(*testing.T) {
		p := begin()
		start(p, "1")
		health(p, "1", container.Healthy)
		p.want("db is healthy, and app does not start", expected("app", 1))
		start(p, "1")
		p.want("db is restarted long after", expected("app", 1), expected("web", 1))
		p.remove("2")
		p.make("5", "app", needs("db:service_healthy:true"))
		p.want("another attempt", expected("app", 0))
	})
}

// readEarly makes a list, has something happen of which no event tells as yet, and describes early who has a turn; the first
// of them is given to change.
func (p *port) readEarly(change func(id string)) {
	p.t.Helper()
	mark, ahead, all, from := p.fleet.mark, p.fleet.turnAhead(p.now), p.list(), p.now
	p.lost = true
	change(ahead[0].ID)
	p.lost = false
	looked := make([]inspection, len(ahead))
	for i := range ahead {
		looked[i] = inspection{InspectResponse: clone(p.t, p.boxes[ahead[i].ID]), made: p.now}
	}
	early, err := p.fleet.describedEarly(ahead, looked, mark, p.now)
	if err != nil {
		p.t.Fatal(err)
	}
	l := &listing{all: all, chosen: all, mark: mark, following: true, early: early, made: clockSpan{from, from.Add(2 * time.Second)}}
	for _, one := range p.fleet.listed(l, p.now) {
		p.inspect(one.ID, mark)
	}
}

func hundredRuns(t *testing.T) *port {
	t.Helper()
	p := openPort(t)
	for i := range 100 {
		p.run(fmt.Sprintf("%02d", i), fmt.Sprintf("c%02d", i))
	}
	p.pass(3 * time.Hour)
	p.poll(true, true)
	p.pass(30 * time.Second)
	return p
}

// TestListOlderThanADescriptionMakesNoLiars has a container restart after the list was made and before it was described.
func TestListOlderThanADescriptionMakesNoLiars(t *testing.T) {
	p := hundredRuns(t)
	var name string
	p.readEarly(func(id string) { p.restart(id); name = "c" + id })
	p.want("a restart that no list has told of yet", restarts(name, 1))
	if p.fleet.members[name].agesLie {
		t.Errorf("the ages of %s are given up, want them believed", name)
	}
}

// TestListOlderThanADescriptionDoubtsNoStream has a container be in removal after the list was made, which no event tells.
func TestListOlderThanADescriptionDoubtsNoStream(t *testing.T) {
	p := hundredRuns(t)
	p.readEarly(func(id string) { p.boxes[id].State.Status = container.StateRemoving })
	p.pass(deafAfter + time.Second)
	if p.fleet.deaf(p.now, deafAfter) {
		t.Error("the stream of events is taken for deaf")
	}
}
