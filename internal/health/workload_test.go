package health

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// workload returns the shared workload chat/web, of which two instances run and are wanted if it is new.
func (w *world) workload() *Container {
	c := w.container("chat-web-2")
	if !c.Shared {
		c.Workload, c.Shared, c.Instances, c.Wanted = "chat/web", true, 2, 2
		c.Members = []string{"chat-web-1", "chat-web-2"}
	}
	return c
}

// runs sets how many instances of the workload run.
func (w *world) runs(n int) {
	c := w.workload()
	if c.Instances, c.State = n, Running; n == 0 {
		c.State = "exited"
	}
}

func TestWorkloadBelowWhatItWantsIsAWarningAtMost(t *testing.T) {
	w := newWorld(t)
	w.workload()
	w.pass(time.Minute)
	w.want()
	w.runs(1)
	w.pass(30 * time.Minute)
	w.want("chat/web ContainerDown warning 30m0s")
	if p := w.last.Problems[0]; p.Subject != WorkloadSubject("local", "chat/web") || p.Instances != 1 || p.Wanted != 2 {
		t.Errorf("got %+v", p)
	}
	if v := w.last.Verdicts[WorkloadSubject("local", "chat/web")]; v.Down != 5*time.Minute {
		t.Errorf("the rules see %s, which must not be critical", v.Down)
	}
	w.runs(0)
	w.pass(5 * time.Minute)
	w.want("chat/web ContainerDown warning 35m0s")
	w.pass(10 * time.Second)
	w.want("chat/web ContainerDown critical 35m10s")
	if p := w.last.Problems[0]; p.Wanted != 0 {
		t.Errorf("nothing runs, but got %+v", p)
	}
	if v := w.last.Verdicts[WorkloadSubject("local", "chat/web")]; v.Down != 35*time.Minute+10*time.Second {
		t.Errorf("the rules see %s", v.Down)
	}
	w.runs(1)
	w.pass(time.Minute)
	w.want("chat/web ContainerDown warning 36m10s")
	w.runs(2)
	w.look()
	w.want()
}

// TestLastInstancesMayBeUnhealthy: a workload that lacks an instance for long is still watched for its users.
func TestLastInstancesMayBeUnhealthy(t *testing.T) {
	w := newWorld(t)
	w.runs(1)
	w.pass(30 * time.Minute)
	c := w.workload()
	for range 40 {
		w.pass(10 * time.Second)
		c.Health, c.UnhealthyFor = Unhealthy, c.UnhealthyFor+10*time.Second
	}
	w.look()
	w.want("chat/web ContainerUnhealthy critical 6m40s", "chat/web ContainerDown warning 36m40s")
	c.Health, c.UnhealthyFor = "healthy", 0
	w.look()
	w.want("chat/web ContainerDown warning 36m40s")
}

func TestPartlyDownOutlivesARestart(t *testing.T) {
	w := newWorld(t)
	w.runs(1)
	w.pass(30 * time.Minute)
	w.restart(true)
	w.Engines[0].Read = false
	w.pass(time.Minute)
	w.want("chat/web ContainerDown warning 31m0s unknown")
	w.Engines[0].Read = true
	w.look()
	w.want("chat/web ContainerDown warning 31m0s")
}

func TestWorkloadWithoutAnyInstanceIsMissing(t *testing.T) {
	w := newWorld(t)
	w.workload()
	w.pass(time.Minute)
	w.workload().State, w.workload().Instances = Missing, 0
	w.pass(5*time.Minute + time.Second)
	w.want("chat/web ContainerMissing critical 5m1s")
}

func TestRemovedContainerIsAWarning(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(c *Container)
		want   string
	}{
		"by a person":                   {func(c *Container) { c.Removed = true }, "warning"},
		"which the configuration names": {func(c *Container) { c.Removed, c.Named = true, true }, "critical"},
		"after it failed":               {func(c *Container) { c.Removed, c.EndedByItself = true, true }, "critical"},
		"without an event":              {func(*Container) {}, "critical"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c := w.container("web")
			w.pass(time.Minute)
			c.State = Missing
			tt.change(c)
			w.pass(6 * 24 * time.Hour)
			w.want("web ContainerMissing " + tt.want + " 144h0m0s")
			w.Engines[0].Containers = nil // the fleet forgets it
			w.look()
			w.want()
			if e := w.last.Round.Events; len(e) != 2 || !slices.ContainsFunc(e, func(e Event) bool { return e.Ended && e.Unwatched }) {
				t.Errorf("it must end as no longer watched: %+v", e)
			}
		})
	}
}

// TestWorkloadContinuesItsContainer holds that what is remembered of a container moves to the workload, once.
func TestWorkloadContinuesItsContainer(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		t.Run(fmt.Sprintf("restarted=%t", restarted), func(t *testing.T) {
			w := newWorld(t)
			c := w.container("chat-web-1")
			c.Restarts = 7
			w.target("web").Container = "chat-web-1"
			w.pass(time.Minute)
			c.Restarts = 9
			w.pass(time.Minute)
			c.Health, c.UnhealthyFor = Unhealthy, time.Second
			w.pass(3 * time.Minute)
			w.want("chat-web-1 ContainerRestarts warning 4m0s", "chat-web-1 ContainerUnhealthy warning 3m1s")
			if restarted {
				w.restart(true)
			}
			c.Name, c.Workload, c.Shared, c.Instances, c.Wanted = "chat-web-2", "chat/web", true, 1, 1
			c.Members, c.Was, c.Restarts = []string{"chat-web-2"}, []string{"chat-web-1"}, 2
			w.look()
			w.want("chat/web ContainerRestarts warning 4m0s", "chat/web ContainerUnhealthy warning 3m1s")
			first := w.last.Round.Events[0]
			if !first.Joins() || Subject(first.Was) != ContainerSubject("local", "chat-web-1") ||
				first.Subject() != WorkloadSubject("local", "chat/web") {
				t.Errorf("the round begins with %+v", first)
			}
			if s := w.last.Servers["web"]; s.Unseen {
				t.Errorf("the target has lost its container: %+v", s)
			}
			w.pass(3 * time.Minute)
			w.want("chat/web ContainerRestarts warning 7m0s", "chat/web ContainerUnhealthy critical 6m1s")
			w.restart(true)
			w.look()
			if slices.ContainsFunc(w.last.Round.Events, func(e Event) bool { return e.Joins() }) {
				t.Errorf("it moves again: %+v", w.last.Round.Events)
			}
			c.State, c.Instances = "exited", 0
			w.target("web").Up = false
			w.look()
			w.want("chat/web ContainerRestarts warning 7m0s", "chat/web ContainerDown pending 0s",
				"web TargetDown pending 0s container(chat/web)")
		})
	}
}

func TestRestartUnderAnotherNameIsReported(t *testing.T) {
	for _, count := range []uint64{8, 20} { // 12 are of instances that were forgotten
		w := newWorld(t)
		c := w.container("chat.1.a")
		c.Restarts = 7
		w.pass(time.Minute)
		c.Name, c.Workload, c.Shared, c.Instances, c.Wanted = "chat.1.b", "chat", true, 1, 1
		c.Members, c.Was, c.Restarts = []string{"chat.1.a", "chat.1.b"}, []string{"chat.1.a", "chat.1.b"}, count
		w.look()
		w.want("chat ContainerRestarts warning 0s")
	}
}

func TestSeveralContainersBecomeOneWorkload(t *testing.T) {
	w := newWorld(t)
	w.container("chat-web-1").State = "exited"
	w.pass(time.Minute)
	w.container("chat-web-2").State = "exited"
	w.pass(time.Minute)
	w.want("chat-web-1 ContainerDown warning 2m0s", "chat-web-2 ContainerDown pending 1m0s")
	w.Engines[0].Containers = w.Engines[0].Containers[1:]
	c := w.workload()
	c.State, c.Instances, c.Was = "exited", 0, []string{"chat-web-1", "chat-web-2"}
	w.look()
	w.want("chat/web ContainerDown warning 2m0s")
}

func TestOthersNeedAWorkloadByTheNamesOfItsInstances(t *testing.T) {
	w := newWorld(t)
	w.runs(2)
	w.container("api").DependsOn = []string{"chat-web-1"}
	w.pass(time.Minute)
	w.runs(1)
	w.container("api").State = "exited"
	w.pass(2 * time.Minute)
	w.want("chat/web ContainerDown warning 2m0s", "api ContainerDown warning 2m0s")
	w.container("api").State = Running
	w.runs(2)
	w.pass(5 * time.Minute)
	w.runs(0)
	w.container("api").State = "exited"
	w.pass(2 * time.Minute)
	w.want("chat/web ContainerDown warning 2m0s", "api ContainerDown pending 2m0s dependency(chat-web-1)")
}

func TestMaintenanceCoversAWorkloadAndItsContainers(t *testing.T) {
	for name, by := range map[string]Subject{
		"its instance": ContainerSubject("", "chat-web-1"), "its own": WorkloadSubject("", "chat/web"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.Maintenance = []Subject{by}
			w.target("web").Container = "chat-web-2"
			w.target("web").Up = false
			w.runs(0)
			w.pass(10 * time.Minute)
			w.want("chat/web ContainerDown pending 10m0s maintenance()", "web TargetDown pending 10m0s maintenance(chat-web-2)")
		})
	}
	w := newWorld(t)
	w.Maintenance = []Subject{WorkloadSubject("", "chat/db")}
	w.container("chat-db-1").Workload, w.container("chat-db-1").State = "chat/db", "exited"
	w.pass(10 * time.Minute)
	w.want("chat-db-1 ContainerDown pending 10m0s maintenance()")
}

func TestFailedOneShotIsAWarningUntilARunSucceeds(t *testing.T) {
	w := newWorld(t)
	c := w.container("backup")
	c.OneShot = true
	w.pass(time.Minute)
	end := func(code int) { c.State, c.Stopped, c.ExitCode = "exited", true, code }
	end(1)
	w.pass(time.Hour)
	w.want("backup OneShotFailed warning 1h0m0s")
	w.restart(true)
	c.State, c.Stopped = Running, false
	w.pass(time.Minute)
	w.want("backup OneShotFailed warning 1h1m0s")
	end(0)
	w.look()
	w.want()
	c.State, c.Stopped = Running, false
	w.pass(time.Minute)
	w.want()
}

// ill makes a container unhealthy for a while, then healthy for another.
func (w *world) ill(name string, bad, good time.Duration) {
	w.t.Helper()
	w.container(name).Health = Unhealthy
	w.pass(bad)
	w.container(name).Health = "healthy"
	w.pass(good)
}

func TestOftenUnhealthyIsCritical(t *testing.T) {
	w := newWorld(t)
	w.container("web").Health = "healthy"
	w.pass(time.Minute)
	for range 10 { // 4 of 6 minutes
		w.container("web").Health = Unhealthy
		w.pass(3 * time.Minute)
		w.container("web").Health = Starting
		w.pass(time.Minute)
		w.container("web").Health = "healthy"
		w.pass(2 * time.Minute)
	}
	w.want("web ContainerOftenUnhealthy critical 1h0m0s")
	w.restart(true)
	w.look()
	w.want("web ContainerOftenUnhealthy critical 1h0m0s")
	w.pass(30 * time.Minute)
	w.want()
}

func TestOftenUnhealthyLeavesOneAlert(t *testing.T) {
	w := newWorld(t)
	w.container("web").Health = "healthy"
	w.pass(time.Minute)
	w.ill("web", 35*time.Minute, 6*time.Minute) // one spell: ContainerUnhealthy has said so
	w.want()
	both := 0
	for range 400 {
		w.container("web").Health = []string{Unhealthy, Unhealthy, Unhealthy, Unhealthy, "healthy"}[both%5]
		both++
		w.pass(2 * time.Minute)
		often := slices.ContainsFunc(w.last.Problems, func(p Problem) bool { return p.Alert == AlertContainerOftenUnhealthy })
		critical := slices.ContainsFunc(w.last.Problems, func(p Problem) bool {
			return p.Alert == AlertContainerUnhealthy && p.Severity == Critical
		})
		if often && critical {
			t.Fatalf("both alerts: %+v", w.last.Problems)
		}
	}
}

func TestExcusedSpellsDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.container("web").Health = "healthy"
	w.pass(time.Minute)
	w.Maintenance = []Subject{ContainerSubject("", "web")}
	for range 10 {
		w.ill("web", 4*time.Minute, 2*time.Minute)
	}
	w.want()
}

// TestCrashLoopOfNewContainersIsNotOverBetweenThem: a container that removes itself does not exist before the next one is created.
func TestCrashLoopOfNewContainersIsNotOverBetweenThem(t *testing.T) {
	j, now := NewJudge(shippedRules()), time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	judge := func(restarts uint64, exists bool) *Judgement {
		now = now.Add(5 * time.Second)
		c := Container{
			Host:     "local",
			Name:     "web",
			State:    Running,
			Expected: true,
			Restarts: restarts,
		}
		e := Engine{Host: "local", Read: true}
		if exists {
			e.Containers = []Container{c}
		} else {
			e.Disappeared = []Container{c}
		}
		return j.Judge(&Facts{Now: now, Engines: []Engine{e}})
	}
	judge(0, true)
	for restarts := range uint64(5) {
		judge(restarts+1, true)
		problems := judge(restarts+1, false).Problems
		if len(problems) != 1 || problems[0].Alert != AlertContainerRestarts {
			t.Fatalf("after %d restarts: got %+v, want them to be a problem", restarts+1, problems)
		}
	}
}
