package collectors

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

// watch is a collector that follows a simulated engine.
type watch struct {
	t       *testing.T
	engine  *simstack.Engine
	docker  *docker
	changed chan struct{}
	stop    func()
}

// follow starts an engine with containers, reads it once, and follows it.
func follow(t *testing.T, change func(*Docker), specs ...simstack.ContainerSpec) *watch {
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
	for _, spec := range specs {
		engine.Add(spec)
	}
	w := &watch{t: t, engine: engine, changed: make(chan struct{}, 1)}
	s := dockerSettings(engine.Host())
	s.Resources = resourcesNone
	s.Timeout = config.Duration(time.Minute)
	if change != nil {
		change(s)
	}
	w.docker = w.collector(s, nil, false)
	w.read()
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *watch) collector(s *Docker, state State, once bool) *docker {
	w.t.Helper()
	c, err := newDocker(s, Deps{
		Limits: config.Limits{MetricsBody: 1 << 20, Body: 1 << 16}, Log: slog.New(slog.DiscardHandler), State: state, Once: once,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	d, ok := c.(*docker)
	if !ok {
		w.t.Fatalf("collector is a %T", c)
	}
	d.patience, d.lasting = 20*time.Millisecond, time.Millisecond
	return d
}

// start follows the engine, and returns once its events flow, unless they cannot.
func (w *watch) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		w.docker.Follow(ctx, func() {
			select {
			case w.changed <- struct{}{}:
			default:
			}
		})
	})
	w.stop = sync.OnceFunc(func() { cancel(); following.Wait() })
	w.until("events flow or fail", func() bool {
		w.docker.mu.Lock()
		defer w.docker.mu.Unlock()
		return w.docker.stream.known
	})
}

func (w *watch) read() {
	w.t.Helper()
	if err := w.try(); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watch) try() error {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	return w.docker.Collect(ctx, &Batch{})
}

// page is what is presented, without docker_host.
func (w *watch) page() string {
	w.t.Helper()
	b := &Batch{}
	w.docker.Present(b)
	return strings.ReplaceAll(string(pageOf(w.t, b, true)), `,docker_host="local"`, "")
}

// until waits for a condition, which is looked at whenever the collector says that something has changed.
func (w *watch) until(what string, holds func() bool) {
	w.t.Helper()
	late := time.NewTimer(time.Minute)
	defer late.Stop()
	for !holds() {
		select {
		case <-w.changed:
		case <-late.C:
			w.t.Fatalf("%s: not within a minute:\n%s", what, w.page())
		}
	}
}

// want waits until a line, without the prefix, is presented.
func (w *watch) want(what, line string) {
	w.t.Helper()
	w.until(what+": "+line, func() bool { return strings.Contains(w.page(), "\nchatstack_container_"+line+"\n") })
}

// wantNow does not wait.
func (w *watch) wantNow(what string, lines ...string) {
	w.t.Helper()
	page := w.page()
	for _, line := range lines {
		if !strings.Contains(page, "\nchatstack_"+line+"\n") {
			w.t.Errorf("%s: the page lacks %s:\n%s", what, line, page)
		}
	}
}

func (w *watch) await(streams int) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	if err := w.engine.AwaitStreams(ctx, streams); err != nil {
		w.t.Fatal(err)
	}
}

func service(name string) simstack.ContainerSpec {
	return simstack.ContainerSpec{Name: name, Service: name, Image: "chat/" + name + ":1", Restart: "always", Health: &simstack.HealthCheck{}}
}

func TestChangesAreToldWithoutAReading(t *testing.T) {
	w := follow(t, nil, service("irc"))
	irc := w.engine.Container("irc")
	irc.SetHealth("healthy")
	w.want("", `health{container="irc",health="healthy"} 1`)
	irc.SetHealth("unhealthy")
	w.want("", `health{container="irc",health="unhealthy"} 1`)
	irc.SetHealth("healthy")
	irc.Pause()
	w.want("", `state{container="irc",state="paused"} 1`)
	irc.Unpause()
	w.want("after an unpause nobody has checked yet", `health{container="irc",health="starting"} 1`)
	for range 4 {
		irc.Crash(1)
	}
	w.want("a crash loop", restarts("irc", 4))
	irc.Restart()
	w.want("by hand", restarts("irc", 5))
	irc.OOM()
	w.want("out of memory", `oom_events_total{container="irc"} 1`)
	w.engine.Run(service("bridge"))
	w.want("a new one", `state{container="bridge",state="running"} 1`)
	w.engine.Container("bridge").Recreate(nil)
	w.want("a deploy", `recreations_total{container="bridge"} 1`)
	w.read()
	w.wantNow("after a reading", "container_"+restarts("bridge", 0), "container_"+restarts("irc", 5))
}

func TestCutStreamLosesNoRestart(t *testing.T) {
	w := follow(t, nil, service("irc"), service("xmpp"))
	w.engine.Container("irc").Crash(1)
	w.want("", restarts("irc", 1))
	w.engine.CutEvents()
	w.engine.Container("irc").Restart()
	w.engine.Container("irc").Restart()
	w.engine.Container("irc").Crash(1)
	w.await(1)
	w.want("the engine remembers its events", restarts("irc", 4))
	w.read()
	w.wantNow("", "container_"+restarts("irc", 4), "container_"+restarts("xmpp", 0))
}

func TestRestartOfTheEngineCountsOnce(t *testing.T) {
	w := follow(t, nil, service("irc"), service("xmpp"))
	w.engine.Container("irc").Crash(1)
	w.want("", restarts("irc", 1))
	if err := w.engine.Restart(); err != nil {
		t.Fatal(err)
	}
	w.want("", restarts("irc", 2))
	w.want("", restarts("xmpp", 1))
	w.await(1)
	w.read()
	w.engine.Container("xmpp").Crash(1)
	w.want("events flow again", restarts("xmpp", 2))
	w.wantNow("", "container_"+restarts("irc", 2))
}

func TestForgottenEventsAreMadeUpFor(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	for range 3 {
		w.engine.Container("irc").Crash(1)
	}
	w.engine.Noise(1000) // the engine forgets them
	w.start()
	w.want("", restarts("irc", 3))
}

func TestDeafStreamIsOpenedAnew(t *testing.T) {
	w := follow(t, nil, service("irc"))
	if err := w.engine.MuteEvents(true); err != nil {
		t.Fatal(err)
	}
	w.engine.Container("irc").Restart()
	w.engine.Container("irc").Pause()
	w.read()
	w.wantNow("the list", `container_state{container="irc",state="paused"} 1`)
	if err := w.engine.MuteEvents(false); err != nil {
		t.Fatal(err)
	}
	w.engine.Container("irc").Unpause() // which the old stream may tell, but not what was before
	w.want("", `state{container="irc",state="running"} 1`)
	w.want("", restarts("irc", 1))
}

func TestFollowingLeavesNothingBehind(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	w := follow(t, func(s *Docker) { s.Resources = resourcesEngine }, service("irc"))
	w.engine.Container("irc").Crash(1)
	w.want("", restarts("irc", 1))
	w.stop()
	w.await(0)
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadingFailsWithItsReasonWhileEventsAreFollowed(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.engine.Stop()
	if got := ReasonOf(w.try()); got != Refused {
		t.Errorf("reason: got %s, want %s", got, Refused)
	}
	if err := w.engine.Start(); err != nil {
		t.Fatal(err)
	}
	w.await(1)
	w.read()
	w.want("", restarts("irc", 1))
	w.wantNow("", `docker_feature_available{docker_host="local",feature="events"} 1`)
}

func TestNotesTellWhatCannotBeFollowed(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for fault, want := range map[string]string{"forbidden_events": "events cannot be followed", "forbidden_stats": "memory, CPU and network"} {
		if err := w.engine.Switch(fault, true); err != nil {
			t.Fatal(err)
		}
		s := dockerSettings(w.engine.Host())
		b := &Batch{}
		if err := w.collector(s, nil, true).Collect(ctx, b); err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(b.Notes, func(n string) bool { return strings.Contains(n, want) && strings.Contains(n, "403") }) {
			t.Errorf("%s: notes %q, want one with %q and the status", fault, b.Notes, want)
		}
		if err := w.engine.Switch(fault, false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFaultsOfTheEngineHaveTheirReasonsAndPass goes through what can become of an engine while it is followed.
func TestFaultsOfTheEngineHaveTheirReasonsAndPass(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	before := openDescriptors(t)
	w := follow(t, func(s *Docker) { s.Resources = resourcesEngine }, service("irc"))
	w.want("", `memory_working_set_bytes{container="irc"} 4.194304e+06`)
	w.await(1)
	for _, fault := range []struct {
		name   string
		reason Reason // "" where the reading succeeds
		bring  func() error
		mend   func() error
	}{
		{"engine stopped", Refused, func() error { w.engine.Stop(); return nil }, w.engine.Start},
		{"engine replaced", "", func() error { return nil }, w.engine.Restart},
		{"status 500", HTTPStatus, w.turn("status_500", true), w.turn("status_500", false)},
		{"status 403", Forbidden, w.turn("status_403", true), w.turn("status_403", false)},
		{"list hangs", Timeout, w.turn("hang_list", true), w.turn("hang_list", false)},
		{"stats hang", "", w.turn("hang_stats", true), w.turn("hang_stats", false)},
		{"stats refused", "", w.turn("forbidden_stats", true), w.turn("forbidden_stats", false)},
		{"events refused", "", func() error {
			err := w.turn("forbidden_events", true)()
			w.engine.CutEvents()
			return err
		}, w.turn("forbidden_events", false)},
		{"events cut", "", w.turn("events_cut", true), w.turn("events_cut", false)},
	} {
		if err := fault.bring(); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if fault.reason == Timeout {
			ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		}
		err := w.docker.Collect(ctx, &Batch{})
		cancel()
		if got := reasonOrNone(err); got != fault.reason {
			t.Errorf("%s: reason %q, want %q: %v", fault.name, got, fault.reason, err)
		}
		if err := fault.mend(); err != nil {
			t.Fatalf("%s: %v", fault.name, err)
		}
		w.await(1)
		w.read() // which counts what the fault itself has done
		crashes := w.restarts("irc") + 1
		w.engine.Container("irc").Crash(1)
		w.want(fault.name+": after it", restarts("irc", crashes))
		w.read()
		w.want(fault.name+": after it", `memory_working_set_bytes{container="irc"} 4.194304e+06`)
		w.until(fault.name+": features", func() bool {
			return !strings.Contains(w.page(), `feature="stats"} 0`) && !strings.Contains(w.page(), `feature="events"} 0`)
		})
	}
	w.stop()
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

func reasonOrNone(err error) Reason {
	if err == nil {
		return ""
	}
	return ReasonOf(err)
}

func (w *watch) turn(fault string, on bool) func() error {
	return func() error { return w.engine.Switch(fault, on) }
}

// restarts is the count that is presented of a container.
func (w *watch) restarts(name string) int {
	w.t.Helper()
	w.docker.mu.Lock()
	defer w.docker.mu.Unlock()
	return int(w.docker.fleet.members[name].restarts()) //nolint:gosec // small
}

func TestCountersOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	file := func() *state.File {
		f, _, err := state.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := file()
	w := follow(t, nil, service("irc"), service("xmpp"))
	w.stop()
	w.docker = w.collector(w.docker.settings, first.Value("docker"), false)
	w.read()
	w.start()
	w.engine.Container("irc").Crash(1)
	w.want("", restarts("irc", 1))
	w.stop() // which keeps what is known
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w.engine.Container("irc").Restart() // while nobody looks

	second := file()
	defer second.Close() //nolint:errcheck // the test is over
	w.docker = w.collector(w.docker.settings, second.Value("docker"), false)
	w.read()
	w.wantNow("after a restart of the exporter", "container_"+restarts("irc", 2), "container_"+restarts("xmpp", 0))
	w.start()
	w.read()
	w.wantNow("with events, some of which it has heard before", "container_"+restarts("irc", 2), "container_"+restarts("xmpp", 0))
}

func TestRestartsRightAfterTheFirstSightCount(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.await(1)
	for range 3 {
		w.engine.Container("irc").Restart()
	}
	w.want("", restarts("irc", 3))
	w.read()
	w.wantNow("after a reading", "container_"+restarts("irc", 3))
}

// TestReviewsTakeTurns has two rounds of questions at once, of which the one that asked first is answered last.
func TestReviewsTakeTurns(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	release, err := w.docker.claim(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.docker.Collect(ctx, &Batch{}) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a reading that had to wait for another: %v, want its context's end", err)
	}
	release()
	w.read()
}

func TestResourcesOfBeforeAreNotShown(t *testing.T) {
	w := follow(t, func(s *Docker) { s.Resources = resourcesEngine }, service("irc"))
	const memory = `memory_working_set_bytes{container="irc"} 4.194304e+06`
	w.want("", memory)
	switchTo := func(fault string, on bool) {
		if err := w.engine.Switch(fault, on); err != nil {
			t.Fatal(err)
		}
	}
	none := func(when string) {
		if page := w.page(); strings.Contains(page, "chatstack_container_memory_working_set_bytes{") {
			t.Errorf("%s: memory of before is shown:\n%s", when, page)
		}
	}
	switchTo("hang_stats", true)
	switchTo("status_500", true)
	if w.try() == nil {
		t.Fatal("the reading succeeds")
	}
	switchTo("status_500", false)
	w.read()
	none("after failing readings")
	switchTo("hang_stats", false)
	w.want("", memory)
	w.engine.Container("irc").Restart()
	w.want("", restarts("irc", 1))
	none("after a restart of the container")
	w.read()
	w.want("", memory)
}

// stuckEngine has three containers, of which one is answered as said.
func stuckEngine(t *testing.T, answer func(http.ResponseWriter, *http.Request)) (e *engine, stuck, other container.InspectResponse) {
	t.Helper()
	boxes := []container.InspectResponse{plainContainer("a", nil), plainContainer("b", nil), plainContainer("c", nil)}
	for i := range boxes {
		boxes[i].ID = strings.Repeat(strings.TrimPrefix(boxes[i].Name, "/"), 64)
	}
	e = startEngine(t, boxes...)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, boxes[0].ID+"/json") {
			return false
		}
		answer(w, r)
		return true
	}
	return e, boxes[0], boxes[1]
}

func TestContainerThatTheEngineHangsAtHidesNoOther(t *testing.T) {
	e, _, _ := stuckEngine(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	s := dockerSettings(e.host)
	s.Resources = resourcesNone
	w := &watch{t: t}
	w.docker = w.collector(s, nil, false)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	b := &Batch{}
	if err := w.docker.Collect(ctx, b); err != nil {
		t.Fatal(err)
	}
	w.wantNow("", `container_state{container="a",state="running"} 1`, `container_state{container="b",state="running"} 1`)
	if !slices.ContainsFunc(b.Notes, func(n string) bool { return strings.Contains(n, "cannot describe 1 of 3") }) {
		t.Errorf("notes %q, want one about the container that the engine hangs at", b.Notes)
	}
}

func TestStumbleBetweenReadingsHidesNoOther(t *testing.T) {
	stumbling := atomic.Bool{}
	e, a, other := stuckEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if stumbling.Load() {
			engineSays(w, http.StatusInternalServerError, "boom")
			return
		}
		engineAnswers(w, plainContainer("a", nil))
	})
	s := dockerSettings(e.host)
	s.Resources = resourcesNone
	w := &watch{t: t, changed: make(chan struct{}, 1)}
	w.docker = w.collector(s, nil, false)
	w.read()
	e.mu.Lock()
	e.containers[1].State = &container.State{Status: container.StateExited, ExitCode: 3, StartedAt: other.State.StartedAt}
	e.mu.Unlock()
	stumbling.Store(true)
	died := func(id, name string) events.Message {
		return events.Message{
			Action: events.ActionDie, TimeNano: time.Now().UnixNano(),
			Actor: events.Actor{ID: id, Attributes: map[string]string{"name": name}},
		}
	}
	w.docker.take(t.Context(), []events.Message{died(a.ID, "a"), died(other.ID, "b")}, func() {})
	w.wantNow("b has died", `container_state{container="b",state="exited"} 1`)
}

func TestPanicEndsFollowingWhole(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	ended := make(chan any, 1)
	var once sync.Once
	go func() {
		defer func() { ended <- recover() }()
		w.docker.Follow(t.Context(), func() { once.Do(func() { panic("boom") }) })
	}()
	if v := <-ended; v != "boom" {
		t.Errorf("following ended with %v, want the panic", v)
	}
	w.docker.mu.Lock()
	defer w.docker.mu.Unlock()
	if w.docker.stream.open || !w.docker.unsure {
		t.Error("events count as followed")
	}
}

func TestStreamThatEndsAtOnceIsNoStream(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			return false
		}
		w.WriteHeader(http.StatusOK)
		return true
	}
	s := dockerSettings(e.host)
	s.Resources = resourcesNone
	w := &watch{t: t, changed: make(chan struct{}, 1)}
	w.docker = w.collector(s, nil, false)
	w.docker.lasting = lastingStream
	w.read()
	w.start()
	defer w.stop()
	w.until("events count as not to be had", func() bool {
		return strings.Contains(w.page(), `chatstack_docker_feature_available{docker_host="local",feature="events"} 0`)
	})
	b := &Batch{}
	if err := w.docker.Collect(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(b.Notes, func(n string) bool { return strings.Contains(n, "events cannot be followed") }) {
		t.Errorf("notes %q, want one about the events", b.Notes)
	}
}

func TestQuietStreamIsOpenedAnew(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	w.docker.quiet = time.Millisecond
	w.start()
	opened := func() bool {
		n := 0
		for _, r := range w.engine.Requests() {
			if strings.Contains(r.Path, "/events") {
				n++
			}
		}
		return n >= 3
	}
	w.until("the stream is opened anew", opened)
}

func TestTwoEnginesAreToldApart(t *testing.T) {
	w := follow(t, func(s *Docker) { s.Label = "a" }, service("irc"))
	v := follow(t, func(s *Docker) { s.Label = "b" }, service("irc"))
	b := &Batch{}
	w.docker.Present(b)
	v.docker.Present(b)
	page := string(pageOf(t, b, true)) // which fails if one series stands there twice
	for _, host := range []string{"a", "b"} {
		if line := `chatstack_container_restarts_total{container="irc",docker_host="` + host + `"} 0`; !strings.Contains(page, line) {
			t.Errorf("the page lacks %s:\n%s", line, page)
		}
	}
}

func TestCheckSaysWhichExpectedContainersAreNotThere(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	s := dockerSettings(w.engine.Host())
	s.Resources, s.Expected = resourcesNone, []string{"irc", "prosody"}
	b := &Batch{}
	if err := w.collector(s, nil, true).Collect(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	said := strings.Join(b.Notes, "\n")
	for text, want := range map[string]bool{
		"expected has prosody, and there is no such container": true, "no container has the role xmpp": true, "expected has irc": false,
	} {
		if strings.Contains(said, text) != want {
			t.Errorf("notes %q: want %q among them: %v", b.Notes, text, want)
		}
	}
}
