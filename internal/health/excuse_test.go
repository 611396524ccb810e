package health

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestContainerThatWaitsForEverIsTold(t *testing.T) {
	w := stack(t)
	w.container("db").Health = Starting
	*w.container("api") = Container{
		Host:      "local",
		Name:      "api",
		State:     "created",
		WaitsFor:  "db",
		DependsOn: []string{"db"},
	}
	w.pass(5 * time.Minute)
	w.want("api ContainerDown pending 5m0s starting(db)")
	w.pass(time.Second)
	w.want("api ContainerDown critical 5m1s also(db)")
}

func TestContainerThatStartsForEverAfterItWasToldHidesNothing(t *testing.T) {
	w := stack(t)
	w.container("web").State = "exited"
	w.target("web").Up = false
	w.pass(7 * time.Minute)
	w.container("web").State, w.container("web").Health = Running, Starting
	w.pass(time.Minute)
	w.want("web TargetDown pending 8m0s starting(web)")
	w.pass(time.Minute + time.Second)
	w.want("web TargetDown critical 9m1s also(web)")
}

func TestRestartThatIsAWarningHoldsBackNoCriticalProblem(t *testing.T) {
	for restarts, want := range map[uint64]string{
		3: "web TargetDown critical 5m1s also(web)",
		4: "web TargetDown pending 5m1s starting(web)",
	} {
		w := stack(t)
		w.container("web").Health = Starting
		w.container("web").Restarts = restarts
		w.target("web").Up = false
		w.pass(5*time.Minute + time.Second)
		severity := map[uint64]string{3: "warning", 4: "critical"}[restarts]
		w.want(want, "web ContainerRestarts "+severity+" 5m1s")
	}
}

func TestCrashLoopIsHeldBackNoLongerThanItsCause(t *testing.T) {
	w := stack(t)
	w.container("db").Health = Starting // for ever
	for range 9 {
		w.pass(50 * time.Second)
		w.container("api").State = Restarting
		w.container("api").Restarts++
		w.pass(10 * time.Second)
		w.container("api").State = Running
	}
	if got := w.last.Verdicts[ContainerSubject("local", "api")].RecentRestarts; got != 4 {
		t.Errorf("%d recent restarts, want the 4 of the last minutes", got)
	}
}

func TestContainerThatIsRestartedBecauseOfAnotherIsSeenToBe(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.container("api").State = Restarting
	w.pass(10 * time.Minute)
	w.want("db ContainerDown critical 10m0s", "api ContainerDown pending 10m0s dependency(db)")
}

func TestCauseThatHasEndedIsNotNamedBeside(t *testing.T) {
	w := stack(t)
	w.target("api").Up = false
	w.pass(3 * time.Minute)
	w.container("db").State = "exited"
	w.look()
	w.want("api TargetDown warning 3m0s also(db)", "db ContainerDown pending 0s")
	w.container("db").State = Running
	w.look()
	w.want("api TargetDown warning 3m0s")
}

func TestMissingContainerHasBeenSoSinceItVanished(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.container("db").DownFor = Missing, time.Minute
	w.target("api").Up = false
	w.pass(4 * time.Minute)
	w.want("db ContainerMissing pending 5m0s", "api TargetDown pending 4m0s dependency(db)")
	w.pass(time.Second)
	w.want("db ContainerMissing critical 5m1s", "api TargetDown pending 4m1s dependency(db)")
}

func TestContainerThatSomebodyRemovedExcusesNothing(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.container("db").Removed = Missing, true
	w.target("api").Up = false
	w.pass(5 * time.Minute)
	w.want("db ContainerMissing pending 5m0s", "api TargetDown warning 5m0s")
	w.pass(time.Second)
	w.want("db ContainerMissing warning 5m1s", "api TargetDown critical 5m1s")
}

func TestTargetNeverSeenUpIsPendingUntilItIsCritical(t *testing.T) {
	w := newWorld(t)
	w.target("web").Up = false
	w.pass(5 * time.Minute)
	w.want("web TargetDown pending 5m0s")
	if w.last.Next != minDuration {
		t.Errorf("next after %s, want %s", w.last.Next, minDuration)
	}
	w.pass(time.Second)
	w.want("web TargetDown critical 5m1s")
}

func TestInferredContainerThatRunsAgainExcusesForAWhile(t *testing.T) {
	w := stack(t)
	w.inferAPI()
	w.container("api").State = "exited"
	w.target("api").Up = false
	w.pass(10 * time.Minute)
	w.container("api").State, w.container("api").Health = Running, Starting
	w.look() // the target has not been read since
	w.want("api TargetDown pending 10m0s starting(api)")
	w.pass(2 * time.Minute)
	w.want("api TargetDown pending 12m0s starting(api)")
	w.pass(time.Second)
	w.want("api TargetDown critical 12m1s")
}

func TestMaintenanceOfADependencyReachesToTheEndOfTheChain(t *testing.T) {
	w := stack(t)
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "db"}}
	w.container("db").State = "exited"
	w.container("api").State = "exited"
	w.target("web").Up = false
	w.pass(time.Hour)
	w.want("db ContainerDown pending 1h0m0s maintenance()",
		"api ContainerDown pending 1h0m0s maintenance(db)", "web TargetDown pending 1h0m0s maintenance(api)")
	if got, want := w.last.Problems[1].Consequences, []Subject{ContainerSubject("local", "api"), TargetSubject("web")}; !slices.Equal(got,
		want) {
		t.Errorf("consequences of db: %v, want %v", got, want)
	}
}

// mesh are n containers in layers of width, of which each needs all of the layer below, and targets before the uppermost.
func mesh(n, width int) *Facts {
	f := &Facts{Engines: []Engine{{Host: "local", Read: true}}}
	for i := range n {
		c := Container{
			Host:     "local",
			Name:     fmt.Sprintf("c%04d", i),
			Role:     "xmpp",
			State:    Running,
			Health:   "healthy",
			Expected: true,
		}
		for k := range width {
			if below := i/width*width + width + k; below < n {
				c.DependsOn = append(c.DependsOn, fmt.Sprintf("c%04d", below))
			}
		}
		f.Engines[0].Containers = append(f.Engines[0].Containers, c)
		f.Targets = append(f.Targets, Target{
			Name:      "t" + c.Name,
			Container: c.Name,
			Read:      true,
			Up:        true,
		})
	}
	return f
}

// TestDenseDependenciesAreSearchedOnce has so many ways through the dependencies that nobody could go them all.
func TestDenseDependenciesAreSearchedOnce(t *testing.T) {
	j, f := NewJudge(shippedRules()), mesh(1000, 10)
	f.Now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	j.Judge(f)
	for i := range f.Targets {
		f.Targets[i].Up = false
	}
	last := f.Engines[0].Containers[990:]
	for i := range last {
		last[i].State = "exited"
	}
	f.Now = f.Now.Add(time.Minute)
	for _, p := range j.Judge(f).Problems {
		if p.Alert == AlertTargetDown && !p.Excuse.Holds() {
			t.Fatalf("%s is not excused", p.Name)
		}
	}
}

func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{200, 1000} {
		for _, down := range []string{"well", "one down", "all down"} {
			b.Run(fmt.Sprintf("%d containers, %s", n, down), func(b *testing.B) {
				j, f := NewJudge(shippedRules()), mesh(n, 5)
				f.Now = time.Now()
				j.Judge(f)
				for i := range f.Targets {
					f.Targets[i].Up = down != "all down"
					f.Engines[0].Containers[i].State = map[bool]string{true: "exited", false: Running}[down == "all down" ||
						down == "one down" && i == n-1]
				}
				b.ReportAllocs()
				for b.Loop() {
					f.Now = f.Now.Add(time.Second)
					j.Judge(f)
				}
			})
		}
	}
}

// TestExcuseOfOneProblemHoldsBackNoOther has a flapping container come back with bad health: the rules drop all alerts on an excused
// container, and compare the durations.
func TestExcuseOfOneProblemHoldsBackNoOther(t *testing.T) {
	w := flappingWeb(t)
	w.container("web").DependsOn = []string{"api"}
	w.container("api").State = "exited"
	w.lose("api")
	w.pass(10 * time.Second)
	w.container("web").Health = Unhealthy
	w.pass(9 * time.Minute)
	if p, _ := w.problem("web", AlertContainerUnhealthy); p.Excuse.Cause != "api" || p.Lasted != 9*time.Minute {
		t.Errorf("problem %+v, want bad health with an excuse", p)
	}
	if v := w.verdict("web"); v.Excuse.Holds() || v.Outages != 3 || v.Unhealthy > 0 {
		t.Errorf("verdict %+v, want no excuse, and no bad health, which would be a warning at once", v)
	}
	w.pass(time.Minute)
	w.want("api ContainerDown critical 10m10s", "web ContainerUnhealthy pending 10m0s dependency(api)",
		"api TargetDown pending 10m10s container(api)")
}

// TestMissingContainerIsNotUpAgain removes one that flaps, under maintenance.
func TestMissingContainerIsNotUpAgain(t *testing.T) {
	w := flappingWeb(t)
	w.Maintenance = []Subject{ContainerSubject("", "web")}
	w.pass(10 * time.Second)
	w.container("web").State, w.container("web").Removed, w.container("web").Named = Missing, true, true
	w.pass(5 * time.Minute)
	p, _ := w.problem("web", AlertContainerDown)
	if v := w.verdict("web"); p.Severity != Warning || p.UpAgain || v.Calm > 0 || v.Excuse.Holds() {
		t.Errorf("problem %+v, verdict %+v, need a warning that does not say that it is up again", p, v)
	}
}
