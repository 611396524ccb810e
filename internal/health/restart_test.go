package health

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestLongProblemOutlivesARestart(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.target("api").Up = false
	w.pass(time.Hour)
	memory := w.judge.Memory(w.now) // nothing changes any more, so that nothing is saved
	w.now = w.now.Add(time.Hour)
	w.resume(&memory)
	w.Engines[0].Read, w.target("api").Read, w.target("web").Read = false, false, false
	w.pass(14 * time.Minute)
	w.want("db ContainerDown critical 2h14m0s unknown", "api TargetDown pending 2h14m0s dependency(db) unknown")
	w.Engines[0].Read, w.target("api").Read, w.target("web").Read = true, true, true
	w.look()
	w.want("db ContainerDown critical 2h14m0s", "api TargetDown pending 2h14m0s dependency(db)")
}

// unread has nothing read at first, as when the process has just started.
func (w *world) unread(is bool) {
	w.Engines[0].Read = !is
	for i := range w.Targets {
		w.Targets[i].Read = !is
	}
}

func TestTimeWithoutAnExporterMakesNothingWorse(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.target("web").Up = false
	w.container("web").State, w.container("web").DependsOn = "exited", nil
	w.container("api").DependsOn = nil
	w.target("api").Up = false
	w.pass(30 * time.Second)
	memory := w.judge.Memory(w.now)
	w.now = w.now.Add(time.Hour)
	w.resume(&memory)
	w.unread(true)
	w.pass(time.Minute)
	w.want("db ContainerDown pending 1m0s unknown", "web ContainerDown pending 1m0s unknown", "api TargetDown pending 2m0s unknown",
		"web TargetDown pending 1h1m30s container(web) unknown")
	w.unread(false)
	w.target("web").Up = true
	w.container("web").State = Running
	w.look()
	w.want("db ContainerDown critical 1h1m30s", "api TargetDown critical 1h1m30s")
}

func TestRestartsOutliveARestartBeforeTheEngineIsRead(t *testing.T) {
	w := stack(t)
	w.container("web").Restarts = 4
	w.pass(time.Minute)
	w.restart(true)
	w.unread(true)
	w.pass(9 * time.Minute)
	recent := func() uint64 { return w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts }
	if got := recent(); got != 4 {
		t.Errorf("%d recent restarts before the engine was read, want 4", got)
	}
	w.pass(time.Hour)
	if got := recent(); got != 4 {
		t.Errorf("%d recent restarts while nobody can count, want 4", got)
	}
	w.unread(false)
	w.look()
	if got := recent(); got != 0 {
		t.Errorf("%d recent restarts after the window, want 0", got)
	}
}

func TestConditionOutlivesARestart(t *testing.T) {
	begin := func() *world {
		w := stack(t)
		w.target("web").Conditions = []Condition{
			{Alert: AlertComponentDisconnected, Of: "bridge", Holds: true},
			{Alert: AlertModuleProblem, Of: "x", Modules: []string{"mam"}},
			{Alert: AlertServedNotRenewed, Holds: true, Certificates: []Validity{{Ends: w.now.Add(24 * time.Hour)}}},
			{
				Alert:        AlertServedNotRenewed,
				Of:           "later",
				Holds:        true,
				Certificates: []Validity{{Ends: w.now.Add(240 * time.Hour)}},
			},
		}
		w.pass(61 * time.Minute)
		w.restart(true)
		w.target("web").Conditions = nil
		w.unread(true)
		w.look()
		return w
	}
	all := func(lasted string) []string {
		return []string{
			"web XMPPComponentDisconnected critical " + lasted + " unknown", "web XMPPModuleProblem warning " + lasted + " unknown",
			"web TLSServedNotRenewed warning " + lasted + " unknown", "web TLSServedNotRenewed critical " + lasted + " unknown",
		}
	}
	w := begin()
	w.want(all("1h1m0s")...)
	if got := len(w.last.Conditions); got != 5 {
		t.Errorf("%d verdicts on conditions, want 5: %v", got, w.last.Conditions)
	}
	w.target("web").Up = false
	w.unread(false)
	w.look() // it is read, and has nothing to say
	w.want(append(all("1h1m0s"), "web TargetDown pending 0s")...)
	w.pass(8 * time.Hour)
	w.want(append(all("9h1m0s"), "web TargetDown critical 8h0m0s")...)

	w = begin()
	w.unread(false)
	w.look()
	w.want()

	w = begin()
	w.target("web").Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "bridge", Holds: true}}
	w.unread(false)
	w.look()
	w.want("web XMPPComponentDisconnected critical 1h1m0s")
}

func TestExcuseBySomethingStartingOutlivesARestart(t *testing.T) {
	w := stack(t)
	w.container("web").Health, w.target("web").Up = Starting, false
	w.pass(3 * time.Minute)
	w.restart(true)
	w.now = w.now.Add(time.Second)
	w.unread(true)
	w.look()
	w.want("web TargetDown pending 3m1s starting(web) unknown")
	w.unread(false)
	w.look()
	w.want("web TargetDown pending 3m1s starting(web)")
}

func TestContainerMadeAnewKeepsItsClockAndRestarts(t *testing.T) {
	w := stack(t)
	vanish := func(d time.Duration, problems ...string) {
		all := w.Engines[0].Containers
		w.Engines[0].Containers = slices.DeleteFunc(slices.Clone(all), func(c Container) bool { return c.Name == "db" })
		w.pass(d)
		w.want(problems...)
		w.Engines[0].Containers = all
	}
	w.container("db").State, w.container("db").Restarts = "exited", 2
	w.pass(4 * time.Minute)
	vanish(time.Minute, "db ContainerRestarts warning 5m0s")
	w.container("db").State = "created"
	w.look()
	w.want("db ContainerDown warning 5m0s", "db ContainerRestarts warning 5m0s")
	if got := w.last.Verdicts[ContainerSubject("local", "db")].RecentRestarts; got != 2 {
		t.Errorf("%d recent restarts, want 2", got)
	}
	vanish(3 * time.Minute)
	w.look()
	w.want("db ContainerDown pending 0s")
	if got := w.last.Verdicts[ContainerSubject("local", "db")].RecentRestarts; got != 0 {
		t.Errorf("%d recent restarts, want 0", got)
	}
}

func TestNothingGrowsWithNamesThatAreNeverUsedTwice(t *testing.T) {
	w := stack(t)
	for i := range 1000 {
		w.Engines[0].Containers = w.Engines[0].Containers[:3]
		w.Targets = w.Targets[:2]
		name := fmt.Sprintf("job-%d", i)
		*w.container(name) = Container{
			Host:     "local",
			Name:     name,
			State:    "exited",
			Expected: true,
			Restarts: uint64(i),
		}
		w.target(name).Up = false
		w.target(name).Conditions = []Condition{{Alert: AlertChainInvalid, Holds: true}}
		w.pass(time.Minute)
		w.target(name).Up = true
		w.look()
	}
	j := w.judge
	if n := len(j.problems) + len(j.restarts) + len(j.unavailable) + len(j.targets); n > 30 {
		t.Errorf("%d things are remembered: %d problems, %d restarts, %d spans", n, len(j.problems), len(j.restarts), len(j.unavailable))
	}
}

func TestEngineThatIsNotConfiguredAnyMoreLeavesNothing(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.container("web").Restarts = 1
	w.pass(10 * time.Minute)
	w.restart(true)
	w.Engines[0].Host = "other"
	w.Engines[0].Containers = nil
	w.look()
	w.want("api MonitoringGap pending 0s", "web MonitoringGap pending 0s") // whose containers no engine has
}

func TestRemovedContainerStaysRemovedUntilItsEngineIsRead(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.container("db").Removed = Missing, true
	w.container("web").State = Missing
	w.pass(10 * time.Minute)
	for range 2 {
		db, web := w.last.Verdicts[ContainerSubject("local", "db")], w.last.Verdicts[ContainerSubject("local", "web")]
		if db.Removed < 10*time.Minute || db.Missing != 0 || web.Removed != 0 || web.Missing < 10*time.Minute {
			t.Errorf("got %+v and %+v, want one removed and one missing", db, web)
		}
		w.restart(true)
		w.unread(true)
		w.look()
		w.want("db ContainerMissing warning 10m0s unknown", "web ContainerMissing critical 10m0s unknown")
	}
}

// without has a container vanish, as in the middle of a deploy.
func (w *world) without(name string, look func()) {
	all := w.Engines[0].Containers
	w.Engines[0].Containers = slices.DeleteFunc(slices.Clone(all), func(c Container) bool { return c.Name == name })
	look()
	w.Engines[0].Containers = all
}

func TestRepairOfACauseTellsNothing(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.target("api").Up = false
	w.pass(10 * time.Minute)
	w.without("db", func() {
		w.pass(50 * time.Second)
		w.want("api TargetDown pending 10m50s dependency(db)")
	})
	w.container("db").State, w.container("db").Health = Running, Starting
	w.pass(time.Minute)
	w.want("api TargetDown pending 11m50s dependency(db)")
	w.container("db").Health = "healthy"
	w.target("api").Up = true
	w.look()
	w.want()

	w.container("web").State = "exited"
	w.target("web").Up = false
	w.pass(10 * time.Minute)
	w.without("web", func() {
		w.pass(50 * time.Second)
		w.want("web TargetDown pending 10m50s container(web)")
	})
}

func TestRestartsWhileNobodyLookedAreNotRecent(t *testing.T) {
	for gap, want := range map[time.Duration]uint64{9 * time.Minute: 5, 10 * time.Minute: 5, 10*time.Minute + time.Second: 0} {
		recent := func(w *world) uint64 {
			w.container("web").Restarts += 5
			w.look()
			return w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts
		}
		w := stack(t)
		w.Engines[0].Read = false
		w.pass(gap)
		w.Engines[0].Read = true
		if got := recent(w); got != want {
			t.Errorf("the engine was not read for %s: %d recent restarts, want %d", gap, got, want)
		}
		w = stack(t)
		w.pass(time.Hour)
		if !w.judge.Changed() {
			t.Error("nothing is to be saved after an hour")
		}
		memory := w.judge.Memory(w.now)
		if w.judge.Changed() {
			t.Error("something is to be saved at once again")
		}
		w.now = w.now.Add(gap)
		w.resume(&memory)
		if got := recent(w); got != want {
			t.Errorf("the exporter was away for %s: %d recent restarts, want %d", gap, got, want)
		}
	}
}

func TestStartThatEndsAToldAlertIsNoRestart(t *testing.T) {
	for _, tt := range []struct {
		name   string
		lasted time.Duration
		state  string
		starts uint64
		want   uint64
	}{
		{
			"it was down for a moment",
			time.Minute,
			Running,
			1,
			1,
		},
		{
			"it was told as down",
			61 * time.Second,
			Running,
			1,
			0,
		},
		{
			"it was told as down, and ended again at once",
			61 * time.Second,
			Running,
			3,
			2,
		},
		{
			"it was told as down, and is started again and again",
			61 * time.Second,
			Restarting,
			1,
			1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := stack(t)
			web := w.container("web")
			web.State, web.DependsOn = "exited", nil
			w.look()
			w.pass(tt.lasted)
			web.State, web.Restarts = tt.state, tt.starts
			w.look()
			recent := func() uint64 { return w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts }
			if got := recent(); got != tt.want {
				t.Errorf("%d recent restarts, want %d", got, tt.want)
			}
			web.State, web.Restarts = Running, tt.starts+1
			w.pass(time.Minute)
			if got := recent(); tt.state == Running && got != tt.want+1 {
				t.Errorf("%d recent restarts after another one, want %d", got, tt.want+1)
			}
		})
	}
}

// TestStartThatIsKnownBeforeItsContainerRunsIsNoRestart has an engine report a start before it describes the container that runs.
func TestStartThatIsKnownBeforeItsContainerRunsIsNoRestart(t *testing.T) {
	for _, tt := range []struct {
		name, state string
		want        uint64
	}{
		{"it runs", Running, 0},
		{"it has ended again", "exited", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := stack(t)
			web := w.container("web")
			web.State, web.DependsOn, w.target("web").Up = "exited", nil, false
			w.look()
			w.pass(3 * time.Minute)
			web.Restarts = 1
			recent := func(what string, want uint64) {
				t.Helper()
				if got := w.last.Verdicts[ContainerSubject("local", "web")].RecentRestarts; got != want {
					t.Errorf("%s: %d recent restarts, want %d", what, got, want)
				}
			}
			w.look()
			recent("the start is known", 0)
			w.Engines[0].Read = false
			w.pass(30 * time.Second)
			recent("the engine was not read again", 0)
			w.Engines[0].Read, web.State = true, tt.state
			w.look()
			recent("the container is described", tt.want)
			web.Restarts++
			w.pass(time.Minute)
			recent("it was restarted", tt.want+1)
		})
	}
}

// TestRestartsBeginWithTheFirstThatCounts has a container started again, which ends the alert that it is down, and restarted later.
func TestRestartsBeginWithTheFirstThatCounts(t *testing.T) {
	w := newWorld(t)
	w.container("x")
	w.look()
	w.container("x").State = "exited"
	w.pass(2 * time.Minute)
	w.container("x").State, w.container("x").Restarts = Running, 1
	w.pass(3 * time.Minute)
	w.container("x").Restarts = 2
	w.pass(time.Minute)
	w.want("x ContainerRestarts warning 1m0s")
}

// TestEngineThatIsNotConfiguredAnyMoreEndsItsProblems holds the same without a restart.
func TestEngineThatIsNotConfiguredAnyMoreEndsItsProblems(t *testing.T) {
	w := newWorld(t)
	w.container("db").State = "exited"
	w.pass(10 * time.Minute)
	w.want("db ContainerDown critical 10m0s")
	w.Engines[0].Host, w.Engines[0].Containers = "other", nil
	w.look()
	w.want()
}

// TestWhatIsCountedIsKnownUntilTheEngineIsRead holds who has a verdict after a restart: a container that was restarted or lost a process.
func TestWhatIsCountedIsKnownUntilTheEngineIsRead(t *testing.T) {
	w := newWorld(t)
	w.container("restarted")
	w.container("killed")
	w.container("well")
	w.look()
	w.container("restarted").Restarts, w.container("killed").Kills = 1, 1
	w.pass(time.Minute)
	saved := w.now
	w.restart(true)
	w.unread(true)
	w.look()
	for name, want := range map[string]Verdict{
		"restarted": {
			Known:          true,
			Unknown:        true,
			LastKnown:      saved,
			RecentRestarts: 1,
		},
		"killed": {
			Known:       true,
			Unknown:     true,
			LastKnown:   saved,
			RecentKills: 1,
		},
		"well": {},
	} {
		if got := w.verdict(name); got != want {
			t.Errorf("%s: the verdict is %+v, want %+v", name, got, want)
		}
	}
}

// TestGapThatEndedDuringARestartIsOver has the exporter find the container again before it has read the target.
func TestGapThatEndedDuringARestartIsOver(t *testing.T) {
	w := newWorld(t)
	w.target("web").Container = "web"
	w.pass(time.Hour)
	w.want("web MonitoringGap warning 1h0m0s")
	w.restart(true)
	w.target("web").Read = false
	w.container("web")
	w.look()
	w.want()
}

// TestOneFailedReadingIsSaved holds the least that the next process must know of failed readings.
func TestOneFailedReadingIsSaved(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	if m := w.judge.Memory(w.now); len(m.Failures) != 0 {
		t.Errorf("%v is saved of no failure", m.Failures)
	}
	w.readings("F")
	if m := w.judge.Memory(w.now); len(m.Failures) != 1 {
		t.Errorf("%v is saved of one failure", m.Failures)
	}
}
