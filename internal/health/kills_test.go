package health

import (
	"slices"
	"testing"
	"time"
)

// kills are how many kills the container has survived lately.
func (w *world) kills() uint64 { return w.verdict("x").RecentKills }

func TestKillThatTheContainerSurvivesIsWarnedOf(t *testing.T) {
	w := newWorld(t)
	w.container("x").Kills = 7
	w.pass(time.Hour)
	w.want()
	w.container("x").Kills = 9
	w.pass(30 * time.Second)
	w.want()
	if w.last.Next != time.Millisecond {
		t.Errorf("the next judgement is after %s, want at once", w.last.Next)
	}
	w.pass(time.Second)
	w.want("x ContainerOOMKill warning 31s")
	w.container("x").Kills = 10
	w.pass(time.Minute)
	if n := w.kills(); n != 3 {
		t.Errorf("%d kills, want 3", n)
	}
	w.pass(8*time.Minute + 29*time.Second) // 10 minutes after the first two
	w.want("x ContainerOOMKill warning 10m0s")
	if p := w.last.Problems[0]; p.Ends.Sub(w.now) != 31*time.Second || p.Severity != Warning {
		t.Errorf("ends in %s, want 10 minutes after the last kill", p.Ends.Sub(w.now))
	}
	w.pass(time.Second)
	w.want("x ContainerOOMKill warning 9m30s")
	w.pass(31 * time.Second)
	w.want()
}

func TestKillThatEndsTheContainerIsNoKillOfAnAlert(t *testing.T) {
	for name, c := range map[string]struct {
		before, after time.Duration // the end is so long before or after the kill
		end           func(c *Container)
		want          uint64
	}{
		"at once": {
			0,
			0,
			func(c *Container) { c.State = "exited" },
			0,
		},
		"soon": {
			0,
			30 * time.Second,
			func(c *Container) { c.State = Restarting },
			0,
		},
		"restarted": {
			0,
			10 * time.Second,
			func(c *Container) { c.Restarts++ },
			0,
		},
		"told after the restart": {
			30 * time.Second,
			0,
			func(c *Container) { c.Restarts++ },
			0,
		},
		"long after the restart": {
			31 * time.Second,
			0,
			func(c *Container) { c.Restarts++ },
			1,
		},
		"the end comes a while later": {
			0,
			31 * time.Second,
			func(c *Container) { c.State = "exited" },
			1,
		},
		"paused": {
			0,
			10 * time.Second,
			func(c *Container) { c.State = Paused },
			1,
		},
	} {
		w := newWorld(t)
		w.container("x")
		w.look()
		if c.before > 0 {
			c.end(w.container("x"))
			w.look()
			w.now = w.now.Add(c.before)
		}
		w.container("x").Kills++
		w.look()
		w.now = w.now.Add(c.after)
		if c.before == 0 {
			c.end(w.container("x"))
		}
		w.pass(2 * time.Minute)
		if n := w.kills(); n != c.want {
			t.Errorf("%s: %d kills, want %d", name, n, c.want)
		}
	}
}

// TestKillsBeforeItWasSeenDoNotCount has a new container that comes with kills.
func TestKillsBeforeItWasSeenDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.look()
	w.container("x").Kills = 1
	w.pass(time.Minute)
	w.want()
}

func TestKillIsSavedAtOnce(t *testing.T) {
	w := newWorld(t)
	w.container("x")
	w.pass(time.Minute)
	for _, want := range []bool{true, false} {
		w.judge.Memory(w.now)
		w.container("x").Kills = 1
		w.now = w.now.Add(time.Second)
		w.look()
		if got := w.judge.Changed(); got != want {
			t.Errorf("changed is %v, want %v", got, want)
		}
	}
}

func TestKillsUnderMaintenanceDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.container("x")
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "x"}}
	w.look()
	w.container("x").Kills = 1
	w.pass(time.Minute)
	w.Maintenance = nil
	w.pass(time.Minute)
	w.want()
}

func TestKillsOutliveARestartOfTheExporter(t *testing.T) {
	w := newWorld(t)
	w.container("x")
	w.look()
	w.container("x").Kills = 1
	w.pass(time.Minute)
	w.restart(true)
	w.Engines[0].Read = false
	w.look()
	w.want("x ContainerOOMKill warning 1m0s unknown")
	w.Engines[0].Read = true
	w.look()
	w.want("x ContainerOOMKill warning 1m0s")
	w.container("x").Kills = 2
	w.look()
	w.Engines[0].Read = false
	w.pass(2 * time.Minute)
	if n := w.kills(); n != 1 {
		t.Errorf("%d kills, want 1: nobody has seen the container run on after the other", n)
	}
	w.Engines[0].Read = true
	w.now = w.now.Add(20 * time.Minute)
	w.container("x").Kills = 3
	w.pass(time.Minute)
	w.want() // nobody knows when that was
}

func TestInodesAreJudgedLikeTheSpaceOfAVolume(t *testing.T) {
	for _, c := range []struct {
		used  float64
		lasts time.Duration
		want  string
	}{
		{0.90, time.Hour, ""},
		{0.901, 5 * time.Minute, "data DataVolumeInodes pending 5m0s"},
		{0.901, 5*time.Minute + time.Second, "data DataVolumeInodes warning 5m1s"},
		{0.97, time.Hour, "data DataVolumeInodes warning 1h0m0s"},
		{0.971, time.Minute, "data DataVolumeInodes pending 1m0s"},
		{0.971, time.Minute + time.Second, "data DataVolumeInodes critical 1m1s"},
	} {
		w := newWorld(t)
		w.target("data").be("volume")
		w.target("data").Conditions = []Condition{{Alert: AlertVolumeInodes, Used: 0.5}, {Alert: AlertVolumeUsage, Used: 0.5}}
		w.look()
		both := []ConditionVerdict{
			{Target: "data", Alert: AlertVolumeInodes, Severity: Warning}, {Target: "data", Alert: AlertVolumeInodes, Severity: Critical},
		}
		if !slices.Equal(w.last.Conditions, both) {
			t.Errorf("while all is well: %v, want %v", w.last.Conditions, both)
		}
		w.target("data").Conditions[0].Used = c.used
		w.pass(c.lasts)
		w.want(lines(c.want)...)
		if c.used > 0.9 {
			both[0].Lasted = c.lasts
		}
		if c.used > 0.97 {
			both[1].Lasted = c.lasts
		}
		if !slices.Equal(w.last.Conditions, both) {
			t.Errorf("%g used: %v, want %v", c.used, w.last.Conditions, both)
		}
	}
}

func TestInodesOfWhichNobodyKnows(t *testing.T) {
	w := newWorld(t)
	data := w.target("data")
	data.be("volume")
	data.Conditions = []Condition{{Alert: AlertVolumeInodes, Used: 0.95}}
	w.Maintenance = []Subject{TargetSubject("data")}
	w.pass(10 * time.Minute)
	w.want("data DataVolumeInodes pending 10m0s maintenance()")
	if c := w.last.Conditions[0]; !c.Excused || c.Lasted != 10*time.Minute {
		t.Errorf("under maintenance: %+v", c)
	}
	w.Maintenance = nil
	w.look()
	data.Up, data.Conditions = false, nil
	w.now = w.now.Add(time.Minute)
	w.look()
	want := []ConditionVerdict{{
		Target:   "data",
		Alert:    AlertVolumeInodes,
		Severity: Warning,
		Lasted:   11 * time.Minute,
	}}
	if !slices.Equal(w.last.Conditions, want) { // that it is not critical is no opinion
		t.Errorf("while it cannot be read: %v, want %v", w.last.Conditions, want)
	}
	w.restart(true)
	w.look()
	if !slices.Equal(w.last.Conditions, want) {
		t.Errorf("after a restart: %v, want %v", w.last.Conditions, want)
	}
}
