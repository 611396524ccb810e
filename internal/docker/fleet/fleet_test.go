package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/go-units"
)

// fleetTest is a fleet that watches the containers of a simulated engine. Its clock moves only by pass.
// Most tests are scripts. On the left of | stands what happens, on the right what the page shows afterwards:
//
//	run 1 irc; crash 1 | irc running restarts=1, xmpp missing
//
// do and see list the words. {a OR b} is two scripts, one with a and one with b.
type fleetTest struct {
	t          *testing.T
	fleet      *Fleet
	now, mark  time.Time
	containers map[string]*container.InspectResponse // by id
	hidden     map[string]*container.InspectResponse
	inspected  []string // by the last reading
	saved      []byte
	signal     string // of the last kill
	// lost drops events, late delays their inspections, plain hides the health of containers in lists.
	lost, late, plain bool
	retagged          string // the container whose image has lost its name
	// engine is by how much the engine's clock is ahead of ours.
	engine time.Duration
	old    struct {
		list Listing
		seen map[string]*container.InspectResponse
	}
}

var portOpened = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// play runs a script without alternatives.
func play(t *testing.T, script string) *fleetTest {
	t.Helper()
	f := &fleetTest{
		t:          t,
		fleet:      New(defaultRules()),
		now:        portOpened,
		containers: map[string]*container.InspectResponse{},
	}
	f.play(script)
	return f
}

func (f *fleetTest) play(script string) {
	f.t.Helper()
	for line := range strings.Lines(script) {
		happens, shows, _ := strings.Cut(strings.TrimSpace(line), "|")
		for command := range strings.SplitSeq(happens, ";") {
			if words := strings.Fields(command); len(words) > 0 {
				f.do(words[0], words[1:])
			}
		}
		if shows != "" {
			f.see(strings.TrimSpace(line), shows)
		}
	}
}

// alternatives are the scripts that result from one with {a OR b}.
func alternatives(script string) []string {
	before, rest, ok := strings.Cut(script, "{")
	if !ok {
		return []string{script}
	}
	choice, after, _ := strings.Cut(rest, "}")
	var all []string
	for one := range strings.SplitSeq(choice, "OR") {
		all = append(all, alternatives(before+one+after)...)
	}
	return all
}

// do makes one thing happen: to the engine's containers (given by id), or to the exporter.
func (f *fleetTest) do(verb string, args []string) {
	f.t.Helper()
	arg := func(n int) string {
		if n < len(args) {
			return args[n]
		}
		return ""
	}
	id := arg(0)
	switch verb {
	case "make": // id, name, options
		f.create(id, arg(1), args[2:])
	case "run": // id, name, options
		f.create(id, arg(1), args[2:])
		f.start(id)
	case "crowd": // how many
		for i := range f.number(id) {
			f.do("run", []string{fmt.Sprintf("%02d", i), fmt.Sprintf("c%02d", i)})
		}
	case "start":
		f.start(id)
	case "die": // id, exit code
		f.die(id, f.number(arg(1)))
	case "crash": // id, how often
		for range max(1, f.number(arg(1))) {
			f.crash(id)
		}
	case "stop":
		f.stop(id)
	case "restart":
		f.stop(id)
		f.containers[id].RestartCount = 0
		f.start(id)
		f.emit(id, events.ActionRestart)
	case "rename": // id, name
		f.containers[id].Name = "/" + arg(1)
		f.emit(id, events.ActionRename)
	case "remove":
		if f.containers[id].State.Running {
			f.kill(id, "9")
			f.die(id, 137)
		}
		f.emit(id, events.ActionDestroy)
	case "kill": // id, signal, of which it does not end
		f.kill(id, arg(1))
	case "vanish": // one that removes itself ends: id, exit code
		f.die(id, f.number(arg(1)))
		f.emit(id, events.ActionDestroy)
	case "event": // id, action
		f.emit(id, events.Action(strings.Join(args[1:], " ")))
	case "state": // id, state, of which no event tells
		f.containers[id].State.Status = arg(1)
	case "oomkilled": // id, true or false, of which no event tells
		f.containers[id].State.OOMKilled = arg(1) == "true"
	case "check": // id, status of its health check
		h := &container.Health{Status: arg(1)}
		if arg(1) == container.Unhealthy {
			h.FailingStreak = 3
		}
		f.containers[id].State.Health = h
		f.emit(id, events.Action("health_status: "+arg(1)))
	case "begin": // start one with a health check
		f.containers[id].State.Health = &container.Health{Status: container.Starting}
		f.start(id)
	case "failing": // interval, streak of container 1's checks, of which no event tells, and how long each takes: a second
		f.failChecks(f.duration(id), f.number(arg(1)), f.duration(cmp.Or(arg(2), "1s")))
	case "fail": // one more check of container 1, and how long it takes
		start := f.now
		f.pass(f.duration(id))
		c := f.containers["1"]
		c.State.Health = withCheck(c.State.Health, &container.HealthcheckResult{Start: start, End: f.now, ExitCode: 1})
		c.Config.Healthcheck = &container.HealthConfig{Interval: 5 * time.Second, Retries: 3}
		f.pass(5 * time.Second)
	case "passed": // how long ago, before the checks of container 1 that the engine keeps
		at := f.now.Add(-f.duration(id))
		h := f.containers["1"].State.Health
		h.Log = append([]*container.HealthcheckResult{{Start: at.Add(-time.Second), End: at}}, h.Log...)
	case "hide": // all containers, from lists
		f.hidden, f.containers = f.containers, nil
	case "show":
		f.containers = f.hidden
	case "pass":
		f.pass(f.duration(id))
	case "clock": // by how much the engine's is ahead
		f.engine = f.duration(id)
	case "mark":
		f.mark = f.now
	case "lost", "heard":
		f.lost = verb == "lost"
	case "late":
		f.late = true
	case "note": // what "old" gives to the fleet later
		all := f.list()
		f.old.list = Listing{
			All:       all,
			Chosen:    all,
			Mark:      f.fleet.mark,
			Following: true,
		}
		f.old.seen = map[string]*container.InspectResponse{}
		for id, c := range f.containers {
			f.old.seen[id] = clone(f.t, c)
		}
	case "old": // list, or the id of a described container
		if id == "list" {
			for _, l := range f.fleet.ApplyList(&f.old.list, f.now) {
				f.inspect(l.ID, f.old.list.Mark)
			}
			return
		}
		f.describe(f.old.seen[id], f.old.list.Mark, f.now)
	case "stumble", "nameless": // the engine cannot describe the first container; the list says of it, perhaps without its name
		l := f.list()[0]
		if verb == "nameless" {
			l.Names = nil
		}
		l.Created = ParseTime(f.containers[l.ID].Created).Unix()
		l.Status = strings.Join(args, " ")
		f.fleet.Describe(StatusOfSummary(&l, f.fleet.rules), f.fleet.mark, f.now, f.now)
	case "read": // nothing, or "all", or "blind": all, without events
		f.read(id != "", id != "blind")
	case "retag": // id: its image's name is another image's now
		f.retagged = id
	case "plain": // lists without health, as Podman's
		f.plain = true
	case "follow":
		f.fleet.FollowFrom(f.now)
	case "set": // key=value, and a new fleet
		f.set(args)
		f.fleet = New(f.fleet.rules)
	case "save":
		saved, err := json.Marshal(f.fleet.Memory())
		if err != nil {
			f.t.Fatal(err)
		}
		f.saved = saved
	case "recall":
		var m Memory
		if err := json.Unmarshal(f.saved, &m); err != nil {
			f.t.Fatal(err)
		}
		f.fleet = New(f.fleet.rules)
		f.fleet.Restore(m, f.now)
	case "reboot": // the exporter
		f.do("save", nil)
		f.do("recall", nil)
	case "dismiss": // a name or workload; needed or unknown if it cannot be forgotten
		want := map[string]error{"": nil, "needed": ErrNeeded, "unknown": ErrUnknown}[arg(1)]
		if err := f.fleet.Forget(id); !errors.Is(err, want) {
			f.t.Errorf("forget %s: %v, want %v", id, err, want)
		}
	case "forget": // everything, as without a state file
		f.fleet = New(f.fleet.rules)
	default:
		f.t.Fatalf("unknown word %q", verb)
	}
}

func (f *fleetTest) number(text string) int {
	f.t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil && text != "" {
		f.t.Fatal(err)
	}
	return n
}

func (f *fleetTest) duration(text string) time.Duration {
	f.t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

func (f *fleetTest) set(changes []string) {
	f.t.Helper()
	s := f.fleet.rules
	for _, change := range changes {
		switch key, value, _ := strings.Cut(change, "="); key {
		case "expected":
			s.Expected = append(s.Expected, value)
		case "expected_services":
			s.ExpectedServices = []string{value}
		case "exclude":
			s.Exclude = []string{value}
		case "host":
			s.Host = value
		case "role": // name:role
			name, role, _ := strings.Cut(value, ":")
			s.Roles = map[string]string{name: role}
		case "forget_after":
			s.ForgetAfter = f.duration(value)
		default:
			f.t.Fatalf("unknown setting %q", key)
		}
	}
}

// seenFacts are what see knows of a container.
var seenFacts = []string{
	"restarts", "recreations", "oom", "exit", "expected", "unhealthy_since", "recreated", "started", "state", "health", "needs", "info",
	"down", "wanted", "judged", "of",
}

// see compares what the fleet reports. Expectations are separated by commas: a container's name, then words.
//
//	running, missing...      its state                  !running    not that state
//	restarts=1, expected=0   a value                    -state      no such value
//	needs=db  !needs=db      a dependency               health=none
//	info=project/service/image/role
//	unhealthy_since=mark     a time: mark, made:ID or started:ID of a container, 10s ago
//
// "asked 1 2" is whom the last reading inspected, "stream deaf" or "stream sound" what is thought of events.
func (f *fleetTest) see(line, shows string) {
	f.t.Helper()
	all := f.facts()
	for expectation := range strings.SplitSeq(shows, ",") {
		words := strings.Fields(expectation)
		name := words[0]
		switch name {
		case "asked":
			if !slices.Equal(f.inspected, words[1:]) {
				f.t.Errorf("%s: inspected %v", line, f.inspected)
			}
			continue
		case "stream":
			if deaf := f.fleet.HasOverdueEvent(f.now, 5*time.Second); deaf != (words[1] == "deaf") {
				f.t.Errorf("%s: deaf: %t", line, deaf)
			}
			continue
		}
		for _, word := range words[1:] {
			key, want, valued := strings.Cut(strings.TrimLeft(word, "!-"), "=")
			if !valued && word[0] != '-' {
				key, want = "state", key
			}
			if !slices.Contains(seenFacts, key) {
				f.t.Fatalf("unknown word %q", word)
			}
			if key == "unhealthy_since" || key == "recreated" || key == "started" {
				want = stampOf(f.moment(want))
			}
			got, known := all[name][key]
			holds := known && got == want
			switch {
			case key == "needs" && valued:
				holds = slices.Contains(strings.Fields(got), want)
			case word[0] == '-':
				holds = !known
			}
			if holds == (word[0] == '!') {
				f.t.Errorf("%s: want %q of %s, got %q", line, word, name, all[name])
			}
		}
	}
}

// facts are what the fleet reports, by container.
func (f *fleetTest) facts() map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, r := range f.fleet.Report(f.now) {
		facts := map[string]string{
			"restarts": fmt.Sprint(r.Restarts), "recreations": fmt.Sprint(r.Recreations), "oom": fmt.Sprint(r.Kills),
		}
		all[r.Name] = facts
		s := r.Status
		if s == nil {
			continue
		}
		facts["down"], facts["of"] = r.DownFor.Truncate(time.Second).String(), r.Workload
		facts["expected"] = map[bool]string{false: "0", true: "1"}[r.Expected]
		facts["health"], facts["state"], facts["info"] = s.Health, s.State,
			strings.Join([]string{s.Project, s.Service, s.Image, s.Role}, "/")
		for key, at := range map[string]time.Time{"started": s.Started, "unhealthy_since": s.UnhealthySince, "recreated": s.Created} {
			if !at.IsZero() {
				facts[key] = stampOf(at)
			}
		}
		if s.Stopped {
			facts["exit"] = fmt.Sprint(s.ExitCode)
		}
		if len(r.DependsOn) > 0 {
			facts["needs"] = strings.Join(r.DependsOn, " ")
		}
	}
	f.addWorkloads(all)
	return all
}

// addWorkloads adds what the fleet reports of workloads, by "workload" and key: how many should run, and how they are judged.
func (f *fleetTest) addWorkloads(all map[string]map[string]string) {
	for _, w := range f.fleet.Workloads() {
		all["workload/"+w.Key] = map[string]string{
			"restarts": fmt.Sprint(w.Restarts), "recreations": fmt.Sprint(w.Recreations), "oom": fmt.Sprint(w.OOMs),
			"wanted": fmt.Sprintf("%d/%d", w.Instances, w.Wanted),
		}
	}
	there, _ := f.fleet.Judged(f.fleet.Report(f.now), f.now)
	for _, c := range there {
		facts := all["workload/"+c.Workload]
		if !c.Shared {
			facts = all[c.Name]
		}
		judged := "well"
		switch {
		case c.State == stateMissing && c.Removed && !c.Named && !c.EndedByItself:
			judged = "removed"
		case c.State == stateMissing:
			judged = "missing"
		case c.OneShot && c.Stopped && c.ExitCode != 0:
			judged = "failed"
		case c.Shared && c.Instances > 0 && c.Instances < c.Wanted:
			judged = "short"
		case c.Expected && c.State != container.StateRunning:
			judged = "down"
		}
		facts["judged"] = judged
	}
}

// stampOf is a time to the millisecond, as the page says it.
func stampOf(t time.Time) string { return fmt.Sprint(t.UnixMilli()) }

func (f *fleetTest) moment(text string) time.Time {
	f.t.Helper()
	switch what, id, _ := strings.Cut(text, ":"); what {
	case "":
		return time.Time{} // of an absent family
	case "mark":
		return f.mark
	case "made":
		return ParseTime(f.containers[id].Created)
	case "started":
		return ParseTime(f.containers[id].State.StartedAt)
	default:
		return f.now.Add(-f.duration(text))
	}
}

func (f *fleetTest) pass(d time.Duration) { f.now = f.now.Add(d) }

func (f *fleetTest) stamp() string { return f.now.Add(f.engine).UTC().Format(time.RFC3339Nano) }

// create makes a container. Options are policy=, network=, project=, service=, needs= (labels of compose), autoremove, image=,
// plain (no service of compose), swarm= and unit= (what owns it instead of compose).
func (f *fleetTest) create(id, name string, options []string) {
	f.t.Helper()
	c := plainContainer(name, map[string]string{ComposeService: name, ComposeProject: "chat"})
	c.ID, c.Created = id, f.stamp()
	c.State = &container.State{Status: container.StateCreated, StartedAt: "0001-01-01T00:00:00Z", FinishedAt: "0001-01-01T00:00:00Z"}
	c.HostConfig = &container.HostConfig{RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyUnlessStopped}}
	for _, option := range options {
		switch key, value, _ := strings.Cut(option, "="); key {
		case "policy":
			c.HostConfig.RestartPolicy.Name = container.RestartPolicyMode(value)
		case "network":
			c.HostConfig.NetworkMode = container.NetworkMode(value)
		case "project":
			c.Config.Labels[ComposeProject] = value
		case "needs":
			c.Config.Labels[ComposeDepends] = value
		case "autoremove":
			c.HostConfig.AutoRemove = true
		case "plain":
			delete(c.Config.Labels, ComposeService)
		case "service":
			c.Config.Labels[ComposeService] = value
		case "swarm", "unit":
			c.Config.Labels = map[string]string{map[string]string{"swarm": swarmService, "unit": systemdUnit}[key]: value}
		case "image":
			c.Config.Image = value
		default:
			f.t.Fatalf("unknown option %q", option)
		}
	}
	f.containers[id] = &c
	f.emit(id, events.ActionCreate)
}

// emit sends an event of the moment and, as the collector does, has the container inspected where the fleet wants it.
func (f *fleetTest) emit(id string, action events.Action) {
	f.t.Helper()
	f.pass(time.Millisecond)
	c := f.containers[id]
	attributes := map[string]string{"name": strings.TrimPrefix(c.Name, "/")}
	maps.Copy(attributes, c.Config.Labels)
	attributes["image"] = c.Config.Image
	if action == events.ActionDie {
		attributes["exitCode"] = strconv.Itoa(c.State.ExitCode)
	}
	if action == events.ActionKill {
		attributes["signal"] = f.signal
	}
	if action == events.ActionDestroy {
		delete(f.containers, id)
	}
	if f.lost {
		return
	}
	e := &events.Message{Action: action, Actor: events.Actor{ID: id, Attributes: attributes}, TimeNano: f.now.UnixNano()}
	if f.fleet.ApplyEvent(e, f.now) && !f.late {
		f.inspect(id, f.fleet.mark)
	}
	if !f.late {
		f.fleet.Tidy(f.now)
	}
}

func (f *fleetTest) inspect(id string, mark uint64) {
	f.t.Helper()
	c, ok := f.containers[id]
	if !ok {
		if !f.fleet.ChangedSince(mark, id) {
			f.fleet.MarkGone(id, f.now)
		}
		return
	}
	f.describe(c, mark, f.now.Add(f.engine))
}

// describe gives the fleet a description.
func (f *fleetTest) describe(c *container.InspectResponse, mark uint64, made time.Time) {
	f.t.Helper()
	s, err := StatusOf(clone(f.t, c), f.fleet.rules)
	if err != nil {
		f.t.Fatal(err)
	}
	f.fleet.Describe(s, mark, made, f.now)
}

// clone is what comes over the wire: a copy.
func clone(t *testing.T, c *container.InspectResponse) *container.InspectResponse {
	t.Helper()
	content, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var copied container.InspectResponse
	if err := json.Unmarshal(content, &copied); err != nil {
		t.Fatal(err)
	}
	return &copied
}

func (f *fleetTest) start(id string) {
	f.t.Helper()
	f.pass(time.Second)
	s := f.containers[id].State
	s.Status, s.Running, s.Restarting, s.StartedAt, s.Pid = container.StateRunning, true, false, f.stamp(), 42
	f.emit(id, events.ActionStart)
}

func (f *fleetTest) die(id string, code int) {
	f.t.Helper()
	s := f.containers[id].State
	s.Status, s.Running, s.ExitCode, s.FinishedAt, s.Pid = container.StateExited, false, code, f.stamp(), 0
	f.emit(id, events.ActionDie)
}

// crash ends a container, which its policy starts again.
func (f *fleetTest) crash(id string) {
	f.t.Helper()
	c := f.containers[id]
	c.RestartCount++
	c.State.Status, c.State.Restarting, c.State.ExitCode, c.State.FinishedAt = container.StateRestarting, true, 1, f.stamp()
	f.emit(id, events.ActionDie)
	f.start(id)
}

func (f *fleetTest) stop(id string) {
	f.t.Helper()
	f.kill(id, "15")
	f.die(id, 0)
	f.emit(id, events.ActionStop)
}

// kill sends a signal.
func (f *fleetTest) kill(id, signal string) {
	f.signal = signal
	f.emit(id, events.ActionKill)
}

// failChecks makes the last checks of container 1 fail.
func (f *fleetTest) failChecks(interval time.Duration, streak int, takes time.Duration) {
	h := &container.Health{}
	for i := streak - 1; i >= 0; i-- {
		at := f.now.Add(-time.Duration(i) * interval)
		h = withCheck(h, &container.HealthcheckResult{Start: at, End: at.Add(takes), ExitCode: 1})
	}
	c := f.containers["1"]
	c.State.Health, c.Config.Healthcheck = h, &container.HealthConfig{Interval: interval - time.Second, Retries: 3}
}

// withCheck adds a failing check to those that the engine keeps: five.
func withCheck(h *container.Health, result *container.HealthcheckResult) *container.Health {
	h = cmp.Or(h, &container.Health{})
	h.Status = container.Unhealthy
	h.FailingStreak++
	h.Log = append(h.Log, result)
	h.Log = h.Log[max(0, len(h.Log)-5):]
	return h
}

// read makes one reading and returns the ids of whom it inspected. following says that events flow.
func (f *fleetTest) read(full, following bool) []string {
	f.t.Helper()
	mark, listed := f.fleet.mark, f.fleet.Choose(f.list())
	f.inspected = nil
	for _, l := range f.fleet.ApplyList(&Listing{
		All:       listed.All,
		Chosen:    listed.Chosen,
		Mark:      mark,
		Full:      full,
		Following: following,
	}, f.now) {
		f.inspected = append(f.inspected, l.ID)
		f.inspect(l.ID, mark)
		f.fleet.Tidy(f.now)
	}
	f.fleet.CompleteList()
	f.fleet.Expect(f.now)
	f.fleet.Tidy(f.now)
	slices.Sort(f.inspected)
	return f.inspected
}

func (f *fleetTest) list() []container.Summary {
	var all []container.Summary
	for id, c := range f.containers {
		all = append(all, container.Summary{
			ID:     id,
			Names:  []string{c.Name},
			State:  c.State.Status,
			Labels: c.Config.Labels,
			Status: f.says(c.State),
			Image:  c.Config.Image,
		})
		if id == f.retagged {
			all[len(all)-1].Image = "sha256:0123"
		}
	}
	slices.SortFunc(all, func(a, b container.Summary) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// says tells a state in the engine's words for people.
func (f *fleetTest) says(s *container.State) string {
	ago := func(stamp string) string {
		return units.HumanDuration(f.now.Sub(ParseTime(stamp)))
	}
	switch {
	case s.Status == container.StateExited:
		return fmt.Sprintf("Exited (%d) %s ago", s.ExitCode, ago(s.FinishedAt))
	case !s.Running:
		return s.Status // nothing is read in these
	case s.Health != nil && !f.plain:
		return fmt.Sprintf("Up %s (%s)", ago(s.StartedAt), strings.Replace(s.Health.Status, "starting", "health: starting", 1))
	}
	return "Up " + ago(s.StartedAt)
}

// story is a promise and the script that proves it.
type story struct{ promise, script string }

var fleetStories = []story{
	{"what happens to a successor before it can be described counts", `
		run 1 irc; kill 1 15; die 1 0; event 1 destroy
		late; make 2 irc; pass 1s; start 2; event 2 oom; event 2 die; start 2; read all | irc restarts=1 oom=1`},
	{"how long a container has been down is told by the engine's clock", `
		{clock 0s OR clock -1h OR clock 1h}
		run 1 irc; pass 1h; die 1 1; forget; read all; pass 30s | irc exited down=30s`},
	{"a container that never ran, or is paused, has not been down since another time", `
		make 1 irc; read all | irc created down=0s
		start 1; die 1 1; pass 1h; start 1; pass 1h; state 1 paused; forget; read all | irc paused down=0s`},
	{"without a state, what failed lately after a while should run", `
		run 1 irc policy=no; pass 11m; die 1 1; pass 59m; forget; read all | irc expected=1
		pass 2h; read all | irc expected=1`},
	{"without a state, nothing should run that ended long ago, soon, by itself or by a signal", `
		run 1 long policy=no; pass 11m; die 1 1; pass 61m
		run 2 brief policy=no; pass 9m; die 2 1; run 3 done policy=no; run 4 stopped policy=no; run 5 killed policy=no
		pass 11m; die 3 0; die 4 143; die 5 137; pass 1m; forget
		read all | long expected=0, brief expected=0, done expected=0, stopped expected=0, killed expected=0`},
	{"without a state, what was killed for want of memory should run", `
		run 1 irc policy=no; pass 11m; oomkilled 1 true; die 1 137; pass 1m; forget; read all | irc expected=1`},
	{"without a state, what the engine starts again should run however it ended", `
		run 1 irc policy=always; pass 1m; stop 1; pass 2h; forget; read all | irc expected=1`},
	{"with a state, what should run still does, and what need not still need not", `
		run 1 failed policy=no; run 2 done policy=no; run 3 old policy=no; pass 1m; die 2 0; pass 2h; die 1 1
		read all | failed expected=1, done expected=0, old expected=1
		reboot; pass 3h; read all | failed expected=1, done expected=0, old expected=1
		reboot; read all | failed expected=1, done expected=0`},
	{"with a state, a service that ended well meanwhile should run, and work that did need not", `
		run 1 service policy=no; pass 61m; run 2 work policy=no; pass 30m; read all; save; lost; die 1 0; die 2 0; heard
		recall; read all | service expected=1, work expected=0
		reboot; pass 1h; read all | service expected=1, work expected=0`},
	{"with a state, what somebody stopped should run", `
		run 1 irc policy=no; pass 1m; stop 1; read all | irc expected=1
		reboot; pass 2h; read all | irc expected=1`},
	{"an expected container that was never seen is missing over a restart", `
		set expected=irc; read; pass 3m; read | irc missing down=3m0s
		pass 1m; reboot; read | irc missing down=4m0s`},
	{"every kind of restart counts", `
		run 1 irc | irc restarts=0 recreations=0
		crash 1 2 | irc restarts=2
		restart 1 | irc restarts=3
		stop 1    | irc restarts=3 expected=1 exit=0
		start 1   | irc restarts=4
		read; read all | irc restarts=4`},
	{"a deploy is a recreation and no restart", `
		run 1 irc; crash 1
		{remove 1; run 2 irc
		OR make 2 0123456789ab_irc; stop 1; event 1 destroy; rename 2 irc; start 2
		OR stop 1; rename 1 0123456789ab_irc; run 2 irc; event 1 destroy
		OR lost; remove 1; run 2 irc; heard; read blind}
		read    | irc running restarts=1 recreations=1 recreated=made:2
		crash 2 | irc restarts=2 recreations=1`},
	{"lost events are made up for as documented", `
		run 1 irc
		lost; crash 1 3; heard; read blind              | irc restarts=3
		lost; restart 1; restart 1; heard; read blind   | irc restarts=4
		crash 1                                         | irc restarts=5`},
	{"a restart of the daemon counts one for each container", `
		run 0 c0; run 1 c1; run 2 c2; crash 0; lost
		die 0 0; start 0; die 1 0; start 1; die 2 0; start 2
		heard; read blind | c0 restarts=2, c1 restarts=1, c2 restarts=1`},
	{"a restart of the exporter invents nothing", `
		run 1 irc; crash 1; run 2 xmpp; remove 2; pass 10m; save
		recall; read blind | irc restarts=1 recreations=0, xmpp missing
		crash 1            | irc restarts=2
		recall; read blind | irc restarts=2
		recall; lost; remove 1; run 3 irc; heard; read blind | irc restarts=1 recreations=1
		set exclude=xmpp; recall; read blind | xmpp -state`},
	{"without a state file counters begin at 0", `
		lost; run 1 irc; crash 1; heard; read blind | irc restarts=0
		crash 1 | irc restarts=1`},
	{"a removed container is missing unless it had done its work or removed itself", `
		run 1 irc; run 2 migrate policy=no
		die 2 0 | migrate expected=0, irc expected=1
		run 3 shell autoremove; run 4 web policy=no; run 5 worker policy=no
		stop 5  | worker expected=1
		remove 1; remove 2; remove 3; remove 4; remove 5
		read | irc -state -health restarts=0
		pass 1m; read | irc missing !running health=none info=chat/irc/image/irc -started, web missing, worker missing
		| migrate -state, shell -state -restarts
		pass 24h; read | irc -state -restarts`},
	{"a container that somebody removed is missed until it is forgotten", `
		{run 1 web; read all; remove 1
		OR run 1 web; read all; hide; read; show; kill 1 15; event 1 destroy}
		read; pass 1m          | web missing expected=0
		reboot; pass 22h; read all | web missing expected=0
		pass 2h; read          | web -state -expected
		run 2 web              | web running expected=1`},
	{"a configured container, and one of whose removal no event told, is missed for longer", `
		{set expected=web; run 1 web; read all; remove 1
		OR set role=web:web_irc; run 1 web; read all; remove 1
		OR run 1 web; read all; lost; remove 1; heard}
		read; pass 1m          | web missing expected=1
		reboot; pass 58m; read all | web missing expected=1
		pass 1m; read          | web missing expected=1
		run 2 web              | web running expected=1`},
	{"a deploy that ends before the new container has its name is an outage", `
		run 1 irc; read all; make 2 0123456789ab_irc; stop 1; remove 1
		pass 2h; read | irc missing expected=1
		pass 2h; read | irc missing expected=1
		rename 2 irc; start 2 | irc running recreations=1 restarts=0
		remove 2; pass 2m     | irc missing expected=0`},
	{"a container is missing once it has been gone for a minute", `
		run 1 irc; run 2 migrate policy=no; die 2 0; read all; lost; remove 1; remove 2; heard; read; pass 59999ms; read | irc -state
		pass 1ms; read | irc missing, migrate -state`},
	{"a configured container is missed from the start", `
		set expected=prosody; read blind | prosody -state
		pass 72h; read | prosody missing info=///xmpp
		run 1 prosody  | prosody !missing running restarts=0 recreations=0`},
	{"numbers belong to names: renamed", `
		run 1 irc; crash 1
		rename 1 ircd | irc restarts=1 -state, ircd restarts=0 recreations=0
		pass 1h; read | irc -state -restarts, ircd restarts=0`},
	{"numbers belong to names: one replaces another", `
		run 1 app; run 2 app-new; crash 2 4; rename 1 app-old; rename 2 app
		read blind | app restarts=0 recreations=1
		crash 2    | app restarts=1`},
	{"numbers belong to names: renamed, and another one runs", `
		run 1 app; crash 1 4; rename 1 app-old; run 2 app | app restarts=4 recreations=1`},
	{"numbers belong to names: renamed and back", `
		run 1 app; crash 1; rename 1 app-old; rename 1 app; read blind | app restarts=1 recreations=0 expected=1`},
	{"a rename there and back invents nothing", `
		run 1 app; crash 1; read all; { OR lost}; { OR rename 1 spare; read all}
		rename 1 tmp; read all; oomkilled 1 true; die 1 137; start 1; read all | tmp restarts=1 oom=1
		rename 1 app; read all | app restarts=1 oom=0 recreations=0 expected=1
		oomkilled 1 false; restart 1; read all | app restarts=2`},
	{"a first start under another name is no restart", `
		make 1 app; rename 1 tmp; start 1; rename 1 app | app restarts=0
		restart 1 | app restarts=1`},
	{"a list without health is no lost event, and costs no inspection", `
		plain; run 1 irc; check 1 healthy; read all; pass 6s; read; pass 6s; read | irc health=healthy, asked, stream sound
		check 1 unhealthy; read | irc health=unhealthy, asked 1, stream sound
		stumble Up 2 minutes    | irc running health=unhealthy`},
	{"a container that the engine does not describe any more has been down for as long as before", `
		run 1 irc; die 1 1; read all; pass 1h; stumble Exited (1) About an hour ago | irc exited exit=1 down=1h0m0s`},
	{"after a pause the first description decides since when a container is unhealthy", `
		run 1 xmpp; read all; pass 1h; mark; pass 50s; stumble Up About an hour (unhealthy) | xmpp health=unhealthy unhealthy_since=0s
		pass 40s; failing 10s 10; read | xmpp unhealthy_since=mark`},
	{"a container removed before its description leaves its counts to the name, unless its name was a temporary one", `
		run 1 irc; crash 1; read all; event 1 destroy; late
		{run 2 irc; crash 2 2; event 2 destroy; run 3 irc; read | irc running restarts=3 recreations=2
		OR run 2 0123456789ab_irc; event 2 destroy; run 3 irc; read | irc running restarts=1 recreations=1}`},
	{"another image in the list has the container inspected", `
		run 1 irc; read all; read | asked
		retag 1; read             | asked 1, stream sound
		read                      | asked`},
	{"a container with an event is inspected by the next list, unless it was before", `
		run 1 irc; read all; event 1 update; read | asked
		late; event 1 update; read                | asked 1, stream sound`},
	{"a late event makes no stream deaf", `
		run 1 irc; read all; state 1 paused; read; event 1 pause; pass 1m | stream sound`},
	{"answers that are older than an event are thrown away", `
		run 1 irc; note; die 1 3; run 2 xmpp
		old 1    | irc exited
		old list | xmpp running`},
	{"descriptions of a removed container are thrown away", `
		run 1 irc; crash 1 4; note; remove 1; old list
		old 1                  | irc -state
		run 2 irc; old 1; read | irc restarts=4 recreations=1
		pass 1m                | stream sound`},
	{"unhealthy since the first failing check", `
		run 1 xmpp; pass 1h; mark | xmpp -unhealthy_since
		pass 20s; failing 10s 3; event 1 health_status: unhealthy | xmpp health=unhealthy unhealthy_since=mark
		pass 69.999s; failing 10s 10; read     | xmpp unhealthy_since=mark
		forget; read blind                     | xmpp unhealthy_since=mark
		check 1 healthy                        | xmpp -unhealthy_since`},
	{"a check that the engine has forgotten makes an estimate", `
		run 1 xmpp; pass 1h; failing 10s 5; read all | xmpp unhealthy_since=40s
		failing 10s 6; forget; read all              | xmpp unhealthy_since=50s`},
	{"unhealthy since the last time that it was healthy, which only the engine's log has, or the streak is another one", `
		run 1 xmpp; pass 1h; failing 5s 3; read blind; pass 10m; failing 5s 3; passed 14s; read blind | xmpp unhealthy_since=10s
		pass 10m; failing 5s 2; read blind                                                          | xmpp unhealthy_since=5s`},
	{"checks that take long do not move the beginning of fast ones", `
		run 1 xmpp; pass 1h; mark; fail 0s; fail 0s; fail 0s; event 1 health_status: unhealthy | xmpp unhealthy_since=mark
		stumble Up About an hour (unhealthy)         | xmpp unhealthy_since=mark
		fail 30s; read                               | xmpp unhealthy_since=mark
		fail 30s; fail 30s; fail 30s; fail 30s; read | xmpp unhealthy_since=mark
		fail 30s; read; fail 30s; read               | xmpp unhealthy_since=mark`},
	{"an estimate is not before the last pass, of which the engine keeps no failing check", `
		run 1 xmpp; pass 1h; check 1 healthy; mark; passed 0s; read all
		pass 1m; failing 10s 8 30s; event 1 health_status: unhealthy | xmpp unhealthy_since=mark`},
	{"unhealthy since the start at the earliest", `
		run 1 xmpp; pass 5s; failing 10s 20; event 1 health_status: unhealthy | xmpp unhealthy_since=started:1`},
	{"the estimate of unhealthy since does not move forward", `
		run 1 xmpp; pass 1h; mark; pass 90s
		failing 10s 10; read blind           | xmpp unhealthy_since=mark
		pass 47s; failing 10s 14; read blind | xmpp unhealthy_since=mark`},
	{"dependencies are on the page", `
		run 1 irc; run 2 db; run 3 services {network=container:1 OR network=container:irc}
		run 4 bridge needs=irc:service_started:false,db:service_healthy:true,unknown:service_started:false
		run 5 other needs=irc:service_started:false project=another
		| services needs=irc, bridge needs=irc needs=db !needs=unknown, other -needs
		remove 2; pass 1h | bridge needs=db`},
	{"the network of a missing container is a dependency", `
		run 1 irc; run 3 services network=container:1 | services needs=irc
		remove 1; pass 10m; read | irc missing, services needs=irc
		reboot; read blind       | services needs=irc
		run 4 irc                | services needs=irc`},
	{"a list alone loses no number", `
		run 1 irc; crash 1; stumble Up 2 minutes | irc running restarts=1 expected=1 recreated=made:1 started=started:1`},
	{"a known container that the list does not name is not gone", `
		set role=irc:bouncer; run 1 irc project=chat; crash 1; event 1 oom; nameless Up 2 minutes | irc running restarts=1 recreations=0 oom=1 expected=1 recreated=made:1 started=started:1 info=chat/irc/image/bouncer
		pass 10m; nameless Up 12 minutes; read blind | irc running restarts=1 recreations=0
		state 1 dead; nameless Dead                  | irc dead restarts=1 recreations=0 expected=1 info=chat/irc/image/bouncer`},
	{"a container that has lost its name to another one stays replaced", `
		run 1 irc; state 1 dead; nameless Dead; run 2 irc | irc running recreations=1
		nameless Dead                                     | irc running recreations=1`},
	{"an unknown container that the list does not name is passed over", `
		lost; run 1 irc; nameless Up 2 minutes; heard; read blind | irc running restarts=0 recreations=0`},
	{"out of memory counts once", `
		run 1 irc; event 1 oom; oomkilled 1 true; die 1 137 | irc oom=1 exit=137
		oomkilled 1 false; start 1; lost; oomkilled 1 true; die 1 137; heard; read blind | irc oom=2`},
	{"a one-shot that is being removed is not missed", `
		run 1 migrate policy=no; die 1 0; run 2 irc; state 1 removing; state 2 removing
		read | migrate expected=0, irc expected=1
		event 1 destroy; event 2 destroy; pass 10m; read | migrate -state, irc missing`},
	{"a one-shot that is removed at once is not missed", `
		{run 1 migrate policy=no OR run 1 migrate policy=on-failure}
		late; { OR hide; read; show}
		die 1 0; event 1 destroy; pass 10m; read | migrate !missing`},
	{"one that failed or was stopped is missed though it is removed at once", `
		{run 1 migrate policy=no; late OR run 1 migrate policy=no; late; hide; read; show}
		{die 1 1 OR stop 1}
		event 1 destroy; pass 10m; read | migrate missing`},
	{"a service that ended is missed though it is removed at once", `
		run 1 migrate policy=always; late; { OR hide; read; show}
		die 1 0; event 1 destroy; pass 10m; read | migrate missing`},
	{"the first sight by a list counts no restart", `
		lost; run 1 irc; crash 1 7; heard; stumble Up 2 minutes | irc restarts=0
		read blind | irc restarts=0
		crash 1    | irc restarts=1`},
	{"an old container under a used name counts no restart", `
		run 1 irc; run 2 spare; lost; crash 2 7; remove 1; rename 2 irc; stumble Up 2 minutes
		read blind | irc restarts=0 recreations=1`},
	{"a container is missed after a change of the selection that keeps it", `
		run 1 irc; run 2 xmpp; remove 2; pass 5m; read; save; set exclude=portainer; recall; read blind | xmpp missing`},
	{"a container that gets a name that is not watched is not missed", `
		set exclude=old*; run 1 irc; run 2 xmpp; read all; { OR lost}; rename 1 old-irc; heard; {read OR read blind}
		pass 10m; read | irc -state, old-irc -state, xmpp running`},
	{"a crash loop of a container made in a gap counts", `
		follow; pass 1s; lost; run 1 bridge; crash 1 4; heard; read all | bridge restarts=4
		crash 1 | bridge restarts=5`},
	{"the first start of a container made in a gap is no restart, whatever could describe it first", `
		follow; {pass 1s OR pass 0s}; lost; make 1 bridge
		heard; pass 2s; stumble Created; start 1 | bridge restarts=0
		die 1 1; start 1; read all               | bridge restarts=1
		crash 1                                  | bridge restarts=2`},
	{"a crash loop of a container made in a gap counts though the list alone showed it first", `
		follow; pass 1s; lost; run 1 bridge; crash 1 4; heard; stumble Restarting (1) 1 second ago; read all | bridge restarts=4
		crash 1 | bridge restarts=5`},
	{"starts that were told before the first description count without the creation", `
		follow; pass 1s; lost; make 1 irc; heard; late; start 1; restart 1; read all | irc restarts=1
		restart 1; read all | irc restarts=2`},
	{"a successor of a container that only lists have shown loses no restart", `
		lost; run 1 irc; stumble Up 2 minutes; remove 1; run 2 irc; heard; read blind | irc restarts=0 recreations=1
		crash 2 | irc restarts=1`},
	{"a deploy that sets the old container aside", `
		run 1 irc; read all; { OR lost}
		{stop 1; rename 1 irc-old; run 2 irc
		OR rename 1 irc-old; run 2 irc; stop 1
		OR run 2 irc-new; rename 1 irc-old; rename 2 irc}
		read all | irc-old expected=0, irc running expected=1
		remove 1; read; pass 1h; read  | irc-old -state, irc expected=1, irc-new -state
		remove 2; read; pass 10m; read | irc missing, irc-old -state`},
	{"one that goes back to its name is expected again", `
		run 1 irc; stop 1; rename 1 irc-old; run 2 irc | irc-old expected=0
		remove 2; rename 1 irc; start 1 | irc running expected=1
		remove 1; pass 1h               | irc missing`},
	{"a name that is taken much later sets nobody aside", `
		run 1 chat; rename 1 chat-main; pass ` + maxReplaceDelay.String() + `; run 2 chat; stop 1 | chat-main expected=1, chat expected=1`},
	{"a deploy that does not come up is an outage", `
		run 1 irc policy=no plain; read all; remove 1; make 2 irc policy=no plain | irc created expected=1
		read all                      | irc expected=1
		make 3 new policy=no plain    | new expected=0
		start 2; die 2 0              | irc expected=0
		remove 2; make 4 irc policy=no plain | irc expected=0`},
	{"one is not expected before what it needs is healthy", startOrder + `
		begin 1; pass 10m; read | db expected=1, app expected=0, web expected=0, cache expected=1
		check 1 healthy         | app expected=1, web expected=1
		begin 2                 | app expected=1, web expected=0
		check 2 healthy; begin 3 | web expected=1
		die 3 1; check 2 starting | web expected=1`},
	{"one is expected once what it needs has failed", startOrder + `
		begin 1           | app expected=0, web expected=0
		check 1 unhealthy | app expected=1
		remove 1          | app expected=1`},
	{"one is not expected before what it needs has what that needs", `
		make 1 db; make 2 app needs=db:service_healthy:true
		make 3 proxy {needs=app:service_started:false OR needs=app:service_completed_successfully:false}
		| db expected=1, app expected=1, proxy expected=1
		begin 1; pass 10m; read | db expected=1, app expected=0, proxy expected=0
		check 1 healthy; begin 2 | app expected=1, proxy expected=1`},
	{"one that does not start although it can is expected", startOrder + `
		begin 1; check 1 healthy | app expected=1
		begin 1                  | app expected=1, web expected=1
		remove 2; make 5 app needs=db:service_healthy:true | app expected=0`},
}

// startOrder is what compose makes before it starts one after the other.
const startOrder = `
	make 1 db; make 2 app needs=db:service_healthy:true
	make 3 web needs=cache:service_started:false,app:service_healthy:false; make 4 cache needs=db:service_started:false`

func TestFleet(t *testing.T) { playAll(t, fleetStories) }

// playAll plays all alternatives of stories.
func playAll(t *testing.T, stories []story) {
	t.Helper()
	for _, s := range stories {
		t.Run(s.promise, func(t *testing.T) {
			for _, script := range alternatives(s.script) {
				if play(t, script); t.Failed() {
					t.Fatalf("script:\n%s", script)
				}
			}
		})
	}
}

// TestRenamedContainerHasItsNumbersAfterARestart has the exporter restarted often, since what it saves is in no order.
func TestRenamedContainerHasItsNumbersAfterARestart(t *testing.T) {
	for range 20 {
		play(t, `run 1 app; rename 1 tmp; restart 1; reboot; read all | tmp restarts=1
			rename 1 app; read all | app restarts=0`)
	}
}

// TestOnlyChangedContainersOfAListAreInspected polls at several intervals: each container has its turn once in ten minutes.
func TestOnlyChangedContainersOfAListAreInspected(t *testing.T) {
	for _, interval := range []time.Duration{10 * time.Second, 30 * time.Second, 7 * time.Minute} {
		t.Run(interval.String(), func(t *testing.T) {
			f := play(t, "crowd 20; pass 3h; read all")
			turns, polls := map[string]int{}, 3*int(routineInterval/interval)
			for range polls {
				f.pass(interval)
				for _, id := range f.read(false, true) {
					turns[id]++
				}
			}
			least, most := 3, 3
			if routineInterval%interval != 0 {
				least, most = 2, polls
			}
			for id := range f.containers {
				if turns[id] < least || turns[id] > most {
					t.Errorf("%s was inspected %d times in half an hour, want from %d to %d times", id, turns[id], least, most)
				}
			}
			f.play("lost; die 07 1; remove 13; run 20 c20; heard; read | c07 exited, c13 -state, c20 running, stream sound")
			for _, id := range []string{"07", "20"} {
				if !slices.Contains(f.inspected, id) {
					t.Errorf("%s was not inspected: %v", id, f.inspected)
				}
			}
			f.pass(5 * time.Second)
			f.play("| stream deaf")
		})
	}
}

// TestDoubtfulContainersAreInspectedFirst has a full list of which two containers had an event, or have changed without one.
func TestDoubtfulContainersAreInspectedFirst(t *testing.T) {
	f := play(t, "crowd 20; read all; late; crash 07; lost; state 13 paused")
	all := f.list()
	var order []string
	for _, l := range f.fleet.ApplyList(&Listing{
		All:    all,
		Chosen: all,
		Mark:   f.fleet.mark,
		Full:   true,
	}, f.now) {
		order = append(order, l.ID)
	}
	if len(order) != 20 || !slices.Equal(order[:2], []string{"07", "13"}) {
		t.Errorf("inspected in the order %v, want 07 and 13 first, of 20", order)
	}
}

func TestContainersOfAnotherEngineAreNotMissing(t *testing.T) {
	first := play(t, "set host=tcp://a:2375; run 1 irc; restart 1; run 2 only-there; save")
	another := play(t, "set host=tcp://b:2375")
	another.saved = first.saved
	another.play("recall; run 7 irc; pass 10m; read | only-there -state, irc restarts=0 recreations=0")

	// The same engine behind a proxy has the same containers.
	same := play(t, "set host=tcp://proxy:2375")
	same.saved = first.saved
	same.play("recall")
	if got := len(same.fleet.Memory().Containers); got != 2 {
		t.Errorf("%d containers are kept before the first list, want 2", got)
	}
	same.containers["1"] = first.containers["1"]
	same.play("read all; pass 1h | irc restarts=1, only-there missing")
}

func TestNamesThatAreNeverUsedAgainDoNotPileUp(t *testing.T) {
	f := play(t, "set forget_after=0s expected=irc; read all")
	for i := range maxGone + 50 {
		f.play(fmt.Sprintf("run %[1]d job-%[1]d; die %[1]d 1; remove %[1]d", i))
	}
	f.play("pass 10m; read")
	if n := len(f.fleet.members); n != maxGone+1 {
		t.Errorf("%d containers are remembered, want %d and the expected one", n, maxGone)
	}
	f.play(fmt.Sprintf("| job-%d missing, irc missing, job-0 -state", maxGone+49))
	for name, n := range map[string]int{
		"names":   len(f.fleet.names),
		"newborn": len(f.fleet.pending),
		"touched": len(f.fleet.lastEventMark),
	} {
		if n != 0 {
			t.Errorf("%d %s are kept of containers that are gone", n, name)
		}
	}
}

// defaultRules watch everything.
func defaultRules() *Rules {
	return &Rules{
		Label:         "local",
		MissingAfter:  time.Minute,
		ForgetAfter:   24 * time.Hour,
		MaxContainers: 1000,
	}
}

func plainContainer(name string, labels map[string]string) container.InspectResponse {
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: "id-" + name, Name: "/" + name,
			State: &container.State{Status: container.StateRunning, Running: true, StartedAt: "2026-01-02T03:04:05Z"},
		},
		Config: &container.Config{Image: "image", Labels: labels},
	}
}
