package health

import (
	"testing"
	"time"
)

// TestDownStaysDownUntilItIsRead loses the engine of a container that has just stopped, for a night.
func TestDownStaysDownUntilItIsRead(t *testing.T) {
	w := stack(t)
	w.target("docker").Engine = "local"
	w.look()
	w.container("db").State = "exited"
	w.lose("api")
	w.pass(30 * time.Second)
	read := w.now
	w.now = w.now.Add(10 * time.Second)
	w.loseEngine(true)
	w.pass(20 * time.Second)
	w.want("docker TargetDown pending 20s", "db ContainerDown pending 1m0s unknown", "api TargetDown pending 1m0s dependency(db)")
	w.pass(time.Second)
	w.want("docker TargetDown pending 21s", "db ContainerDown warning 1m1s unknown", "api TargetDown pending 1m1s dependency(db)")
	w.pass(4 * time.Minute)
	w.want("docker TargetDown warning 4m21s", "db ContainerDown critical 5m1s unknown", "api TargetDown pending 5m1s dependency(db)")
	w.pass(8 * time.Hour)
	w.want("docker TargetDown critical 8h4m21s", "db ContainerDown critical 8h5m1s unknown", "api TargetDown pending 8h5m1s dependency(db)")
	if p, _ := w.problem("db", AlertContainerDown); !p.LastKnown.Equal(read) {
		t.Errorf("last known at %s, want %s", p.LastKnown, read)
	}
	w.loseEngine(false)
	w.look()
	w.want("db ContainerDown critical 8h5m1s", "api TargetDown pending 8h5m1s dependency(db)")
	if p, _ := w.problem("db", AlertContainerDown); !p.LastKnown.IsZero() {
		t.Errorf("it is known now, and was last known at %s", p.LastKnown)
	}
	w.container("db").State, w.target("api").Up = Running, true
	w.look()
	w.want()
}

// TestNoAlertEndsBecauseNobodyLooked has an alert of each kind fire before the engine is lost, for longer than any window.
func TestNoAlertEndsBecauseNobodyLooked(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"missing", "removed", "down", "unhealthy", "often", "loop", "killed", "failed"} {
		w.container(name)
	}
	w.container("failed").OneShot = true
	for range 4 {
		w.pass(time.Minute)
		w.container("often").Health = Unhealthy
		w.pass(9 * time.Minute)
		w.container("often").Health = "healthy"
	}
	w.container("missing").State = Missing
	w.container("removed").State, w.container("removed").Removed = Missing, true
	w.container("down").State = "exited"
	w.container("unhealthy").Health = Unhealthy
	w.container("failed").State, w.container("failed").Stopped, w.container("failed").ExitCode = "exited", true, 1
	w.container("loop").Restarts, w.container("loop").State = 4, Restarting
	w.container("killed").Kills = 1
	w.pass(6 * time.Minute)
	alerts := func() map[string]Severity {
		list := map[string]Severity{}
		for _, p := range w.last.Problems {
			list[p.Name+" "+p.Alert] = p.Severity
		}
		return list
	}
	before := alerts()
	if len(before) != 8 {
		t.Fatalf("the alerts are %v, want 8", before)
	}
	w.Engines[0].Read = false
	for _, wait := range []time.Duration{time.Second, 20 * time.Minute, 8 * time.Hour} {
		w.now = w.now.Add(time.Second)
		w.pass(wait)
		for alert, severity := range before {
			if got, fires := alerts()[alert]; !fires || got != severity {
				t.Errorf("after %s, %s is %s, want %s", wait, alert, got, severity)
			}
		}
		for _, p := range w.last.Problems {
			if !p.Unknown || p.LastKnown.IsZero() || !p.Ends.IsZero() || !p.Eases.IsZero() {
				t.Errorf("after %s, %s of %s is not marked as last known: %+v", wait, p.Alert, p.Name, p)
			}
		}
		if events := w.last.Round.Events; len(events) > 0 {
			t.Errorf("after %s, something happened: %+v", wait, events)
		}
	}
}

// TestContainerWhoseTargetAnswersIsUp has the target of a container that was down when the engine was last read come back.
func TestContainerWhoseTargetAnswersIsUp(t *testing.T) {
	for name, change := range map[string]func(c *Container){
		"stopped": func(c *Container) { c.State = "exited" },
		"missing": func(c *Container) { c.State = Missing },
		"waits":   func(c *Container) { c.State, c.WaitsFor = "created", "db" },
	} {
		for _, inferred := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w := stack(t)
				if inferred {
					w.inferAPI()
					w.look()
				}
				change(w.container("api"))
				w.lose("api")
				w.pass(6 * time.Minute)
				w.Engines[0].Read = false
				w.pass(time.Hour)
				if p, known := w.problem("api", AlertTargetDown); !known || !p.Excuse.Holds() {
					t.Fatalf("the target has %+v, want an excuse", p)
				}
				w.target("api").Up = true
				w.look()
				w.want()
				if v := w.verdict("api"); !v.Known || v.Unknown {
					t.Errorf("the verdict is %+v, want that it is well", v)
				}
				ended := 0
				for _, e := range w.last.Round.Events {
					if e.Ended {
						ended++
					}
				}
				if ended != 2 {
					t.Errorf("%d problems ended, want the container's and the target's", ended)
				}
				w.target("api").Up = false // that is another outage, of which the last reading knows nothing
				w.pass(6 * time.Minute)
				w.want("api TargetDown critical 6m0s")
				if v := w.verdict("api"); !v.Unknown {
					t.Errorf("the verdict is %+v, want that nobody knows", v)
				}
				w.Engines[0].Read = true
				w.look()
				if p, known := w.problem("api", AlertContainerDown); name == "stopped" && (!known || p.Unknown) {
					t.Errorf("the container has %+v, want what was read now", p)
				}
			})
		}
	}
}

// TestAnswerFromBeforeTheReadingSaysNothing has the target answer, then the engine report that its container has stopped.
func TestAnswerFromBeforeTheReadingSaysNothing(t *testing.T) {
	w := stack(t)
	w.target("api").ReadAt = w.now
	w.now = w.now.Add(time.Second)
	w.container("api").State = "exited"
	w.look()
	w.Engines[0].Read = false
	w.pass(2 * time.Minute)
	w.want("api ContainerDown warning 2m0s unknown")
}

// TestInstancesThatRunAreNotRevived has a workload lack an instance, which its target cannot tell.
func TestInstancesThatRunAreNotRevived(t *testing.T) {
	w := newWorld(t)
	w.runs(1)
	w.target("web").Service = "chat/web"
	w.pass(2 * time.Minute)
	w.Engines[0].Read = false
	w.pass(time.Minute)
	w.want("chat/web ContainerDown warning 3m0s unknown")
	w.Engines[0].Read = true
	w.runs(0)
	w.workload().State = "exited"
	w.lose("web")
	w.pass(6 * time.Minute)
	w.now = w.now.Add(time.Second)
	w.Engines[0].Read = false
	w.target("web").Up = true
	w.look()
	w.want()
}

// TestLastKnownStateOutlivesARestart restarts the exporter while the engine cannot be read.
func TestLastKnownStateOutlivesARestart(t *testing.T) {
	w := stack(t)
	w.target("docker").Engine = "local"
	w.look()
	w.container("db").State, w.container("web").State = "exited", "exited"
	w.container("web").DependsOn = nil
	w.container("other").State, w.container("other").Elsewhere = "exited", true
	w.lose("web")
	w.pass(30 * time.Second)
	w.loseEngine(true)
	w.pass(10 * time.Second)
	w.restart(true)
	w.pass(time.Hour)
	w.want("docker TargetDown critical 1h0m10s", "db ContainerDown critical 1h0m40s unknown", "other ContainerDown warning 1h0m40s unknown",
		"web ContainerDown critical 1h0m40s unknown", "web TargetDown pending 1h0m40s container(web)")
	if w.last.Verdicts[TargetSubject("web")].Excuse.Root.Name != "web" {
		t.Errorf("the excuse has another root: %+v", w.last.Verdicts[TargetSubject("web")])
	}
	w.target("web").Up = true
	w.look()
	w.want("docker TargetDown critical 1h0m10s", "db ContainerDown critical 1h0m40s unknown",
		"other ContainerDown warning 1h0m40s unknown")
	w.lose("web")
	w.pass(time.Minute)
	w.want("docker TargetDown critical 1h1m10s", "db ContainerDown critical 1h1m40s unknown",
		"other ContainerDown warning 1h1m40s unknown", "web TargetDown pending 1m0s also(docker)")
}

// TestExcuseOfAStartEndsAfterARestart restarts the exporter while the engine cannot be read and a container starts, which has no alert.
func TestExcuseOfAStartEndsAfterARestart(t *testing.T) {
	w := stack(t)
	w.container("web").Health = Starting
	w.lose("web")
	w.look()
	w.Engines[0].Read = false
	w.pass(time.Minute)
	w.restart(true)
	w.pass(5 * time.Minute)
	w.want("web TargetDown pending 6m0s starting(web)")
	w.pass(time.Second)
	w.want("web TargetDown critical 6m1s")
}

// flappingWeb has a container that was down three times for 3 minutes, and its target.
func flappingWeb(t *testing.T) *world {
	t.Helper()
	w := stack(t)
	w.container("web").DependsOn = nil
	w.look()
	for range 3 {
		w.container("web").State = "exited"
		w.lose("web")
		w.pass(3 * time.Minute)
		w.container("web").State, w.target("web").Up = Running, true
		w.pass(5 * time.Minute)
	}
	w.want("web ContainerDown warning 24m0s")
	return w
}

// TestFlappingContainerStaysDownUntilItIsRead loses the engine at the beginning of another outage, also over a restart.
func TestFlappingContainerStaysDownUntilItIsRead(t *testing.T) {
	for _, restarts := range []time.Duration{0, time.Second, 4 * time.Minute} {
		w := flappingWeb(t)
		w.container("web").State = "exited"
		w.lose("web")
		w.pass(30 * time.Second)
		w.Engines[0].Read = false
		if w.pass(restarts); restarts > 0 {
			w.restart(true)
		}
		w.pass(4*time.Minute - restarts)
		w.want("web ContainerDown warning 28m30s unknown", "web TargetDown pending 4m30s container(web)")
		w.pass(6 * time.Minute)
		w.want("web ContainerDown critical 34m30s unknown", "web TargetDown pending 10m30s container(web)")
		if p := w.last.Problems[0]; p.UpAgain {
			t.Error("it is up again, want that it is down")
		}
	}
}

// TestFlappingContainerIsUpAgainIfItsTargetAnswers has it come back while the engine cannot be read, also over a restart.
func TestFlappingContainerIsUpAgainIfItsTargetAnswers(t *testing.T) {
	for _, restarts := range []bool{false, true} {
		w := flappingWeb(t)
		w.container("web").State = "exited"
		w.lose("web")
		w.pass(3 * time.Minute)
		w.Engines[0].Read = false
		w.pass(time.Minute)
		if restarts {
			w.restart(true)
			w.look()
		}
		w.target("web").Up = true
		w.pass(15 * time.Minute)
		if p, known := w.problem("web", AlertContainerDown); !known || !p.UpAgain || p.Outages != 4 || p.Severity != Warning {
			t.Errorf("after a restart %t, 15 minutes later: %+v, want four outages, and that it is up", restarts, p)
		}
		w.pass(time.Minute)
		w.want()
	}
}

// TestMaintenanceCountsAfterARestartToo restarts the exporter while the engine of a container that is down hangs. Maintenance of it that is
// over holds nothing back, and maintenance that has begun does.
func TestMaintenanceCountsAfterARestartToo(t *testing.T) {
	db := []Subject{ContainerSubject("", "db")}
	for _, c := range []struct {
		before, after []Subject
		want          string
	}{
		{db, nil, "db ContainerDown critical 22m0s unknown"},
		{db, db, "db ContainerDown pending 22m0s maintenance() unknown"},
		{nil, db, "db ContainerDown pending 22m0s maintenance() unknown"},
	} {
		w := newWorld(t)
		w.container("db")
		w.target("docker").Engine = "local"
		w.pass(time.Minute)
		w.Maintenance = c.before
		w.container("db").State = "exited"
		w.pass(time.Minute)
		w.loseEngine(true)
		w.restart(true)
		w.pass(time.Minute)
		w.Maintenance = c.after
		w.pass(20 * time.Minute)
		w.want("docker TargetDown critical 21m0s", c.want)
	}
}

// TestMaintenanceByAnotherNameCountsAfterARestartToo: that of a workload covers its containers, and the other way round, also the target of
// one, before the engine is read.
func TestMaintenanceByAnotherNameCountsAfterARestartToo(t *testing.T) {
	workload, instance := Subject{Kind: KindWorkload, Name: "chat/web"}, ContainerSubject("", "chat-web-2")
	for _, c := range []struct {
		shared bool
		by     Subject
		web    string
	}{
		{false, workload, "chat-web-2"},
		{true, workload, "chat/web"},
		{true, instance, "chat/web"},
	} {
		for _, after := range []bool{false, true} { // the restart
			w := newWorld(t)
			if w.container("chat-web-2").Workload = "chat/web"; c.shared {
				w.workload()
			}
			w.target("docker").Engine = "local"
			w.target("web").Container = "chat-web-2"
			w.pass(time.Minute)
			if !after {
				w.Maintenance = []Subject{c.by}
			}
			w.container("chat-web-2").State, w.container("chat-web-2").Instances = "exited", 0
			w.lose("web")
			w.pass(time.Minute)
			w.loseEngine(true)
			w.restart(true)
			w.Maintenance = []Subject{c.by}
			w.pass(20 * time.Minute)
			w.want("docker TargetDown critical 20m0s", c.web+" ContainerDown pending 21m0s maintenance() unknown",
				"web TargetDown pending 21m0s "+"maintenance(chat-web-2)")
		}
	}
}
