package app

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/status"
)

// startEngine starts a simulated engine with a running container of each name.
func startEngine(t *testing.T, containers ...string) *simstack.Engine {
	t.Helper()
	engine := simstacktest.StartEngine(t, networkOf(t))
	for _, name := range containers {
		engine.Add(simstack.ContainerSpec{Name: name, Image: "chat/" + name + ":1", Restart: "always"})
	}
	return engine
}

// engineTarget is a configuration with an engine whose containers are missing after a second.
func engineTarget(engine *simstack.Engine, keys ...string) string {
	return fmt.Sprintf("targets:\n  - {kind: docker, host: %q, resources: none, missing_after: 1s%s}\n",
		engine.Host(), strings.Join(append([]string{""}, keys...), ", "))
}

// isMissing reports whether a container is missing, and is expected or not.
func isMissing(name string, expected float64) func(page) bool {
	return func(p page) bool {
		is, _ := p.Value("chatstack_container_state", "container", name, "state", "missing")
		wanted, ok := p.Value("chatstack_container_expected", "container", name)
		return ok && is == 1 && wanted == expected
	}
}

func eventsFlow(p page) bool {
	available, _ := p.Value("chatstack_docker_feature_available", "feature", "events")
	return available == 1
}

func TestRemovedContainerIsExpectedIfATargetNamesIt(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := startEngine(t, "irc", "web")
		content := engineTarget(engine) + "  - {kind: irc_services, url: \"http://127.0.0.1:1/\""
		e, path := startWithFile(t, nil, content+", container: irc}\n", nil)
		e.wait(t, "events flow", eventsFlow)
		for _, name := range []string{"irc", "web"} {
			engine.Container(name).Remove()
		}
		e.wait(t, "web missing, and not expected", isMissing("web", 0))
		e.wait(t, "irc missing, and expected", isMissing("irc", 1))
		rewrite(t, path, content+"}\n")
		must(t, e.app.Reload(t.Context()))
		e.wait(t, "irc missing, and no longer expected", isMissing("irc", 0))
	})
}

func containerOf(r *status.Report, name string) *status.Container {
	if i := slices.IndexFunc(r.Containers, func(c status.Container) bool { return c.Name == name }); i >= 0 {
		return &r.Containers[i]
	}
	return nil
}

func TestGoneContainerIsForgottenOnRequest(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		engine := startEngine(t, "irc", "web")
		e, _ := startWithFile(t, nil, engineTarget(engine, "expected: [db]"), lifecycle)
		d := describe(t, e)
		const path = "/api/v1/containers/local/"
		e.wait(t, "events flow", eventsFlow)
		refused := func(name string, status int, want string) {
			t.Helper()
			got, body := e.exchange(t, http.MethodDelete, name, "")
			if got != status || !strings.Contains(string(body), want) {
				t.Errorf("DELETE %s: status %d, %s; want %d, %q", name, got, body, status, want)
			}
			d.hold(t, "/components/schemas/Error", body)
		}
		refused(path+"web", http.StatusConflict, `exists`)
		refused(path+"db", http.StatusConflict, "expected names")
		for _, name := range []string{"wbe", "chat/web", "chat%2Fweb"} {
			refused(path+name, http.StatusNotFound, "no such container is known")
		}
		refused("/api/v1/containers/remote/web", http.StatusNotFound, "no target has the docker_host")
		engine.Container("web").Remove()
		r, _ := e.reportWhen(t, "web missing", func(r *status.Report) bool {
			c := containerOf(r, "web")
			return c != nil && c.State == "missing"
		})
		if c := containerOf(&r, "web"); c.Level != status.Pending ||
			!strings.Contains(c.Hint, "`chatstack_exporter forget web`.") {
			t.Errorf("level %s, hint %q; want a pending problem that says how to forget it", c.Level, c.Hint)
		}
		e.waitForPage(t, "<code>chatstack_exporter forget web</code>")
		code, body := e.exchange(t, http.MethodDelete, path+"web", "")
		if code != http.StatusOK {
			t.Fatalf("status %d: %s", code, body)
		}
		d.hold(t, schemaOf("/api/v1/containers/{docker_host}/{name}", "delete", "200"), body)
		e.reportWhen(t, "web forgotten",
			func(r *status.Report) bool { return containerOf(r, "web") == nil && containerOf(r, "irc") != nil })
		if _, ok := e.scrape(t).Value("chatstack_container_restarts_total", "container", "web"); ok {
			t.Error("the metrics page still has the container")
		}
		refused(path+"web", http.StatusNotFound, "no such container is known")
	})
}
