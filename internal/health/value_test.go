package health

import (
	"encoding/json"
	"slices"
	"testing"
	"time"
)

const day = 24 * time.Hour

// lines are none for an empty line.
func lines(line string) []string {
	return slices.DeleteFunc([]string{line}, func(l string) bool { return l == "" })
}

func TestCriticalProblemIsNoWarningBefore(t *testing.T) {
	w := newWorld(t)
	rule := w.judge.rule(AlertContainerMemory)
	rule.Warning.Hold, rule.Critical.Hold = time.Minute, 10*time.Minute
	w.container("db").Memory = 2e9
	w.pass(5 * time.Minute)
	w.want("db ContainerMemory pending 5m0s")
}

func TestMemoryIsJudgedByTheRole(t *testing.T) {
	for _, c := range []struct {
		role   string
		memory float64
		lasts  time.Duration
		want   string
	}{
		{
			"xmpp",
			5e8,
			time.Hour,
			"",
		},
		{
			"xmpp",
			5e8 + 1,
			5 * time.Minute,
			"x ContainerMemory pending 5m0s",
		},
		{
			"xmpp",
			5e8 + 1,
			5*time.Minute + time.Second,
			"x ContainerMemory warning 5m1s",
		},
		{
			"xmpp",
			1e9,
			time.Hour,
			"x ContainerMemory warning 1h0m0s",
		},
		{
			"xmpp",
			1e9 + 1,
			2 * time.Minute,
			"x ContainerMemory pending 2m0s",
		},
		{
			"xmpp",
			1e9 + 1,
			2*time.Minute + time.Second,
			"x ContainerMemory critical 2m1s",
		},
		{
			"irc",
			1e9,
			time.Hour,
			"",
		},
		{
			"irc",
			1e9 + 1,
			time.Hour,
			"x ContainerMemory critical 1h0m0s",
		},
	} {
		w := newWorld(t)
		w.container("x").Role = c.role
		w.look()
		w.container("x").Memory = c.memory
		w.pass(c.lasts)
		w.want(lines(c.want)...)
	}
}

func TestMemoryIsHeldBackWithTheContainer(t *testing.T) {
	w := stack(t)
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "db"}}
	w.container("db").Memory = 2e9
	w.pass(time.Hour)
	w.want("db ContainerMemory pending 1h0m0s maintenance()")
	w.Maintenance = nil
	w.look()
	w.want("db ContainerMemory critical 1h0m0s")
	w.Maintenance = []Subject{{Kind: KindContainer, Name: "db"}}
	w.look()
	w.want("db ContainerMemory critical 1h0m0s") // it was told before
	if v := w.last.Verdicts[ContainerSubject("local", "db")]; v.Excuse.Holds() {
		t.Errorf("the alert that was told is held back: %+v", v.Excuse)
	}
}

func TestMemoryThatWasToldGoesOnWhenACauseAppears(t *testing.T) {
	w := stack(t)
	w.container("api").Memory = 2e9
	w.pass(10 * time.Minute)
	w.container("db").State = "exited"
	w.pass(20 * time.Second)
	w.container("api").Health = Unhealthy
	w.pass(4 * time.Minute)
	w.want("api ContainerMemory critical 14m20s", "db ContainerDown warning 4m20s", "api ContainerUnhealthy pending 4m0s dependency(db)")
	if v := w.last.Verdicts[ContainerSubject("local", "api")]; !v.Excuse.Holds() || !v.MemoryAlerted {
		t.Errorf("excuse %+v, memory told %t; want an excuse, but not for the memory", v.Excuse, v.MemoryAlerted)
	}
}

func TestMemoryOfWhichTheWarningWasToldIsNotHeldBack(t *testing.T) {
	w := stack(t)
	w.container("api").Role, w.container("api").Memory = "xmpp", 6e8
	w.pass(10 * time.Minute)
	w.container("db").State = "exited"
	w.container("api").Health, w.container("api").Memory = Unhealthy, 2e9
	w.pass(4 * time.Minute)
	if v := w.last.Verdicts[ContainerSubject("local", "api")]; !v.Excuse.Holds() || !v.MemoryAlerted {
		t.Errorf("excuse %+v, memory told %t; want an excuse, but not for the memory", v.Excuse, v.MemoryAlerted)
	}
}

func TestCertificateEndsAlsoWhileNobodyLooks(t *testing.T) {
	w := stack(t)
	irc := w.target("irc")
	irc.Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{{Ends: w.now.Add(3*day + time.Minute)}}}}
	w.look()
	irc.Up, irc.Conditions = false, nil
	w.pass(2 * time.Minute)
	if w.last.Problems[0].Alert != AlertCertificateExpiry || w.last.Problems[0].Severity != Critical {
		t.Errorf("got %+v, want that the certificate is critical", w.last.Problems[0])
	}
}

func TestMemoryOutlivesTheExporterAndItsEngine(t *testing.T) {
	w := stack(t)
	w.container("db").Memory = 2e9
	w.target("db") // of the same name, and read after the restart
	w.pass(3 * time.Minute)
	w.restart(true)
	w.Engines[0].Read = false
	w.look()
	w.want("db ContainerMemory critical 3m0s unknown")
	w.Engines[0].Read = true
	w.look()
	w.want("db ContainerMemory critical 3m0s")
	w.Engines[0].Read = false
	w.pass(time.Minute)
	w.want("db ContainerMemory critical 4m0s unknown")
	w.restart(true)
	w.unread(true)
	w.look()
	w.want("db ContainerMemory critical 4m0s unknown")
}

// TestMemoryThatIsMeasuredLaterGoesOn has the engine read before it has measured, as after a restart of the exporter, a failed reading, a
// reload, or while measuring fails.
func TestMemoryThatIsMeasuredLaterGoesOn(t *testing.T) {
	const told = "db ContainerMemory critical 10m1s"
	for name, c := range map[string]struct {
		meanwhile func(*world)
		then      []string // at the first reading
		after     []string // when it is measured
	}{
		"the exporter is restarted": {
			func(w *world) { w.restart(true) },
			[]string{"db ContainerMemory critical 10m0s unknown"},
			[]string{told},
		},
		"it is restarted, and the engine is read later": {
			func(w *world) { w.restart(true); w.unread(true); w.look(); w.unread(false) },
			[]string{"db ContainerMemory critical 10m0s unknown"},
			[]string{told},
		},
		"the engine could not be read": {
			func(w *world) { w.Engines[0].Read = false; w.look(); w.Engines[0].Read = true },
			[]string{"db ContainerMemory critical 10m0s unknown"},
			[]string{told},
		},
		"measuring fails": {
			func(*world) {},
			[]string{"db ContainerMemory critical 10m0s unknown"},
			[]string{told},
		},
		"it is paused": {
			func(w *world) { w.container("db").Expected, w.container("db").State = false, Paused },
			[]string{"db ContainerMemory critical 10m0s unknown"},
			[]string{told},
		},
		"it is stopped": {
			func(w *world) { w.container("db").Expected, w.container("db").State = false, "exited" },
			nil,
			[]string{"db ContainerMemory pending 0s"},
		},
		"it runs anew": {
			func(w *world) { w.container("db").Started = w.now },
			nil,
			[]string{"db ContainerMemory pending 0s"},
		},
		"it runs anew after a restart of the exporter": {
			func(w *world) { w.restart(true); w.container("db").Started = w.now },
			nil,
			[]string{"db ContainerMemory pending 0s"},
		},
		"it uses nothing": {
			func(w *world) { w.container("db").HasMemory = true },
			nil,
			[]string{"db ContainerMemory pending 0s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.container("db").Started = w.now
			w.container("db").Memory = 2e9
			w.pass(10 * time.Minute)
			w.container("db").Memory = 0
			c.meanwhile(w)
			w.look()
			w.want(c.then...)
			w.now = w.now.Add(time.Second)
			w.container("db").Memory = 2e9
			w.look()
			w.want(c.after...)
		})
	}
}

// TestMemoryThatNobodyMeasuresIsForgotten holds how long the last known state stays, and that it gets no worse.
func TestMemoryThatNobodyMeasuresIsForgotten(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		w := newWorld(t)
		w.container("db").Memory = 2e9
		w.pass(time.Minute)
		w.container("db").Memory = 0
		if restarted {
			w.restart(true)
		}
		w.pass(unreadGrace)
		w.want("db ContainerMemory pending 2m0s unknown")
		w.now = w.now.Add(time.Nanosecond)
		w.look()
		w.want()
	}
}

func TestCertificatesAndVolumesHaveExactLimits(t *testing.T) {
	for _, c := range []struct {
		left  time.Duration
		used  float64
		lasts time.Duration
		want  string
	}{
		{
			14 * day,
			0.80,
			0,
			"pending",
		},
		{
			14 * day,
			0.801,
			5 * time.Minute,
			"pending",
		},
		{
			14*day - time.Second,
			0.801,
			5*time.Minute + time.Second,
			"warning",
		},
		{
			3 * day,
			0.95,
			time.Hour,
			"warning",
		},
		{
			3*day - time.Second,
			0.951,
			time.Minute + time.Second,
			"critical",
		},
		{
			-time.Hour,
			1,
			time.Hour,
			"critical",
		},
	} {
		w := newWorld(t)
		end := w.now.Add(c.lasts + c.left)
		w.target("web").Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{{Ends: end}}}}
		w.target("data").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: c.used}}
		w.pass(c.lasts)
		worst := map[string]string{"web": "pending", "data": "pending"}
		for _, p := range w.last.Problems {
			worst[p.Name] = p.Severity.String()
		}
		if worst["web"] != c.want || worst["data"] != c.want {
			t.Errorf("%s left, %g used, for %s: got %v, want %s", c.left, c.used, c.lasts, worst, c.want)
		}
		if n := len(w.last.Problems); n > 2 || len(w.last.Values) != 2 {
			t.Errorf("%s left: %d problems and %d values, want one each of both", c.left, n, len(w.last.Values))
		}
	}
}

func TestCertificateIsWrongSinceItsLimit(t *testing.T) {
	w := newWorld(t)
	w.target("web").Conditions = []Condition{{Alert: AlertCertificateExpiry, Certificates: []Validity{{Ends: w.now.Add(-day)}}}}
	w.look()
	if p := w.last.Problems[0]; p.Severity != Critical || p.Lasted != 4*day || p.AtLeast {
		t.Errorf("got %s for %s, at least %t; want critical for four days", p.Severity, p.Lasted, p.AtLeast)
	}
}

func TestMaintenanceHoldsBackValues(t *testing.T) {
	w := newWorld(t)
	w.target("data").be("volume")
	w.target("data").Conditions = []Condition{{Alert: AlertVolumeUsage, Used: 0.99}}
	w.Maintenance = []Subject{TargetSubject("data")}
	w.pass(time.Hour)
	w.want("data DataVolumeUsage pending 1h0m0s maintenance()")
	if len(w.last.HeldBack) != 1 {
		t.Errorf("held back: %v, want the volume's", w.last.HeldBack)
	}
	w.Maintenance = nil
	w.look()
	w.want("data DataVolumeUsage critical 1h0m0s")
	w.Maintenance = []Subject{TargetSubject("data")}
	w.look()
	w.want("data DataVolumeUsage critical 1h0m0s")
	if len(w.last.HeldBack) != 0 {
		t.Errorf("held back: %v, want nothing, since it was told before", w.last.HeldBack)
	}
}

// failLogins has so many logins fail a minute for a while, read every 30 s.
func (w *world) failLogins(total *float64, perMinute float64, minutes float64) {
	w.t.Helper()
	for range int(2 * minutes) {
		*total += perMinute / 2
		w.now = w.now.Add(30 * time.Second)
		target := w.target("xmpp")
		target.ReadAt = w.now
		target.Conditions = []Condition{{Alert: AlertAuthFailureRate, Counts: map[string]float64{"a": *total, "b": 3}}}
		w.look()
		w.look() // at the same reading
	}
}

func TestFailedLoginsCountWhenTheyLast(t *testing.T) {
	for _, c := range []struct {
		name               string
		perMinute, minutes float64
		want               []Severity // those that it ever had
	}{
		{
			"exactly the limit",
			10,
			20,
			nil,
		},
		{
			"a burst of 180",
			120,
			1.5,
			[]Severity{Pending},
		},
		{
			"over the warning",
			11,
			10,
			[]Severity{Pending, Warning},
		},
		{
			"exactly critical",
			50,
			10,
			[]Severity{Pending, Warning},
		},
		{
			"over critical",
			51,
			10,
			[]Severity{Pending, Warning, Critical},
		},
	} {
		w, total := newWorld(t), 1000.0
		w.target("xmpp").be("xmpp_metrics")
		w.failLogins(&total, 0, 2)
		w.want()
		seen := map[Severity]bool{}
		for _, phase := range [][2]float64{{c.perMinute, 2 * c.minutes}, {0, 20}} {
			for range int(phase[1]) {
				w.failLogins(&total, phase[0], 0.5)
				for _, p := range w.last.Problems {
					seen[p.Severity] = true
				}
			}
		}
		w.want()
		for s := Pending; s <= Critical; s++ {
			if wanted := slices.Contains(c.want, s); seen[s] != wanted {
				t.Errorf("%s: was %s: %t, want %t", c.name, s, seen[s], wanted)
			}
		}
	}
}

func TestLostReadingDoesNotEndAnAttack(t *testing.T) {
	w, total := newWorld(t), 0.0
	w.target("xmpp").be("xmpp_metrics")
	attack := func() (p Problem) {
		for _, p := range w.last.Problems {
			if p.Alert == AlertAuthFailureRate {
				return p
			}
		}
		return p
	}
	w.failLogins(&total, 100, 8)
	if p := attack(); p.Severity != Critical || p.Unknown {
		t.Fatalf("after eight minutes: %+v", p)
	}
	target := w.target("xmpp")
	target.Up, target.Conditions = false, nil
	w.pass(4 * time.Minute)
	if p := attack(); p.Severity != Critical || !p.Unknown {
		t.Errorf("after four minutes without a reading: %+v, want that it stays as it was", p)
	}
	w.pass(12 * time.Minute)
	if p := attack(); p.Severity != Pending {
		t.Errorf("after sixteen minutes without a reading: %+v", p)
	}
	w.target("xmpp").Up = true
	w.failLogins(&total, 100, 8)
	w.restart(true)
	target = w.target("xmpp")
	target.Up, target.Conditions, target.ReadAt = false, nil, w.now
	w.look() // a failed reading counts for nothing
	target.Up = true
	w.failLogins(&total, 100, 0.5)
	if p := attack(); p.Severity != Critical || !p.Unknown {
		t.Errorf("after a restart and one reading: %+v, want that it stays as it was", p)
	}
	total = 0 // the server was restarted
	w.failLogins(&total, 0, 8)
	w.want()
}

func TestRestartsHaveExactLimits(t *testing.T) {
	w := newWorld(t)
	w.container("irc").Restarts = 7
	w.look()
	w.want()
	begin := w.now
	for _, c := range []struct {
		restarts    uint64
		later       time.Duration
		want        string
		ends, eases time.Duration // since the beginning
	}{
		{
			8,
			time.Minute,
			"irc ContainerRestarts warning 0s",
			11 * time.Minute,
			0,
		},
		{
			10,
			time.Minute,
			"irc ContainerRestarts warning 1m0s",
			12 * time.Minute,
			0,
		},
		{
			11,
			time.Minute,
			"irc ContainerRestarts critical 2m0s",
			13 * time.Minute,
			11 * time.Minute,
		},
		{
			11,
			8 * time.Minute,
			"irc ContainerRestarts critical 10m0s",
			13 * time.Minute,
			11 * time.Minute,
		},
		{
			11,
			time.Second,
			"irc ContainerRestarts warning 9m1s",
			13 * time.Minute,
			0,
		},
		{
			11,
			time.Minute,
			"irc ContainerRestarts warning 9m1s",
			13 * time.Minute,
			0,
		},
		{
			11,
			time.Minute,
			"",
			0,
			0,
		},
	} {
		w.container("irc").Restarts = c.restarts
		w.now = w.now.Add(c.later)
		w.look()
		w.want(lines(c.want)...)
		for _, p := range w.last.Problems {
			if !p.Ends.Equal(begin.Add(c.ends)) || c.eases == 0 != p.Eases.IsZero() || c.eases > 0 && !p.Eases.Equal(begin.Add(c.eases)) {
				t.Errorf("after %s: ends %s, eases %s", w.now.Sub(begin), p.Ends, p.Eases)
			}
		}
	}
}

func TestWhatWasWrongAlreadyIsSoAtLeast(t *testing.T) {
	w := newWorld(t)
	w.Engines[0].Read = false
	w.target("web").Read = false
	w.look()
	w.Engines[0].Read, w.target("web").Read = true, true
	w.container("missing").State = Missing
	w.container("stopped").State, w.container("stopped").DownFor = "exited", time.Hour
	w.container("large").Memory = 2e9
	w.target("web").Up = false
	w.target("web").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
	w.look()
	w.container("later").State = "exited"
	w.target("other").Conditions = []Condition{{Alert: AlertServicesUnlinked}}
	w.look()
	w.target("other").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
	w.look()
	want := map[string]bool{"missing": true, "stopped": false, "large": true, "web": true, "later": false, "other": false}
	for _, p := range w.last.Problems {
		if p.AtLeast != want[p.Name] {
			t.Errorf("%s of %s: at least is %t", p.Alert, p.Name, p.AtLeast)
		}
	}
	if len(w.last.Problems) != 7 {
		t.Errorf("%d problems, want 7", len(w.last.Problems))
	}
}

func TestProblemsAreJSON(t *testing.T) {
	w := stack(t)
	w.container("db").State = "exited"
	w.target("api").Up = false
	w.pass(2 * time.Minute)
	got, err := json.Marshal(w.last.Problems)
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"kind":"container","docker_host":"local","name":"db","alert":"ContainerDown","since":"2026-01-01T00:01:00Z","severity":"warning",` +
		`"cause":{"kind":"container","docker_host":"local","name":"db"},"consequences":[{"kind":"target","name":"api"}]},` +
		`{"kind":"target","name":"api","alert":"TargetDown","since":"2026-01-01T00:01:00Z","severity":"pending",` +
		`"cause":{"kind":"container","docker_host":"local","name":"db"},"excuse":{"reason":"dependency","cause":"db","root":{"kind":"container","docker_host":"local","name":"db"}},"also":"db"}]`
	if string(got) != want {
		t.Errorf("problems (-want +got):\n-%s\n+%s", want, got)
	}
	var back []Problem
	if err := json.Unmarshal(got, &back); err != nil || back[0].Severity != Warning {
		t.Errorf("read back: %v, %+v", err, back)
	}
	if err := new(Severity).UnmarshalText([]byte("fine")); err == nil {
		t.Error("there is a severity fine")
	}
}
