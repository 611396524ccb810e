package health

import (
	"testing"
	"time"
)

// gaps are what is not monitored, by target.
func (w *world) gaps() map[string]string {
	found := map[string]string{}
	for _, p := range w.last.Problems {
		if p.Alert == AlertMonitoringGap {
			found[p.Name] += p.Of
		}
	}
	return found
}

// xmpp is a stack whose XMPP server is in a container that does not tell what it is.
func xmpp(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.container("chat").HostNames = []string{"chat"}
	w.container("db").Role = ""
	w.container("irc").Role = "irc"
	for _, kind := range []string{"xmpp_c2s", "xmpp_status"} {
		w.target(kind).be(kind)
		w.target(kind).HostName = "chat"
	}
	return w
}

// TestXMPPServerOfUnknownRoleIsAGap tells the server's container from whatever else may be in containers: nobody is warned of a
// server that no container of these engines is.
func TestXMPPServerOfUnknownRoleIsAGap(t *testing.T) {
	const want = "no container has the role xmpp"
	for name, c := range map[string]struct {
		change func(w *world)
		target string // "" for no gap
	}{
		"found by the address":             {func(*world) {}, "xmpp_c2s"},
		"another role":                     {func(w *world) { w.container("chat").Role = "bridge" }, ""},
		"the role":                         {func(w *world) { w.container("chat").Role = "xmpp" }, ""},
		"the role, of another container":   {func(w *world) { w.container("db").Role = "xmpp" }, ""},
		"the role, on another engine":      {func(w *world) { w.second(Container{Name: "x", State: Running, Role: "xmpp"}) }, ""},
		"a proxy":                          {func(w *world) { w.container("chat").Proxy = true }, ""},
		"a server beside Docker":           {func(w *world) { w.container("chat").HostNames = nil }, ""},
		"an address that another one fits": {func(w *world) { w.container("db").HostNames = []string{"chat"} }, ""},
		"behind something, by HTTP":        {func(w *world) { w.target("xmpp_c2s").HostName = "" }, ""},
		"named, by HTTP": {
			func(w *world) { w.target("xmpp_c2s").HostName, w.target("xmpp_status").Container = "", "chat" },
			"xmpp_status",
		},
		"named, by metrics": {func(w *world) {
			*w.target("xmpp_c2s") = Target{Name: "xmpp_c2s", Read: true, Container: "chat"}
			w.target("xmpp_c2s").be("xmpp_metrics")
		}, "xmpp_c2s"},
		"named, by REST": {func(w *world) {
			*w.target("xmpp_c2s") = Target{Name: "xmpp_c2s", Read: true, Container: "chat"}
			w.target("xmpp_c2s").be("xmpp_rest")
		}, "xmpp_c2s"},
		"named, but by its proxy's target": {func(w *world) {
			*w.target("xmpp_c2s") = Target{Name: "xmpp_c2s", Read: true, Container: "chat"}
			w.target("xmpp_c2s").be("xmpp_proxy")
		}, ""},
		"named, on another exporter's": {
			func(w *world) { w.target("xmpp_c2s").Container, w.target("xmpp_c2s").ContainerHost = "chat", "far" },
			"",
		},
		"named, and there is none": {
			func(w *world) { w.container("chat").State, w.target("xmpp_c2s").Container = Missing, "chat" },
			"",
		},
		"an engine is unread":               {func(w *world) { w.Engines = append(w.Engines, Engine{Host: "far"}) }, ""},
		"no engine":                         {func(w *world) { w.Engines[0].Containers = nil }, ""},
		"no XMPP target":                    {func(w *world) { w.target("xmpp_c2s").be("http") }, ""},
		"turned off":                        {func(w *world) { w.judge.rule(AlertMonitoringGap).Roles = nil }, ""},
		"another role is wanted, and there": {func(w *world) { w.judge.rule(AlertMonitoringGap).Roles = []string{"im", "irc"} }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := xmpp(t)
			c.change(w)
			w.look()
			got := w.gaps()
			if c.target == "" && len(got) > 0 || c.target != "" && (len(got) != 1 || got[c.target] != want) {
				t.Errorf("the gaps are %v, want %q of %q", got, want, c.target)
			}
		})
	}
}

func TestContainerThatNoEngineHasIsAGap(t *testing.T) {
	w := newWorld(t)
	w.waits(AlertMonitoringGap, 7*time.Minute)
	w.container("api")
	w.target("web").Container = "wbe"
	w.target("far").Container, w.target("far").ContainerHost = "far", "elsewhere"
	w.target("api").Container = "api"
	w.pass(7 * time.Minute)
	w.want("web MonitoringGap pending 7m0s")
	if got, want := w.gaps()["web"], "no engine has its container wbe"; got != want {
		t.Errorf("the gap is %q, want %q", got, want)
	}
	w.pass(time.Second)
	w.want("web MonitoringGap warning 7m1s")
	if n := len(w.last.Conditions); n != 1 || w.last.Conditions[0].Lasted != 7*time.Minute+time.Second {
		t.Errorf("the conditions are %+v, want the gap", w.last.Conditions)
	}
	w.Engines[0].Read = false
	w.target("api").Container = "ipa" // of this nobody knows
	w.pass(time.Minute)
	w.want("web MonitoringGap warning 8m1s unknown")
	w.restart(true)
	w.waits(AlertMonitoringGap, 7*time.Minute)
	w.pass(time.Minute)
	w.want("web MonitoringGap warning 9m1s unknown")
	w.Engines[0].Read = true
	w.look()
	w.want("web MonitoringGap warning 9m1s", "api MonitoringGap pending 0s")
	w.target("api").Container, w.target("web").Container = "api", "api"
	w.look()
	w.want()
}

func TestMaintenanceExcusesGaps(t *testing.T) {
	w := xmpp(t)
	w.target("web").Container = "wbe"
	w.target("late").Overdue = true
	w.Maintenance = []Subject{TargetSubject("web"), TargetSubject("xmpp_c2s"), TargetSubject("late")}
	w.pass(20 * time.Minute)
	w.want("web MonitoringGap pending 20m0s maintenance()",
		"xmpp_c2s MonitoringGap pending 20m0s maintenance()", "late MonitoringGap pending 20m0s maintenance()")
	w.Maintenance = nil
	w.look()
	w.want("web MonitoringGap warning 20m0s", "xmpp_c2s MonitoringGap warning 20m0s", "late MonitoringGap warning 20m0s")
}

// TestOverdueChecksAreAGap has a target that is not read, although it is due: no engine needs to be read to know that.
func TestOverdueChecksAreAGap(t *testing.T) {
	w := newWorld(t)
	w.target("web")
	w.Engines[0].Read = false
	w.look()
	w.want()
	w.target("web").Overdue, w.target("web").Read = true, false
	w.pass(16 * time.Minute)
	w.want("web MonitoringGap warning 16m0s")
	if got, want := w.gaps()["web"], "its probes are overdue"; got != want {
		t.Errorf("the gap is %q, want %q", got, want)
	}
	w.target("web").Overdue, w.target("web").Read = false, true
	w.look()
	w.want()
}
