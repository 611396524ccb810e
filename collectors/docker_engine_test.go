package collectors

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

// engine is a Docker Engine made of canned answers. It listens on a Unix socket, knows some containers, and remembers
// what it was asked.
type engine struct {
	host   string // unix://...
	server *httptest.Server

	mu         sync.Mutex
	containers []container.InspectResponse
	calls      []string
	open       map[net.Conn]bool
	closed     chan struct{} // closed and replaced whenever a connection closes
	// answer, where set, is asked first. It reports whether it answered.
	answer func(http.ResponseWriter, *http.Request) bool
}

// plainContainer is a running container without a health check. Its id is made of its name.
func plainContainer(name string, labels map[string]string) container.InspectResponse {
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID: "id-" + name, Name: "/" + name,
			State: &container.State{Status: container.StateRunning, Running: true, StartedAt: "2026-01-02T03:04:05Z"},
		},
		Config: &container.Config{Image: "image", Labels: labels},
	}
}

// crowd are containers whose names are numbers behind a prefix.
func crowd(prefix string, n int) []container.InspectResponse {
	all := make([]container.InspectResponse, n)
	for i := range all {
		all[i] = plainContainer(fmt.Sprintf("%s%04d", prefix, i), nil)
	}
	return all
}

func newEngine(containers ...container.InspectResponse) *engine {
	return &engine{containers: containers, open: map[net.Conn]bool{}, closed: make(chan struct{})}
}

func startEngine(tb testing.TB, containers ...container.InspectResponse) *engine {
	tb.Helper()
	e := newEngine(containers...)
	socket := engineSocket(tb)
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "unix", socket)
	if err != nil {
		tb.Fatal(err)
	}
	e.host = "unix://" + socket
	e.server = &httptest.Server{
		Listener: listener,
		Config:   &http.Server{Handler: e, ConnState: e.connState, ReadHeaderTimeout: time.Minute},
	}
	e.server.Start()
	tb.Cleanup(e.server.Close)
	return e
}

// engineSocket is a path that is short enough for a socket, which t.TempDir's is not always.
func engineSocket(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "engine") //nolint:usetesting // t.TempDir is too long for a socket's path
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary directory
	return filepath.Join(dir, "docker.sock")
}

func (e *engine) connState(c net.Conn, state http.ConnState) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch state {
	case http.StateNew:
		e.open[c] = true
	case http.StateClosed, http.StateHijacked:
		delete(e.open, c)
		close(e.closed)
		e.closed = make(chan struct{})
	default:
	}
}

// on gives requests whose path has this part to answer.
func (e *engine) on(part string, answer http.HandlerFunc) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, part) {
			return false
		}
		answer(w, r)
		return true
	}
}

// waitForSilence returns when no connection is open.
func (e *engine) waitForSilence(t *testing.T) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		e.mu.Lock()
		n, closed := len(e.open), e.closed
		e.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-closed:
		case <-deadline:
			t.Fatalf("%d connections are still open", n)
		}
	}
}

func (e *engine) asked() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.calls)
}

func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.calls = append(e.calls, r.Method+" "+r.URL.String())
	answer := e.answer
	e.mu.Unlock()
	if answer != nil && answer(w, r) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	w.Header().Set("Api-Version", "1.41")
	path, versioned := strings.CutPrefix(r.URL.Path, "/v1.41")
	switch c := e.find(containerOf(r)); {
	case r.URL.Path == "/_ping":
		io.WriteString(w, "OK") //nolint:errcheck // the client's loss
	case !versioned:
		engineRefuses(w, http.StatusBadRequest, "client version is too new. Maximum supported API version is 1.41")
	case path == "/containers/json":
		e.list(w)
	case c != nil:
		engineAnswers(w, c)
	default:
		engineRefuses(w, http.StatusNotFound, "No such container: "+containerOf(r))
	}
}

// containerOf is the id in the path of an inspection.
func containerOf(r *http.Request) string {
	return strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/v1.41/containers/"), "/json")
}

// find returns a container by its id, or nil. The caller holds the lock.
func (e *engine) find(id string) *container.InspectResponse {
	for i := range e.containers {
		if e.containers[i].ID == id {
			return &e.containers[i]
		}
	}
	return nil
}

// list leaves filters to the exporter. The caller holds the lock.
func (e *engine) list(w http.ResponseWriter) {
	listed := []container.Summary{}
	for _, c := range e.containers {
		status := "Up 2 hours"
		if c.State.Health != nil {
			status += " (" + c.State.Health.Status + ")"
		}
		listed = append(listed, container.Summary{
			ID:     c.ID,
			Names:  []string{c.Name},
			Labels: c.Config.Labels,
			State:  c.State.Status,
			Status: status,
		})
	}
	engineAnswers(w, listed)
}

func engineAnswers(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client's loss
}

func engineRefuses(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]string{"message": message}) //nolint:errcheck // the client's loss
}

func dockerSettings(host string) *Docker {
	s := newDockerSettings()
	s.Host = host
	return s
}

// readDocker makes one reading, for a minute at most.
func readDocker(t *testing.T, s *Docker) (*Batch, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return readDockerUntil(ctx, t, s)
}

func readDockerUntil(ctx context.Context, t *testing.T, s *Docker) (*Batch, error) {
	t.Helper()
	c := (&watch{t: t}).collector(s, nil, false)
	b := &Batch{}
	if err := c.Collect(ctx, b); err != nil {
		return b, err
	}
	c.Present(b)
	return b, nil
}

// engineSays answers with an error as an engine words it.
func engineSays(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { engineRefuses(w, status, message) }
}

// engineForbids answers as a proxy in front of an engine does.
func engineForbids(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "<html><body><h1>403 Forbidden</h1></body></html>", http.StatusForbidden)
}

// engineFloods answers without an end.
func engineFloods(begin, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		chunk := strings.Repeat(more, 10_000)
		for _, err := io.WriteString(w, begin); err == nil; {
			_, err = io.WriteString(w, chunk)
		}
	}
}

// engineHangs answers only when the client goes away: never.
func engineHangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// engineSends sends a whole answer. status may carry headers.
func engineSends(status, body string) http.HandlerFunc {
	return rawEngine(fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body))
}

// rawEngine sends exactly these bytes and closes the connection.
func rawEngine(content string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()            //nolint:errcheck // the client's loss
		io.WriteString(conn, content) //nolint:errcheck // the client's loss
	}
}

// watch is a collector that follows a simulated engine.
type watch struct {
	t       *testing.T
	engine  *simstack.Engine
	docker  *docker
	changed chan struct{}
	stop    func()
	// mountInfo tells the exporter's container.
	mountInfo string
}

// follow starts an engine with containers, reads it once, and follows it.
func follow(t *testing.T, change func(*Docker), specs ...simstack.ContainerSpec) *watch {
	t.Helper()
	engine := simstacktest.StartEngine(t, nil)
	for _, spec := range specs {
		engine.Add(spec)
	}
	w := watchEngine(t, engine.Host(), nil, change)
	w.engine = engine
	w.read()
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *watch) collector(s *Docker, state State, once bool) *docker {
	w.t.Helper()
	c, err := newDocker(s, Deps{
		Limits: config.Limits{MetricsBody: 1 << 20, Body: 1 << 16},
		Log:    slog.New(slog.DiscardHandler),
		State:  state,
		Once:   once,

		MountInfo: w.mountInfo,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	d := c.(*docker)
	d.patience, d.lasting = 20*time.Millisecond, time.Millisecond
	return d
}

// start follows the engine, and returns once its events flow, unless they cannot.
func (w *watch) start() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	var following sync.WaitGroup
	following.Go(func() { w.docker.Follow(ctx, func() { signal(w.changed) }) })
	w.stop = sync.OnceFunc(func() { cancel(); following.Wait() })
	w.until("events flow or fail", func() bool {
		w.docker.mu.Lock()
		defer w.docker.mu.Unlock()
		return w.docker.stream.known
	})
}

// read makes a reading that must succeed.
func (w *watch) read() *Batch {
	w.t.Helper()
	return w.readFor(time.Minute)
}

func (w *watch) readFor(timeout time.Duration) *Batch {
	w.t.Helper()
	b := &Batch{}
	if err := w.tryFor(timeout, b); err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *watch) try() error { return w.tryFor(time.Minute, &Batch{}) }

func (w *watch) tryFor(timeout time.Duration, b *Batch) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), timeout)
	defer cancel()
	return w.docker.Collect(ctx, b)
}

// fault switches faults of the simulated engine.
func (w *watch) fault(on bool, names ...string) {
	w.t.Helper()
	for _, name := range names {
		if err := w.engine.Switch(name, on); err != nil {
			w.t.Fatal(err)
		}
	}
}

// again replaces the collector, as after a restart of the exporter, and reads once.
func (w *watch) again(state State) {
	w.t.Helper()
	w.docker = w.collector(w.docker.settings, state, false)
	w.read()
}

// told is an event of the moment.
func told(action events.Action, id, name string) events.Message {
	return events.Message{
		Action: action, TimeNano: time.Now().UnixNano(), Actor: events.Actor{ID: id, Attributes: map[string]string{"name": name}},
	}
}

// take gives the collector events, as its stream does, and waits until their containers are inspected.
func (w *watch) take(batch ...events.Message) {
	w.t.Helper()
	s := w.session(1)
	defer s.Close()
	ids := w.docker.applyEvents(batch)
	if len(ids) > 0 {
		s.Negotiate(w.t.Context()) //nolint:errcheck,gosec // an inspection repeats a failure
	}
	var inspecting sync.WaitGroup
	w.docker.inspectChanged(w.t.Context(), &inspecting, s, ids)
	inspecting.Wait()
	w.docker.settleInspections()
}

// log returns what the collector logs at info and above.
func (w *watch) log() *bytes.Buffer {
	var lines *bytes.Buffer
	w.docker.log, lines = logged()
	return lines
}

// session is one with so many calls at once, which has agreed with the engine on a version.
func (w *watch) session(parallelism int) *api.Session {
	w.t.Helper()
	s, err := w.docker.open(w.t.Context(), parallelism)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	return s
}

// page is what is presented, without docker_host.
func (w *watch) page() string {
	w.t.Helper()
	b := &Batch{}
	w.docker.Present(b)
	return strings.ReplaceAll("\n"+string(ownText(w.t, b)), `,docker_host="local"`, "")
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

// settle returns once no event is told any more of what was before: a description that an event has overtaken is thrown away,
// and made again a moment later.
func (w *watch) settle(name string) {
	w.t.Helper()
	w.engine.Container(name).Pause()
	w.want("an event", `state{container="`+name+`",state="paused"} 1`)
	w.engine.Container(name).Unpause()
	w.want("an event", `state{container="`+name+`",state="running"} 1`)
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
	return simstack.ContainerSpec{
		Name:    name,
		Service: name,
		Image:   "chat/" + name + ":1",
		Restart: "always",
		Health:  true,
	}
}

// unconnected is a collector of an engine that nobody has asked yet.
func unconnected(t *testing.T, change ...func(*Docker)) *watch {
	t.Helper()
	return watchEngine(t, "unix:///none", nil, change...)
}

// watching is a collector of an engine that nobody follows.
func watching(t *testing.T, e *engine, change ...func(*Docker)) *watch {
	t.Helper()
	return watchEngine(t, e.host, nil, change...)
}

func watchEngine(t *testing.T, host string, state State, change ...func(*Docker)) *watch {
	t.Helper()
	s := dockerSettings(host)
	s.Resources, s.Timeout = resourcesNone, config.Duration(time.Minute)
	for _, c := range change {
		if c != nil {
			c(s)
		}
	}
	w := &watch{t: t, changed: make(chan struct{}, 1)}
	w.docker = w.collector(s, state, false)
	return w
}

func withEngineResources(s *Docker) { s.Resources = resourcesEngine }

// wantNote wants notes that contain these texts.
func wantNote(t *testing.T, b *Batch, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !slices.ContainsFunc(b.Notes, func(n string) bool { return strings.Contains(n, text) }) {
			t.Errorf("notes %q, want one with %q", b.Notes, text)
		}
	}
}

// wantPartly wants notes with these texts, and the target to work partly.
func wantPartly(t *testing.T, b *Batch, texts ...string) {
	t.Helper()
	wantNote(t, b, texts...)
	if len(b.Impairments) == 0 {
		t.Error("the target does not count as working partly")
	}
}

// wantShown wants so many containers on the page, and lines of it.
func (w *watch) wantShown(n int, lines ...string) {
	w.t.Helper()
	if got := strings.Count(w.page(), "\nchatstack_container_expected{"); got != n {
		w.t.Errorf("%d containers are on the page, want %d", got, n)
	}
	w.wantNow("", lines...)
}

// logged returns a logger, and what it was given at info and above.
func logged() (*slog.Logger, *bytes.Buffer) {
	var lines bytes.Buffer
	return slog.New(slog.NewTextHandler(&lines, nil)), &lines
}

func restarts(name string, n int) string {
	return fmt.Sprintf(`restarts_total{container="%s"} %d`, name, n)
}

func reasonOrNone(err error) failure.Reason {
	if err == nil {
		return ""
	}
	return failure.ReasonOf(err)
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
