package app

import (
	"fmt"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// startEngine starts a simulated engine with a running container of each name.
func startEngine(t *testing.T, containers ...string) *simstack.Engine {
	t.Helper()
	engine, err := simstack.NewEngine(simstack.EngineOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := engine.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, name := range containers {
		engine.Add(simstack.ContainerSpec{Name: name, Image: "chat/" + name + ":1", Restart: "always"})
	}
	return engine
}

// engineTarget is a configuration with an engine whose containers are missing after a second.
func engineTarget(engine *simstack.Engine) string {
	return fmt.Sprintf("targets:\n  - {kind: docker, host: %q, resources: none, missing_after: 1s}\n", engine.Host())
}

// isMissing reports whether a container is missing, and is expected or not.
func isMissing(name string, expected float64) func(page) bool {
	return func(p page) bool {
		is, _ := p.value("chatstack_container_state", "container", name, "state", "missing")
		wanted, ok := p.value("chatstack_container_expected", "container", name)
		return ok && is == 1 && wanted == expected
	}
}

func TestRemovedContainerIsExpectedIfATargetNamesIt(t *testing.T) {
	engine := startEngine(t, "irc", "web")
	content := engineTarget(engine) + "  - {kind: irc_services, url: \"http://127.0.0.1:1/\""
	e, path := startWithFile(t, nil, content+", container: irc}\n", nil)
	e.wait(t, "events flow", func(p page) bool {
		available, _ := p.value("chatstack_docker_feature_available", "feature", "events")
		return available == 1
	})
	for _, name := range []string{"irc", "web"} {
		engine.Container(name).Remove()
	}
	e.wait(t, "web missing, and not expected", isMissing("web", 0))
	e.wait(t, "irc missing, and expected", isMissing("irc", 1))
	rewrite(t, path, content+"}\n")
	if err := e.app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.wait(t, "irc missing, and no longer expected", isMissing("irc", 0))
}
