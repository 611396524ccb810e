package health

import (
	"reflect"
	"testing"
	"time"
)

// engineWorld is a target irc whose container is on the engine local, that engine's target docker, and a target without a container.
func engineWorld(t *testing.T, configure func(w *world)) *world {
	t.Helper()
	w := newWorld(t)
	w.container("irc").HostNames = []string{"irc"}
	w.target("elsewhere")
	w.target("irc").HostName = "irc"
	w.target("docker").Engine = "local"
	if configure != nil {
		configure(w)
	}
	w.pass(10 * time.Second)
	return w
}

// loseEngine has the engine and its target fail, or come back.
func (w *world) loseEngine(lost bool) { w.Engines[0].Read, w.target("docker").Up = !lost, !lost }

// lose has targets fail.
func (w *world) lose(targets ...string) {
	for _, name := range targets {
		w.target(name).Up = false
	}
}

// TestLostEngineExcusesItsTargets loses an engine with all that is on it, for an hour. Only what is known to be on it is excused, until the
// engine's own alert is critical.
func TestLostEngineExcusesItsTargets(t *testing.T) {
	for name, configure := range map[string]func(w *world){
		"found":                      nil,
		"configured":                 func(w *world) { w.target("irc").Container = "irc" },
		"configured with its engine": func(w *world) { w.target("irc").Container, w.target("irc").ContainerHost = "irc", "local" },
	} {
		w := engineWorld(t, configure)
		w.loseEngine(true)
		w.lose("irc", "elsewhere")
		w.look()
		w.want("docker TargetDown pending 0s", "elsewhere TargetDown pending 0s", "irc TargetDown pending 0s dependency(docker)")
		w.pass(4 * time.Minute)
		w.restart(true)
		w.pass(time.Minute)
		w.want("docker TargetDown warning 5m0s", "elsewhere TargetDown warning 5m0s", "irc TargetDown pending 5m0s dependency(docker)")
		if w.last.Next != minDuration {
			t.Errorf("%s: next after %s, want %s", name, w.last.Next, minDuration)
		}
		w.pass(time.Second)
		w.want("docker TargetDown critical 5m1s", "elsewhere TargetDown critical 5m1s", "irc TargetDown critical 5m1s also(docker)")
		w.pass(time.Hour)
		if got, want := w.last.Servers["irc"],
			(Server{Container: "irc", Host: "local", Inferred: configure == nil}); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: its container is %+v, want %+v", name, got, want)
		}
	}
}

// TestEngineThatIsBackExcusesNoLonger holds that what it excused has two minutes to come back, and not more than five in all.
func TestEngineThatIsBackExcusesNoLonger(t *testing.T) {
	for _, c := range []struct{ lost, left time.Duration }{
		{time.Minute, 2 * time.Minute}, {4 * time.Minute, time.Minute},
	} {
		w := engineWorld(t, nil)
		w.loseEngine(true)
		w.lose("irc")
		w.pass(c.lost)
		w.loseEngine(false)
		w.pass(c.left)
		if p, _ := w.problem("irc", AlertTargetDown); p.Excuse.Cause != "docker" {
			t.Errorf("lost for %s: the target is %s with the excuse %v", c.lost, p.Severity, p.Excuse)
		}
		w.pass(time.Second)
		if p, _ := w.problem("irc", AlertTargetDown); p.Severity == Pending {
			t.Errorf("lost for %s: the target is %s with the excuse %v", c.lost, p.Severity, p.Excuse)
		}
	}
}

// TestWhatAnEngineExcusedIsToldAtOnce has targets of a lost engine fail one after another, some of which come back, or the engine does.
func TestWhatAnEngineExcusedIsToldAtOnce(t *testing.T) {
	world := func() *world {
		w := engineWorld(t, func(w *world) {
			for _, name := range []string{"a", "b", "c"} {
				w.container(name)
				w.target(name).Container = name
				w.target("other " + name)
			}
		})
		w.lose("a")
		w.pass(time.Minute)
		w.loseEngine(true)
		w.pass(30 * time.Second)
		w.lose("b")
		w.pass(30 * time.Second)
		w.lose("c")
		return w
	}
	w := world()
	w.pass(4 * time.Minute)
	w.want("docker TargetDown warning 5m0s", "a TargetDown pending 6m0s dependency(docker)",
		"b TargetDown pending 4m30s dependency(docker)", "c TargetDown pending 4m0s dependency(docker)")
	w.wantCauses(map[string]string{"docker": "docker", "a": "docker", "b": "docker", "c": "docker"})
	w.pass(time.Second)
	w.want("docker TargetDown critical 5m1s", "a TargetDown critical 6m1s also(docker)",
		"b TargetDown critical 4m31s also(docker)", "c TargetDown critical 4m1s also(docker)")
	w.wantCauses(map[string]string{"docker": "docker", "a": "docker", "b": "docker", "c": "docker"})
	for _, name := range []string{"a", "b", "c"} { // the rules compare it
		if got := w.last.Verdicts[TargetSubject(name)].Down; got < 301*time.Second {
			t.Errorf("%s counts as down for %s", name, got)
		}
	}
	if p, _ := w.problem("docker", AlertTargetDown); len(p.Consequences) != 3 {
		t.Errorf("the consequences are %v, want three", p.Consequences)
	}
	if v := w.last.Verdicts[TargetSubject("docker")]; v.Engine != "local" || v.Unanswered != 3 {
		t.Errorf("on the engine %q, %d targets do not answer, want 3 on local", v.Engine, v.Unanswered)
	}

	w.restart(true)
	w.target("a").Up = true
	w.loseEngine(false)
	w.look()
	w.want("b TargetDown critical 4m31s", "c TargetDown critical 4m1s")
	w.wantCauses(map[string]string{"b": "b", "c": "b"})
	if v := w.last.Verdicts[TargetSubject("docker")]; v.Unanswered != 2 {
		t.Errorf("%d targets do not answer, want 2", v.Unanswered)
	}

	w = world() // the engine is back, but not they
	w.pass(3 * time.Minute)
	w.loseEngine(false)
	w.pass(time.Minute + time.Second)
	w.want("a TargetDown critical 6m1s", "b TargetDown critical 4m31s", "c TargetDown critical 4m1s")
	w.wantCauses(map[string]string{"a": "a", "b": "a", "c": "a"})
}

// TestWhatALostEngineDoesNotExcuse has targets that something else must have taken down.
func TestWhatALostEngineDoesNotExcuse(t *testing.T) {
	for name, c := range map[string]struct {
		configure func(w *world)
		between   time.Duration // from the engine's failure to the target's
		want      string
	}{
		"it failed a minute earlier":      {nil, -time.Minute, "irc TargetDown pending 6m0s dependency(docker)"},
		"it failed over a minute earlier": {nil, -61 * time.Second, "irc TargetDown critical 6m1s also(docker)"},
		"it failed a minute later":        {nil, time.Minute, "irc TargetDown pending 4m0s dependency(docker)"},
		"it failed over a minute later":   {nil, 61 * time.Second, "irc TargetDown warning 3m59s also(docker)"},
		"an engine that does not page":    {func(w *world) { w.target("docker").WarnOnly = true }, 0, "irc TargetDown warning 5m0s"},
		"nor does the target": {
			func(w *world) { w.target("docker").WarnOnly, w.target("irc").WarnOnly = true, true },
			0,
			"irc TargetDown pending 5m0s dependency(docker)",
		},
		"a container on another engine": {
			func(w *world) { w.target("irc").Container, w.target("irc").ContainerHost = "irc", "far" }, 0, "irc TargetDown warning 5m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := engineWorld(t, c.configure)
			if c.between < 0 {
				w.lose("irc")
				w.pass(-c.between)
				w.loseEngine(true)
				w.pass(5 * time.Minute)
			} else {
				w.loseEngine(true)
				w.pass(c.between)
				w.lose("irc")
				w.pass(5*time.Minute - c.between)
			}
			w.want("docker TargetDown warning 5m0s", c.want)
		})
	}
}

// TestEngineUnderMaintenanceHoldsBackForAsLong holds that it is told in neither case, and hides nothing once it answers.
func TestEngineUnderMaintenanceHoldsBackForAsLong(t *testing.T) {
	w := engineWorld(t, nil)
	w.Maintenance = []Subject{TargetSubject("docker")}
	w.loseEngine(true)
	w.lose("irc")
	w.pass(time.Hour)
	w.want("docker TargetDown pending 1h0m0s maintenance()", "irc TargetDown pending 1h0m0s maintenance(docker)")
	w.loseEngine(false)
	w.pass(2*time.Minute + time.Second)
	w.want("irc TargetDown critical 1h2m1s")
}

// TestMaintenanceOfAnEngineHoldsBackWhatBeginsWithItsLoss has a session of a bridge's check end, whose container is known or not. A problem
// that began before the loss is none of the maintenance's, so its alert still fires.
func TestMaintenanceOfAnEngineHoldsBackWhatBeginsWithItsLoss(t *testing.T) {
	for name, before := range map[string]time.Duration{"known": 0, "unknown": unreadGrace + time.Minute} {
		for _, c := range []struct {
			earlier time.Duration
			want    string
		}{
			{time.Minute, "x RelaySessionDown pending 6m0s maintenance(docker)"},
			{61 * time.Second, "x RelaySessionDown warning 6m1s also(docker)"},
		} {
			t.Run(name+", "+c.earlier.String(), func(t *testing.T) {
				w := relayWorld(t)
				w.target("docker").Engine = "local"
				w.pass(time.Minute)
				w.Engines[0].Read = false
				w.pass(before) // its containers are forgotten; its target still seems well
				w.relay(AlertRelaySessionDown + " irc")
				w.pass(c.earlier)
				w.Maintenance = []Subject{TargetSubject("docker")}
				w.loseEngine(true)
				w.pass(5 * time.Minute)
				w.want("docker TargetDown pending 5m0s maintenance()", c.want)
			})
		}
	}
}

// TestEngineThatWasNeverReadExcuses begins with a lost engine, of which nobody knows for five minutes how long it has been down.
func TestEngineThatWasNeverReadExcuses(t *testing.T) {
	w := newWorld(t)
	w.target("irc").Container = "irc"
	w.target("docker").Engine = "local"
	w.lose("irc")
	w.target("docker").Read = false
	w.Engines[0].Read = false
	w.pass(30 * time.Second)
	w.loseEngine(true)
	w.target("docker").Read = true
	w.pass(5 * time.Minute)
	w.want("docker TargetDown pending 5m0s", "irc TargetDown pending 5m30s dependency(docker)")
	w.pass(time.Second)
	w.want("docker TargetDown critical 5m1s", "irc TargetDown critical 5m31s also(docker)")

	w.Engines = append(w.Engines, Engine{Host: "far"}) // it may be there
	w.look()
	w.want("docker TargetDown critical 5m1s", "irc TargetDown critical 5m31s")
}

// TestContainerStaysTheCauseOnALostEngine holds that the container stays the cause that was down before its engine was lost.
func TestContainerStaysTheCauseOnALostEngine(t *testing.T) {
	w := engineWorld(t, nil)
	w.container("irc").State = "exited"
	w.lose("irc")
	w.pass(time.Minute)
	w.loseEngine(true)
	w.pass(time.Minute)
	w.want("docker TargetDown pending 1m0s", "irc ContainerDown warning 2m0s unknown", "irc TargetDown pending 2m0s container(irc)")
	w.pass(3 * time.Hour)
	w.want("docker TargetDown critical 3h1m0s", "irc ContainerDown critical 3h2m0s unknown", "irc TargetDown pending 3h2m0s container(irc)")
}

// TestContainerIsWhereItWasSeenLast changes how a target's container is found, or where it is, around the loss of an engine.
// Twenty minutes are longer than a container is taken to be where it was.
func TestContainerIsWhereItWasSeenLast(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		want   Server
	}{
		"nothing changes":       {func(*world) {}, Server{Container: "irc", Host: "local", Inferred: true}},
		"its address changes":   {func(w *world) { w.target("irc").HostName = "other" }, Server{}},
		"its container is told": {func(w *world) { w.target("irc").Container = "other" }, Server{Container: "other"}},
		"it moved": {
			func(w *world) {
				w.Engines[1].Containers = []Container{{
					Host:      "far",
					Name:      "irc",
					State:     Running,
					HostNames: []string{"irc"},
				}}
			},
			Server{Container: "irc", Host: "far", Inferred: true},
		},
		"it was removed, and the other engine is lost": {
			func(w *world) {
				w.Engines[0].Read, w.Engines[0].Containers, w.Engines[1].Read = true, nil, false
				w.pass(3 * time.Minute)
			},
			Server{},
		},
	} {
		w := engineWorld(t, func(w *world) { w.Engines = append(w.Engines, Engine{Host: "far", Read: true}) })
		w.loseEngine(true)
		w.pass(20 * time.Minute)
		c.change(w)
		w.look()
		if got := w.last.Servers["irc"]; !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: its container is %+v, want %+v", name, got, c.want)
		}
	}
}

// TestOnlyAnUnreadEngineMayHaveAnUnknownContainer asks for the engine of a container that no engine was seen to have.
func TestOnlyAnUnreadEngineMayHaveAnUnknownContainer(t *testing.T) {
	for name, c := range map[string]struct {
		container string
		engines   []Engine
		want      string
	}{
		"the only engine, unread":   {"irc", []Engine{{Host: "local"}}, "local"},
		"the only engine, read":     {"irc", []Engine{{Host: "local", Read: true}}, ""},
		"no container is told":      {"", []Engine{{Host: "local"}}, ""},
		"one of two engines unread": {"irc", []Engine{{Host: "local"}, {Host: "far", Read: true}}, ""},
	} {
		w := newWorld(t)
		w.target("irc").Container = c.container
		w.Engines = c.engines
		w.look()
		if got := w.last.Servers["irc"].Host; got != c.want {
			t.Errorf("%s: the engine is %q, want %q", name, got, c.want)
		}
	}
}

// TestEngineBehindItsOwnContainer has the engine asked through a container on it, which explains no outage of the engine.
func TestEngineBehindItsOwnContainer(t *testing.T) {
	w := engineWorld(t, func(w *world) {
		w.container("proxy").HostNames = []string{"proxy"}
		w.target("docker").HostName = "proxy"
	})
	w.loseEngine(true)
	w.pass(time.Hour)
	w.want("docker TargetDown critical 1h0m0s")
}

// TestLostEngineIsSavedOnce holds that an engine's loss and return, and where a container is, are saved at once and once.
func TestLostEngineIsSavedOnce(t *testing.T) {
	w := engineWorld(t, nil)
	for _, step := range []struct {
		name   string
		change func()
		want   bool
	}{
		{"nothing", func() {}, false},
		{"the engine is lost", func() { w.loseEngine(true) }, true},
		{"it stays lost", func() {}, false},
		{"it is back", func() { w.loseEngine(false) }, true},
		{"it stays", func() {}, false},
		{"another name for the target", func() { w.container("irc").HostNames, w.target("irc").HostName = []string{"new"}, "new" }, true},
		{"it keeps that", func() {}, false},
	} {
		w.judge.Memory(w.now)
		step.change()
		w.pass(2 * time.Second)
		if got := w.judge.Changed(); got != step.want {
			t.Errorf("%s: changed is %v, want %v", step.name, got, step.want)
		}
	}
}

// TestEndedLossIsForgotten holds that nothing is kept of an engine that is back for longer than it may excuse, or is gone.
func TestEndedLossIsForgotten(t *testing.T) {
	w := engineWorld(t, nil)
	known := func(want int) {
		t.Helper()
		if got := len(w.judge.unavailable); got != want {
			t.Errorf("%d losses are known, want %d", got, want)
		}
	}
	w.loseEngine(true)
	w.pass(10 * time.Minute)
	w.loseEngine(false)
	w.pass(2 * time.Minute)
	known(1)
	w.pass(time.Second)
	known(0)
	w.loseEngine(true)
	w.look()
	known(1)
	w.Targets = w.Targets[:0]
	w.look()
	known(0)
}

// TestLostEngineHoldsBackUntilItIsTold holds that an engine whose alert does not come, for whatever reason, excuses nothing for longer.
func TestLostEngineHoldsBackUntilItIsTold(t *testing.T) {
	for _, c := range []struct {
		root  Subject
		lasts time.Duration
		want  bool
	}{
		{TargetSubject("docker"), 5 * time.Minute, true},
		{TargetSubject("docker"), 5*time.Minute + time.Second, false},
		{ContainerSubject("local", "db"), time.Minute, false},
	} {
		w := newWorld(t)
		w.judge.unavailable[c.root] = &span{Began: w.now.Add(-c.lasts)}
		w.Now = w.now
		lost := cause{Excuse: Excuse{Reason: ReasonDependency, Root: c.root}}
		if got := w.judge.look(&w.Facts).mayHoldBack(&lost, time.Hour); got != c.want {
			t.Errorf("%v, lost for %s: holds back is %v", c.root, c.lasts, got)
		}
	}
}

// TestTargetThatWasWellWithoutItsEnginePagesAfterARestart restarts the exporter while an engine is lost, whose target goes down then.
func TestTargetThatWasWellWithoutItsEnginePagesAfterARestart(t *testing.T) {
	w := engineWorld(t, nil)
	w.loseEngine(true)
	w.pass(3 * time.Hour)
	w.restart(true)
	w.lose("irc")
	w.pass(10 * time.Minute)
	w.want("docker TargetDown critical 3h10m0s", "irc TargetDown critical 10m0s also(docker)")
}
