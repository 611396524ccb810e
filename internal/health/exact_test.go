package health

import (
	"maps"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// verdict is that of the container.
func (w *world) verdict(container string) Verdict {
	return w.last.Verdicts[ContainerSubject("local", container)]
}

// problem is the one that the alert tells of, and false if there is none.
func (w *world) problem(name, alert string) (Problem, bool) {
	i := slices.IndexFunc(w.last.Problems, func(p Problem) bool { return p.Name == name && p.Alert == alert })
	if i < 0 {
		return Problem{}, false
	}
	return w.last.Problems[i], true
}

// second adds an engine that has this container.
func (w *world) second(c Container) {
	c.Host, c.Expected = "second", true
	w.Engines = append(w.Engines, Engine{Host: c.Host, Read: true, Containers: []Container{c}})
}

// TestConditionsHaveExactThresholds holds for each alert on a condition how long it waits, and how bad it is then.
func TestConditionsHaveExactThresholds(t *testing.T) {
	for alert, c := range map[string]struct {
		hold     time.Duration
		severity Severity
	}{
		AlertModuleProblem: {11 * time.Minute, Warning}, AlertComponentDisconnected: {12 * time.Minute, Critical},
		AlertAuthSourceMissing: {13 * time.Minute, Warning}, AlertServicesUnlinked: {14 * time.Minute, Critical},
		AlertOrphans: {15 * time.Minute, Warning}, AlertSeriesDropped: {16 * time.Minute, Warning},
		AlertChainInvalid: {17 * time.Minute, Warning}, AlertCacheExhausted: {18 * time.Minute, Warning},
		AlertPlaceholder: {19 * time.Minute, Warning}, AlertServedNotRenewed: {20 * time.Minute, Warning},
		AlertBridgeNotRelaying: {21 * time.Minute, Critical}, AlertBridgeSlow: {22 * time.Minute, Warning},
		AlertVolumeReadOnly: {23 * time.Minute, Critical}, AlertBackupOld: {24 * time.Minute, Warning},
	} {
		w := newWorld(t)
		w.waits(AlertModuleProblem, 11*time.Minute)
		w.waits(AlertComponentDisconnected, 12*time.Minute)
		w.waits(AlertAuthSourceMissing, 13*time.Minute)
		w.waits(AlertServicesUnlinked, 14*time.Minute)
		w.waits(AlertOrphans, 15*time.Minute)
		w.waits(AlertSeriesDropped, 16*time.Minute)
		w.waits(AlertChainInvalid, 17*time.Minute)
		w.waits(AlertCacheExhausted, 18*time.Minute)
		w.waits(AlertPlaceholder, 19*time.Minute)
		w.judge.rule(AlertServedNotRenewed).Warning.Hold = 20 * time.Minute
		w.judge.rule(AlertServedNotRenewed).Critical.Hold = 9 * time.Minute
		w.waits(AlertBridgeNotRelaying, 21*time.Minute)
		w.waits(AlertBridgeSlow, 22*time.Minute)
		w.waits(AlertVolumeReadOnly, 23*time.Minute)
		w.waits(AlertBackupOld, 24*time.Minute)
		w.target("x").Conditions = []Condition{{Alert: alert, Holds: true, Certificates: []Validity{{Ends: w.now.Add(100 * day)}}}}
		w.pass(c.hold)
		if p, ok := w.problem("x", alert); !ok || p.Severity != Pending {
			t.Errorf("%s at its threshold: %s, %t, want pending", alert, p.Severity, ok)
		}
		w.pass(time.Second)
		if p, _ := w.problem("x", alert); p.Severity != c.severity {
			t.Errorf("%s after its threshold: %s, want %s", alert, p.Severity, c.severity)
		}
		if w.last.Next != 0 {
			t.Errorf("%s: something changes after %s, although all is told", alert, w.last.Next)
		}
	}
}

func TestOldCertificateIsCriticalWhenThatLasts(t *testing.T) {
	w := newWorld(t)
	w.judge.rule(AlertServedNotRenewed).Critical.Hold = 9 * time.Minute
	w.target("x").Conditions = []Condition{{Alert: AlertServedNotRenewed, Holds: true, Certificates: []Validity{{Ends: w.now.Add(day)}}}}
	w.pass(9 * time.Minute)
	w.want("x TLSServedNotRenewed pending 9m0s")
	w.pass(time.Second)
	w.want("x TLSServedNotRenewed critical 9m1s")
	w.target("y").Conditions = []Condition{
		{Alert: AlertServedNotRenewed, Holds: true, Certificates: []Validity{{Ends: w.now.Add(3*day + 30*time.Second)}}},
	}
	w.look()
	w.target("y").Read = false // it gets worse while nobody can look
	w.pass(time.Minute)
	atLeast := map[bool]int{}
	for _, p := range w.last.Problems {
		if p.Name == "y" {
			atLeast[p.AtLeast]++
		}
	}
	severities := map[Severity]bool{}
	for key, known := range w.judge.problems {
		if key.Name == "y" {
			severities[key.Severity] = known.AtLeast
		}
	}
	if want := map[Severity]bool{Warning: true, Critical: false}; !maps.Equal(severities, want) {
		t.Errorf("began maybe earlier: %v, want %v", severities, want)
	}
}

func TestServicesThatGoDownLaterExplainNothing(t *testing.T) {
	for later, want := range map[time.Duration]string{
		time.Minute:               "irc IRCServicesUnlinked pending 6m0s dependency(services)",
		time.Minute + time.Second: "irc IRCServicesUnlinked critical 6m1s also(services)",
	} {
		w := newWorld(t)
		w.judge.rule(AlertTargetDown).Warning.Hold = time.Minute
		w.target("irc").be("irc_rpc")
		w.target("services").be("irc_services")
		w.look()
		w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
		w.pass(later)
		w.target("services").Up = false
		w.pass(5 * time.Minute)
		w.want("services TargetDown warning 5m0s", want)
	}
}

// TestTargetThatIsNotToldHoldsBackNothingForLong has services that are down, of which no alert tells yet.
func TestTargetThatIsNotToldHoldsBackNothingForLong(t *testing.T) {
	w := newWorld(t)
	w.judge.rule(AlertTargetDown).Warning.Hold, w.judge.rule(AlertTargetDown).Critical.Hold = time.Hour, time.Hour
	w.target("irc").be("irc_rpc")
	w.target("services").be("irc_services")
	w.look()
	w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
	w.target("services").Up = false
	w.pass(5 * time.Minute)
	w.want("services TargetDown pending 5m0s", "irc IRCServicesUnlinked pending 5m0s dependency(services)")
	w.pass(time.Second)
	w.want("services TargetDown pending 5m1s", "irc IRCServicesUnlinked critical 5m1s also(services)")
}

// TestServicesThatDoNotPageHoldBackNoPage has the services down, and the IRC server miss them.
func TestServicesThatDoNotPageHoldBackNoPage(t *testing.T) {
	for _, c := range []struct {
		services, irc bool // only warn
		want          []string
	}{
		{true, false, []string{"services TargetDown warning 10m0s", "irc IRCServicesUnlinked critical 10m0s"}},
		{true, true, []string{"services TargetDown warning 10m0s", "irc IRCServicesUnlinked pending 10m0s dependency(services)"}},
		{false, true, []string{"services TargetDown critical 10m0s", "irc IRCServicesUnlinked pending 10m0s dependency(services)"}},
	} {
		w := newWorld(t)
		w.target("irc").be("irc_rpc")
		w.target("services").be("irc_services")
		w.target("irc").WarnOnly, w.target("services").WarnOnly = c.irc, c.services
		w.look()
		w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
		w.target("services").Up = false
		w.pass(10 * time.Minute)
		w.want(c.want...)
	}
}

// TestCauseThatWasNeverToldHoldsBackNothingForLong has a container that stops for half a minute, and then starts for ever.
func TestCauseThatWasNeverToldHoldsBackNothingForLong(t *testing.T) {
	w := stack(t)
	w.judge.rules.Lookback = 10 * time.Minute
	w.container("web").State = "exited"
	w.target("web").Up = false
	w.pass(30 * time.Second)
	w.container("web").State, w.container("web").Health = Running, Starting
	w.pass(4*time.Minute + 30*time.Second)
	w.want("web TargetDown pending 5m0s starting(web)")
	w.container("web").Memory = 2e9 // this is pending, and no account of the start
	w.pass(time.Second)
	w.want("web TargetDown critical 5m1s also(web)", "web ContainerMemory pending 1s")
}

func TestWaitForWhatNobodyKnowsIsHeldBackNoLonger(t *testing.T) {
	w := stack(t)
	w.judge.rule(AlertContainerRestarts).Critical.Over = 0
	*w.container("api") = Container{
		Host:     "local",
		Name:     "api",
		State:    "created",
		WaitsFor: "nobody",
	}
	w.target("api").Up = false
	w.pass(3 * time.Minute)
	w.want("api ContainerDown pending 3m0s starting(nobody)", "api TargetDown pending 3m0s starting(api)")
	w.pass(2*time.Minute + time.Second)
	w.want("api ContainerDown critical 5m1s also(nobody)", "api TargetDown pending 5m1s starting(api)")
}

func TestOneRestartHoldsBackIfItIsCritical(t *testing.T) {
	for over, want := range map[float64]string{
		0: "web TargetDown pending 5m1s starting(web)",
		1: "web TargetDown critical 5m1s also(web)",
	} {
		w := stack(t)
		w.judge.rule(AlertContainerRestarts).Critical.Over = over
		w.container("web").Health, w.container("web").Restarts = Starting, 1
		w.target("web").Up = false
		w.pass(5*time.Minute + time.Second)
		severity := map[float64]string{0: "critical", 1: "warning"}[over]
		w.want(want, "web ContainerRestarts "+severity+" 5m1s")
	}
}

// TestCauseIsDecidedOnFirst has a cause that is told in the moment in which its consequence could no longer be held back.
func TestCauseIsDecidedOnFirst(t *testing.T) {
	w := stack(t)
	w.judge.rule(AlertContainerDown).Warning.Hold = w.judge.rule(AlertContainerDown).Critical.Hold
	w.container("db").State, w.container("api").State = "exited", "exited"
	w.pass(5 * time.Minute)
	w.want("db ContainerDown pending 5m0s", "api ContainerDown pending 5m0s dependency(db)")
	if w.last.Next != minDuration {
		t.Errorf("next after %s, want %s", w.last.Next, minDuration)
	}
	w.pass(time.Second)
	w.want("db ContainerDown critical 5m1s", "api ContainerDown pending 5m1s dependency(db)")
}

func TestOwnContainerIsNamedWithWhatBroughtItDown(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.container("api").State = "exited", "exited"
	w.target("api").Up = false
	w.pass(2 * time.Minute)
	w.want("db ContainerDown warning 2m0s", "api ContainerDown pending 2m0s dependency(db)", "api TargetDown pending 2m0s dependency(api)")
	if p, _ := w.problem("api", AlertTargetDown); p.Excuse.Root.Name != "db" {
		t.Errorf("the root is %s, want db", p.Excuse.Root.Name)
	}
}

func TestCauseThatHasEndedExplainsForTheLookback(t *testing.T) {
	w := stack(t)
	w.container("db").State, w.target("api").Up = "exited", false
	w.pass(time.Minute)
	w.container("db").State = Running
	w.pass(2 * time.Minute)
	w.want("api TargetDown pending 3m0s dependency(db)")
	w.pass(time.Second)
	w.want("api TargetDown warning 3m1s")
}

// TestInferredContainerThatNeedNotRunExcusesNothing has an inferred container that somebody stopped, and one that it needs.
func TestInferredContainerThatNeedNotRunExcusesNothing(t *testing.T) {
	w := stack(t)
	w.inferAPI()
	w.container("api").State, w.container("api").Expected = "exited", false
	w.container("db").State = "exited"
	w.target("api").Up = false
	w.pass(3 * time.Minute)
	w.want("db ContainerDown warning 3m0s", "api TargetDown warning 3m0s")
}

func TestUnhealthyContainerHasExactThresholds(t *testing.T) {
	w := stack(t)
	w.judge.rule(AlertContainerUnhealthy).Warning.Hold = time.Minute
	w.container("web").Health = Unhealthy
	for _, step := range []struct {
		later time.Duration
		want  string
	}{
		{time.Minute, "web ContainerUnhealthy pending 1m0s"},
		{time.Second, "web ContainerUnhealthy warning 1m1s"},
		{3*time.Minute + 59*time.Second, "web ContainerUnhealthy warning 5m0s"},
		{time.Second, "web ContainerUnhealthy critical 5m1s"},
	} {
		w.pass(step.later)
		w.want(step.want)
	}
}

func TestRestartsThatAreNotWorthAWarning(t *testing.T) {
	for restarts, want := range map[uint64]string{2: "", 3: "web ContainerRestarts warning 0s"} {
		w := stack(t)
		w.judge.rule(AlertContainerRestarts).Warning.Over = 2
		w.container("web").Restarts = restarts
		w.look()
		w.want(lines(want)...)
	}
}

func TestMaintenanceOfTheBridgeHoldsBackAsLongAsItLasts(t *testing.T) {
	w := newWorld(t)
	w.container("b").Role = "bridge"
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "b"}}
	w.target("x").Conditions = []Condition{{Alert: AlertComponentDisconnected, Holds: true}}
	w.pass(time.Hour)
	w.want("x XMPPComponentDisconnected pending 1h0m0s maintenance(b)")
}

func TestProblemThatEndsBeginsAnew(t *testing.T) {
	w := stack(t)
	for range 2 {
		w.container("db").State, w.container("api").Health, w.target("web").Up = "exited", Unhealthy, false
		w.container("api").DependsOn, w.container("web").DependsOn = nil, nil
		w.look()
		w.want("db ContainerDown pending 0s", "api ContainerUnhealthy warning 0s", "web TargetDown pending 0s")
		w.pass(3 * time.Minute)
		w.want("db ContainerDown warning 3m0s", "api ContainerUnhealthy warning 3m0s", "web TargetDown warning 3m0s")
		w.container("db").State, w.container("api").Health, w.target("web").Up = Running, "healthy", true
		w.pass(10 * time.Minute)
		w.want()
	}
}

// TestContainersThatWereWrongAtFirst holds since when a problem is that the first reading of an engine finds.
func TestContainersThatWereWrongAtFirst(t *testing.T) {
	w := newWorld(t)
	for _, c := range []Container{
		{Name: "missing", State: Missing},
		{Name: "missing-since", State: Missing, DownFor: 3 * time.Minute},
		{Name: "stopped", State: "exited"},
		{Name: "stopped-since", State: "exited", DownFor: 3 * time.Minute},
		{Name: "stopped-later", State: "exited", DownFor: -time.Minute},
		{Name: "unhealthy", State: Running, Health: Unhealthy},
		{
			Name:         "unhealthy-since",
			State:        Running,
			Health:       Unhealthy,
			UnhealthyFor: 3 * time.Minute,
		},
	} {
		c.Host, c.Expected = "local", true
		*w.container(c.Name) = c
	}
	*w.container("done") = Container{
		Host:   "local",
		Name:   "done",
		State:  "exited",
		Health: Unhealthy,
	}
	w.look()
	w.want("missing ContainerMissing pending 0s", "missing-since ContainerMissing pending 3m0s", "stopped ContainerDown pending 0s",
		"stopped-since ContainerDown warning 3m0s", "stopped-later ContainerDown pending 0s", "unhealthy ContainerUnhealthy warning 0s",
		"unhealthy-since ContainerUnhealthy warning 3m0s")
	atLeast := map[string]bool{"missing": true, "stopped": true, "unhealthy": true}
	for _, p := range w.last.Problems {
		if p.AtLeast != atLeast[p.Name] {
			t.Errorf("%s may have begun earlier: %t", p.Name, p.AtLeast)
		}
		if p.Name == "stopped-later" && !p.Since.Equal(w.now) {
			t.Errorf("%s has been down since %s, want %s", p.Name, p.Since, w.now)
		}
		if !w.verdict(p.Name).Known {
			t.Errorf("it is unknown how long %s has been down", p.Name)
		}
	}
	w.pass(2 * time.Minute)
	if p, _ := w.problem("stopped", AlertContainerDown); p.Severity != Warning {
		t.Errorf("a container that was down at first is %s after %s", p.Severity, p.Lasted)
	}
	w.container("missing-2").State = Missing
	w.container("stopped-2").State = "exited"
	w.container("unhealthy-2").Health = Unhealthy
	w.look()
	for _, name := range []string{"missing-2", "stopped-2", "unhealthy-2"} {
		i := slices.IndexFunc(w.last.Problems, func(p Problem) bool { return p.Name == name })
		if w.last.Problems[i].AtLeast {
			t.Errorf("%s may have begun earlier, although the engine was read before", name)
		}
	}
}

// TestCrashLoopHasOneAlert holds which alert tells of a container that is being restarted.
func TestCrashLoopHasOneAlert(t *testing.T) {
	w := stack(t)
	w.container("web").DependsOn = nil
	w.container("web").Restarts, w.container("web").State = 1, Restarting
	w.pass(3 * time.Minute)
	w.want("web ContainerRestarts warning 3m0s")
	w.container("api").DependsOn = nil
	w.container("api").State = Restarting // and was never seen to be restarted
	w.pass(2 * time.Minute)
	w.want("web ContainerRestarts warning 5m0s", "api ContainerDown warning 2m0s")
	w.container("api").State, w.container("web").DependsOn = Running, []string{"db"}
	w.container("db").State = "exited"
	w.pass(time.Minute)
	w.want("web ContainerRestarts warning 6m0s", "db ContainerDown pending 1m0s", "web ContainerDown pending 1m0s dependency(db)")
}

func TestMaintenanceOfWhatWasTold(t *testing.T) {
	begin := func() *world {
		w := stack(t)
		w.container("db").State = "exited"
		w.target("x").Conditions = []Condition{{Alert: AlertChainInvalid, Holds: true}}
		w.pass(3 * time.Minute)
		return w
	}
	w := begin()
	w.container("db").Memory = 2e9 // a second problem, which is not told
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "db"}, TargetSubject("x"), TargetSubject("web")}
	w.look()
	if v := w.verdict("db"); v.Excuse.Holds() {
		t.Errorf("the container that was told to be down is excused: %+v", v.Excuse)
	}
	for _, name := range []string{"x", "web"} { // a certificate says nothing of whether x is down
		v := w.last.Verdicts[TargetSubject(name)]
		if v.Excuse.Reason != ReasonMaintenance || !v.Known {
			t.Errorf("%s: %+v, want maintenance of a target that is known", name, v)
		}
	}
	w.pass(time.Minute)
	w.want("db ContainerDown warning 4m0s", "db ContainerMemory pending 1m0s", "x TLSChainInvalid warning 4m0s")
}

func TestAlertThatWasToldIsNotHeldBack(t *testing.T) {
	w := newWorld(t)
	w.target("data").be("volume")
	w.target("web").Container = "web"
	w.container("web")
	w.target("data").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.9}}
	w.pass(10 * time.Minute)
	w.target("data").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.99}}
	w.look() // critical is pending
	w.container("web").State = "exited"
	w.Maintenance = []Subject{TargetSubject("data"), TargetSubject("other")}
	w.look()
	if len(w.last.HeldBack) != 0 {
		t.Errorf("held back: %v, want nothing", w.last.HeldBack)
	}
	w.Maintenance = []Subject{TargetSubject("web")}
	w.target("web").be("xmpp_metrics")
	w.look()
	if want := []HeldBack{
		{Alert: AlertCertificateExpiry, Subject: TargetSubject("web"), In: "chatstack_tls_certificate_excused"},
		{Alert: AlertAuthFailureRate, Subject: TargetSubject("web"), In: "chatstack_xmpp_auth_failures_excused"},
		{Alert: AlertSessionsGone, Subject: TargetSubject("web"), In: "chatstack_xmpp_sessions_excused"},
	}; !slices.Equal(w.last.HeldBack, want) {
		t.Errorf("held back: %v, want %v", w.last.HeldBack, want)
	}
	w.target("web").be("irc_rpc")
	w.look()
	if want := []HeldBack{
		{Alert: AlertUsersGone, Subject: TargetSubject("web"), In: "chatstack_irc_excused"},
		{Alert: AlertCertificateExpiry, Subject: TargetSubject("web"), In: "chatstack_tls_certificate_excused"},
	}; !slices.Equal(w.last.HeldBack, want) {
		t.Errorf("held back: %v, want %v", w.last.HeldBack, want)
	}
}

func TestDurationIsUnknownUntilTheTargetWasWatched(t *testing.T) {
	w := newWorld(t)
	w.target("web").Up = false
	w.pass(5 * time.Minute)
	if v := w.last.Verdicts[TargetSubject("web")]; v.Known {
		t.Errorf("known at the threshold: %+v", v)
	}
	w.pass(time.Second)
	if v := w.last.Verdicts[TargetSubject("web")]; !v.Known || v.Down != 5*time.Minute+time.Second {
		t.Errorf("after the threshold: %+v, want that it is known", v)
	}
}

func TestContainerMadeAnewAtTheEndOfTheLookback(t *testing.T) {
	for away, want := range map[time.Duration]string{
		2 * time.Minute:             "db ContainerDown warning 4m0s",
		2*time.Minute + time.Second: "db ContainerDown pending 0s",
	} {
		w := stack(t)
		w.container("db").State = "exited"
		w.pass(2 * time.Minute)
		all := w.Engines[0].Containers
		w.Engines[0].Containers = all[1:]
		w.pass(away)
		w.Engines[0].Containers = all
		w.container("db").State = "created"
		w.look()
		w.want(want)
	}
}

// step sets the wall clock of a time with a monotonic reading, whose seconds are above its 30 bits of nanoseconds.
func step(t time.Time, seconds int64) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(seconds) << 30
	return t
}

func TestStepOfTheWallClockIsSaved(t *testing.T) {
	for _, seconds := range []int64{-3600, -1, 0, 1, 3600} {
		w := newWorld(t)
		w.now = time.Now()
		w.container("db")
		w.pass(time.Minute)
		w.container("db").State = "exited"
		w.pass(2 * time.Minute)
		w.judge.Memory(w.now)
		w.now = step(w.now.Add(time.Second), seconds)
		w.look()
		if got, want := w.judge.Changed(), seconds*seconds > 1; got != want {
			t.Errorf("after a step of %d s: something is to be saved: %t, want %t", seconds, got, want)
		}
		m := w.judge.Memory(w.now)
		if got := w.now.Round(0).Sub(m.Problems[0].Since); (got - 2*time.Minute - time.Second).Abs() > clockTolerance {
			t.Errorf("after a step of %d s: saved as %s ago, want 2m1s", seconds, got)
		}
	}
}

// TestProblemsKeepTheirDurations sets the clock while a problem lasts. People are told of it by the clock as it is then.
func TestProblemsKeepTheirDurations(t *testing.T) {
	const wrong = 50 * 365 * 86400
	for name, set := range map[string]func(w *world){
		"set back":          func(w *world) { w.now = step(w.now, -3*3600) },
		"set back for good": func(w *world) { w.now = step(w.now, -30*86400) },
		"set forward":       func(w *world) { w.now = step(w.now, 2*3600) },
		"suspended":         func(w *world) { w.now = step(w.now, 8*3600) },
		"wrong at boot": func(w *world) {
			w.now = step(w.now, -wrong)
			w.restart(true)
			w.look()
			w.now = step(w.now, wrong)
		},
	} {
		w := stack(t)
		w.now = time.Now()
		w.restart(false)
		w.container("db").State = "exited"
		w.pass(4 * time.Minute)
		set(w)
		w.pass(2 * time.Minute)
		p, _ := w.problem("db", AlertContainerDown)
		told := w.chain.problems[toldKey{Key(p.Subject), p.Alert, ""}]
		since := w.last.Round.To.Time().Sub(told.Since.Time())
		if p.Lasted.Round(time.Second) != 6*time.Minute || p.Severity != Critical || since.Round(time.Second) != 6*time.Minute {
			t.Errorf("%s: it has lasted for %s, %s, and is told to have for %s", name, p.Lasted, p.Severity, since)
		}
		if m := w.judge.Memory(w.now); w.now.Round(0).Sub(m.Problems[0].Since).Round(time.Second) != 6*time.Minute {
			t.Errorf("%s: saved since %s at %s", name, m.Problems[0].Since, w.now)
		}
	}
}

// TestTicks are what moments of a clock mean.
func TestTicks(t *testing.T) {
	var c Clock
	now := time.Now()
	now = now.Add(-time.Duration(now.Nanosecond()))
	tick := func(later time.Duration, seconds int64) Tick {
		now = step(now.Add(later), seconds)
		got := c.Tick(now)
		got.From, got.To = got.From-Milli(now.UnixMilli()), got.To-Milli(now.UnixMilli())
		return got
	}
	for _, one := range []struct {
		name    string
		later   time.Duration
		seconds int64
		want    Tick
	}{
		{
			"the start",
			0,
			0,
			Tick{Start: true},
		},
		{
			"the next",
			10 * time.Second,
			0,
			Tick{From: -10000},
		},
		{
			"the longest",
			MaxGap,
			0,
			Tick{From: -90000},
		},
		{
			"a gap",
			MaxGap + time.Millisecond,
			0,
			Tick{},
		},
		{
			"set forward",
			10 * time.Second,
			3600,
			Tick{From: -10000, Step: 3600000},
		},
		{
			"set a little",
			10 * time.Second,
			-1,
			Tick{From: -9000},
		},
		{
			"and again",
			10 * time.Second,
			-1,
			Tick{From: -9000, Step: -2000},
		},
		{
			"set back",
			10 * time.Second,
			-7200,
			Tick{From: -10000, Step: -7200000},
		},
		{
			"behind",
			time.Hour - time.Second,
			0,
			Tick{},
		},
		{
			"behind for an hour",
			time.Second,
			0,
			Tick{From: -1000, Back: true},
		},
		{
			"believed",
			time.Second,
			0,
			Tick{From: -1000},
		},
	} {
		if got := tick(one.later, one.seconds); got != one.want {
			t.Errorf("%s: got %+v, want %+v", one.name, got, one.want)
		}
	}
	move := movedFrom(now.Add(time.Hour), now)
	if got := move(now.Add(30 * time.Minute)); !got.Equal(now.Add(-30 * time.Minute)) {
		t.Errorf("half an hour before the end of a process with a later clock is now %s", now.Sub(got))
	}
	if got := move(now.Add(2 * time.Hour)); !got.Equal(now) {
		t.Errorf("what was later than the end is now %s ago", now.Sub(got))
	}
	for _, ended := range []time.Duration{0, 30 * time.Minute, 2 * time.Hour} {
		c = Clock{}
		kept, start := Milli(now.Add(time.Hour).UnixMilli()), Milli(now.UnixMilli())
		c.Resume(kept, start.Add(ended))
		if got := tick(0, 0); got != (Tick{Start: true, Step: -Milli(ended.Milliseconds())}) {
			t.Errorf("started %s before the end of the former process: got %+v", ended, got)
		}
		if c.behind.IsZero() || c.latest != max(kept, start.Add(ended)) {
			t.Errorf("ended %s ahead: the clock is not behind what is kept", ended)
		}
	}
}

// slew moves the wall clock of a time with a monotonic reading by less than a second.
func slew(t time.Time, by time.Duration) time.Time {
	*(*uint64)(unsafe.Pointer(&t)) += uint64(by)
	return t
}

// TestSavedTimesStayTheSame holds that a clock that is slewed a little changes no saved time, since each change is written to the disk.
func TestSavedTimesStayTheSame(t *testing.T) {
	for by, same := range map[time.Duration]bool{0: true, clockTolerance - 1: true, clockTolerance + 1: false} {
		w := newWorld(t)
		w.now = time.Now()
		w.now = slew(w.now, -time.Duration(w.now.Nanosecond())) // so that there is room for what is added
		w.container("db")
		w.pass(time.Minute)
		w.container("db").State = "exited"
		w.pass(2 * time.Minute)
		before := w.judge.Memory(w.now).Problems[0].Since
		w.now = slew(step(w.now.Add(time.Second), int64(by/time.Second)), by%time.Second)
		w.look()
		if since := w.judge.Memory(w.now).Problems[0].Since; since.Equal(before) != same {
			t.Errorf("slewed by %s: the saved time is now %s, it was %s; the same: want %t", by, since, before, same)
		}
	}
}

func TestWhatIsNotSavedYetStaysToBeSaved(t *testing.T) {
	w := stack(t)
	w.judge.Memory(w.now)
	w.container("db").State = "exited"
	w.look()
	w.look()
	if !w.judge.Changed() {
		t.Error("a problem that nobody has saved yet is not to be saved any more")
	}
}

func TestRestartWithAClockThatWasSetBack(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.pass(3 * time.Minute)
	m := w.judge.Memory(w.now)
	w.now = w.now.Add(-time.Hour)
	w.resume(&m)
	w.unread(true)
	w.look()
	if p, _ := w.problem("db", AlertContainerDown); p.Lasted != 3*time.Minute {
		t.Errorf("down for %s, want as long as before", p.Lasted)
	}
}

func TestTargetThatWasSeenUpBeforeTheRestartHasBeenDownSince(t *testing.T) {
	w := stack(t)
	w.restart(true)
	w.target("web").Up = false
	w.look()
	if p, _ := w.problem("web", AlertTargetDown); p.AtLeast {
		t.Error("the target may have been down earlier, although it was seen up")
	}
}

// TestRestartOfTheExporterBesideTwoEngines has one engine read at once, and the other one later.
func TestRestartOfTheExporterBesideTwoEngines(t *testing.T) {
	w := stack(t)
	w.second(Container{Name: "far", State: Running})
	w.container("web").DependsOn = nil
	w.look()
	w.container("db").State, w.container("web").Restarts, w.target("api").Up = "exited", 1, false
	w.Engines[1].Containers[0].State, w.Engines[1].Containers[0].Restarts = "exited", 2
	w.pass(3 * time.Minute)
	w.restart(true)
	w.Engines[0].Read = false
	w.look()
	want := []string{
		"db ContainerDown warning 3m0s unknown", "web ContainerRestarts warning 3m0s unknown", "far ContainerDown warning 3m0s",
		"far ContainerRestarts warning 3m0s",
		"api TargetDown pending 3m0s dependency(db)",
	}
	w.want(want...)
	if len(w.last.Conditions) != 0 {
		t.Errorf("conditions that nobody has told of: %v", w.last.Conditions)
	}
	for name, known := range map[string]bool{"db": true, "web": true, "api": false} {
		if v := w.verdict(name); v.Known != known || v.Unknown != known {
			t.Errorf("the verdict of %s: %+v", name, v)
		}
	}
	w.pass(5 * time.Minute) // nobody knows yet whether the engine answers
	w.want("db ContainerDown warning 5m0s unknown", "web ContainerRestarts warning 8m0s unknown", "far ContainerDown critical 8m0s",
		"far ContainerRestarts warning 8m0s", "api TargetDown pending 8m0s dependency(db)")
	if w.last.Next != minDuration {
		t.Errorf("next after %s, want %s", w.last.Next, minDuration)
	}
	w.pass(time.Second)
	w.want("db ContainerDown critical 8m1s unknown", "web ContainerRestarts warning 8m1s unknown", "far ContainerDown critical 8m1s",
		"far ContainerRestarts warning 8m1s", "api TargetDown pending 8m1s dependency(db)")
	w.pass(3 * time.Hour)
	w.want("db ContainerDown critical 3h8m1s unknown", "web ContainerRestarts warning 3h8m1s unknown", "far ContainerDown critical 3h8m1s",
		"api TargetDown pending 3h8m1s dependency(db)")
}

func TestContainerThatVanishedWhileTheExporterWasAway(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.pass(3 * time.Minute)
	w.restart(true)
	w.Engines[0].Containers = w.Engines[0].Containers[1:]
	w.look()
	w.want()
}

func TestSeveralConditionsOutliveARestart(t *testing.T) {
	w := newWorld(t)
	w.target("data").Conditions = []Condition{
		{Alert: AlertChainInvalid, Holds: true}, {Alert: AlertOrphans, Holds: true}, {Alert: AlertVolumeUsage, Used: 0.9},
	}
	w.pass(20 * time.Minute)
	w.restart(true)
	w.target("data").Read = false
	w.look()
	w.want("data TLSChainInvalid warning 20m0s unknown",
		"data PlantStoreOrphans warning 20m0s unknown", "data DataVolumeUsage warning 20m0s unknown")
	if len(w.last.Values) != 0 || len(w.judge.problems) != 3 {
		t.Errorf("%d problems and the values %v, want 3 and none", len(w.judge.problems), w.last.Values)
	}
}

func TestVolumeThatCannotBeReadStaysAsFull(t *testing.T) {
	w := newWorld(t)
	w.target("data").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.9}}
	w.container("irc") // of which no memory is known
	w.pass(10 * time.Minute)
	w.want("data DataVolumeUsage warning 10m0s")
	w.target("data").Read = false
	w.pass(10 * time.Minute)
	w.want("data DataVolumeUsage warning 20m0s unknown")
	if want := []Value{{Subject: TargetSubject("data"), Alert: AlertVolumeUsage, Number: 0.9}}; !slices.Equal(w.last.Values, want) {
		t.Errorf("values %v, want %v", w.last.Values, want)
	}
}

// TestRateIsThatOfTheReadingsInTheWindow compares it with what all readings tell.
func TestRateIsThatOfTheReadingsInTheWindow(t *testing.T) {
	w := newWorld(t)
	began, readings, total := w.now, map[time.Duration]float64{}, 0.0
	read := func(grows float64) {
		total += grows
		readings[w.now.Sub(began)] = total
		x := w.target("x")
		x.ReadAt, x.Conditions = w.now, []Condition{{Alert: AlertAuthFailureRate, Counts: map[string]float64{"a": total}}}
	}
	compare := func(problems int) {
		t.Helper()
		now := w.now.Sub(began)
		first := now
		last := time.Duration(0)
		for at := range readings {
			if now-at <= 2*time.Minute {
				first, last = min(first, at), max(last, at)
			}
		}
		if last <= first {
			if len(w.last.Values) != 0 || len(w.last.Problems) != problems {
				t.Errorf("after %s: %v and %d problems, want none and %d", now, w.last.Values, len(w.last.Problems), problems)
			}
			return
		}
		want := (readings[last] - readings[first]) / (last - first).Minutes()
		if len(w.last.Values) != 1 || w.last.Values[0].Number != want {
			t.Errorf("after %s: %v, want %v", now, w.last.Values, want)
		}
	}
	for i := range 20 {
		read(float64(i % 5))
		for _, later := range []time.Duration{time.Second, 19 * time.Second, 10 * time.Second} { // several times at one reading
			w.look()
			compare(0)
			w.now = w.now.Add(later)
		}
	}
	if n := len(w.judge.targets["x"].logins.points); n > 5 {
		t.Errorf("%d readings are kept of two minutes with one every 30 s", n)
	}
	w.target("x").Up, w.target("x").Conditions = false, nil
	for range 18 {
		w.target("x").ReadAt = w.now
		w.look()
		compare(1)
		w.now = w.now.Add(10 * time.Second)
	}
}

func TestServerSaysHowItWasFound(t *testing.T) {
	for _, c := range []struct {
		Server
		origin, ambiguity string
	}{
		{Server{Container: "web"}, "web", ""},
		{Server{Container: "web", Inferred: true}, "web (found by the address)", ""},
		{Server{Container: "chat-web-2", Service: "chat/web"}, "chat-web-2 (of the service chat/web)", ""},
		{Server{Container: "web", Service: "web"}, "web", ""},
		{Server{Service: "web", Unseen: true}, "", "service web does not exist on any engine"},
		{
			Server{Candidates: []string{"a", "b"}},
			"", "2 containers have the target's address (a, b), so the exporter cannot pick one; set service or container",
		},
		{
			Server{Candidates: []string{"a", "b", "c", "d", "e", "f"}},
			"", "6 containers have the target's address (a, b, c, d, e), so the exporter cannot pick one; set service or container",
		},
	} {
		if got := c.Origin(); got != c.origin {
			t.Errorf("%+v: origin %q, want %q", c.Server, got, c.origin)
		}
		if got := c.Warning(); got != c.ambiguity {
			t.Errorf("%+v: ambiguity %q, want %q", c.Server, got, c.ambiguity)
		}
	}
}

// TestContainerThatUsesTooMuchMemoryIsUnknownUntilItsEngineIsRead restarts the exporter, for which nothing says that it is well else.
func TestContainerThatUsesTooMuchMemoryIsUnknownUntilItsEngineIsRead(t *testing.T) {
	w := newWorld(t)
	w.container("db").Memory = 2e9
	w.pass(time.Hour)
	w.restart(true)
	w.Engines[0].Read = false
	w.look()
	if v := w.verdict("db"); !v.Known || !v.Unknown || !v.MemoryAlerted {
		t.Errorf("the verdict is %+v, want the last known state", v)
	}
	w.Engines[0].Read = true
	w.look()
	if v := w.verdict("db"); v.Unknown || !v.MemoryAlerted {
		t.Errorf("the verdict is %+v, want one on what was read", v)
	}
}

// TestTargetThatNobodyReadsIsNotUp holds that only a reading ends an outage.
func TestTargetThatNobodyReadsIsNotUp(t *testing.T) {
	w := newWorld(t)
	w.target("docs")
	w.look()
	w.target("docs").Up = false
	w.pass(10 * time.Minute)
	w.target("docs").Up, w.target("docs").Read = true, false
	w.look()
	w.want("docs TargetDown critical 10m0s unknown")
}

// TestValueMayHaveBeenOverItsLimitBefore holds that only what was over the limit in the first reading may have been so for longer.
func TestValueMayHaveBeenOverItsLimitBefore(t *testing.T) {
	w := newWorld(t)
	used := func(of string) { // more than the limit of a warning, but not of the critical alert
		w.target(of).Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.9}}
	}
	used("full")
	w.target("fills").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.1}}
	w.look()
	used("fills")
	w.look()
	for _, p := range w.last.Problems {
		if want := p.Name == "full"; p.AtLeast != want {
			t.Errorf("%s may have begun earlier: %t, want %t", p.Name, p.AtLeast, want)
		}
	}
	if len(w.last.Problems) != 2 {
		t.Errorf("there are %d problems, want 2", len(w.last.Problems))
	}
}

// TestAlertsAreToldApart holds what other packages ask of an alert's name.
func TestAlertsAreToldApart(t *testing.T) {
	for name, c := range map[string]struct {
		is   func(string) bool
		want []string
	}{
		"fails readings": {FailsReadings, []string{AlertTargetDown, AlertBridgeNotRelaying, AlertRelaySessionDown}},
	} {
		for _, alert := range []string{
			AlertTargetDown, AlertContainerDown, AlertContainerRestarts, AlertContainerOOMKill, AlertContainerMemory,
			AlertBridgeNotRelaying, AlertRelaySessionDown, AlertTargetUnstable, AlertMostTargetsDown,
		} {
			if got, want := c.is(alert), slices.Contains(c.want, alert); got != want {
				t.Errorf("%s %s: %t, want %t", alert, name, got, want)
			}
		}
	}
}
