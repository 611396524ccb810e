package status

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/maintenance"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
)

// named is a container of the engine with its name.
type named struct {
	name string
	containerText
}

func (w *world) contain(list ...named) {
	var text strings.Builder
	for _, c := range list {
		text.WriteString(c.lines(c.name))
	}
	w.text["docker"] = text.String()
}

// The cases are those of the alerts' own tests, alerts/causes_test.yml.
func TestContainersAreToldOfByTheirCauseAsTheAlertsDo(t *testing.T) {
	down := func(name, dependsOn string) named {
		return named{name, containerText{state: "exited", dependsOn: dependsOn}}
	}
	for _, c := range []struct {
		name       string
		containers []named
		told       []string // critical; all others that are down only warn
	}{
		{
			"three containers on there is an excuse, the fourth is told too",
			[]named{down("root-a", ""), down("root-b", ""), down("c1", "root-a root-b"), down("c2", "c1"), down("c3", "c2"), down("c4", "c3")},
			[]string{"c4", "root-a", "root-b"},
		},
		{
			"a ring, and what depends on it",
			[]named{down("irc", "services"), down("services", "irc"), down("web", "irc")},
			[]string{"irc", "services", "web"},
		},
		{"a ring that a third one brought down", []named{down("irc", "services db"), down("services", "irc"), down("db", "")}, []string{"db"}},
		{
			"a dependency that need not run",
			[]named{down("web", "migrate"), {"migrate", containerText{state: "exited", optional: true}}},
			[]string{"web"},
		},
		{
			"a dependency of that name on another engine",
			[]named{down("web", "db"), {"db", containerText{}}, {"db", containerText{state: "exited", host: "second"}}},
			[]string{"db", "web"},
		},
	} {
		w := begin(engine)
		w.contain(c.containers...)
		w.look(0)
		var told []string
		for _, got := range w.look(5 * time.Minute).Containers {
			if got.Level == Critical {
				told = append(told, got.Name)
			}
		}
		slices.Sort(told)
		if !slices.Equal(told, c.told) {
			t.Errorf("%s: got %q, want %q", c.name, told, c.told)
		}
	}
}

func TestContainerThatWaitsForAnotherSaysSo(t *testing.T) {
	w := begin(engine, poll.Status{Target: "web_panel", Kind: "web_panel", Server: health.Server{Container: "app"}, Reason: failure.DNS})
	waits := containerText{state: "created", optional: true}
	app, web, idle := waits, waits, waits
	app.dependsOn, web.dependsOn, idle.dependsOn = "db", "cache app", "cache"
	w.contain(named{"db", containerText{health: "starting"}}, named{"cache", containerText{}}, named{"app", app}, named{"web", web}, named{"idle", idle})
	w.look(0)
	r := w.look(time.Hour)
	for name, want := range map[string]string{
		"app": "waits for db to become healthy", "web": "waits for app to become healthy", "idle": "was made and never started",
	} {
		if c := r.container(name); c.Level != OK || c.Text != want {
			t.Errorf("%s: %s, %q; want ok, %q", name, c.Level, c.Text, want)
		}
	}
	if s := r.service("web_panel"); s.Level != Warning || !strings.Contains(s.Text, "its container app waits for db to become healthy") {
		t.Errorf("web_panel: %s, %q; want a warning that says why", s.Level, s.Text)
	}
}

func TestServicesAreExcusedAsTheAlertsDo(t *testing.T) {
	dead := func(name, host string) named {
		return named{name, containerText{state: "exited", host: host, role: "bridge"}}
	}
	well := func(name, host, dependsOn string) named {
		return named{name, containerText{host: host, dependsOn: dependsOn, role: "bridge"}}
	}
	for _, c := range []struct {
		name       string
		containers []named
		maintained string
		want       Level // of the target of the container irc, and of the component, whose role is the bridge's
	}{
		{"one runs", []named{well("irc", "", "")}, "", Critical},
		{"it is down", []named{dead("irc", "")}, "", Warning},
		{"of two engines' containers one is down", []named{dead("irc", "local"), well("irc", "second", "")}, "", Critical},
		{"of two engines' containers both are down", []named{dead("irc", "local"), dead("irc", "second")}, "", Warning},
		{
			"one is down, and the other one has lost its dependency",
			[]named{dead("irc", "local"), well("irc", "second", "db"), {"db", containerText{state: "exited", host: "second"}}},
			"", Warning,
		},
		{"another container is well", []named{dead("irc", ""), {"web", containerText{}}}, "", Warning},
		{"it depends on one under maintenance that runs", []named{well("irc", "", "db"), {"db", containerText{}}}, "db", Critical},
	} {
		w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Server: health.Server{Container: "irc"}, Reason: failure.Timeout}, poll.Status{Target: "xmpp", Kind: "xmpp_status"})
		w.contain(c.containers...)
		w.text["xmpp"] = "chatstack_xmpp_component_connected{host=\"bridge.example\"} 0\n"
		if c.maintained != "" {
			w.in.Maintenance = []maintenance.Entry{{Kind: "container", Name: c.maintained, Active: true}}
		}
		w.look(0)
		r := w.look(time.Hour)
		for _, name := range []string{"irc_rpc", "xmpp"} {
			if got := r.service(name); got.Level != c.want {
				t.Errorf("%s: %s is %s, want %s: %s %q", c.name, name, got.Level, c.want, got.Text, got.Notes)
			}
		}
		if got := r.threshold("TargetDown"); got.Level != c.want && got.Level != OK {
			t.Errorf("%s: the row is %s: %s", c.name, got.Level, got.Text)
		}
	}
}

func TestOneOfTwoOfARoleThatServesIsToBlame(t *testing.T) {
	w := begin(engine, poll.Status{Target: "irc_rpc", Kind: "irc_rpc"})
	w.text["irc_rpc"] = "chatstack_irc_services_linked 0\n"
	for _, c := range []struct {
		second string
		want   Level
	}{{"running", Critical}, {"exited", Warning}} {
		w.contain(named{"a", containerText{role: "irc_services", state: "exited"}}, named{"b", containerText{role: "irc_services", state: c.second}})
		w.look(0)
		if got := w.look(time.Hour).service("irc_rpc"); got.Level != c.want {
			t.Errorf("the second one is %s: got %s, want %s: %s", c.second, got.Level, c.want, got.Text)
		}
	}
}

func TestRestartsBecauseOfAnotherContainerDoNotCount(t *testing.T) {
	w := begin(engine)
	for _, c := range []struct {
		db       string
		restarts float64
		later    time.Duration
		want     Level // of the bridge
		counted  float64
	}{
		{"running", 0, 0, OK, 0},
		{"running", 1, 30 * time.Second, Warning, 1},
		{"running", 2, time.Minute, Warning, 2},
		{"exited", 3, 30 * time.Second, Warning, 1}, // that of half a minute ago comes of it too
		{"running", 4, 2*time.Minute - time.Second, Warning, 1},
		{"running", 5, time.Second, Warning, 2},
	} {
		w.contain(named{"db", containerText{state: c.db}}, named{"bridge", containerText{restarts: c.restarts, dependsOn: "db"}})
		r := w.look(c.later)
		if got := r.container("bridge"); got.Level != c.want {
			t.Errorf("at %g restarts: got %s, want %s: %s", c.restarts, got.Level, c.want, got.Text)
		}
		if got := r.threshold("ContainerRestarts"); got.Present == nil || *got.Present != c.counted {
			t.Errorf("at %g restarts: counted %+v, want %g", c.restarts, got, c.counted)
		}
	}
}

func TestWaitingForARestartIsExcusedForAWhile(t *testing.T) {
	w := begin(engine)
	look := func(db string, later time.Duration, want Level) {
		t.Helper()
		w.contain(named{"db", containerText{state: db}}, named{"irc", containerText{state: "restarting", dependsOn: "db"}})
		if got := w.look(later).container("irc"); got.Level != want {
			t.Errorf("got %s, want %s: %s", got.Level, want, got.Text)
		}
	}
	look("exited", 0, Warning)
	look("exited", time.Hour, Warning)
	look("running", 2*time.Minute, Warning) // from now on it is down of itself
	look("running", 5*time.Minute-time.Second, Warning)
	look("running", time.Second, Critical)
}

func TestEndedCertificateIsCriticalAtOnce(t *testing.T) {
	for _, c := range []struct {
		name    string
		left    time.Duration
		reason  failure.Reason
		service Level
		row     Level
	}{
		{"ended", -time.Second, failure.TLS, Critical, Warning},
		{"refused for something else", 1000 * time.Hour, failure.TLS, Warning, Warning},
		{"ended, and down for another reason", -time.Second, failure.Refused, Critical, Warning},
	} {
		w := begin(poll.Status{Target: "web", Kind: "tls", Reason: c.reason})
		w.text["web"] = fmt.Sprintf("chatstack_tls_certificate_verified{endpoint=\"web\"} 0\nchatstack_tls_certificate_not_after_timestamp_seconds{endpoint=\"web\",source=\"leaf\"} %d\n",
			w.now.Add(2*time.Minute+c.left).Unix())
		w.look(0)
		r := w.look(2 * time.Minute)
		if got := r.service("web"); got.Level != c.service || !strings.HasPrefix(got.Text, failure.Explain(c.reason)) {
			t.Errorf("%s: got %s, want %s: %s", c.name, got.Level, c.service, got.Text)
		}
		if got := r.threshold("TargetDown"); got.Level != c.row {
			t.Errorf("%s: the row is %s, want %s: %s", c.name, got.Level, c.row, got.Text)
		}
	}
}

func TestSummaryLeavesNamesAsTheyAre(t *testing.T) {
	w := begin(poll.Status{Target: "irc_rpc", Kind: "irc_rpc", Reason: failure.Timeout})
	if got := w.look(0).Summary; got != "irc_rpc is down." {
		t.Errorf("got %q", got)
	}
}
