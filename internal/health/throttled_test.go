package health

import (
	"testing"
	"time"
)

// throttle makes the last reading of the target fail for the limit on this address.
func (w *world) throttle(name string) *Target {
	t := w.target(name)
	t.Up, t.Throttled = false, true
	return t
}

// breakDown makes it fail for another reason.
func (w *world) breakDown(name string) *Target {
	t := w.target(name)
	t.Up, t.Throttled = false, false
	return t
}

// wantPages holds whether the outage of the target x may page.
func (w *world) wantPages(want bool) {
	w.t.Helper()
	if got := !w.last.Verdicts[TargetSubject("x")].WarnOnly; got != want {
		w.t.Errorf("after %s: it pages is %t, want %t", w.last.Verdicts[TargetSubject("x")].Down, got, want)
	}
}

// throttledWorld has a target that was up.
func throttledWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.target("x").be("irc_tls")
	w.pass(time.Minute)
	return w
}

func TestThrottledTargetOnlyWarns(t *testing.T) {
	w := throttledWorld(t)
	w.throttle("x")
	w.pass(2 * time.Minute)
	w.want("x TargetDown pending 2m0s")
	w.pass(3 * time.Hour)
	w.want("x TargetDown warning 3h2m0s")
	w.wantPages(false)
	if p := w.last.Problems[0]; !p.Throttled {
		t.Errorf("nothing says that its users may be well: %+v", p)
	}
	w.target("x").Up, w.target("x").Throttled = true, false
	w.pass(10 * time.Second)
	w.want()
	w.wantPages(true)
}

// TestCriticalCountsFromTheTurn: an outage that begins as a limit on this address is a real one only once the reason changes.
func TestCriticalCountsFromTheTurn(t *testing.T) {
	for name, between := range map[string]func(w *world){
		"":              func(*world) {},
		", saved":       func(w *world) { w.restart(true) },
		", not watched": func(w *world) { w.target("x").Read = false; w.pass(time.Minute); w.target("x").Read = true },
	} {
		w := throttledWorld(t)
		w.throttle("x")
		w.pass(time.Hour)
		between(w)
		w.pass(time.Minute)
		w.breakDown("x")
		w.look()
		turn := w.now
		w.pass(time.Minute)
		between(w)
		w.pass(turn.Add(5 * time.Minute).Sub(w.now))
		if p := w.last.Problems[0]; p.Severity != Warning || p.Throttled || w.last.Next <= 0 || w.last.Next > time.Second {
			t.Errorf("throttled, then refused%s: %+v, next %s", name, p, w.last.Next)
		}
		w.wantPages(false)
		w.pass(time.Second)
		if p := w.last.Problems[0]; p.Severity != Critical || p.Lasted < time.Hour+6*time.Minute {
			t.Errorf("throttled, then refused for over 5 minutes%s: %+v", name, p)
		}
		w.wantPages(true)
	}
}

// TestLimitEndsACriticalAlert, since the server answers again; each turn counts anew.
func TestLimitEndsACriticalAlert(t *testing.T) {
	w := throttledWorld(t)
	w.breakDown("x")
	w.pass(10 * time.Minute)
	w.want("x TargetDown critical 10m0s")
	w.throttle("x")
	w.pass(10 * time.Minute)
	w.want("x TargetDown warning 20m0s")
	w.wantPages(false)
	w.breakDown("x")
	w.pass(4 * time.Minute)
	w.want("x TargetDown warning 24m0s")
	w.target("x").Read = false // without a new reading, nothing gets worse
	w.pass(time.Hour)
	w.want("x TargetDown warning 25m0s unknown")
	w.wantPages(false)
	w.target("x").Read = true
	w.look()
	w.want("x TargetDown critical 1h24m0s")
}

// TestTargetThatWaitsIsJudgedAsIfProbed has a target fail and then wait for 90 minutes for its next probe.
func TestTargetThatWaitsIsJudgedAsIfProbed(t *testing.T) {
	w := throttledWorld(t)
	w.target("x").Every, w.target("x").Container, w.target("x").ContainerHost = 30*time.Second, "irc", "local"
	w.container("irc")
	w.pass(time.Hour)
	x := w.breakDown("x")
	x.ReadAt, x.Failed = w.now, 1
	w.pass(89 * time.Minute)
	w.want("x TargetDown critical 1h29m0s")
	v := w.last.Verdicts[TargetSubject("x")]
	if v.Unknown || !v.Known {
		t.Errorf("its state is unknown: %+v", v)
	}
	for _, c := range w.last.Conditions {
		if c.Alert == AlertMonitoringGap {
			t.Errorf("it is overdue: %+v", c)
		}
	}
}

// TestWaitingTargetIsStillExcused by a container that is down since before.
func TestWaitingTargetIsStillExcused(t *testing.T) {
	w := throttledWorld(t)
	w.target("x").Container, w.target("x").ContainerHost = "irc", "local"
	w.container("irc").State = "exited"
	w.pass(10 * time.Second)
	x := w.throttle("x")
	x.ReadAt = w.now
	w.pass(20 * time.Minute)
	w.want("irc ContainerDown critical 20m10s", "x TargetDown pending 20m0s container(irc)")
}

// TestThrottledTargetExplainsNothing: it may work for everybody else.
func TestThrottledTargetExplainsNothing(t *testing.T) {
	w := relayWorld(t)
	w.throttle("irc_tls")
	w.throttle("irc_rpc")
	w.look()
	w.relay(AlertRelaySessionDown + " irc")
	w.fails(6 * time.Minute)
	w.want("irc_rpc TargetDown warning 6m0s", "irc_tls TargetDown warning 6m0s", "x RelaySessionDown warning 5m50s")

	w = newWorld(t)
	w.target("docker").Engine = "local"
	w.target("x").Container, w.target("x").ContainerHost = "x", "local"
	w.container("x")
	w.pass(time.Minute)
	w.throttle("docker")
	w.Engines[0].Read = false
	w.pass(10 * time.Second)
	w.breakDown("x")
	w.pass(6 * time.Minute)
	w.want("x TargetDown critical 6m0s", "docker TargetDown warning 6m10s")
}

// TestEngineThatTurnsFromALimitIsACauseFromThen on.
func TestEngineThatTurnsFromALimitIsACauseFromThen(t *testing.T) {
	w := newWorld(t)
	w.target("docker").Engine = "local"
	w.target("x").Container, w.target("x").ContainerHost = "x", "local"
	w.container("x")
	w.pass(time.Minute)
	w.throttle("docker")
	w.Engines[0].Read = false
	w.pass(10 * time.Minute)
	w.breakDown("docker")
	w.pass(10 * time.Second)
	w.breakDown("x")
	w.pass(3 * time.Minute)
	w.want("docker TargetDown warning 13m10s", "x TargetDown pending 3m0s dependency(docker)")
}

// TestOutageThatWasNeverALimitPagesAtOnce, as rules without for: see it.
func TestOutageThatWasNeverALimitPagesAtOnce(t *testing.T) {
	w := throttledWorld(t)
	w.breakDown("x")
	w.pass(time.Minute)
	w.wantPages(true)
}

// TestLimitsDoNotMakeUpTheNumber of targets that are down, or that of the causes.
func TestLimitsDoNotMakeUpTheNumber(t *testing.T) {
	for _, c := range []struct{ broken, throttled, up int }{{4, 3, 2}, {3, 1, 1}} {
		w := newWorld(t)
		for i := range c.broken + c.throttled + c.up {
			w.target(string(rune('a' + i)))
		}
		w.pass(time.Minute)
		for i := range c.broken + c.throttled {
			w.breakDown(string(rune('a' + i))).Throttled = i >= c.broken
		}
		w.pass(10 * time.Minute)
		for _, p := range w.last.Problems {
			if p.Alert == AlertMostTargetsDown {
				t.Errorf("%+v: most targets are down", c)
			}
		}
	}
}

// TestThrottledTargetsAreNotMost: nothing is known of what their users see.
func TestThrottledTargetsAreNotMost(t *testing.T) {
	for throttled, want := range map[bool]bool{false: true, true: false} {
		w := newWorld(t)
		names := []string{"a", "b", "c", "d", "e"}
		for _, name := range names {
			w.target(name)
		}
		w.pass(time.Minute)
		for _, name := range names {
			w.breakDown(name).Throttled = throttled
		}
		w.pass(10 * time.Minute)
		found := false
		for _, p := range w.last.Problems {
			found = found || p.Alert == AlertMostTargetsDown
		}
		if found != want {
			t.Errorf("throttled %t: most targets are down is %t", throttled, found)
		}
	}
}

// limited makes a reading for each letter: L meets the limit on this address, F fails and G is good.
func (w *world) limited(results string) {
	w.t.Helper()
	for _, result := range results {
		x := w.target("x")
		if x.Throttled = result == 'L'; x.Throttled {
			result = 'F'
		}
		w.readings(string(result))
	}
}

func TestThrottledFailuresOnlyWarnOfInstability(t *testing.T) {
	for _, c := range []struct {
		name, readings, want string
		throttled            bool
	}{
		{
			"each second reading",
			again("LG", 120),
			"unstable/well",
			true,
		},
		{
			"two of three",
			again("LLG", 80),
			"unstable/well",
			true,
		},
		{
			"down for 3 minutes of 4, as TargetDown warns",
			again("LLLLLLGG", 30),
			"-/well",
			true,
		},
		{
			"refused as often",
			again("LGFG", 60),
			"unstable/well",
			false,
		},
		{
			"refused now and then",
			again("LG", 110) + again("LG", 8) + "FG",
			"unstable/well",
			true,
		},
		{
			"refused three times of five",
			again("FFFLG", 50),
			"unstable/unstable",
			false,
		},
		{
			"refused three times of five, after a limit",
			again("LFFFG", 50),
			"unstable/unstable",
			false,
		},
	} {
		w := unsteady(t, 30*time.Second)
		w.limited(c.readings)
		if got := w.unstable(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for _, p := range w.last.Problems {
			if p.Alert == AlertTargetUnstable && p.Throttled != c.throttled {
				t.Errorf("%s: its users may be well is %t, want %t", c.name, p.Throttled, c.throttled)
			}
		}
	}
}

// TestSavedThrottledFailuresOnlyWarn: a restart of the exporter makes them no worse.
func TestSavedThrottledFailuresOnlyWarn(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.limited(again("LLG", 60))
	w.restart(true)
	w.target("x").Failed = 0
	w.limited(again("LLG", 10))
	w.wantUnstable("unstable/well")
}
