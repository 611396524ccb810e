package health

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// unsteady is a world with a target that is read every so often, and was well for over an hour.
func unsteady(t *testing.T, every time.Duration) *world {
	t.Helper()
	w := newWorld(t)
	w.target("x").Every = every
	w.readings(again("G", int(longWindow/max(every, 30*time.Second))+1))
	return w
}

// readings makes a reading for each letter: F fails and G is good. Time passes after each, until the next one is due.
func (w *world) readings(results string) {
	w.t.Helper()
	x := w.target("x")
	for _, result := range results {
		x.Up = result == 'G'
		if !x.Up {
			x.Failed++
		}
		w.look()
		w.now = w.now.Add(x.Every)
	}
}

// again is the pattern so often.
func again(pattern string, times int) string { return strings.Repeat(pattern, times) }

// unstable is what the last judgement says of the target: both severities are in words, and "-" is no opinion.
func (w *world) unstable() string {
	w.t.Helper()
	for _, p := range w.last.Problems {
		if p.Alert == AlertTargetUnstable && p.Severity == Critical && p.Throttled {
			w.t.Error("it pages, although its users may be well")
		}
	}
	severities := map[Severity]string{Warning: "-", Critical: "-"}
	for _, c := range w.last.Conditions {
		if c.Alert != AlertTargetUnstable {
			continue
		}
		severities[c.Severity] = "well"
		if c.Lasted > 0 {
			severities[c.Severity] = "unstable"
		}
		if c.Excused {
			severities[c.Severity] += ", excused"
		}
	}
	return severities[Warning] + "/" + severities[Critical]
}

func (w *world) wantUnstable(want string) {
	w.t.Helper()
	if got := w.unstable(); got != want {
		w.t.Errorf("after %d failures: %s, want %s", w.target("x").Failed, got, want)
	}
}

func (w *world) wantExcused(want uint64) {
	w.t.Helper()
	if got := w.last.Verdicts[TargetSubject("x")].ExcusedFailures; got != want {
		w.t.Errorf("%d failures are excused, want %d", got, want)
	}
}

func TestUnstableTargets(t *testing.T) {
	for _, c := range []struct {
		name     string
		every    time.Duration
		readings string
		want     string
	}{
		{
			"exactly 10 % of an hour",
			30 * time.Second,
			again(again("G", 9)+"F", 12),
			"well/well",
		},
		{
			"over 10 % of an hour and exactly 10 % of 5 minutes",
			30 * time.Second,
			again("G", 85) + again("FG", 12) + again("G", 9) + "F",
			"well/well",
		},
		{
			"over 10 % of both",
			30 * time.Second,
			again("G", 20) + again("FG", 13),
			"unstable/well",
		},
		{
			"one failure less",
			30 * time.Second,
			again("G", 20) + again("FG", 12),
			"well/well",
		},
		{
			"one failure less than 50 % of an hour",
			30 * time.Second,
			again("FG", 59),
			"unstable/well",
		},
		{
			"50 % of an hour, each second reading",
			30 * time.Second,
			again("FG", 60),
			"unstable/unstable",
		},
		{
			"50 % of an hour, half of each 3 minutes",
			30 * time.Second,
			again("FFFGGG", 20) + "FFF",
			"unstable/unstable",
		},
		{
			"50 % of an hour that is read a little more often than planned",
			29800 * time.Millisecond,
			again("FG", 60) + "F",
			"unstable/unstable",
		},
		{
			"over 50 % of an hour and one failure less of 5 minutes",
			30 * time.Second,
			again("FFG", 32) + again("GF", 4) + "GG",
			"unstable/well",
		},
		{
			"18 of the last 24 readings",
			30 * time.Second,
			again("FFFG", 6),
			"unstable/unstable",
		},
		{
			"15 of the last 24 readings",
			30 * time.Second,
			again("FFFG", 3) + again("FFGG", 3),
			"unstable/well",
		},
		{
			"three readings of four",
			30 * time.Second,
			again("FFFG", 40),
			"unstable/unstable",
		},
		{
			"three readings of four, once a minute",
			time.Minute,
			again("FG", 40),
			"unstable/unstable",
		},
		{
			"3 failures of 12 are too few",
			5 * time.Minute,
			again("G", 9) + "FGFGF",
			"well/well",
		},
		{
			"4 failures of 12",
			5 * time.Minute,
			again("G", 9) + "FGFGFGF",
			"unstable/well",
		},
		{
			"4 failures of 12, and the last reading is good",
			5 * time.Minute,
			again("G", 9) + "FGFGFGFG",
			"unstable/well",
		},
		{
			"4 failures of 12, and two good ones",
			5 * time.Minute,
			again("G", 9) + "FGFGFGFGG",
			"well/well",
		},
		{
			"two failures in a row are warned of as TargetDown",
			5 * time.Minute,
			again("FFG", 10),
			"-/unstable",
		},
		{
			"4 failures of 7",
			9 * time.Minute,
			"FGFGFGF",
			"unstable/unstable",
		},
		{
			"3 failures of 6",
			10 * time.Minute,
			again("FG", 10),
			"well/well",
		},
		{
			"fewer than 4 readings an hour",
			20 * time.Minute,
			again("FG", 20),
			"well/well",
		},
		{
			"no schedule",
			0,
			again("FG", 20),
			"-/-",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := unsteady(t, c.every)
			w.readings(c.readings)
			w.wantUnstable(c.want)
		})
	}
}

// TestUnstableTargetsInWindows holds when failures come into the windows and leave them.
func TestUnstableTargetsInWindows(t *testing.T) {
	const every = 30 * time.Second
	w := unsteady(t, every)
	w.readings(again("FG", 13) + "FF")
	w.wantUnstable("unstable/well")
	for _, c := range []struct {
		readings int
		want     string
	}{
		{0, "unstable/well"},
		// The last bucket has both of the last failures, and leaves the short window 5 minutes after the first of them.
		{7, "unstable/well"},
		{1, "unstable/well"},
		{1, "well/well"},
		{100, "well/well"},
	} {
		w.readings(again("G", c.readings))
		w.wantUnstable(c.want)
	}
	// Where readings are rare, the last one stands for the short window until the next one is late.
	w = unsteady(t, 5*time.Minute)
	w.readings("FGFGFGF")
	w.target("x").Up = true
	w.now = w.now.Add(5*time.Minute/4 - time.Second)
	w.look()
	w.wantUnstable("unstable/well")
	w.now = w.now.Add(time.Second)
	w.look()
	w.wantUnstable("well/well")
	// Of the last hour, 12 failures of 120 are left 59 minutes after they began.
	w = unsteady(t, every)
	w.readings(again("FG", 13) + again("G", 120-26-6) + "GGGFGF")
	w.wantUnstable("unstable/well")
	w.readings("G")
	w.wantUnstable("unstable/well")
	w.readings("GGGG")
	w.wantUnstable("well/well")
}

// TestUnstableTargetNeedsHistory holds that an exporter that was just started has an opinion where it does not matter what it has not
// seen, or if that was bad already.
func TestUnstableTargetNeedsHistory(t *testing.T) {
	begin := func() *world {
		w := newWorld(t)
		w.target("x").Every = 30 * time.Second
		return w
	}
	w := begin()
	w.readings(again("G", 10))
	w.wantUnstable("-/-")
	w.readings("G")
	w.wantUnstable("well/well")
	w = begin()
	w.readings("GFFFFGGGGGGGG")
	w.wantUnstable("-/well") // 4 failures of 12 are 4 of 120 at least
	w.readings(again("G", 28))
	w.wantUnstable("well/well")
	w = begin()
	w.readings(again("GF", 54) + again("G", 12))
	w.wantUnstable("-/well")
	w.readings("G") // an hour after the first one
	w.wantUnstable("well/well")
	w = begin()
	w.readings(again("GFFF", 27))
	w.wantUnstable("unstable/unstable")
	w = begin()
	w.readings(again("GFFF", 15))
	w.wantUnstable("unstable/unstable")
	w = begin()
	w.readings(again("GFGF", 29))
	w.wantUnstable("unstable/-")
	w.readings(again("GFGF", 1))
	w.readings("G")
	w.wantUnstable("unstable/unstable")
}

func TestExcusedFailuresDoNotCount(t *testing.T) {
	const every = 30 * time.Second
	maintained := func(w *world, s ...Subject) { w.Maintenance = s }
	for _, c := range []struct {
		name    string
		play    func(w *world)
		want    string
		excused uint64
	}{
		{
			"maintenance of the target",
			func(w *world) {
				maintained(w, TargetSubject("x"))
				w.readings(again("FFFG", 30))
			},
			"well/well",
			90,
		},
		{
			"maintenance that has ended",
			func(w *world) {
				maintained(w, TargetSubject("x"))
				w.readings(again("FFFG", 30))
				maintained(w)
				w.readings(again("FFFG", 4))
			},
			"well/well",
			90,
		},
		{
			"maintenance that has ended for long",
			func(w *world) {
				maintained(w, TargetSubject("x"))
				w.readings(again("FFFG", 30))
				maintained(w)
				w.readings(again("FFFG", 5))
			},
			"unstable/well",
			90,
		},
		{
			"maintenance of what serves it",
			func(w *world) {
				w.container("c")
				w.target("x").Container = "c"
				maintained(w, Subject{Kind: KindContainer, Name: "c"})
				w.readings(again("FFFG", 30))
			},
			"well/well",
			90,
		},
		{
			"maintenance that begins in a spell",
			func(w *world) {
				w.readings(again("FFFG", 3) + "FFF")
				maintained(w, TargetSubject("x"))
				w.readings("F")
			},
			"well/well",
			4,
		},
		{
			"maintenance does not end what was told",
			func(w *world) {
				w.readings(again("FFFG", 5))
				maintained(w, TargetSubject("x"))
				w.readings("FFFG")
			},
			"unstable/well",
			3,
		},
		{
			"a container that is down",
			func(w *world) {
				w.container("c")
				w.target("x").Container = "c"
				for range 20 {
					w.container("c").State = "exited"
					w.readings("FFF")
					w.container("c").State = Running
					w.readings("GGGGGG")
				}
			},
			"well/well",
			60,
		},
		{
			"a container of which only the warning is told, each time",
			func(w *world) {
				w.container("c")
				w.target("x").Container = "c"
				for range 13 {
					w.container("c").State = "exited"
					w.readings(again("F", 9))
					w.container("c").State = Running
					w.readings("G")
				}
				w.readings("G")
			},
			"well/unstable",
			117,
		},
		{
			"a container of which the critical alert is told, each time",
			func(w *world) {
				w.container("c")
				w.target("x").Container = "c"
				for range 9 {
					w.container("c").State = "exited"
					w.readings(again("F", 12))
					w.container("c").State = Running
					w.readings("G")
				}
				w.readings("G")
			},
			"well/well",
			108,
		},
		{
			"a container of which the engine tells later",
			func(w *world) {
				w.container("c")
				w.target("x").Container = "c"
				for range 20 {
					w.readings("F")
					w.container("c").State = "exited"
					w.readings("F")
					w.container("c").State = Running
					w.readings("GGGGGG")
				}
			},
			"well/well",
			40,
		},
		{
			"a dependency",
			func(w *world) {
				w.container("c").DependsOn = []string{"d"}
				w.container("d")
				w.target("x").Container = "c"
				for range 20 {
					w.container("d").State = "exited"
					w.readings("FFF")
					w.container("d").State = Running
					w.readings("GGGGGG")
				}
			},
			"well/well",
			60,
		},
		{
			"outages of which TargetDown has warned, half of the time",
			func(w *world) {
				w.readings(again("FFFFFFGGGGGG", 10))
			},
			"-/well",
			60,
		},
		{
			"outages of which TargetDown has warned, more than half",
			func(w *world) {
				w.readings(again("FFFFFFGGG", 12) + "G")
			},
			"-/unstable",
			72,
		},
		{
			"while one of them lasts",
			func(w *world) {
				w.readings(again("FFFFFFGGG", 12) + "FFFFFF")
			},
			"-/unstable",
			78,
		},
		{
			"outages of which TargetDown was critical",
			func(w *world) {
				w.readings(again(again("F", 12)+"GGG", 8) + "G")
			},
			"-/-",
			96,
		},
		{
			"outages of which TargetDown has warned under maintenance",
			func(w *world) {
				for range 12 {
					w.readings("FFFF")
					maintained(w, TargetSubject("x"))
					w.readings("FF")
					maintained(w)
					w.readings("GGG")
				}
			},
			"well/well",
			72,
		},
		{
			"spells that it has not",
			func(w *world) {
				w.readings(again("FFFFGG", 20))
			},
			"unstable/unstable",
			0,
		},
		{
			"a failure just before the end of an outage that was told",
			func(w *world) {
				w.readings("FFFFFF")
				w.target("x").Failed++
				w.target("x").Up = true
				w.look()
			},
			"well/well",
			7,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := unsteady(t, every)
			c.play(w)
			w.wantUnstable(c.want)
			w.wantExcused(c.excused)
		})
	}
}

// TestTargetDownSilencesTargetUnstable holds that an outage after a brown-out is told as TargetDown alone, and that the brown-out
// counts again after it.
func TestTargetDownSilencesTargetUnstable(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("FG", 20))
	w.wantUnstable("unstable/well")
	w.readings("FFFFF")
	w.wantUnstable("unstable/well")
	w.wantExcused(0)
	w.readings("F")
	w.wantUnstable("-/-")
	w.wantExcused(6)
	w.readings(again("F", 34))
	w.wantUnstable("-/-")
	w.wantExcused(40)
	w.readings("G")
	w.wantUnstable("well/well")
	w.readings("GFG")
	w.wantUnstable("well/well")
	w.readings("FG")
	w.wantUnstable("unstable/well")
	w.wantExcused(40)
}

func TestUnstableTargetOutlivesARestart(t *testing.T) {
	const every = 30 * time.Second
	since := func(w *world) time.Time {
		for _, p := range w.last.Problems {
			if p.Alert == AlertTargetUnstable {
				return p.Since
			}
		}
		return time.Time{}
	}
	begin := func() *world {
		w := unsteady(t, every)
		w.readings(again("FFFG", 24))
		w.wantUnstable("unstable/unstable")
		return w
	}
	w := begin()
	began := since(w)
	w.restart(true)
	w.target("x").Read, w.target("x").Failed = false, 0
	w.look()
	w.wantUnstable("unstable/unstable")
	if p := w.last.Problems[0]; !p.Unknown || p.Severity != Critical || len(w.last.Problems) != 1 {
		t.Errorf("before the first reading, the problems are %+v", w.last.Problems)
	}
	w.target("x").Read = true
	w.readings("G")
	w.wantUnstable("unstable/unstable")
	if got := since(w); !got.Equal(began) {
		t.Errorf("it has begun at %s, before the restart at %s", got, began)
	}
	w.readings(again("G", 10))
	w.wantUnstable("well/well")

	w = begin()
	w.restart(false)
	w.target("x").Failed = 0
	w.readings(again("GFFF", 3))
	w.wantUnstable("-/-") // nothing to resolve what others see

	// A spell that lasts is known as such.
	w = unsteady(t, every)
	w.readings(again("FFFG", 3) + "FFFF")
	w.restart(true)
	w.target("x").Failed = 0
	w.readings("FF")
	w.wantUnstable("-/-")
	w.wantExcused(6)
	w.readings(again("G", 11) + "FFFG")
	w.wantUnstable("-/well")
	w.readings("F")
	w.wantUnstable("unstable/well")

	// So is that one has ended.
	w = unsteady(t, every)
	w.readings(again("FFFG", 4))
	w.restart(true)
	w.target("x").Failed = 0
	w.Maintenance = []Subject{TargetSubject("x")}
	w.readings("F")
	w.Maintenance = nil
	w.readings("GF")
	w.wantUnstable("unstable/-")
	w.wantExcused(1)

	// A clock that was set back makes nothing younger than now.
	w = unsteady(t, every)
	w.readings(again("FFFG", 5))
	memory := w.judge.Memory(w.now)
	w.now = w.now.Add(-2 * time.Hour)
	w.resume(&memory)
	w.readings("G")
	w.wantUnstable("unstable/-")
}

// TestFailuresAreSaved holds that what a process that is killed knows is saved, and that an outage is not saved with each reading.
func TestFailuresAreSaved(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.judge.Memory(w.now)
	for _, c := range []struct {
		readings string
		want     bool
	}{{"G", false}, {"F", true}, {"F", true}, {"G", true}, {"G", false}, {"FFFFFF", true}, {"F", false}, {"G", true}} {
		w.readings(c.readings)
		if got := w.judge.Changed(); got != c.want {
			t.Errorf("after %s: changed is %v, want %v", c.readings, got, c.want)
		}
		w.judge.Memory(w.now)
	}
	w.target("x").Failed++ // and it is up again
	w.look()
	if !w.judge.Changed() {
		t.Error("a failure before a good reading is not saved")
	}
	if saved := w.judge.Memory(w.now).Failures; len(saved) != 1 || saved[0].Target != "x" || len(saved[0].Counts) != 6 || saved[0].Warned {
		t.Errorf("saved are %+v, want six minutes of x", saved)
	}
	w.now = w.now.Add(time.Hour)
	w.look()
	if saved := w.judge.Memory(w.now).Failures; len(saved) > 0 {
		t.Errorf("after an hour, saved are %+v", saved)
	}
}

func TestFailuresNeedLittleMemory(t *testing.T) {
	w := unsteady(t, time.Second)
	w.target("y").Every = time.Second
	w.readings(again("FG", 4000))
	m := w.judge.Memory(w.now)
	if len(m.Failures) != 1 || len(m.Failures[0].Counts) > 60 {
		t.Errorf("%d counts are saved of 2000 failures an hour, want 60 at most", len(m.Failures[0].Counts))
	}
}

func TestFailuresOutliveAReload(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("FFFG", 4))
	rules := shippedRules()
	w.judge.Reconfigure(rules)
	w.target("x").Read = false // it has another address
	w.look()
	w.wantUnstable("-/-")
	w.target("x").Read = true
	w.readings("F")
	w.wantUnstable("unstable/well")
	limits := rules.Alerts[AlertTargetUnstable]
	limits.Warning.Over, limits.Critical.Over = 0.2, 0.9
	w.judge.Reconfigure(rules)
	w.readings("G")
	w.wantUnstable("well/well")
	limits.Warning.Over, limits.Critical.Over = 0.1, 0.1
	w.judge.Reconfigure(rules)
	w.readings("G")
	w.wantUnstable("unstable/unstable")

	x := w.Targets[0]
	w.Targets = nil
	w.look()
	w.Targets = []Target{x}
	w.target("x").Failed = 0 // one of the same name
	w.readings("F")
	w.wantUnstable("-/-")
	w.readings("GF")
	if got, _ := w.judge.targets["x"].failures.within(longWindow, (*count).forWarning, w.now); got != 2 {
		t.Errorf("%d failures are known of a new target, want 2", got)
	}
	w.target("x").Failed = 0 // another kind
	w.readings("F")
	if got, _ := w.judge.targets["x"].failures.within(longWindow, (*count).forWarning, w.now); got != 3 {
		t.Errorf("%d failures are known of a target of another kind, want 3", got)
	}
}

// TestUnstableTargetInWords holds what a page shows: how many failed, and the worse of two severities.
func TestUnstableTargetInWords(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("FFFG", 25))
	w.want("x TargetUnstable critical 39m30s")
	if w.last.Problems[0].AtLeast {
		t.Error("it may have begun earlier")
	}
	want := Value{Subject: TargetSubject("x"), Alert: AlertTargetUnstable, Number: 75.0 / 120}
	if !slices.Equal(w.last.Values, []Value{want, want}) {
		t.Errorf("values %+v, want %+v", w.last.Values, want)
	}
	w.target("x").WarnOnly = true
	w.look()
	w.wantUnstable("unstable/-")
	w.target("x").WarnOnly = false
	w.look()
	w.target("x").Read = false
	w.now = w.now.Add(time.Hour)
	w.look()
	w.want("x TargetUnstable critical 1h0m0s unknown")
}

// TestMaintenanceHoldsBackTargetUnstable: thresholds that are lowered meanwhile make a brown-out of what was none.
func TestMaintenanceHoldsBackTargetUnstable(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("FFFG", 4))
	w.Maintenance = []Subject{TargetSubject("x")}
	rules := shippedRules()
	rules.Alerts[AlertTargetUnstable].Warning.Over = 0.05
	w.judge.Reconfigure(rules)
	w.readings("G")
	w.wantUnstable("unstable, excused/well")
	w.want("x TargetUnstable pending 0s maintenance()")
	w.Maintenance = nil
	w.readings("G")
	w.wantUnstable("unstable/well")
}

// TestLongOutageIsNotUnstable has TargetDown critical only after two hours: an outage of a quarter of an hour may be one of many, a
// longer one is none.
func TestLongOutageIsNotUnstable(t *testing.T) {
	for _, c := range []struct {
		failures int
		want     string
	}{{30, "-/unstable"}, {31, "-/well"}} { // 30 intervals are 15 minutes
		w := unsteady(t, 30*time.Second)
		w.judge.rule(AlertTargetDown).Critical.Hold = 2 * time.Hour
		w.readings(again(again("F", c.failures)+"G", 3) + "G")
		w.wantUnstable(c.want)
	}
}

// TestWarnedOutageOutlivesARestart restarts the exporter in an outage of which only a warning was told.
func TestWarnedOutageOutlivesARestart(t *testing.T) {
	for name, c := range map[string]struct{ rest, want string }{
		"it ends":             {"GGG", "-/unstable"},
		"it becomes critical": {"FFFFFFGGGGG", "-/-"},
	} {
		w := unsteady(t, 30*time.Second)
		w.readings(again("FFFFFFGG", 10) + "FFFFFF")
		w.restart(true)
		w.target("x").Failed = 0
		w.readings(c.rest)
		if got := w.unstable(); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestFailuresStandForTheirOwnInterval reads a target more rarely from now on: what failed before counts as it did.
func TestFailuresStandForTheirOwnInterval(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("GGGGGGGF", 15))
	w.wantUnstable("unstable/well")
	w.target("x").Every = 5 * time.Minute
	w.readings("F")
	w.wantUnstable("unstable/well")
	if _, part := w.judge.targets["x"].failures.within(longWindow, (*count).forCritical, w.now); part != (14*30+300)/3600.0 {
		t.Errorf("%.3f of the hour failed, want 14 times 30 s and once 5 minutes", part)
	}
}

// TestFailuresOutliveAStartWithoutASchedule restarts the exporter, which judges before it has made a reading.
func TestFailuresOutliveAStartWithoutASchedule(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.readings(again("FFFG", 25))
	w.restart(true)
	x := w.target("x")
	x.Read, x.Every, x.Failed = false, 0, 0
	w.look()
	x.Read, x.Every = true, 30*time.Second
	w.readings("F")
	w.wantUnstable("unstable/unstable")
}
