package health

import (
	"testing"
	"time"
)

// wantCauses compares the causes of the problems, by the name of their subject.
func (w *world) wantCauses(want map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	for _, p := range w.last.Problems {
		if p.Alert != AlertMonitoringGap {
			got[p.Name] = p.Cause.Name
		}
	}
	if len(got) != len(want) {
		w.t.Errorf("got causes %v, want %v", got, want)
	}
	for name, cause := range want {
		if got[name] != cause {
			w.t.Errorf("the cause of %s is %q, want %q", name, got[name], cause)
		}
	}
}

// server is a world with an XMPP server that three targets watch, and others.
func server(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	for _, t := range [][2]string{
		{"metrics", "xmpp_metrics"},
		{"status", "xmpp_status"},
		{"port", "xmpp_c2s"},
		{"irc", "irc_rpc"},
		{"web", "http"},
		{"site", "http"},
		{"a", "tcp"},
		{"b", "tcp"},
		{"c", "tcp"},
	} {
		w.target(t[0]).be(t[1])
	}
	w.pass(time.Minute)
	return w
}

func (w *world) down(names ...string) {
	for _, name := range names {
		w.target(name).Up = false
	}
	w.look()
}

func TestTargetsOfAServerHaveOneCause(t *testing.T) {
	w := server(t)
	w.down("metrics")
	w.wantCauses(map[string]string{"metrics": "metrics"})
	w.now = w.now.Add(5 * time.Minute)
	w.down("status", "irc")
	w.wantCauses(map[string]string{"metrics": "metrics", "status": "metrics", "irc": "irc"})
}

func TestLaterFailureOfAServerIsAnotherOutage(t *testing.T) {
	w := server(t)
	w.down("status")
	w.now = w.now.Add(5*time.Minute + time.Second)
	w.down("port")
	w.wantCauses(map[string]string{"status": "status", "port": "port"})
	w.now = w.now.Add(10 * time.Second)
	w.down("metrics")
	w.wantCauses(map[string]string{"status": "status", "port": "port", "metrics": "port"})
}

func TestOnlyOutagesOfAServerAreOne(t *testing.T) {
	w := server(t)
	w.target("status").Conditions = []Condition{{Alert: AlertChainInvalid, Holds: true}}
	w.target("port").Conditions = []Condition{{Alert: AlertChainInvalid, Holds: true}}
	w.down("metrics")
	w.wantCauses(map[string]string{"status": "status", "port": "port", "metrics": "metrics"})
}

func TestTargetsOfAContainerHaveOneCause(t *testing.T) {
	w := server(t)
	w.container("prosody")
	w.container("other")
	w.target("status").Container, w.target("metrics").Container = "prosody", "prosody"
	w.target("web").Container = "other"
	w.down("metrics", "port", "site")
	w.wantCauses(map[string]string{"metrics": "metrics", "port": "metrics", "site": "site"})
	w.down("web") // with a container, unlike site
	w.wantCauses(map[string]string{"metrics": "metrics", "port": "metrics", "site": "site", "web": "web"})
	w.target("web").Up, w.target("site").Container, w.target("metrics").Container = true, "other", ""
	w.target("port").Container = "other" // two containers with the role, so that of metrics is unknown
	w.look()
	w.wantCauses(map[string]string{"metrics": "metrics", "port": "port", "site": "port"})
}

func TestExcuseIsTheCause(t *testing.T) {
	w := server(t)
	w.container("db")
	w.container("prosody").DependsOn = []string{"db"}
	w.target("status").Container, w.target("metrics").Container = "prosody", "prosody"
	w.pass(time.Minute)
	w.container("db").State, w.container("prosody").State = "exited", "exited"
	w.down("status", "metrics")
	w.wantCauses(map[string]string{"db": "db", "prosody": "db", "status": "db", "metrics": "db"})
}

func TestSickContainerIsTheCause(t *testing.T) {
	w := server(t)
	w.container("prosody").Health = Unhealthy
	w.target("status").Container = "prosody"
	w.down("status", "port")
	w.wantCauses(map[string]string{"prosody": "prosody", "status": "prosody", "port": "prosody"})
}

func TestContainerThatRestartsIsTheCause(t *testing.T) {
	w := server(t)
	w.container("prosody").Restarts = 1
	w.target("status").Container = "prosody"
	w.look()
	w.container("prosody").Restarts = 5
	w.look()
	w.now = w.now.Add(2 * time.Minute) // it has run for a while, and fails again
	w.down("status")
	w.wantCauses(map[string]string{"prosody": "prosody", "status": "prosody"})
}

func TestMostTargetsDownIsTheCause(t *testing.T) {
	w := server(t)
	w.pass(time.Hour)
	w.down("metrics", "status", "port", "irc", "web", "site")
	w.wantCauses(map[string]string{"": "", "metrics": "", "status": "", "port": "", "irc": "", "web": "", "site": ""})
	for _, p := range w.last.Problems {
		if p.Cause != ExporterSubject {
			t.Errorf("the cause of %v is %v", p.Subject, p.Cause)
		}
	}
}

func TestMaintenanceIsNoCause(t *testing.T) {
	w := server(t)
	w.Maintenance = []Subject{{Kind: KindTarget, Name: "status"}}
	w.down("status", "port")
	w.wantCauses(map[string]string{"status": "status", "port": "port"})
}
