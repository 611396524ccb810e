package health

import (
	"testing"
	"time"
)

// TestMemoryIsSavedWhenItIsOld holds that the next process knows about when this one ended, also where nothing happens.
func TestMemoryIsSavedWhenItIsOld(t *testing.T) {
	w := stack(t)
	w.judge.Memory(w.now)
	w.pass(5 * time.Minute)
	if w.judge.Changed() {
		t.Errorf("there is something to save %s after the last time", saveEvery)
	}
	w.pass(time.Second)
	if !w.judge.Changed() {
		t.Errorf("there is nothing to save more than %s after the last time", saveEvery)
	}
	if w.judge.Memory(w.now); w.judge.Changed() {
		t.Error("there is something to save just after it was saved")
	}
}

// TestEveryChangeIsSaved holds that what the next process must know is saved at once, and nothing else is.
func TestEveryChangeIsSaved(t *testing.T) {
	w := stack(t)
	for _, step := range []struct {
		name  string
		do    func()
		saved bool
	}{
		{"nothing", func() {}, false},
		{"a container is restarted", func() { w.container("db").Restarts++ }, true},
		{"nothing more", func() {}, false},
		{"a container is new", func() { w.container("new") }, true},
		{"a problem begins", func() { w.container("new").State = "exited" }, true},
		{"a problem lasts", func() {}, false},
		{"a problem is told", func() { w.now = w.now.Add(61 * time.Second) }, true},
		{"a problem ends", func() { w.container("new").State = Running }, true},
		{"a container starts", func() { w.container("new").Health = Starting }, true},
		{"it has started", func() { w.container("new").Health = "healthy" }, true},
		{"it is unhealthy", func() { w.container("new").Health = Unhealthy }, true},
		{"it is healthy again", func() { w.container("new").Health = "healthy" }, true},
		{"a target is seen up for the first time", func() { w.target("other") }, true},
	} {
		w.judge.Memory(w.now)
		w.now = w.now.Add(time.Second)
		step.do()
		w.look()
		if got := w.judge.Changed(); got != step.saved {
			t.Errorf("%s: something is to be saved: %t, want %t", step.name, got, step.saved)
		}
	}
}

// TestCountersOfLoginsThatBeginAnew holds that what a counter has when it is seen first counts for nothing, and what it has after it
// began anew does.
func TestCountersOfLoginsThatBeginAnew(t *testing.T) {
	r := &rate{}
	for i, c := range []struct {
		counts map[string]float64
		want   float64
	}{
		{map[string]float64{"a": 100}, 0},
		{map[string]float64{"a": 105}, 5},
		{map[string]float64{"a": 105, "b": 70}, 5},
		{map[string]float64{"a": 105, "b": 72}, 7},
		{map[string]float64{"a": 3, "b": 72}, 10},
	} {
		r.observe(time.Unix(int64(i), 0), c.counts)
		if r.total != c.want {
			t.Errorf("after reading %d the total is %v, want %v", i, r.total, c.want)
		}
	}
}

// TestConditionsAreExcusedByWhatServesThem holds what explains a condition: all containers of the role, or maintenance alone.
func TestConditionsAreExcusedByWhatServesThem(t *testing.T) {
	type role struct{ name, role, state string }
	for _, c := range []struct {
		name, alert string
		roles       []role
		maintained  string
		want        bool
	}{
		{
			"the bridge runs",
			AlertComponentDisconnected,
			[]role{{"b", "bridge", Running}},
			"",
			false,
		},
		{
			"the bridge is down",
			AlertComponentDisconnected,
			[]role{{"b", "bridge", "exited"}},
			"",
			true,
		},
		{
			"one of two bridges runs",
			AlertComponentDisconnected,
			[]role{{"a", "bridge", "exited"}, {"b", "bridge", Running}},
			"",
			false,
		},
		{
			"both bridges are down",
			AlertComponentDisconnected,
			[]role{{"a", "bridge", "exited"}, {"b", "bridge", "exited"}},
			"",
			true,
		},
		{
			"another is down",
			AlertComponentDisconnected,
			[]role{{"a", "irc", "exited"}, {"b", "bridge", Running}},
			"",
			false,
		},
		{
			"no bridge is known",
			AlertComponentDisconnected,
			[]role{{"a", "irc", "exited"}},
			"",
			false,
		},
		{
			"the services are down",
			AlertServicesUnlinked,
			[]role{{"s", "irc_services", "exited"}},
			"",
			true,
		},
		{
			"its own container, for the services",
			AlertServicesUnlinked,
			[]role{{"own", "", "exited"}},
			"",
			true,
		},
		{
			"maintenance of the bridge",
			AlertComponentDisconnected,
			[]role{{"b", "bridge", Running}},
			"b",
			true,
		},
		{
			"maintenance of one of two bridges",
			AlertComponentDisconnected,
			[]role{{"a", "bridge", Running}, {"b", "bridge", Running}},
			"b",
			false,
		},
		{
			"a store without its container",
			AlertOrphans,
			[]role{{"own", "", "exited"}},
			"",
			true,
		},
		{
			"a chain without its container",
			AlertChainInvalid,
			[]role{{"own", "", "exited"}},
			"",
			true,
		},
		{
			"the bridge, for the services",
			AlertServicesUnlinked,
			[]role{{"s", "irc_services", Running}, {"b", "bridge", "exited"}},
			"",
			false,
		},
		{
			"its own container, for dropped series",
			AlertSeriesDropped,
			[]role{{"own", "", "exited"}},
			"",
			false,
		},
		{
			"its own container, for a module",
			AlertModuleProblem,
			[]role{{"own", "", "exited"}},
			"",
			true,
		},
		{
			"maintenance, for dropped series",
			AlertSeriesDropped,
			nil,
			"x",
			true,
		},
		{
			"maintenance of another, for dropped series",
			AlertSeriesDropped,
			nil,
			"y",
			false,
		},
		{
			"maintenance, for a placeholder",
			AlertPlaceholder,
			nil,
			"x",
			false,
		},
	} {
		w := newWorld(t)
		at := 5 * time.Second
		w.waits(AlertModuleProblem, at)
		w.waits(AlertComponentDisconnected, at)
		w.waits(AlertServicesUnlinked, at)
		w.waits(AlertOrphans, at)
		w.waits(AlertSeriesDropped, at)
		w.waits(AlertChainInvalid, at)
		w.waits(AlertPlaceholder, at)
		for _, r := range c.roles {
			w.container(r.name).Role = r.role
		}
		target := w.target("x")
		target.Container = "own"
		target.Conditions = []Condition{{Alert: c.alert}}
		if c.maintained != "" {
			w.Maintenance = []Subject{TargetSubject(c.maintained), {Kind: KindContainer, Name: c.maintained}}
		}
		w.pass(time.Minute)
		for _, r := range c.roles {
			w.container(r.name).State = r.state
		}
		w.pass(10 * time.Second)
		w.target("x").Conditions = []Condition{{Alert: c.alert, Holds: true}}
		w.pass(10 * time.Second)
		found := 0
		for _, v := range w.last.Conditions {
			if v.Target == "x" && v.Alert == c.alert {
				if found++; v.Excused != c.want {
					t.Errorf("%s: excused: %t, want %t", c.name, v.Excused, c.want)
				}
			}
		}
		if p, _ := w.problem("x", c.alert); (p.Severity == Pending) != c.want {
			t.Errorf("%s: is %s", c.name, p.Severity)
		}
		if found != 1 {
			t.Errorf("%s: %d verdicts, want one", c.name, found)
		}
	}
}

// TestOldCertificateIsCriticalShortlyBeforeItEnds holds the limit of TLSServedNotRenewed.
func TestOldCertificateIsCriticalShortlyBeforeItEnds(t *testing.T) {
	for _, c := range []struct {
		holds bool
		left  time.Duration
		want  bool
	}{{true, 3 * day, false}, {true, 3*day - time.Second, true}, {false, 3*day - time.Second, false}} {
		w := newWorld(t)
		w.target("x").Conditions = []Condition{
			{Alert: AlertServedNotRenewed, Holds: c.holds, Certificates: []Validity{{Ends: w.now.Add(c.left)}}},
		}
		w.look()
		for _, v := range w.last.Conditions {
			if v.Severity == Critical && (v.Lasted > 0) != c.want {
				t.Errorf("%s left, holds %t: critical for %s, want it: %t", c.left, c.holds, v.Lasted, c.want)
			}
		}
	}
}
