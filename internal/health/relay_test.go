package health

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// relayWorld has a bridge in a container, the servers of both sides, and the check of the bridge.
func relayWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.container("bridge").Role = "bridge"
	for _, kind := range []string{"irc_tls", "irc_rpc", "xmpp_c2s", "xmpp_status"} {
		w.target(kind).be(kind)
	}
	x := w.target("x")
	x.be("relay")
	x.Container, x.ContainerHost, x.Every = "bridge", "local", 10*time.Second
	w.relay("")
	w.pass(time.Hour)
	return w
}

// relay sets the conditions that the last check found; holds is one of their alerts and parts, such as "BridgeSlow irc to xmpp".
func (w *world) relay(holds ...string) {
	x := w.target("x")
	x.Conditions, x.Up = nil, true
	for alert, parts := range map[string][]string{
		AlertBridgeNotRelaying: {"irc to xmpp", "xmpp to irc"}, AlertBridgeSlow: {"irc to xmpp", "xmpp to irc"},
		AlertRelaySessionDown: {"irc", "xmpp"},
		AlertRelayUnwatched:   {""},
	} {
		for _, of := range parts {
			c := Condition{Alert: alert, Of: of}
			for _, h := range holds {
				c.Holds = c.Holds || h == alert+" "+of
			}
			x.Up = x.Up && (!c.Holds || alert == AlertBridgeSlow)
			x.Conditions = append(x.Conditions, c)
		}
	}
}

// fails lets every poll of the relay check fail for that long.
func (w *world) fails(d time.Duration) {
	w.t.Helper()
	for range int(d / (10 * time.Second)) {
		w.target("x").Failed++
		w.now = w.now.Add(10 * time.Second)
		w.look()
	}
}

// TestBridgeThatDoesNotRelayIsOneProblem: neither TargetDown nor TargetUnstable say it again, during the outage or after it.
func TestBridgeThatDoesNotRelayIsOneProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(AlertBridgeNotRelaying + " irc to xmpp")
	w.fails(2 * time.Hour)
	w.want("x BridgeNotRelaying critical 1h59m50s")
	w.wantUnstable("well/-")
	w.relay()
	w.pass(10 * time.Second)
	w.want()
	w.wantUnstable("well/-")

	w = relayWorld(t)
	w.target("x").WarnOnly = true
	w.relay(AlertBridgeNotRelaying + " irc to xmpp")
	w.fails(10 * time.Second)
	w.want("x BridgeNotRelaying warning 0s")
}

// TestWayThatIsNotTestedKeepsItsProblem: that the other way relays says nothing about it.
func TestWayThatIsNotTestedKeepsItsProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(AlertBridgeNotRelaying + " irc to xmpp")
	w.fails(time.Minute)
	w.target("x").Conditions = []Condition{{Alert: AlertBridgeNotRelaying, Of: "xmpp to irc"}}
	w.fails(time.Minute)
	w.want("x BridgeNotRelaying critical 1m50s unknown")
	w.relay()
	w.pass(10 * time.Second)
	w.want()
}

// TestWayThatRelaysAgainHasNoProblem, while the other way still fails.
func TestWayThatRelaysAgainHasNoProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(AlertBridgeNotRelaying+" irc to xmpp", AlertBridgeNotRelaying+" xmpp to irc")
	w.fails(time.Minute)
	w.relay(AlertBridgeNotRelaying + " xmpp to irc")
	w.fails(10 * time.Second)
	w.want("x BridgeNotRelaying critical 1m0s")
}

// TestRelayCheckThatFindsNothingIsDown: no alert of its own says why it fails.
func TestRelayCheckThatFindsNothingIsDown(t *testing.T) {
	w := relayWorld(t)
	w.target("x").Conditions, w.target("x").Up = nil, false
	w.fails(10 * time.Minute)
	w.want("x TargetDown critical 9m50s")
}

// TestRelayThatIsNotReadKeepsItsState: what its last reading found says nothing of the present.
func TestRelayThatIsNotReadKeepsItsState(t *testing.T) {
	w := relayWorld(t)
	w.target("x").Conditions, w.target("x").Up = nil, false
	w.fails(10 * time.Minute)
	w.relay(AlertBridgeSlow + " irc to xmpp")
	w.target("x").Read, w.target("x").Up = false, false
	w.fails(time.Minute)
	w.want("x TargetDown critical 10m50s unknown")
}

// TestRelaySessionDownIsOneProblem: it is a warning, and no failure of its polls makes the target unstable meanwhile.
func TestRelaySessionDownIsOneProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(AlertRelaySessionDown + " irc")
	w.fails(5 * time.Minute)
	w.want("x RelaySessionDown pending 4m50s")
	w.fails(time.Hour)
	w.want("x RelaySessionDown warning 1h4m50s")
	w.wantUnstable("well/-")
	w.relay()
	w.pass(10 * time.Second)
	w.wantUnstable("well/-")
}

// TestRelayThatLosesSomeIsUnstable: no condition of its own holds.
func TestRelayThatLosesSomeIsUnstable(t *testing.T) {
	w := relayWorld(t)
	for range 120 {
		w.target("x").Up = false
		w.fails(10 * time.Second)
		w.target("x").Up = true
		w.pass(20 * time.Second)
	}
	w.wantUnstable("unstable/-")
}

// TestSessionThatFlapsIsUnstable: RelaySessionDown never lasts long enough, and the bridge is hardly watched.
func TestSessionThatFlapsIsUnstable(t *testing.T) {
	w := relayWorld(t)
	w.container("panel").State = "exited" // another target's excuse is not the check's
	w.target("panel").Container, w.target("panel").Up = "panel", false
	for range 100 {
		w.relay(AlertRelaySessionDown + " irc")
		w.fails(30 * time.Second)
		w.relay()
		w.pass(10 * time.Second)
	}
	w.wantUnstable("unstable/-")
}

// TestSlowBridgeThatLosesIsUnstable: that it is slow does not explain what it loses.
func TestSlowBridgeThatLosesIsUnstable(t *testing.T) {
	w := relayWorld(t)
	for range 100 {
		w.relay(AlertBridgeSlow + " irc to xmpp")
		w.target("x").Up = false
		w.fails(20 * time.Second)
		w.target("x").Up = true
		w.pass(10 * time.Second)
	}
	w.wantUnstable("unstable/-")
}

// TestOnlyRelaysExplainThemselves: a condition of another target does not say why its readings fail.
func TestOnlyRelaysExplainThemselves(t *testing.T) {
	w := unsteady(t, 30*time.Second)
	w.target("x").Conditions = []Condition{{Alert: AlertChainInvalid, Holds: true}}
	w.readings(again("FG", 59))
	w.wantUnstable("unstable/well")
}

// TestRelayIsExcused: what explains that the bridge loses messages, or that a session is down.
func TestRelayIsExcused(t *testing.T) {
	for name, tt := range map[string]struct {
		fault func(w *world)
		holds string
		want  []string
	}{
		"bridge down": {func(w *world) { w.container("bridge").State = "exited" }, AlertBridgeNotRelaying + " irc to xmpp", []string{
			"bridge ContainerDown warning 2m0s", "x BridgeNotRelaying pending 1m50s container(bridge)",
		}},
		"slow bridge down": {func(w *world) { w.container("bridge").State = "exited" }, AlertBridgeSlow + " irc to xmpp", []string{
			"bridge ContainerDown warning 2m0s", "x BridgeSlow pending 1m50s container(bridge)",
		}},
		"bridge under maintenance": {func(w *world) {
			w.Maintenance = []Subject{{Kind: KindContainer, Name: "bridge"}}
		}, AlertRelaySessionDown + " irc", []string{"x RelaySessionDown pending 1m50s maintenance(bridge)"}},
		"session down, and the bridge too": {
			func(w *world) { w.container("bridge").State = "exited" },
			AlertRelaySessionDown + " irc",
			[]string{
				"bridge ContainerDown warning 2m0s", "x RelaySessionDown pending 1m50s",
			},
		},
		"IRC server down": {
			func(w *world) { w.target("irc_tls").Up, w.target("irc_rpc").Up = false, false },
			AlertRelaySessionDown + " irc",
			[]string{
				"irc_rpc TargetDown pending 2m0s", "irc_tls TargetDown pending 2m0s",
				"x RelaySessionDown pending 1m50s dependency(irc_rpc)",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := relayWorld(t)
			tt.fault(w)
			w.look()
			w.relay(tt.holds)
			w.fails(2 * time.Minute)
			w.want(tt.want...)
			w.wantUnstable("well/-")
			w.fails(20 * time.Minute)
			if got := w.unstable(); strings.HasPrefix(got, "unstable") {
				t.Error("it is unstable")
			}
		})
	}
}

// TestOnePortIsEnoughForARelaySession: if one target of the side works, or it is the other side's,
// a session that is down is the check's own problem.
func TestOnePortIsEnoughForARelaySession(t *testing.T) {
	for side, down := range map[string][]string{"irc": {"irc_rpc", "xmpp_c2s", "xmpp_status"}, "xmpp": {"xmpp_c2s", "irc_tls", "irc_rpc"}} {
		w := relayWorld(t)
		for _, name := range down {
			w.target(name).Up = false
		}
		w.look()
		w.relay(AlertRelaySessionDown + " " + side)
		w.fails(6 * time.Minute)
		found := false
		for _, p := range w.last.Problems {
			found = found || p.Alert == AlertRelaySessionDown && p.Severity == Warning && !p.Excuse.Holds()
		}
		if !found {
			t.Errorf("%s: got %v, want that RelaySessionDown warns", side, w.last.Problems)
		}
	}
}

const blind = AlertRelayUnwatched + " "

// TestBlindCheckIsAProblem: nobody knows whether the bridge relays, whatever the check's sessions look like.
func TestBlindCheckIsAProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(blind)
	w.fails(15 * time.Minute)
	w.want("x RelayUnwatched pending 14m50s", "x TargetUnstable warning 8m50s")
	w.fails(20 * time.Second) // from now on this is the only alert
	w.want("x RelayUnwatched warning 15m10s")
	w.relay()
	w.pass(10 * time.Second)
	w.want()
}

func TestBlindCheckIsWarnedOfAfterAQuarterOfAnHour(t *testing.T) {
	w := relayWorld(t)
	w.relay(blind)
	w.pass(15 * time.Minute)
	w.want("x RelayUnwatched pending 15m0s")
	w.pass(time.Second)
	w.want("x RelayUnwatched warning 15m1s")
}

func TestBlindCheckUnderMaintenanceIsExcused(t *testing.T) {
	w := relayWorld(t)
	w.Maintenance = []Subject{TargetSubject("x")}
	w.relay(blind)
	w.pass(time.Hour)
	w.want("x RelayUnwatched pending 1h0m0s maintenance()")
}

// TestPendingSessionExcusesNoBlindCheck, since it may never be warned of.
func TestPendingSessionExcusesNoBlindCheck(t *testing.T) {
	w := relayWorld(t)
	w.relay(blind)
	w.pass(14*time.Minute + 30*time.Second)
	w.relay(blind, AlertRelaySessionDown+" irc")
	w.pass(time.Minute)
	w.want("x RelaySessionDown pending 1m0s", "x RelayUnwatched warning 15m30s")
}

func TestSessionOfAnotherRelayExcusesNoBlindCheck(t *testing.T) {
	w := relayWorld(t)
	w.target("y").be("relay")
	w.relay(blind)
	w.setCondition("y", Condition{Alert: AlertRelaySessionDown, Of: "irc", Holds: true})
	w.pass(20 * time.Minute)
	w.want("x RelayUnwatched warning 20m0s", "y RelaySessionDown warning 20m0s")
}

// TestBlindCheckThatFlapsIsAProblem: its sessions come and go, so RelaySessionDown never lasts.
func TestBlindCheckThatFlapsIsAProblem(t *testing.T) {
	w := relayWorld(t)
	for range 10 {
		w.relay(blind, AlertRelaySessionDown+" irc")
		w.fails(time.Minute)
		w.relay(blind)
		w.fails(time.Minute)
	}
	w.want("x RelayUnwatched warning 19m50s")
}

// TestDeadBridgeThatIsNoLongerCheckedIsAProblem: BridgeNotRelaying knows nothing new, and ends.
func TestDeadBridgeThatIsNoLongerCheckedIsAProblem(t *testing.T) {
	w := relayWorld(t)
	w.relay(AlertBridgeNotRelaying+" irc to xmpp", AlertBridgeNotRelaying+" xmpp to irc")
	w.fails(10 * time.Minute)
	w.target("x").Conditions = []Condition{{Alert: AlertRelayUnwatched, Holds: true}}
	for range 30 {
		w.fails(time.Minute)
		alerted := slices.ContainsFunc(w.last.Problems, func(p Problem) bool { return p.Severity > Pending })
		if !alerted {
			t.Fatalf("nothing is said of the bridge: %+v", w.last.Problems)
		}
	}
}

// TestBlindCheckIsSaidOnce: a lost session, or a server that is down, has an alert of its own.
func TestBlindCheckIsSaidOnce(t *testing.T) {
	w := relayWorld(t)
	w.relay(blind, AlertRelaySessionDown+" irc")
	w.fails(time.Hour)
	w.want("x RelaySessionDown warning 59m50s", "x RelayUnwatched pending 59m50s dependency(x)")
	w.relay(blind) // the session is back, and still tells nothing
	w.fails(5 * time.Minute)
	w.want("x RelayUnwatched pending 4m40s")

	w = relayWorld(t)
	w.target("irc_tls").Up, w.target("irc_rpc").Up = false, false
	w.look()
	w.relay(blind, AlertRelaySessionDown+" irc")
	w.fails(time.Hour)
	w.want("irc_rpc TargetDown critical 1h0m0s", "irc_tls TargetDown critical 1h0m0s",
		"x RelaySessionDown pending 59m50s dependency(irc_rpc)", "x RelayUnwatched pending 59m50s dependency(irc_rpc)")
	w.wantUnstable("well/-")
}

// TestRelayThatWasDownIsNotUnstableBeforeItsOwnAlert has a check that fails for another reason than before, and no alert says that yet.
func TestRelayThatWasDownIsNotUnstableBeforeItsOwnAlert(t *testing.T) {
	w := relayWorld(t)
	w.judge.rule(AlertTargetUnstable).Warning.Over = 0.05
	w.target("x").Conditions, w.target("x").Up = nil, false
	w.fails(3 * time.Minute)
	w.want("x TargetDown warning 2m50s")
	w.relay(AlertRelaySessionDown + " irc")
	w.fails(5 * time.Minute)
	w.want("x RelaySessionDown pending 4m50s")
	w.wantUnstable("well/-")
}

// TestSlowBridgeIsNotUnstable: each check fails at its deadline, and its messages arrive before the next one.
func TestSlowBridgeIsNotUnstable(t *testing.T) {
	for _, lost := range []bool{false, true} {
		w := relayWorld(t)
		var late uint64
		for n := range 360 {
			w.relay(AlertBridgeSlow + " irc to xmpp")
			w.target("x").Up = false
			for i := range w.target("x").Conditions {
				w.target("x").Conditions[i].Late = late
			}
			w.fails(10 * time.Second)
			if !lost || n%2 == 0 {
				late++
			}
		}
		want := "well/-"
		if lost {
			want = "unstable/-"
		}
		w.wantUnstable(want)
	}
}
