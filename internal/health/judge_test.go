package health

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// world is a stack in a test. Its containers are on the engine "local"; a change of it holds until the next one.
type world struct {
	t     *testing.T
	judge *Judge
	now   time.Time
	Facts
	last  *Judgement
	chain chain
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, judge: NewJudge(shippedRules()), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	w.Engines = []Engine{{Host: "local", Read: true}}
	return w
}

// container returns the container of that name, which runs and is expected to if it is new.
func (w *world) container(name string) *Container {
	list := &w.Engines[0].Containers
	i := slices.IndexFunc(*list, func(c Container) bool { return c.Name == name })
	if i < 0 {
		*list = append(*list, Container{
			Host:     "local",
			Name:     name,
			State:    Running,
			Health:   "none",
			Expected: true,
		})
		i = len(*list) - 1
	}
	return &(*list)[i]
}

func (w *world) target(name string) *Target {
	i := slices.IndexFunc(w.Targets, func(t Target) bool { return t.Name == name })
	if i < 0 {
		w.Targets = append(w.Targets, Target{Name: name, Read: true, Up: true})
		i = len(w.Targets) - 1
	}
	return &w.Targets[i]
}

// be gives the target what is true of every target of a kind, as far as these tests need it.
func (t *Target) be(kind string) {
	t.Kind, t.Role, t.Side, t.Relay, t.ShowsServer, t.Direct, t.ValueAlerts = kind, "", "", false, false, false, nil
	switch kind {
	case "xmpp_metrics":
		t.Role, t.ShowsServer, t.ValueAlerts = "xmpp", true, []string{AlertCertificateExpiry, AlertAuthFailureRate, AlertSessionsGone}
	case "xmpp_rest":
		t.Role, t.ShowsServer = "xmpp", true
	case "xmpp_status":
		t.Role, t.ShowsServer, t.Side = "xmpp", true, SideXMPP
	case "xmpp_c2s":
		t.Role, t.ShowsServer, t.Direct, t.Side = "xmpp", true, true, SideXMPP
	case "irc_rpc":
		t.Role, t.Side, t.ValueAlerts = "irc", SideIRC, []string{AlertCertificateExpiry, AlertUsersGone}
	case "irc_tls":
		t.Role, t.Side = "irc", SideIRC
	case "relay":
		t.Role, t.Relay = "bridge", true
	case "volume":
		t.ValueAlerts = []string{AlertVolumeUsage}
	case "irc_services", "xmpp_proxy":
		t.Role = kind
	case "http", "tcp":
	default:
		panic("unknown kind " + kind)
	}
}

// inferAPI has the container of the target api found by the address.
func (w *world) inferAPI() {
	w.container("api").HostNames = []string{"api"}
	w.target("api").Container, w.target("api").HostName = "", "api"
}

// pass lets time pass, with a judgement every 10 s and one at the end.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := w.now.Add(d); ; w.now = w.now.Add(min(10*time.Second, end.Sub(w.now))) {
		w.look()
		if !w.now.Before(end) {
			return
		}
	}
}

func (w *world) look() {
	f := w.Facts
	f.Now = w.now
	f.Engines = slices.Clone(w.Engines)
	f.Targets = slices.Clone(w.Targets)
	for i := range f.Targets {
		if t := &f.Targets[i]; t.Read && t.ReadAt.IsZero() {
			t.ReadAt = w.now
		}
	}
	f.Engines[0].Containers = slices.Clone(w.Engines[0].Containers)
	for i := range f.Engines[0].Containers {
		c := &f.Engines[0].Containers[i]
		c.HasMemory = c.HasMemory || c.Memory > 0
	}
	w.last = w.judge.Judge(&f)
	w.chain.follow(w)
}

// restart replaces the judge by one that knows what was saved, if it was.
func (w *world) restart(saved bool) {
	w.t.Helper()
	memory, err := json.Marshal(w.judge.Memory(w.now))
	if err != nil {
		w.t.Fatal(err)
	}
	var m Memory
	if saved {
		if err := json.Unmarshal(memory, &m); err != nil {
			w.t.Fatal(err)
		}
	}
	w.resume(&m)
}

// resume replaces the judge by one that knows this.
func (w *world) resume(m *Memory) {
	w.judge = NewJudge(shippedRules())
	if m.Saved.IsZero() {
		w.chain = chain{}
		return
	}
	w.judge.Resume(m, 0, 0, slices.Collect(maps.Values(w.chain.problems)), w.now)
}

// want compares the problems with lines such as "db ContainerDown critical 5m0s" and "web TargetDown pending 1m0s container(db)".
func (w *world) want(lines ...string) {
	w.t.Helper()
	severities := []string{"pending", "warning", "critical"}
	var got []string
	for _, p := range w.last.Problems {
		line := fmt.Sprintf("%s %s %s %s", p.Name, p.Alert, severities[p.Severity], p.Lasted.Round(time.Second))
		if p.Excuse.Holds() {
			line += fmt.Sprintf(" %s(%s)", p.Excuse.Reason, p.Excuse.Cause)
		}
		if !p.Excuse.Holds() && p.Also != "" {
			line += " also(" + p.Also + ")"
		}
		if p.Unknown {
			line += " unknown"
		}
		got = append(got, line)
		if v := w.last.Verdicts[p.Subject]; availability(p.Alert) && v.Excuse != p.Excuse {
			w.t.Errorf("verdict of %s has excuse %v, its problem %v", p.Name, v.Excuse, p.Excuse)
		}
	}
	slices.Sort(got)
	slices.Sort(lines)
	if !slices.Equal(got, lines) {
		w.t.Errorf("after %s, problems (-want +got):\n-%s\n+%s",
			w.now.Sub(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), strings.Join(lines, "\n-"), strings.Join(got, "\n+"))
	}
}

// availability reports whether an alert is about being there.
func availability(alert string) bool {
	return slices.Contains([]string{AlertTargetDown, AlertContainerDown, AlertContainerMissing, AlertContainerUnhealthy}, alert)
}

// stack is a database, an API that needs it, and a web client that needs the API, with a target before the last two.
func stack(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.container("db")
	w.container("api").DependsOn = []string{"db"}
	w.container("web").DependsOn = []string{"api"}
	w.target("api").Container = "api"
	w.target("web").Container = "web"
	w.pass(time.Minute)
	w.want()
	return w
}

func TestThresholds(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.container("web").Health = Unhealthy
	w.container("web").DependsOn = nil
	w.look()
	w.want("db ContainerDown pending 0s", "web ContainerUnhealthy warning 0s")
	w.pass(time.Minute)
	w.want("db ContainerDown pending 1m0s", "web ContainerUnhealthy warning 1m0s")
	w.pass(time.Second)
	w.want("db ContainerDown warning 1m1s", "web ContainerUnhealthy warning 1m1s")
	w.pass(4 * time.Minute)
	w.want("db ContainerDown critical 5m1s", "web ContainerUnhealthy critical 5m1s")
	w.container("db").State = Running
	w.container("web").Health = "healthy"
	w.look()
	w.want()
}

func TestConsequencesAreHeldBack(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.pass(2 * time.Second)
	w.target("api").Up = false
	w.target("web").Up = false
	w.container("api").Health = Unhealthy
	w.pass(10 * time.Minute)
	w.want("db ContainerDown critical 10m2s", "api TargetDown pending 10m0s dependency(db)", "web TargetDown pending 10m0s dependency(api)",
		"api ContainerUnhealthy pending 10m0s dependency(db)")
	root := w.last.Problems[0]
	if got := len(root.Consequences); root.Name != "db" || got != 3 {
		t.Errorf("the first problem is of %s and has %d consequences, want db and 3", root.Name, got)
	}
	w.container("db").State = Running
	w.pass(2 * time.Minute) // it takes a while until everything works again
	w.want("api TargetDown pending 12m0s dependency(db)", "web TargetDown pending 12m0s dependency(api)",
		"api ContainerUnhealthy pending 12m0s dependency(db)")
	w.pass(time.Second)
	// From now on they are to blame themselves, and their clocks were never stopped.
	w.want("api TargetDown critical 12m1s", "web TargetDown critical 12m1s", "api ContainerUnhealthy critical 12m1s")
}

func TestOwnContainerExcuses(t *testing.T) {
	w := stack(t)
	w.target("web").Up = false // a reading may see it before the engine tells
	w.pass(30 * time.Second)
	w.container("web").State = "exited"
	w.pass(10 * time.Minute)
	w.want("web ContainerDown critical 10m0s", "web TargetDown pending 10m30s container(web)")
}

func TestPagedProblemStaysWhenItsCauseAppears(t *testing.T) {
	w := stack(t)
	w.target("api").Up = false
	w.pass(3 * time.Minute)
	w.want("api TargetDown warning 3m0s")
	w.container("db").State = "exited"
	w.pass(3 * time.Minute)
	w.want("api TargetDown critical 6m0s also(db)", "db ContainerDown warning 3m0s")
}

func TestProblemOlderThanItsCauseIsNotExcused(t *testing.T) {
	w := stack(t)
	w.target("api").Up = false
	w.pass(61 * time.Second)
	w.container("db").State = "exited"
	w.pass(time.Minute)
	w.want("api TargetDown warning 2m1s also(db)", "db ContainerDown pending 1m0s")
}

func TestCauseThatComesAndGoesHidesNothing(t *testing.T) {
	w := stack(t)
	fired := time.Duration(0)
	for round := 0; fired == 0 && round < 10; round++ {
		w.container("db").State = "exited"
		w.target("api").Up = false
		w.pass(30 * time.Second)
		w.container("db").State = Running
		for range 9 {
			w.pass(10 * time.Second)
			for _, p := range w.last.Problems {
				if p.Severity == Critical && fired == 0 {
					fired = p.Lasted
				}
			}
		}
	}
	if fired == 0 || fired > 5*time.Minute+30*time.Second {
		t.Errorf("the target was critical after %s, want after 5m", fired)
	}
}

func TestContainerThatIsRestartedNowAndThenHidesNothing(t *testing.T) {
	w := stack(t)
	w.target("web").Up = false
	for range 2 {
		w.pass(3 * time.Minute)
		w.container("web").State = Restarting
		w.container("web").Restarts++
		w.pass(30 * time.Second)
		w.container("web").State = Running
	}
	w.look()
	w.want("web TargetDown critical 7m0s", "web ContainerRestarts warning 4m0s")
	if got := w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts; got != 2 {
		t.Errorf("%d recent restarts, want 2", got)
	}
}

func TestCauseWithoutAnAlertHoldsBackNoLongerThanItsThreshold(t *testing.T) {
	w := stack(t)
	w.container("web").State, w.container("web").Health = Running, Starting // for ever
	w.target("web").Up = false
	w.pass(5 * time.Minute)
	w.want("web TargetDown pending 5m0s starting(web)")
	w.pass(time.Second)
	w.want("web TargetDown critical 5m1s also(web)")
}

func TestMaintenanceHoldsBackAsLongAsItLasts(t *testing.T) {
	w := stack(t)
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "api"}}
	w.container("api").State = "exited"
	w.target("api").Up, w.target("web").Up = false, false
	w.pass(time.Hour)
	w.want("api ContainerDown pending 1h0m0s maintenance()",
		"api TargetDown pending 1h0m0s maintenance(api)", "web TargetDown pending 1h0m0s maintenance(api)")
	w.Maintenance = nil
	w.look()
	w.want("api ContainerDown critical 1h0m0s", "api TargetDown pending 1h0m0s container(api)",
		"web TargetDown pending 1h0m0s dependency(api)")
}

func TestCircleExcusesNobodyInIt(t *testing.T) {
	w := stack(t)
	w.container("db").DependsOn = []string{"api"}
	w.container("db").State, w.container("api").State, w.container("web").State = "exited", "exited", "exited"
	w.pass(2 * time.Minute)
	w.want("db ContainerDown warning 2m0s", "api ContainerDown warning 2m0s", "web ContainerDown pending 2m0s dependency(api)")
}

func TestChainOfAnyDepth(t *testing.T) {
	w := newWorld(t)
	for i := range 12 {
		w.container(fmt.Sprintf("c%02d", i)).DependsOn = []string{fmt.Sprintf("c%02d", i+1)}
	}
	w.target("end").Container = "c00"
	w.pass(time.Minute)
	w.container("c11").State = "exited"
	w.target("end").Up = false
	w.pass(10 * time.Minute)
	w.want("c11 ContainerDown critical 10m0s", "end TargetDown pending 10m0s dependency(c01)")
	if root := w.last.Problems[1].Excuse.Root; root.Name != "c11" {
		t.Errorf("the root is %s, want c11", root.Name)
	}
}

func TestInferredContainerExcusesOnlyWhileItDoesNotRun(t *testing.T) {
	for _, inferred := range []bool{false, true} {
		w := stack(t)
		if inferred {
			w.inferAPI()
		}
		w.container("db").State = "exited"
		w.target("api").Up = false
		w.pass(3 * time.Minute)
		if inferred {
			w.want("db ContainerDown warning 3m0s", "api TargetDown warning 3m0s")
		} else {
			w.want("db ContainerDown warning 3m0s", "api TargetDown pending 3m0s dependency(db)")
		}
	}
	w := stack(t)
	w.inferAPI()
	w.container("api").State = "exited"
	w.target("api").Up = false
	w.pass(3 * time.Minute)
	w.want("api ContainerDown warning 3m0s", "api TargetDown pending 3m0s container(api)")
}

func TestContainerStaysInferredWhileItsEngineCannotBeRead(t *testing.T) {
	w := stack(t)
	w.inferAPI()
	w.look()
	w.Engines[0].Read = false
	w.pass(14 * time.Minute)
	if got := w.last.Servers["api"]; got.Container != "api" || got.Host != "local" || !got.Inferred {
		t.Errorf("got %+v, want the container api on local, inferred", got)
	}
}

func TestContainerHostChoosesAmongContainersOfOneName(t *testing.T) {
	for host, want := range map[string]string{
		"":      "web TargetDown warning 3m0s",
		"local": "web TargetDown pending 3m0s container(web)",
		"far":   "web TargetDown warning 3m0s",
	} {
		w := stack(t)
		w.Engines = append(w.Engines, Engine{Host: "far", Read: true, Containers: []Container{{
			Host:     "far",
			Name:     "web",
			State:    Running,
			Expected: true,
		}}})
		w.target("web").ContainerHost = host
		w.container("web").State = "exited"
		w.target("web").Up = false
		w.pass(3 * time.Minute)
		w.want("web ContainerDown warning 3m0s", want)
	}
}

// TestWhatNobodyLooksAtGetsNoWorse holds it for each kind of problem but outages: who is told at night has seen it himself.
func TestWhatNobodyLooksAtGetsNoWorse(t *testing.T) {
	w := stack(t)
	xmpp := w.target("xmpp")
	xmpp.Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "bridge", Holds: true}, {Alert: AlertVolumeUsage, Used: 0.99}}
	w.container("web").Health = Unhealthy
	w.container("db").Memory = 2e9
	w.look()
	xmpp.Read, xmpp.Conditions, w.Engines[0].Read = false, nil, false
	w.pass(14 * time.Minute)
	w.want("web ContainerUnhealthy warning 5m0s unknown", "xmpp DataVolumeUsage pending 5m0s unknown",
		"xmpp XMPPComponentDisconnected pending 5m0s unknown", "db ContainerMemory pending 2m0s unknown")
}

func TestContainerThatIsNotRestartedAgainIsDown(t *testing.T) {
	w := stack(t)
	w.container("web").State = Restarting
	w.container("web").Restarts++
	w.look()
	for range 9 {
		w.container("web").DownFor += time.Minute
		w.pass(time.Minute)
	}
	w.want("web ContainerDown critical 7m10s", "web ContainerRestarts warning 9m0s")
}

func TestRestartOfTheExporter(t *testing.T) {
	for _, saved := range []bool{false, true} {
		t.Run(fmt.Sprintf("saved %v", saved), func(t *testing.T) {
			w := stack(t)
			w.container("db").State = "exited"
			w.target("api").Up = false
			w.container("other")
			w.look()
			w.container("other").Restarts = 2
			w.target("web").Container, w.target("web").Up = "", false
			w.pass(3 * time.Minute)
			w.restart(saved)
			w.now = w.now.Add(10 * time.Second)
			w.Engines[0].Read = false
			w.target("api").Read, w.target("web").Read = false, false
			w.look()
			if saved {
				w.want("db ContainerDown warning 3m10s unknown", "api TargetDown pending 3m10s dependency(db) unknown",
					"web TargetDown warning 3m10s unknown",
					"other ContainerRestarts warning 3m10s unknown")
			} else {
				w.want()
			}
			w.Engines[0].Read = true
			w.container("db").DownFor = 190 * time.Second
			w.target("api").Read, w.target("web").Read = true, true
			w.look()
			v := w.last.Verdicts
			if saved {
				w.want("db ContainerDown warning 3m10s", "api TargetDown pending 3m10s dependency(db)",
					"web TargetDown warning 3m10s", "other ContainerRestarts warning 3m10s")
			} else {
				w.want("db ContainerDown warning 3m10s", "api TargetDown pending 0s dependency(db)", "web TargetDown pending 0s")
			}
			if got := v[TargetSubject("web")].Known; got != saved {
				t.Errorf("the target's duration is known: %v, want %v", got, saved)
			}
			if got := v[ContainerSubject("local", "other")].RecentRestarts; saved && got != 2 {
				t.Errorf("%d recent restarts, want 2", got)
			}
			w.pass(5*time.Minute + time.Second)
			if !w.last.Verdicts[TargetSubject("web")].Known {
				t.Error("the duration is unknown after the critical threshold")
			}
		})
	}
}

func TestExcusedRestartsDoNotCount(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.pass(10 * time.Second)
	w.container("api").Restarts = 5
	w.container("db").State = Running
	w.pass(10 * time.Second)
	w.container("web").Restarts = 4
	w.container("web").DependsOn = nil
	w.look()
	v := w.last.Verdicts
	if api, web := v[ContainerSubject("local", "api")].RecentRestarts, v[ContainerSubject("local", "web")].RecentRestarts; api != 0 ||
		web != 4 {
		t.Errorf("recent restarts: api %d, web %d, want 0 and 4", api, web)
	}
	w.pass(10*time.Minute + time.Second)
	if got := w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts; got != 0 {
		t.Errorf("%d restarts after the window, want 0", got)
	}
}

// TestContainerIsDownSinceItsEndWhateverWasJudgedMeanwhile has targets judged between two readings of the engine, whose events are lost.
func TestContainerIsDownSinceItsEndWhateverWasJudgedMeanwhile(t *testing.T) {
	w := stack(t)
	w.target("docker").Engine, w.target("docker").ReadAt = "local", w.now
	w.pass(25 * time.Second)
	w.container("db").State, w.container("db").DownFor, w.target("docker").ReadAt = "exited", 20*time.Second, w.now
	w.look()
	w.want("db ContainerDown pending 20s")
}

func TestClocksApart(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.container("db").DownFor = "exited", time.Hour // by an engine whose clock is behind
	w.pass(30 * time.Second)
	w.want("db ContainerDown pending 40s") // since the reading before
}
