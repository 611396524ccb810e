package collectors

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
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

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/state"
)

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

func TestDeafStreamIsOpenedAnew(t *testing.T) {
	w := follow(t, nil, service("irc"), service("xmpp"))
	w.settle("irc")
	w.fault(true, "events_deaf")
	w.engine.Container("irc").Restart()
	w.engine.Container("irc").Pause()
	w.read()
	w.wantNow("the list", `container_state{container="irc",state="paused"} 1`)
	// The list that was begun when the stream opened may still find a change that needs no event.
	for end := time.Now().Add(time.Minute); w.streams() < 2 && time.Now().Before(end); {
		w.engine.Container("xmpp").Restart()
		w.read()
	}
	w.fault(false, "events_deaf")
	w.engine.Container("irc").Unpause()
	w.want("", `state{container="irc",state="running"} 1`)
	if w.wantNow("", "container_"+restarts("irc", 1)); w.streams() < 2 {
		t.Error("the stream was not opened anew")
	}
}

// streams counts how often the engine was asked for events.
func (w *watch) streams() (opened int) {
	for _, r := range w.engine.Requests() {
		opened += strings.Count(r.Path, "/events")
	}
	return opened
}

// TestEngineThatIsBackIsNotSaidToBeGone has nobody listen until the events could not be had many times in a row.
func TestEngineThatIsBackIsNotSaidToBeGone(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	gone := failure.Errorf(failure.Refused, "ping %s: connect: no such file or directory", w.engine.Host()).WithHint("start the engine")
	for range 2 * maxShortStreams {
		w.docker.markStreamEnded(gone, false)
	}
	b := w.read()
	if strings.Contains(strings.Join(b.Notes, ""), "start the engine") {
		t.Errorf("notes of a reading that succeeded: %q", b.Notes)
	}
	w.docker.markStreamOpen()
	if w.docker.stream.err != nil {
		t.Errorf("events are followed again, and do not count as such: %v", w.docker.stream.err)
	}
	// What is opened again and again does not count before it lasts.
	for range maxShortStreams {
		w.docker.markStreamEnded(io.EOF, false)
		w.docker.markStreamOpen()
	}
	if w.docker.stream.err == nil {
		t.Error("streams that all end at once count as sound")
	}
}

// check makes the one reading of the command check.
func (w *watch) check(change func(*Docker)) *Batch {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	s, b := dockerSettings(w.engine.Host()), &Batch{}
	change(s)
	if err := w.collector(s, nil, true).Collect(ctx, b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func TestCheckTellsWhatCannotBeHad(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	for fault, want := range map[string]string{
		"forbidden_events": "engine events are unavailable",
		"forbidden_stats":  "memory, CPU or network",
	} {
		w.fault(true, fault)
		wantNote(t, w.check(withEngineResources), want, "403")
		w.fault(false, fault)
	}
	b := w.check(func(s *Docker) { s.Resources, s.Expected = resourcesNone, []string{"irc", "prosody"} })
	wantNote(t, b, "expected lists prosody, but no such container exists", "no container has the role xmpp")
	if strings.Contains(strings.Join(b.Notes, ""), "expected lists irc") {
		t.Errorf("notes %q: irc is there", b.Notes)
	}
}

// TestFaultsOfTheEngineHaveTheirReasonsAndPass goes through what can become of an engine while it is followed.
func TestFaultsOfTheEngineHaveTheirReasonsAndPass(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	before := openDescriptors(t)
	w := follow(t, func(s *Docker) { s.Resources = resourcesEngine }, service("irc"))
	w.want("", `memory_working_set_bytes{container="irc"} 4.194304e+06`)
	w.await(1)
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	try := func(name string, reason failure.Reason, bring, mend func()) { // no reason where the reading succeeds
		t.Helper()
		bring()
		timeout := time.Minute
		if reason == failure.Timeout {
			timeout = 100 * time.Millisecond
		}
		err := w.tryFor(timeout, &Batch{})
		if got := reasonOrNone(err); got != reason {
			t.Errorf("%s: reason %q, want %q: %v", name, got, reason, err)
		}
		mend()
		w.await(1)
		w.read() // which counts what the fault itself has done
		crashes := w.restarts("irc") + 1
		w.engine.Container("irc").Crash(1)
		w.want(name+": after it", restarts("irc", crashes))
		w.read()
		w.read() // the engine is asked at every other poll
		w.want(name+": after it", `memory_working_set_bytes{container="irc"} 4.194304e+06`)
		w.untilFeature("stats", 1)
		w.untilFeature("events", 1)
	}
	try("engine stopped", failure.Refused, w.engine.Stop, func() { must(w.engine.Start()) })
	try("engine replaced", "", func() {}, func() { must(w.engine.Restart()) })
	try("events refused", "", func() { w.fault(true, "forbidden_events"); w.engine.CutEvents() },
		func() { w.fault(false, "forbidden_events") })
	for name, reason := range map[string]failure.Reason{
		"status_500": failure.HTTPStatus, "status_403": failure.Forbidden, "hang_list": failure.Timeout,
		"hang_stats": "", "forbidden_stats": "", "events_cut": "",
	} {
		try(name, reason, func() { w.fault(true, name) }, func() { w.fault(false, name) })
	}
	w.stop()
	if err := w.engine.Close(); err != nil {
		t.Error(err)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("%d descriptors are open, before it were %d", after, before)
	}
}

// restarts is the count that is presented of a container.
func (w *watch) restarts(name string) int {
	w.t.Helper()
	w.docker.mu.Lock()
	defer w.docker.mu.Unlock()
	return int(w.docker.fleet.Counts()[name].Restarts) //nolint:gosec // small
}

// stateFile is open until the test ends.
func stateFile(t *testing.T, path string) *state.File {
	t.Helper()
	f, _, err := state.Open(path, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() }) //nolint:errcheck,gosec // the test is over
	return f
}

func TestCountersOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	first := stateFile(t, path)
	w := follow(t, nil, service("irc"), service("xmpp"))
	w.stop()
	w.again(first.Value("docker"))
	w.start()
	w.engine.Container("irc").Crash(1)
	w.want("", restarts("irc", 1))
	w.stop() // which keeps what is known
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	w.engine.Container("irc").Restart() // while nobody looks

	second := stateFile(t, path)
	w.again(second.Value("docker"))
	w.wantNow("after a restart of the exporter", "container_"+restarts("irc", 2), "container_"+restarts("xmpp", 0))
	w.start()
	w.read()
	w.wantNow("with events, some of which it has heard before", "container_"+restarts("irc", 2), "container_"+restarts("xmpp", 0))
}

// savingState calls onSave before it saves.
type savingState struct {
	State
	onSave func()
}

func (s savingState) Save(v any) error {
	s.onSave()
	return s.State.Save(v)
}

func TestNoPageShowsARestartThatIsNotSaved(t *testing.T) {
	f, _, err := state.Open("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := follow(t, nil, service("irc"))
	w.stop()
	kept := f.Value("docker")
	wantSaved := func() {
		var m fleet.Memory
		b := &Batch{}
		w.docker.Present(b)
		if err := kept.Load(&m); err != nil {
			t.Error(err)
		}
		saved := fleet.Member{Record: m.Containers["irc"]}
		if shown := b.Engine.Containers[0].Restarts; saved.Restarts() < shown {
			t.Errorf("a page shows %d restarts before they are saved", shown)
		}
	}
	w.docker = w.collector(w.docker.settings, savingState{kept, wantSaved}, false)
	w.read()
	w.start()
	for n := 1; n <= 3; n++ {
		w.engine.Container("irc").Restart()
		w.want("by hand", restarts("irc", n))
		wantSaved()
	}
}

// TestReviewsTakeTurns has a reading that is given up while it waits for another list to be applied.
func TestReviewsTakeTurns(t *testing.T) {
	w := watching(t, startEngine(t))
	w.docker.reviewing <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := w.docker.Collect(ctx, &Batch{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reading that had to wait for another: %v, want its context's end", err)
	}
	<-w.docker.reviewing
	w.read()
}

func TestResourcesOfBeforeAreNotShown(t *testing.T) {
	w := follow(t, func(s *Docker) { s.Resources = resourcesEngine }, service("irc"))
	const memory = `memory_working_set_bytes{container="irc"} 4.194304e+06`
	w.want("", memory)
	none := func(when string) {
		if page := w.page(); strings.Contains(page, "chatstack_container_memory_working_set_bytes{") {
			t.Errorf("%s: memory of before is shown:\n%s", when, page)
		}
	}
	w.fault(true, "hang_stats", "status_500")
	if w.try() == nil {
		t.Fatal("the reading succeeds")
	}
	w.fault(false, "status_500")
	w.read()
	none("after failing readings")
	w.fault(false, "hang_stats")
	w.want("", memory)
	w.engine.Container("irc").Restart()
	w.want("", restarts("irc", 1))
	none("after a restart of the container")
	w.read()
	w.read() // the engine is asked at every other poll
	w.want("", memory)
}

// TestContainerThatHasJustStartedIsInTheFirstReading repeats its start, as the engine does, while it is described.
func TestContainerThatHasJustStartedIsInTheFirstReading(t *testing.T) {
	a := plainContainer("a", nil)
	e := startEngine(t, a)
	w := watching(t, e)
	said := w.log()
	var started sync.Once
	e.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, a.ID+"/json") {
			started.Do(func() {
				start := told(events.ActionStart, a.ID, "a")
				w.docker.locked(func() { w.docker.fleet.ApplyEvent(&start, time.Now()) })
			})
		}
		return false
	}
	b := w.read()
	if !slices.Contains(b.Notes, "1 of 1 containers are watched") || strings.Contains(said.String(), "no container is watched") {
		t.Errorf("notes %q, log %s; want the container to be watched", b.Notes, said)
	}
	w.wantNow("", `container_state{container="a",state="running"} 1`, "container_"+restarts("a", 0))
}

func TestStumbleBetweenReadingsHidesNoOther(t *testing.T) {
	stumbling := atomic.Bool{}
	e, a, other := stuckEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		if stumbling.Load() {
			engineRefuses(w, http.StatusInternalServerError, "boom")
			return
		}
		engineAnswers(w, plainContainer("a", nil))
	})
	w := watching(t, e)
	w.read()
	e.mu.Lock()
	e.containers[1].State = &container.State{Status: container.StateExited, ExitCode: 3, StartedAt: other.State.StartedAt}
	e.mu.Unlock()
	stumbling.Store(true)
	w.take(told(events.ActionDie, a.ID, "a"), told(events.ActionDie, other.ID, "b"))
	w.wantNow("b has died", `container_state{container="b",state="exited"} 1`)
}

func TestPanicOfTheStreamShowsThatEventsAreNotFollowed(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	following := func() {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("following ended with %v, want the panic", v)
				}
			}()
			w.docker.Follow(t.Context(), func() { panic("boom") })
		}()
		<-ended
	}
	w.docker.lasting = healthyStreamAge
	for range 2 { // that it is opened again does not mend it
		following()
		w.wantNow("after a panic", `docker_feature_available{docker_host="local",feature="events"} 0`)
	}
	w.docker.locked(func() {
		if w.docker.stream.open || !w.docker.unsure {
			t.Error("events count as followed")
		}
	})
	b := w.read()
	wantNote(t, b, "panicked: boom")
	w.docker.lasting = time.Millisecond
	w.start()
	w.untilFeature("events", 1) // a stream that lasts mends it
}

// untilFeature waits until a feature of the engine is available, 1, or not.
func (w *watch) untilFeature(name string, value int) {
	w.t.Helper()
	want := fmt.Sprintf(`chatstack_docker_feature_available{docker_host="local",feature=%q} %d`, name, value)
	w.until(want, func() bool { return strings.Contains(w.page(), want) })
}

// eventLine is an event as an engine writes it.
func eventLine(action, padding string) string {
	return fmt.Sprintf(`{"Type":"container","Action":%q,"Actor":{"ID":"id-a","Attributes":{"name":"a","padding":%q}},"timeNano":%d}`+"\n",
		action, padding, time.Now().UnixNano())
}

// TestStreamMayBeLongerThanOneAnswer has an engine whose events together are longer than its longest answer may be.
func TestStreamMayBeLongerThanOneAnswer(t *testing.T) {
	const most, length = 20, 1 << 10
	var streams atomic.Int64
	e := startEngine(t, plainContainer("a", nil))
	e.on("/events", func(w http.ResponseWriter, r *http.Request) {
		if streams.Add(1) == 1 {
			for range most {
				io.WriteString(w, eventLine("oom", strings.Repeat("x", length))) //nolint:errcheck // the client's loss
			}
		}
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	w := watching(t, e)
	w.docker.engine.Limit = 4 * length
	w.read()
	w.start()
	defer w.stop()
	last := fmt.Sprintf(`oom_events_total{container="a"} %d`, most)
	w.until("all events are counted, or the stream is cut", func() bool { return strings.Contains(w.page(), last) || streams.Load() > 1 })
	if got := streams.Load(); got != 1 {
		t.Errorf("the stream was opened %d times, want once:\n%s", got, w.page())
	}
}

func TestLogSaysWhyAStreamEnded(t *testing.T) {
	t.Parallel()
	try := func(name, stream string, proxy bool, want ...string) { // whether a proxy may be at fault, and what the log has
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEngine(t, plainContainer("a", nil))
			e.on("/events", func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, stream) //nolint:errcheck // the client's loss
			})
			w := watching(t, e)
			w.docker.engine.Limit, w.docker.lasting = 4<<10, healthyStreamAge
			lines := w.log()
			w.read()
			w.start()
			w.untilFeature("events", 0)
			wantNote(t, w.read(), "engine events are unavailable")
			w.stop()
			for _, want := range want {
				if !strings.Contains(lines.String(), want) {
					t.Errorf("the log lacks %q:\n%s", want, lines)
				}
			}
			if got := strings.Contains(lines.String(), "a proxy in front of it"); got != proxy {
				t.Errorf("the log blames a proxy: %t, want %t:\n%s", got, proxy, lines)
			}
		})
	}
	try("an event is too long", eventLine("oom", strings.Repeat("x", 5<<10)), false,
		"one event has more than 4096 bytes", "limits.metrics_body")
	try("no event", "<html>", false, "invalid character")
	try("no event's type", `{"Actor":"a"}`, false, "cannot unmarshal")
	try("cut in an event", `{"Type":`, true, "unexpected EOF")
	try("cut between events", eventLine("oom", ""), true, "the stream has ended")
}

func TestQuietStreamIsOpenedAnew(t *testing.T) {
	w := follow(t, nil, service("irc"))
	w.stop()
	w.docker.quiet = time.Millisecond
	w.start()
	w.until("the stream is opened anew", func() bool { return w.streams() >= 3 })
}

func TestTwoEnginesAreToldApart(t *testing.T) {
	w := follow(t, func(s *Docker) { s.Label = "a" }, service("irc"))
	v := follow(t, func(s *Docker) { s.Label = "b" }, service("irc"))
	b := &Batch{}
	w.docker.Present(b)
	v.docker.Present(b)
	page := string(pageOf(t, b, true)) // which fails on a duplicate series
	for _, host := range []string{"a", "b"} {
		if line := `chatstack_container_restarts_total{container="irc",docker_host="` + host + `"} 0`; !strings.Contains(page, line) {
			t.Errorf("the page lacks %s:\n%s", line, page)
		}
	}
}

// TestChangeForgottenBeforeTheStreamIsNoFaultOfIt has containers change after the first reading and before events are followed,
// when the engine has forgotten that already.
func TestChangeForgottenBeforeTheStreamIsNoFaultOfIt(t *testing.T) {
	w := follow(t, nil, service("irc"), service("xmpp"), service("docs"))
	w.stop()
	w.docker = w.collector(w.docker.settings, nil, false) // another process
	w.read()
	w.engine.Container("irc").SetHealth("unhealthy")
	w.engine.Container("xmpp").Restart()
	w.engine.Noise(1000)
	w.start()
	w.want("the next list", `health{container="irc",health="unhealthy"} 1`)
	w.want("the next list", `restarts_total{container="xmpp"} 1`)
	missed := func() bool {
		w.docker.mu.Lock()
		defer w.docker.mu.Unlock()
		return w.docker.fleet.HasOverdueEvent(time.Now(), 0)
	}
	w.read()
	if missed() {
		t.Error("a change speaks against a stream that was opened after it")
	}
	// From now on the stream has to tell.
	w.fault(true, "events_deaf")
	for _, health := range []string{"unhealthy", "healthy", "unhealthy", "healthy", "unhealthy"} {
		// The list that was begun when the stream opened may still find a change that needs no event.
		w.engine.Container("docs").SetHealth(health)
		w.read()
		if missed() {
			return
		}
	}
	t.Error("no change speaks against a stream that does not tell of one")
}

// TestEverythingIsInspectedAfterAFailure has a reading end in the middle.
func TestEverythingIsInspectedAfterAFailure(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	w := watching(t, e)
	for _, path := range []string{"", listPath, "", inspectPath, ""} { // at which the reading ends
		ctx, cancel := context.WithCancel(t.Context())
		e.on("nothing", nil)
		fails := path != ""
		if fails {
			e.on(path, func(w http.ResponseWriter, r *http.Request) { cancel(); engineHangs(w, r) })
		}
		err := w.docker.Collect(ctx, &Batch{})
		if cancel(); (err != nil) != fails {
			t.Errorf("a reading that ends at %q: %v", path, err)
		}
		if w.docker.unsure != fails {
			t.Errorf("the next reading inspects all: %t, want %t", w.docker.unsure, fails)
		}
	}
}

// TestEventNamesNoOtherPath has events whose ids lead to other paths than those of containers.
func TestEventNamesNoOtherPath(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	w := watching(t, e)
	w.read()
	before := len(e.asked())
	for _, id := range []string{
		"../../containers/create", "..", "a/../b", "a?b=c", "a%2fb", "a b", "", "sha256:a", strings.Repeat("../", 100) + "x",
	} {
		w.take(told(events.ActionStart, id, "a"))
	}
	pings := func(call string) bool { return call == "HEAD /_ping" }
	if asked := slices.DeleteFunc(e.asked()[before:], pings); len(asked) > 0 {
		t.Errorf("asked for ids that are none: %q", asked)
	}
}

func TestFailedLookTakesNobodyAway(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	w := watching(t, e)
	w.read()
	e.on("/v1.41/containers/id-a/json", engineForbids)
	w.docker.unsure = false
	w.take(told(events.ActionDie, "id-a", "a"))
	w.wantNow("", `container_state{container="a",state="running"} 1`)
	if !w.docker.unsure {
		t.Error("the next reading does not inspect all")
	}
}

// TestEndOfFollowingIsNoFault ends it while the engine has not yet said anything.
func TestEndOfFollowingIsNoFault(t *testing.T) {
	e := startEngine(t)
	asked := make(chan struct{}, 10)
	e.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		asked <- struct{}{}
		<-r.Context().Done()
		return true
	}
	w := watching(t, e)
	d, lines := w.docker, w.log()
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() { d.Follow(ctx, func() { t.Error("something has changed") }) })
	<-asked
	cancel()
	following.Wait()
	if lines.Len() > 0 || d.stream.known {
		t.Errorf("events count as not to be had: %t; logged: %s", d.stream.known, lines)
	}
}

// TestEventsAreFollowedSinceTheEngineWasFirstAsked has a container that was made then crash before anybody describes it.
func TestEventsAreFollowedSinceTheEngineWasFirstAsked(t *testing.T) {
	d := unconnected(t).docker
	d.begin(noon)
	d.markStreamOpen()
	d.stream.last = noon.Add(time.Hour)
	d.markStreamOpen()
	for name, tt := range map[string]struct {
		made     time.Time
		restarts uint64
	}{"before": {noon.Add(-2 * time.Second), 0}, "since": {noon.Add(-time.Second), 4}} {
		c := plainContainer(name, nil)
		c.Created, c.RestartCount = tt.made.Format(time.RFC3339), 4
		s, err := fleet.StatusOf(&c, d.fleet.Rules())
		if err != nil {
			t.Fatal(err)
		}
		d.fleet.Describe(s, 0, noon, noon)
		if got := d.fleet.Counts()[name].Restarts; got != tt.restarts {
			t.Errorf("made %s: got %d restarts, want %d", name, got, tt.restarts)
		}
	}
}

func TestUnknownResourcesAreLoggedOnce(t *testing.T) {
	for _, once := range []bool{false, true} {
		w := unconnected(t, func(s *Docker) { s.Resources, s.CgroupRoot = resourcesCgroup, filepath.Join(t.TempDir(), "none") })
		d := w.docker
		d.once = once
		lines := w.log()
		measure := func(ctx context.Context, rounds []int, subjects ...usage.Subject) (failed bool) {
			for _, round := range rounds {
				d.measureResources(ctx, dockerRound{round: round, subjects: subjects, source: resourcesCgroup})
				d.readingFiles <- struct{}{} // once nobody reads them
				<-d.readingFiles
			}
			return d.stats.err != nil
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		first, after := measure(t.Context(), []int{0, 1, 2}, usage.Subject{ID: "a"}), measure(ended, []int{3})
		if !first || !after || measure(t.Context(), []int{3, 4, 5}) || d.measured != 5 {
			t.Errorf("once %t: failed: %t, after the end: %t, then %+v of round %d", once, first, after, d.stats, d.measured)
		}
		want := map[bool]int{false: 1}[once] // the page of a single reading tells it
		warnings, again := strings.Count(lines.String(), "are unavailable"), strings.Count(lines.String(), "available again")
		if warnings != want || again != want || strings.Count(lines.String(), "\n") != 2*want {
			t.Errorf("once %t: logged\n%s\nwant %d line about the fault and %[3]d about its end", once, lines, want)
		}
	}
}

func TestOnlyWhatHasChangedIsKept(t *testing.T) {
	kept := &memory{}
	d := (&watch{t: t}).collector(dockerSettings("unix:///none"), kept, false)
	d.save()
	d.save()
	if len(kept.saves) != 1 || !strings.Contains(string(kept.saved), "unix:///none") {
		t.Fatalf("kept %s, want one line about the engine", kept.saves)
	}
	known := fleet.Memory{Host: d.settings.Host, Containers: map[string]fleet.Record{"irc": {ID: "1"}}}
	d.locked(func() { d.fleet.Restore(known, noon) })
	d.save()
	d.save()
	if len(kept.saves) != 2 || !strings.Contains(string(kept.saved), "irc") {
		t.Errorf("kept %s, want one more line with the container", kept.saves)
	}
}

func TestCatchingUpLeavesNoConnection(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	w := watching(t, e)
	w.docker.catchUp(t.Context())
	w.wantNow("", `container_state{container="a",state="running"} 1`)
	e.waitForSilence(t)
}

// TestDiskThatTakesNothingHidesNoRestart cannot write the state file for a while. What it could not save is in it afterwards.
func TestDiskThatTakesNothingHidesNoRestart(t *testing.T) {
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "state.json")
	file := stateFile(t, path)
	must(os.Remove(path))
	must(os.Mkdir(path, 0o700))
	w := watchEngine(t, startEngine(t, plainContainer("a", nil)).host, file.Value("docker"))
	w.read()
	for range 3 {
		w.take(told(events.ActionStart, "id-a", "a"))
		w.docker.keepCounts()
	}
	w.wantNow("a disk that takes nothing", "container_"+restarts("a", 3))
	must(os.Remove(path))
	must(file.Value("another").Save("of another target"))
	must(file.Close())
	var kept fleet.Memory
	must(stateFile(t, path).Value("docker").Load(&kept))
	saved := fleet.Member{Record: kept.Containers["a"]}
	if saved.Restarts() != 3 {
		t.Errorf("the state file has %d restarts, want 3: %+v", saved.Restarts(), kept)
	}
}

// TestSecondInspectionFailsNoReading has an event overtake the description of a container that cannot be inspected again.
func TestSecondInspectionFailsNoReading(t *testing.T) {
	e, stuck, _ := stuckEngine(t, nil)
	w := watching(t, e)
	inspections := 0
	e.answer = func(rw http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, stuck.ID+"/json") {
			return false
		}
		if inspections++; inspections == 2 {
			http.Error(rw, "too many requests", http.StatusTooManyRequests)
			return true
		}
		started := told(events.ActionStart, stuck.ID, "a")
		if inspections == 1 {
			w.docker.locked(func() { w.docker.fleet.ApplyEvent(&started, time.Now()) })
		}
		return false
	}
	w.read()
	w.wantNow("", `container_state{container="b",state="running"} 1`)
	w.read()
	w.wantNow("the next reading", `container_state{container="a",state="running"} 1`)
	if inspections != 3 {
		t.Errorf("inspected %d times, want 3", inspections)
	}
}

func TestEventWithoutAStampIsNoRepetition(t *testing.T) {
	var s eventStream
	e := &events.Message{Action: events.ActionDie, Actor: events.Actor{ID: "1"}}
	for range 2 {
		if s.repeated(e) {
			t.Error("an event that cannot be told from another one counts as heard")
		}
	}
}
