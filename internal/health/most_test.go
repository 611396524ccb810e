package health

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// many is a world with targets t0, t1, ..., and containers c0, c1, ... that nothing is known to need. All is well in it.
func many(t *testing.T, targets, containers int) *world {
	t.Helper()
	w := newWorld(t)
	for i := range targets {
		w.target(fmt.Sprint("t", i))
	}
	for i := range containers {
		w.container(fmt.Sprint("c", i))
	}
	w.pass(10 * time.Second)
	return w
}

// most is what the judgement says of most targets: the severity of the problem, or "well", or "no opinion".
func (w *world) most() string {
	for _, p := range w.last.Problems {
		if p.Alert == AlertMostTargetsDown {
			return p.Severity.String()
		}
	}
	for _, c := range w.last.Conditions {
		if c.Alert == AlertMostTargetsDown && c.Lasted == 0 {
			return "well"
		}
	}
	return "no opinion"
}

// opinions counts the severities of which it is known for how long most targets have been down.
func (w *world) opinions() (n int) {
	for _, c := range w.last.Conditions {
		if c.Alert == AlertMostTargetsDown && c.Lasted > 0 {
			n++
		}
	}
	return n
}

func (w *world) wantMost(want string) {
	w.t.Helper()
	if got := w.most(); got != want {
		w.t.Errorf("most targets down: %s, want %s", got, want)
	}
}

// loseFirst has the first targets and containers fail.
func (w *world) loseFirst(targets, containers int) {
	for i := range targets {
		w.lose(fmt.Sprint("t", i))
	}
	for i := range containers {
		w.container(fmt.Sprint("c", i)).State = "exited"
	}
}

// TestMostTargetsAreDown has so many targets and containers fail, of so many. No target has a container.
func TestMostTargetsAreDown(t *testing.T) {
	for _, c := range []struct {
		targets, containers, down, stopped int
		want                               string
	}{
		{
			8,
			0,
			5,
			0,
			"critical",
		},
		{
			8,
			0,
			4,
			0,
			"well",
		}, // not over half
		{
			9,
			0,
			5,
			0,
			"critical",
		},
		{
			10,
			0,
			5,
			0,
			"well",
		},
		{
			51,
			0,
			26,
			0,
			"critical",
		},
		{
			4,
			0,
			3,
			0,
			"well",
		}, // they are few enough to be told one by one
		{
			4,
			0,
			4,
			0,
			"critical",
		},
		{
			4,
			1,
			3,
			1,
			"critical",
		},
		{
			3,
			5,
			3,
			5,
			"no opinion",
		}, // too few targets
		{
			8,
			8,
			0,
			8,
			"well",
		}, // no target is down
	} {
		w := many(t, c.targets, c.containers)
		w.wantMost(map[bool]string{true: "no opinion", false: "well"}[c.targets < 4])
		w.loseFirst(c.down, c.stopped)
		w.pass(10 * time.Minute)
		if got := w.most(); got != c.want {
			t.Errorf("%d of %d targets and %d of %d containers are down: %s, want %s",
				c.down, c.targets, c.stopped, c.containers, got, c.want)
		}
	}
}

// TestMostTargetsDownByOneCause has one container down that serves five targets of eight, and then others.
func TestMostTargetsDownByOneCause(t *testing.T) {
	w := many(t, 8, 4)
	for i := range 5 {
		w.target(fmt.Sprint("t", i)).Container = "c0"
	}
	w.loseFirst(5, 1)
	w.pass(10 * time.Minute)
	w.wantMost("well")
	w.loseFirst(5, 3) // three causes
	w.pass(10 * time.Minute)
	w.wantMost("well")
	w.loseFirst(5, 4)
	w.look()
	w.wantMost("pending")
	for _, p := range w.last.Problems {
		if p.Alert == AlertMostTargetsDown && !slices.Equal(p.Consequences, []Subject{
			ContainerSubject("local", "c0"), ContainerSubject("local", "c1"), ContainerSubject("local", "c2"),
			ContainerSubject("local", "c3"),
		}) {
			t.Errorf("the single problems are %v", p.Consequences)
		}
	}
	w.container("c3").State = Running
	w.look()
	w.wantMost("well")
}

// TestMostTargetsDownHasExactThresholds holds that the time begins with the first of what went down within a minute.
func TestMostTargetsDownHasExactThresholds(t *testing.T) {
	for _, c := range []struct {
		between time.Duration // from the first target to the others
		since   time.Duration // after the first target went down, which is called first
		first   string
	}{{0, 0, "t5"}, {time.Minute, 0, "t5"}, {time.Minute, 0, "t0"}, {61 * time.Second, 61 * time.Second, "t5"}} {
		w := many(t, 6, 0)
		w.lose(c.first)
		w.pass(c.between)
		w.loseFirst(5, 0)
		w.pass(c.since - c.between + time.Minute)
		w.wantMost("pending")
		if got := w.opinions(); got != 2 {
			t.Errorf("%d opinions, want a warning and a critical one", got)
		}
		w.pass(time.Second)
		w.wantMost("warning")
		w.pass(4*time.Minute - time.Second)
		w.wantMost("warning")
		w.pass(time.Second)
		w.wantMost("critical")
		if w.last.Next != 0 && c.between == 0 {
			t.Errorf("something changes after %s", w.last.Next)
		}
		w.target("t0").Up, w.target("t1").Up, w.target("t2").Up = true, true, true
		w.look()
		w.wantMost("well")
	}
}

// TestMostTargetsDownSinceTheStart holds that nobody knows for as long as of a single target how long they have been down.
func TestMostTargetsDownSinceTheStart(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		w.target(fmt.Sprint("t", i)).Up = false
	}
	w.pass(5 * time.Minute)
	w.wantMost("pending")
	if got := w.opinions(); got != 0 {
		t.Errorf("%d opinions", got)
	}
	w.pass(time.Second)
	w.wantMost("critical")
	if got := w.opinions(); got != 2 {
		t.Errorf("%d opinions, want a warning and a critical one", got)
	}

	// Where those that were seen up are enough, it is known.
	w = many(t, 6, 0)
	w.target("new").Up = false
	w.loseFirst(4, 0)
	w.pass(time.Minute + time.Second)
	w.wantMost("warning")
}

// TestMostTargetsDownLeavesOutMaintenance has targets under maintenance that are down, and others.
func TestMostTargetsDownLeavesOutMaintenance(t *testing.T) {
	w := many(t, 13, 1)
	w.target("t0").Container = "c0"
	w.Maintenance = []Subject{{Kind: "container", Name: "c0"}}
	for i := 1; i < 5; i++ {
		w.Maintenance = append(w.Maintenance, TargetSubject(fmt.Sprint("t", i)))
	}
	w.loseFirst(9, 1) // 4 of the 8 others
	w.pass(10 * time.Minute)
	w.wantMost("well")
	w.loseFirst(10, 1)
	w.pass(10 * time.Minute)
	w.wantMost("critical")
	w.Maintenance = append(w.Maintenance, TargetSubject("t9"), TargetSubject("t10"), TargetSubject("t11"), TargetSubject("t12"),
		TargetSubject("t8"))
	w.look()
	w.wantMost("no opinion")
}

// TestMostTargetsDownOutlivesARestart holds that nothing begins anew, also before the first readings.
func TestMostTargetsDownOutlivesARestart(t *testing.T) {
	w := many(t, 6, 6)
	w.loseFirst(6, 6)
	w.pass(4 * time.Minute)
	w.restart(true)
	for i := range w.Targets {
		w.Targets[i].Read = false
	}
	w.Engines[0].Read = false
	w.look()
	w.wantMost("warning")
	for i := range w.Targets {
		w.Targets[i].Read = true
	}
	w.Engines[0].Read = true
	w.pass(time.Minute)
	w.wantMost("warning")
	w.pass(time.Second)
	w.wantMost("critical")
}

// TestLostEngineMayBeMostTargets has all targets on an engine that is lost. It counts those that only the engine excuses.
func TestLostEngineMayBeMostTargets(t *testing.T) {
	w := many(t, 8, 8)
	for i := range 8 {
		w.target(fmt.Sprint("t", i)).Container = fmt.Sprint("c", i)
	}
	w.target("docker").Engine = "local"
	w.pass(10 * time.Second)
	w.loseEngine(true)
	w.pass(10 * time.Second)
	w.wantMost("well")
	w.loseFirst(8, 0)
	w.pass(time.Minute)
	w.wantMost("warning")
	if got := w.last.Problems[0]; got.Alert != AlertMostTargetsDown || len(got.Consequences) != 9 {
		t.Errorf("the first problem is %s, with %d subjects, want the targets and their engine", got.Alert, len(got.Consequences))
	}
	for _, p := range w.last.Problems {
		if p.Cause != ExporterSubject {
			t.Errorf("the cause of %s is %v", p.Name, p.Cause)
		}
	}
	w.pass(4 * time.Minute)
	w.wantMost("critical")

	w.Maintenance = []Subject{TargetSubject("docker")}
	w.look()
	w.wantMost("no opinion")
}

func TestMostTargetsDownPageOnlyIfOneOfThemDoes(t *testing.T) {
	w := many(t, 5, 1)
	for i := range 4 {
		w.target(fmt.Sprint("t", i)).WarnOnly = true
	}
	w.loseFirst(4, 0)
	w.pass(10 * time.Minute)
	w.wantMost("warning")
	w.container("c0").State = "exited"
	w.pass(10 * time.Minute)
	w.wantMost("critical")
}

// TestMostTargetsDownCountsOutagesOnly has a fourth problem that is no outage.
func TestMostTargetsDownCountsOutagesOnly(t *testing.T) {
	w := many(t, 4, 1)
	w.loseFirst(3, 0)
	w.container("c0").Health = Unhealthy
	w.pass(10 * time.Minute)
	w.wantMost("well")
}
