package collectors

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// hang has the engine hang at a container since long, until some time ago.
func (w *watch) hang(id string, ago time.Duration) {
	for _, before := range []time.Duration{time.Hour, 0} {
		w.docker.hangs.RecordInspection(id, true, time.Now().Add(-ago-before))
	}
}

// TestContainerThatTheEngineHangsAtIsLeftAlone has an engine that never answers about one of three containers.
func TestContainerThatTheEngineHangsAtIsLeftAlone(t *testing.T) {
	t.Parallel()
	e, stuck, _ := stuckEngine(t, engineHangs)
	w := watching(t, e)
	w.hang(stuck.ID, 0)
	var b *Batch
	for range 4 {
		b = w.readFor(time.Second)
		w.take(told(events.ActionDie, stuck.ID, "a"))
	}
	asked := 0
	for _, call := range e.asked() {
		if strings.Contains(call, stuck.ID) {
			asked++
		}
	}
	if asked > 0 {
		t.Errorf("the container that the engine hangs at was inspected %d times", asked)
	}
	w.wantNow("", `container_state{container="a",state="running"} 1`, `container_state{container="b",state="running"} 1`)
	if want := "the engine cannot describe 1 of 3 containers"; !slices.Contains(b.Impairments, want) {
		t.Errorf("the target works partly for %q, want %q", b.Impairments, want)
	}
}

// TestNewContainerThatTheEngineHangsAtIsShownByTheNextReading holds that events of a container that cannot be inspected are not lost
// for good.
func TestNewContainerThatTheEngineHangsAtIsShownByTheNextReading(t *testing.T) {
	e, stuck, _ := stuckEngine(t, engineHangs)
	w := watching(t, e)
	w.hang(stuck.ID, 0)
	w.take(told(events.ActionCreate, stuck.ID, "a"), told(events.ActionStart, stuck.ID, "a"))
	const shown = `container_state{container="a",state="running"} 1`
	if page := w.page(); strings.Contains(page, shown) {
		t.Fatalf("it was inspected:\n%s", page)
	}
	w.read()
	w.wantNow("", shown)
}

// TestContainerThatTheEngineHangsAtIsNotMeasured has an engine that hung when one of three containers was inspected.
func TestContainerThatTheEngineHangsAtIsNotMeasured(t *testing.T) {
	e := statsEngine(t, nil)
	w := watching(t, e, func(s *Docker) { s.Resources = resourcesEngine })
	w.hang("stuck", 0)
	got, err := w.docker.engineUsage(t.Context(), subjectsOf("a", "stuck", "b"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]usage.Usage{"a": plainResources, "b": plainResources}
	if diff := cmp.Diff(want, got, compareResources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if asked := e.asked(); slices.ContainsFunc(asked, func(call string) bool { return strings.Contains(call, "stuck") }) {
		t.Errorf("asked %q, want no call about the container that the engine hangs at", asked)
	}
}

// TestSlowStartIsInspectedAgainByTheNextReading has an engine that does not describe a container for a while, since it starts it. A
// restart that nobody told of is then counted.
func TestSlowStartIsInspectedAgainByTheNextReading(t *testing.T) {
	starting := atomic.Bool{}
	started := plainContainer("a", nil)
	e, a, _ := stuckEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if starting.Load() {
			engineHangs(w, r)
			return
		}
		engineAnswers(w, started)
	})
	started.ID = a.ID
	w := watching(t, e)
	w.read()
	starting.Store(true)
	w.take(told(events.ActionDie, a.ID, "a"))
	started.State = &container.State{
		Status:    container.StateRunning,
		Running:   true,
		Pid:       43,
		StartedAt: time.Now().UTC().Format(time.RFC3339Nano),
	}
	starting.Store(false)
	w.read()
	w.wantNow("", "container_"+restarts("a", 1))
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

// TestEngineThatHangsAtAllIsATimeout has an engine that answers about none, which is no failure of single containers.
func TestEngineThatHangsAtAllIsATimeout(t *testing.T) {
	t.Parallel()
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
	e.on("/containers/id-", engineHangs)
	wantReason(t, watching(t, e).tryFor(200*time.Millisecond, &Batch{}), failure.Timeout)
	w := watching(t, e)
	w.hang("id-a", 0)
	w.hang("id-b", 0)
	for range 3 {
		wantReason(t, w.tryFor(200*time.Millisecond, &Batch{}), failure.Timeout)
	}
	inspections := slices.DeleteFunc(e.asked(), func(call string) bool {
		return !strings.Contains(call, "/containers/id-") || !strings.HasSuffix(call, "/json")
	})
	if len(inspections) > 4 {
		t.Errorf("inspected %d times, want each of two containers once, and one in each reading after it hung for long: %q",
			len(inspections), inspections)
	}
}

// TestEngineThatHungForAMomentIsUpWithTheNextReading has an engine that hung at all of its containers during one reading.
func TestEngineThatHungForAMomentIsUpWithTheNextReading(t *testing.T) {
	e := startEngine(t, crowd("c", 20)...)
	w := watching(t, e)
	for i := range e.containers {
		w.hang(e.containers[i].ID, 0)
	}
	for _, when := range []string{"next reading", "reading after that"} {
		if err := w.try(); err != nil {
			t.Errorf("the %s fails: %v", when, err)
		}
	}
}

// TestInspectionThatIsCutProvesNothing ends inspections of a container that the engine hangs at before their time.
func TestInspectionThatIsCutProvesNothing(t *testing.T) {
	asked := make(chan struct{}, 10)
	e, stuck, other := stuckEngine(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		engineHangs(w, r)
	})
	w := watching(t, e)
	w.hang(stuck.ID, 2*time.Minute)
	hangs := e.answer
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, other.ID+"/json") {
			<-asked
			http.Error(w, "not through me", http.StatusForbidden)
			return true
		}
		return hangs(w, r)
	}
	wantReason(t, w.try(), failure.Forbidden)
	if w.docker.hangs.MayInspect(stuck.ID, time.Now()) {
		t.Error("it is inspected again at once")
	}
	if !w.docker.hangsAt(stuck.ID) {
		t.Error("it counts as one that the engine answers about")
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
