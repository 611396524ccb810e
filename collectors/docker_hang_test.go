package collectors

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// TestContainerThatTheEngineHangsAtIsNotMeasured has an engine that hung when one of three containers was inspected.
func TestContainerThatTheEngineHangsAtIsNotMeasured(t *testing.T) {
	e := statsEngine(t, nil)
	w := watching(t, e, func(s *Docker) { s.Resources = resourcesEngine })
	w.docker.hangs.Pause(&container.Summary{ID: "stuck"}, time.Now())
	got, err := w.docker.engineUsage(t.Context(), subjectsOf("a", "stuck", "b"))
	if err != nil {
		t.Fatal(err)
	}
	wantStats(t, got, "a", "b")
	if asked := e.asked(); slices.ContainsFunc(asked, func(call string) bool { return strings.Contains(call, "stuck") }) {
		t.Errorf("asked %q, want no call about the container that the engine hangs at", asked)
	}
}

// TestLookLeavesAProbeItsTime holds that a probe which waits for a look has half of its time left.
func TestLookLeavesAProbeItsTime(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		time.Second: time.Second / 2, 8 * time.Second: 4 * time.Second, 10 * time.Second: longestLook, time.Minute: longestLook,
	} {
		w := unconnected(t, func(s *Docker) { s.Timeout = config.Duration(timeout) })
		if got := w.docker.lookTimeout(); got != want {
			t.Errorf("with a timeout of %s a look may take %s, want %s", timeout, got, want)
		}
	}
}

// TestContainerThatTheEngineStumblesOverHidesNoOther has an engine that cannot describe one container, as when that container's
// layer is damaged, or describes it in more than a mebibyte. What its list says of it is told.
func TestContainerThatTheEngineStumblesOverHidesNoOther(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"damaged": engineSays(http.StatusInternalServerError, "RWLayer of container is unexpectedly nil"),
		"huge": func(w http.ResponseWriter, _ *http.Request) {
			c := plainContainer("a", nil)
			c.Config.Env = slices.Repeat([]string{strings.Repeat("x", 1<<10)}, 2<<10)
			engineAnswers(w, c)
		},
	} {
		e, _, _ := stuckEngine(t, answer)
		e.containers[0].State.Health = &container.Health{Status: container.Unhealthy, FailingStreak: 3}
		w := watching(t, e)
		w.docker.engine.Limit = 16 << 20
		wantNote(t, w.read(), "cannot describe 1 of 3", "a is unhealthy")
		w.wantNow(name, `container_health{container="a",health="unhealthy"} 1`,
			`container_state{container="a",state="running"} 1`, `container_state{container="b",state="running"} 1`)
	}
}

// TestContainerWithoutANameIsNotGone has an engine that lists a container it cannot describe, at last without the name.
func TestContainerWithoutANameIsNotGone(t *testing.T) {
	e, _, _ := stuckEngine(t, engineSays(http.StatusInternalServerError, "RWLayer of container is unexpectedly nil"))
	w := watching(t, e)
	w.read()
	e.containers[0].Name = ""
	wantNote(t, w.read(), "cannot describe 1 of 3", "3 of 3 containers are watched")
	w.wantNow("", `container_state{container="a",state="running"} 1`,
		`container_recreations_total{container="a"} 0`, `container_restarts_total{container="a"} 0`)
}
