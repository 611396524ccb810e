package collectors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
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
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
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

// dockerFiles are the names of the containers in testdata/docker/inspect.
var dockerFiles = []string{
	"created", "dead", "irc", "killed", "loop", "none", "oneoff", "proxy", "services", "starting", "stopped",
	"temporary", "unpaused", "xmpp",
}

func inspectedContainer(t *testing.T, name string) container.InspectResponse {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "docker", "inspect", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var c container.InspectResponse
	if err := json.Unmarshal(content, &c); err != nil {
		t.Fatal(err)
	}
	return c
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

func startEngine(t *testing.T, containers ...container.InspectResponse) *engine {
	t.Helper()
	e := &engine{containers: containers, open: map[net.Conn]bool{}, closed: make(chan struct{})}
	socket := engineSocket(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e.host = "unix://" + socket
	e.server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: e, ConnState: e.connState, ReadHeaderTimeout: time.Minute}}
	e.server.Start()
	t.Cleanup(e.server.Close)
	return e
}

// engineSocket is a path that is short enough for a socket, which t.TempDir's is not always.
func engineSocket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine") //nolint:usetesting // t.TempDir is too long for a socket's path
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) }) //nolint:errcheck // a temporary directory
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
	w.Header().Set("Api-Version", "1.41")
	path, versioned := strings.CutPrefix(r.URL.Path, "/v1.41")
	switch {
	case r.URL.Path == "/_ping":
		io.WriteString(w, "OK") //nolint:errcheck // the client's loss
	case !versioned:
		engineSays(w, http.StatusBadRequest, "client version is too new. Maximum supported API version is 1.41")
	case path == "/containers/json":
		e.list(w, r)
	default:
		id := strings.TrimSuffix(strings.TrimPrefix(path, "/containers/"), "/json")
		for _, c := range e.containers {
			if c.ID == id {
				engineAnswers(w, c)
				return
			}
		}
		engineSays(w, http.StatusNotFound, "No such container: "+id)
	}
}

// list knows the one filter that is used: labels, all of which must be there.
func (e *engine) list(w http.ResponseWriter, r *http.Request) {
	var filters struct{ Label map[string]bool }
	if raw := r.URL.Query().Get("filters"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &filters); err != nil {
			engineSays(w, http.StatusBadRequest, err.Error())
			return
		}
	}
	listed := []container.Summary{}
	for _, c := range e.containers {
		fits := true
		for want := range filters.Label {
			key, value, valued := strings.Cut(want, "=")
			got, ok := c.Config.Labels[key]
			fits = fits && ok && (!valued || got == value)
		}
		if fits {
			status := "Up 2 hours"
			if c.State.Health != nil {
				status += " (" + c.State.Health.Status + ")"
			}
			listed = append(listed, container.Summary{ID: c.ID, Names: []string{c.Name}, Labels: c.Config.Labels, State: c.State.Status, Status: status})
		}
	}
	engineAnswers(w, listed)
}

func engineAnswers(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v) //nolint:errcheck // the client's loss
}

func engineSays(w http.ResponseWriter, status int, message string) {
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
	c, err := newDocker(s, Deps{Limits: config.Limits{MetricsBody: 1 << 20, Body: 1 << 16}, UserAgent: "chatstack_exporter/test", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := &Batch{}
	if err := c.Collect(ctx, b); err != nil {
		return b, err
	}
	c.(Follower).Present(b)
	return b, nil
}

// containersOn are the names of the containers on a batch's page, sorted.
func containersOn(t *testing.T, b *Batch) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(string(pageOf(t, b, true))) {
		if rest, ok := strings.CutPrefix(line, "chatstack_container_info{"); ok {
			_, rest, _ = strings.Cut(rest, `container="`)
			name, _, _ := strings.Cut(rest, `"`)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func TestDockerPage(t *testing.T) {
	var containers []container.InspectResponse
	for _, name := range dockerFiles {
		containers = append(containers, inspectedContainer(t, name))
	}
	e := startEngine(t, containers...)
	b, err := readDocker(t, dockerSettings(e.host))
	if err != nil {
		t.Fatal(err)
	}
	goldenPage(t, "docker/containers", b)
	if b.HTTPStatus != http.StatusOK {
		t.Errorf("HTTP status: got %d, want 200", b.HTTPStatus)
	}
	if want := "12 of 14 containers are watched"; !slices.Contains(b.Notes, want) {
		t.Errorf("notes: got %q, want %q among them", b.Notes, want)
	}
}

func TestEngineIsAskedNoMoreThanNeeded(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil), plainContainer("c", nil))
	s := dockerSettings(e.host)
	s.Exclude = []string{"b"}
	if _, err := readDocker(t, s); err != nil {
		t.Fatal(err)
	}
	got := e.asked()
	slices.Sort(got[2:])
	want := []string{
		"HEAD /_ping", "GET /v1.41/containers/json?all=1",
		"GET /v1.41/containers/id-a/json", "GET /v1.41/containers/id-c/json",
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

func TestLabelsAreFilteredByTheEngine(t *testing.T) {
	e := startEngine(t)
	s := dockerSettings(e.host)
	s.Projects, s.Labels = []string{"chat"}, []string{"tier=front", "watched"}
	if _, err := readDocker(t, s); err != nil {
		t.Fatal(err)
	}
	var listCall string
	for _, call := range e.asked() {
		if strings.Contains(call, "/containers/json?") {
			listCall = call
		}
	}
	_, query, _ := strings.Cut(listCall, "?")
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?"+query, nil)
	got := req.URL.Query().Get("filters")
	want := `{"label":{"com.docker.compose.project=chat":true,"tier=front":true,"watched":true}}`
	if got != want {
		t.Errorf("filters: got %s, want %s", got, want)
	}
}

func TestOnlySelectedContainersAreTold(t *testing.T) {
	chat := func(more ...string) map[string]string {
		labels := map[string]string{composeProject: "chat"}
		for _, l := range more {
			key, value, _ := strings.Cut(l, "=")
			labels[key] = value
		}
		return labels
	}
	containers := []container.InspectResponse{
		plainContainer("chat-irc-1", chat("tier=back")),
		plainContainer("chat-web-1", chat("tier=front", "watched=")),
		plainContainer("chat-run-1", chat(composeOneOff+"=True")),
		plainContainer("blog-web-1", map[string]string{composeProject: "blog", "tier": "front"}),
		plainContainer("lonely", nil),
	}
	for _, tt := range []struct {
		name   string
		adjust func(*Docker)
		want   []string
	}{
		{"everything", func(*Docker) {}, []string{"blog-web-1", "chat-irc-1", "chat-web-1", "lonely"}},
		{"a project", func(s *Docker) { s.Projects = []string{"chat"} }, []string{"chat-irc-1", "chat-web-1"}},
		{"one of two projects", func(s *Docker) { s.Projects = []string{"blog", "chat"} }, []string{"blog-web-1", "chat-irc-1", "chat-web-1"}},
		{"a label's value", func(s *Docker) { s.Labels = []string{"tier=front"} }, []string{"blog-web-1", "chat-web-1"}},
		{"a label's presence", func(s *Docker) { s.Labels = []string{"watched"} }, []string{"chat-web-1"}},
		{"all of two labels", func(s *Docker) { s.Labels = []string{"tier", composeProject + "=chat"} }, []string{"chat-irc-1", "chat-web-1"}},
		{"a pattern", func(s *Docker) { s.Names = []string{"*-web-?"} }, []string{"blog-web-1", "chat-web-1"}},
		{"a pattern is of the whole name", func(s *Docker) { s.Names = []string{"web", "lon*"} }, []string{"lonely"}},
		{"a project but for a name", func(s *Docker) {
			s.Projects, s.Exclude = []string{"chat"}, []string{"*-irc-*"}
		}, []string{"chat-web-1"}},
		{"nothing", func(s *Docker) { s.Projects = []string{"other"} }, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, containers...)
			s := dockerSettings(e.host)
			tt.adjust(s)
			b, err := readDocker(t, s)
			if err != nil {
				t.Fatal(err)
			}
			if got := containersOn(t, b); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestContainerThatVanishesIsLeftOut(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/id-a/json") {
			engineSays(w, http.StatusNotFound, "No such container: id-a")
			return true
		}
		return false
	}
	b, err := readDocker(t, dockerSettings(e.host))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// While compose replaces a container, names move between the list and the inspection.
func TestRenamedContainerHasOneName(t *testing.T) {
	older, newer := plainContainer("a", nil), plainContainer("0123456789ab_a", nil)
	gone := plainContainer("other", nil)
	e := startEngine(t, older, newer, gone)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/"+older.ID+"/json"):
			engineSays(w, http.StatusNotFound, "No such container: "+older.ID)
		case strings.HasSuffix(r.URL.Path, "/"+newer.ID+"/json"):
			engineAnswers(w, plainContainer("a", nil))
		case strings.HasSuffix(r.URL.Path, "/"+gone.ID+"/json"):
			engineAnswers(w, plainContainer("fedcba987654_other", nil))
		default:
			return false
		}
		return true
	}
	s := dockerSettings(e.host)
	s.Names = []string{"a", "other"}
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSwappedNamesAreToldOnce(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/id-b/json") {
			engineAnswers(w, plainContainer("a", nil))
			return true
		}
		return false
	}
	b, err := readDocker(t, dockerSettings(e.host))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := containersOn(t, b), []string{"a"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInspectionsAreParallelAndBounded(t *testing.T) {
	const parallelism = 3
	var containers []container.InspectResponse
	for i := range 4 * parallelism {
		containers = append(containers, plainContainer(fmt.Sprintf("c%d", i), nil))
	}
	e := startEngine(t, containers...)
	var (
		mu            sync.Mutex
		running, most int
	)
	full := make(chan struct{})
	e.answer = func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/v1.41/containers/id-") {
			return false
		}
		mu.Lock()
		running++
		most = max(most, running)
		if running == parallelism && !isClosed(full) {
			close(full)
		}
		mu.Unlock()
		defer func() {
			mu.Lock()
			defer mu.Unlock()
			running--
		}()
		select {
		case <-full:
		case <-r.Context().Done():
		}
		return false
	}
	s := dockerSettings(e.host)
	s.Parallelism = parallelism
	b, err := readDocker(t, s)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(containersOn(t, b)); got != len(containers) {
		t.Errorf("containers: got %d, want %d", got, len(containers))
	}
	mu.Lock()
	defer mu.Unlock()
	if most != parallelism {
		t.Errorf("inspections at once: got %d, want %d", most, parallelism)
	}
}

func isClosed(ch chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

// dockerFailures are the ways in which an engine, or what stands in its place, fails. hint is a part of it.
var dockerFailures = []struct {
	name   string
	answer func(http.ResponseWriter, *http.Request) bool
	reason failure.Reason
	hint   string
	status int
}{
	{
		name:   "proxy refuses the ping",
		answer: func(w http.ResponseWriter, _ *http.Request) bool { return engineForbids(w) },
		reason: failure.Forbidden, hint: "PING=1", status: http.StatusForbidden,
	},
	{
		name:   "proxy refuses the list",
		answer: onEnginePath("/v1.41/containers/json", engineForbids),
		reason: failure.Forbidden, hint: "CONTAINERS=1", status: http.StatusForbidden,
	},
	{
		name:   "proxy refuses the inspection",
		answer: onEnginePath("/v1.41/containers/id-a/json", engineForbids),
		reason: failure.Forbidden, hint: "CONTAINERS=1", status: http.StatusForbidden,
	},
	{
		name: "engine is in trouble",
		answer: onEnginePath("/v1.41/containers/json", func(w http.ResponseWriter) bool {
			engineSays(w, http.StatusInternalServerError, "database is locked")
			return true
		}),
		reason: failure.HTTPStatus, hint: "log", status: http.StatusInternalServerError,
	},
	{
		name: "no such page",
		answer: onEnginePath("/v1.41/containers/id-a/json", func(w http.ResponseWriter) bool {
			engineSays(w, http.StatusNotFound, "page not found")
			return true
		}),
		reason: failure.NotFound, hint: "404", status: http.StatusNotFound,
	},
	{
		name: "web server without engine",
		answer: func(w http.ResponseWriter, _ *http.Request) bool {
			io.WriteString(w, "<html>It works!</html>") //nolint:errcheck // the client's loss
			return true
		},
		reason: failure.Malformed, hint: "something else than a Docker Engine", status: http.StatusOK,
	},
	{
		name: "version that is none",
		answer: func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Api-Version", "1.41/../../images")
			return true
		},
		reason: failure.Malformed, hint: "something else than a Docker Engine", status: http.StatusOK,
	},
	{
		name:   "no HTTP at all",
		answer: func(w http.ResponseWriter, _ *http.Request) bool { return rawEngine(w, "SSH-2.0-OpenSSH_9.2\r\n") },
		reason: failure.Malformed, hint: "something else may listen",
	},
	{
		name:   "list is no JSON",
		answer: onEnginePath("/v1.41/containers/json", engineSends("200 OK", "[{\"Id\": 7}]")),
		reason: failure.Malformed, hint: "something else may listen", status: http.StatusOK,
	},
	{
		name:   "list has an id that is none",
		answer: onEnginePath("/v1.41/containers/json", engineSends("200 OK", "[{\"Id\": \"../images\", \"Names\": [\"/a\"]}]")),
		reason: failure.Malformed, hint: "something else may listen", status: http.StatusOK,
	},
	{
		name:   "list is empty text",
		answer: onEnginePath("/v1.41/containers/json", engineSends("200 OK", "")),
		reason: failure.Malformed, hint: "something else may listen", status: http.StatusOK,
	},
	{
		name:   "description of nothing",
		answer: onEnginePath("/v1.41/containers/id-a/json", engineSends("200 OK", "{}")),
		reason: failure.Malformed, hint: "something else may listen", status: http.StatusOK,
	},
	{
		name:   "redirect",
		answer: onEnginePath("/v1.41/containers/json", engineSends("301 Moved Permanently\r\nLocation: http://other/", "")),
		reason: failure.HTTPStatus, hint: "log", status: http.StatusMovedPermanently,
	},
	{
		name:   "connection is closed instead of an answer",
		answer: func(w http.ResponseWriter, _ *http.Request) bool { return rawEngine(w, "") },
		reason: failure.Closed, hint: "closed or reset",
	},
	{
		name: "list is cut in the middle",
		answer: onEnginePath("/v1.41/containers/json", func(w http.ResponseWriter) bool {
			return rawEngine(w, "HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n[{\"Id\":\"id-a\",")
		}),
		reason: failure.Closed, hint: "closed or reset", status: http.StatusOK,
	},
	{
		name: "list without a length is cut in the middle",
		answer: onEnginePath("/v1.41/containers/json", func(w http.ResponseWriter) bool {
			return rawEngine(w, "HTTP/1.0 200 OK\r\n\r\n[{\"Id\":\"id-a\",")
		}),
		reason: failure.Closed, hint: "closed or reset", status: http.StatusOK,
	},
	{
		name: "description is cut in the middle",
		answer: onEnginePath("/v1.41/containers/id-a/json", func(w http.ResponseWriter) bool {
			return rawEngine(w, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Id\"\r\n")
		}),
		reason: failure.Closed, hint: "closed or reset", status: http.StatusOK,
	},
	{
		name: "endless list",
		answer: onEnginePath("/v1.41/containers/json", func(w http.ResponseWriter) bool {
			chunk := bytes.Repeat([]byte("{},"), 10_000)
			for _, err := io.WriteString(w, "["); err == nil; {
				_, err = w.Write(chunk)
			}
			return true
		}),
		reason: failure.TooLarge, hint: "limits.metrics_body", status: http.StatusOK,
	},
	{
		name: "endless header",
		answer: func(w http.ResponseWriter, _ *http.Request) bool {
			return rawEngine(w, "HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*maxHeaderBytes)+"\r\n\r\n")
		},
		reason: failure.TooLarge, hint: "limit",
	},
	{
		name:   "connection ends at an inspection",
		answer: onEnginePath("/v1.41/containers/id-a/json", func(w http.ResponseWriter) bool { return rawEngine(w, "") }),
		reason: failure.Closed, status: http.StatusOK,
	},
	{
		name: "proxy's page is long",
		answer: onEnginePath("/v1.41/containers/json", func(w http.ResponseWriter) bool {
			http.Error(w, strings.Repeat("<p>", 100_000), http.StatusBadGateway)
			return true
		}),
		reason: failure.HTTPStatus, hint: "log", status: http.StatusBadGateway,
	},
}

func onEnginePath(path string, answer func(http.ResponseWriter) bool) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool { return r.URL.Path == path && answer(w) }
}

func engineForbids(w http.ResponseWriter) bool {
	http.Error(w, "<html><body><h1>403 Forbidden</h1></body></html>", http.StatusForbidden)
	return true
}

// engineSends sends a whole answer. status may carry headers.
func engineSends(status, body string) func(http.ResponseWriter) bool {
	return func(w http.ResponseWriter) bool {
		return rawEngine(w, fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(body), body))
	}
}

// rawEngine sends exactly these bytes and closes the connection.
func rawEngine(w http.ResponseWriter, content string) bool {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return false
	}
	defer conn.Close()            //nolint:errcheck // the client's loss
	io.WriteString(conn, content) //nolint:errcheck // the client's loss
	return true
}

func TestDockerFailuresHaveTheirReasons(t *testing.T) {
	for _, tt := range dockerFailures {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, plainContainer("a", nil))
			e.answer = tt.answer
			b, err := readDocker(t, dockerSettings(e.host))
			wantDockerFailure(t, err, tt.reason, tt.hint)
			if b.HTTPStatus != tt.status {
				t.Errorf("HTTP status: got %d, want %d", b.HTTPStatus, tt.status)
			}
			if got := len(b.Metrics(false)); got != 0 {
				t.Errorf("metrics after the failure: got %d, want none", got)
			}
		})
	}
}

func wantDockerFailure(t *testing.T, err error, reason failure.Reason, hint string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", reason)
	}
	if got := failure.ReasonOf(err); got != reason {
		t.Errorf("reason: got %s, want %s; error: %v", got, reason, err)
	}
	if got := failure.HintOf(err); !strings.Contains(got, hint) {
		t.Errorf("hint: got %q, want %q in it", got, hint)
	}
	if len(err.Error()) > 600 {
		t.Errorf("error has %d bytes, want a line: %.100s", len(err.Error()), err)
	}
}

// TestProtocolThatNobodyAskedForIsNoTimeout has an engine that answers with 101 and then says nothing more.
func TestProtocolThatNobodyAskedForIsNoTimeout(t *testing.T) {
	for _, tt := range []struct {
		methods []string // that are answered so
		reason  failure.Reason
	}{{[]string{http.MethodHead}, ""}, {[]string{http.MethodHead, http.MethodGet}, failure.Malformed}} {
		e := startEngine(t, plainContainer("a", nil))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		e.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/_ping" || !slices.Contains(tt.methods, r.Method) {
				return false
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			defer conn.Close()                                                                                      //nolint:errcheck // a test's connection
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n") //nolint:errcheck // the client's loss
			<-ctx.Done()
			return true
		}
		_, err := readDockerUntil(ctx, t, dockerSettings(e.host))
		cancel()
		if got := reasonOrNone(err); got != tt.reason {
			t.Errorf("101 to %s: reason %q, want %q: %v", tt.methods, got, tt.reason, err)
		}
	}
}

func TestSocketBelowAFileIsRefused(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := readDocker(t, dockerSettings("unix://"+file+"/docker.sock"))
	wantDockerFailure(t, err, failure.Refused, "mount the socket")
}

func TestMissingSocketIsRefused(t *testing.T) {
	path := engineSocket(t)
	_, err := readDocker(t, dockerSettings("unix://"+path))
	wantDockerFailure(t, err, failure.Refused, "mount the socket")
	if !strings.Contains(err.Error(), path) {
		t.Errorf("error: got %q, want the path in it", err)
	}
	// Docker makes a directory where a mounted socket was not there yet.
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err = readDocker(t, dockerSettings("unix://"+path))
	wantDockerFailure(t, err, failure.Refused, "mount the socket")
}

func TestStoppedEngineIsRefused(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := "tcp://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = readDocker(t, dockerSettings(host))
	wantDockerFailure(t, err, failure.Refused, "nothing listens there")
}

// asNobody makes root, who may open everything, nobody until the end of the test.
func asNobody(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		return
	}
	const nobody = 65534
	if err := syscall.Seteuid(nobody); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Seteuid(0); err != nil {
			t.Fatal(err)
		}
	})
}

func TestSocketOfOthersIsForbidden(t *testing.T) {
	e := startEngine(t)
	socket := strings.TrimPrefix(e.host, "unix://")
	if err := os.Chmod(socket, 0o000); err != nil {
		t.Fatal(err)
	}
	asNobody(t)
	_, err := readDocker(t, dockerSettings(e.host))
	wantDockerFailure(t, err, failure.Forbidden, "group_add")
}

func TestHungEngineCostsOneDeadline(t *testing.T) {
	for _, path := range []string{"/_ping", "/v1.41/containers/json", "/v1.41/containers/id-"} {
		t.Run(path, func(t *testing.T) {
			e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			e.answer = func(_ http.ResponseWriter, r *http.Request) bool {
				if !strings.HasPrefix(r.URL.Path, path) {
					return false
				}
				<-r.Context().Done() // until the client goes away
				return true
			}
			_, err := readDockerUntil(ctx, t, dockerSettings(e.host))
			wantDockerFailure(t, err, failure.Timeout, "hangs")
		})
	}
}

func TestBodyThatHangsIsATimeout(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/v1.41/containers/json" {
			return false
		}
		io.WriteString(w, `[{"Id":`)          //nolint:errcheck // the client's loss
		http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
		<-r.Context().Done()
		return true
	}
	_, err := readDockerUntil(ctx, t, dockerSettings(e.host))
	wantDockerFailure(t, err, failure.Timeout, "hangs")
}

func TestFirstFailureEndsTheOtherInspections(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil), plainContainer("c", nil))
	waiting := make(chan struct{})
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/v1.41/containers/id-a/json":
			close(waiting)
			<-r.Context().Done()
			return true
		case "/v1.41/containers/id-b/json":
			<-waiting
			return engineForbids(w)
		}
		return false
	}
	s := dockerSettings(e.host)
	s.Parallelism = 2
	b, err := readDocker(t, s)
	wantDockerFailure(t, err, failure.Forbidden, "CONTAINERS=1")
	if b.HTTPStatus != http.StatusForbidden {
		t.Errorf("HTTP status: got %d, want 403", b.HTTPStatus)
	}
}

func TestReadingLeavesNoGoroutineOrDescriptor(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
	read := func(answer func(http.ResponseWriter, *http.Request) bool, timeout time.Duration) {
		t.Helper()
		e.mu.Lock()
		e.answer = answer
		e.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if _, err := readDockerUntil(ctx, t, dockerSettings(e.host)); (err == nil) != (answer == nil) {
			t.Errorf("reading: got error %v, want one: %t", err, answer != nil)
		}
		e.waitForSilence(t)
	}
	read(nil, time.Minute) // what the runtime opens once
	ignore := goleak.IgnoreCurrent()
	before := openDescriptors(t)
	for range 3 {
		read(nil, time.Minute)
		for _, tt := range dockerFailures {
			read(tt.answer, time.Minute)
		}
		read(func(_ http.ResponseWriter, r *http.Request) bool {
			<-r.Context().Done()
			return true
		}, 20*time.Millisecond)
	}
	if after := openDescriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
	goleak.VerifyNone(t, ignore)
}

// openDescriptors counts the open ones of this process.
func openDescriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		return 0 // no Linux: goroutines are counted everywhere
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestHealthIsOnlyOfRunningContainers(t *testing.T) {
	health := func(status string, streak int) *container.Health {
		return &container.Health{Status: status, FailingStreak: streak}
	}
	for _, tt := range []struct {
		name   string
		state  string
		health *container.Health
		want   string
	}{
		{"healthy", "running", health("healthy", 0), "healthy"},
		{"healthy again fails once", "running", health("healthy", 1), "healthy"},
		{"unhealthy", "running", health("unhealthy", 3), "unhealthy"},
		{"starting", "running", health("starting", 0), "starting"},
		{"starting and failing", "running", health("starting", 2), "starting"},
		{"no check", "running", nil, "none"},
		{"check that says none", "running", health("none", 0), "none"},
		{"check without a word", "running", health("", 0), "none"},
		{"word of another engine", "running", health("wobbly", 9), "none"},
		{"unpaused, not checked yet", "running", health("unhealthy", 0), "starting"},
		{"unpaused, was unhealthy before", "running", health("unhealthy", 5), "unhealthy"},
		{"paused", "paused", health("unhealthy", 0), "none"},
		{"paused, was unhealthy before", "paused", health("unhealthy", 5), "none"},
		{"stopped", "exited", health("unhealthy", 0), "none"},
		{"stopped, was unhealthy before", "exited", health("unhealthy", 5), "none"},
		{"restarting", "restarting", health("unhealthy", 2), "none"},
		{"removing", "removing", health("healthy", 0), "none"},
		{"dead", "dead", health("unhealthy", 0), "none"},
		{"created", "created", nil, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := healthOf(tt.state, tt.health); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestStateIsTheEnginesWordOrFollowsFromItsFlags(t *testing.T) {
	const some = "2026-01-02T03:04:05Z"
	for _, tt := range []struct {
		state container.State
		want  string
	}{
		{container.State{Status: "created"}, "created"},
		{container.State{Status: "running", Running: true}, "running"},
		{container.State{Status: "paused", Running: true, Paused: true}, "paused"},
		{container.State{Status: "restarting", Running: true, Restarting: true}, "restarting"},
		{container.State{Status: "removing"}, "removing"},
		{container.State{Status: "exited"}, "exited"},
		{container.State{Status: "dead", Dead: true}, "dead"},
		{container.State{Status: "stopped", StartedAt: some}, "exited"},
		{container.State{Status: "configured"}, "created"},
		{container.State{Running: true, Paused: true}, "paused"},
		{container.State{Running: true, Restarting: true}, "restarting"},
		{container.State{Running: true}, "running"},
		{container.State{Dead: true}, "dead"},
	} {
		if got := stateOf(&tt.state); got != tt.want {
			t.Errorf("state of %+v: got %s, want %s", tt.state, got, tt.want)
		}
	}
}

func TestStatusSaysWhatTheEngineKnows(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	base := func(adjust func(*container.InspectResponse)) container.InspectResponse {
		c := plainContainer("name", nil)
		adjust(&c)
		return c
	}
	plain := containerStatus{id: "id-name", name: "name", state: "running", health: "none", started: started, image: "image"}
	with := func(adjust func(*containerStatus)) containerStatus {
		s := plain
		adjust(&s)
		return s
	}
	for _, tt := range []struct {
		name string
		in   container.InspectResponse
		want containerStatus
	}{
		{"plain", base(func(*container.InspectResponse) {}), plain},
		{
			"never started", base(func(c *container.InspectResponse) {
				c.State = &container.State{Status: "created", StartedAt: "0001-01-01T00:00:00Z", ExitCode: 127}
			}),
			with(func(s *containerStatus) { s.state, s.started = "created", time.Time{} }),
		},
		{
			"start that cannot be read", base(func(c *container.InspectResponse) { c.State.StartedAt = "yesterday" }),
			with(func(s *containerStatus) { s.started = time.Time{} }),
		},
		{
			"killed", base(func(c *container.InspectResponse) { c.State.Status, c.State.ExitCode = "exited", 137 }),
			with(func(s *containerStatus) { s.state, s.stopped, s.exitCode = "exited", true, 137 }),
		},
		{
			"dead", base(func(c *container.InspectResponse) { c.State.Status = "dead" }),
			with(func(s *containerStatus) { s.state, s.stopped = "dead", true }),
		},
		{
			"restarting has no exit code, since it is not stopped",
			base(func(c *container.InspectResponse) { c.State.Status, c.State.ExitCode = "restarting", 3 }),
			with(func(s *containerStatus) { s.state = "restarting" }),
		},
		{
			"compose", base(func(c *container.InspectResponse) {
				c.Config.Labels = map[string]string{composeProject: "chat", composeService: "irc"}
			}),
			with(func(s *containerStatus) { s.project, s.service, s.role = "chat", "irc", "irc" }),
		},
		{
			"role by label", base(func(c *container.InspectResponse) {
				c.Config.Labels = map[string]string{composeService: "irc", roleLabel: "irc_services"}
			}),
			with(func(s *containerStatus) { s.service, s.role = "irc", "irc_services" }),
		},
		{
			"label that is no role", base(func(c *container.InspectResponse) {
				c.Config.Labels = map[string]string{roleLabel: "My Role!"}
			}),
			plain,
		},
		{
			"digest beside a tag", base(func(c *container.InspectResponse) { c.Config.Image = "docs/web:1@sha256:0123" }),
			with(func(s *containerStatus) { s.image = "docs/web:1" }),
		},
		{
			"image by id", base(func(c *container.InspectResponse) { c.Config.Image = "sha256:0123" }),
			with(func(s *containerStatus) { s.image = "sha256:0123" }),
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := statusOf(&tt.in, nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.said.state = tt.want.state
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	t.Run("role by configuration", func(t *testing.T) {
		in := base(func(c *container.InspectResponse) { c.Config.Labels = map[string]string{roleLabel: "irc"} })
		got, err := statusOf(&in, map[string]string{"name": "xmpp"})
		if err != nil {
			t.Fatal(err)
		}
		if got.role != "xmpp" {
			t.Errorf("role: got %q, want xmpp", got.role)
		}
	})
}

func TestRoleIsInferredOnlyWhereItIsSure(t *testing.T) {
	for _, tt := range []struct {
		service, image, name string
		want                 string
	}{
		{"xmpp", "", "", "xmpp"},
		{"atl-xmpp-server", "", "", "xmpp"},
		{"", "prosody/prosody:13.0", "", "xmpp"},
		{"", "registry:5000/chat/prosody@sha256:0123", "", "xmpp"},
		{"", "ghcr.io/processone/ejabberd", "", "xmpp"},
		{"", "", "chat-xmpp-1", "xmpp"},
		{"", "", "chat_prosody_1", "xmpp"},
		{"xmpp-nginx", "nginx:1.22", "", "xmpp_proxy"},
		{"atl-xmpp-nginx", "atl-xmpp-nginx", "", "xmpp_proxy"},
		{"xmpp", "nginx:1.22", "", "xmpp_proxy"},
		{"nginx-xmpp", "", "", "xmpp_proxy"},
		{"xmpp-proxy", "", "", "xmpp_proxy"},
		{"irc", "", "", "irc"},
		{"irc-server", "", "", "irc"},
		{"", "unrealircd:6.1", "", "irc"},
		{"IRC_Server", "", "", "irc"},
		{"irc-services", "", "", "irc_services"},
		{"", "atheme/atheme", "", "irc_services"},
		{"chat-atheme", "", "", "irc_services"},
		{"bridge", "", "", "bridge"},
		{"discord-irc-bridge", "", "", "bridge"},
		{"", "42wim/matterbridge:stable", "", "bridge"},
		{"web-irc", "", "", "web_irc"},
		{"", "ghcr.io/thelounge/thelounge", "", "web_irc"},
		{"irc-webpanel", "", "", "web_panel"},
		{"", "unrealircd/unrealircd-webpanel", "", "web_panel"},
		{"docs", "nginx", "", "docs"},
		{"plant-store", "", "", "plant_store"},
		{"identity", "", "", "identity"},
		{"dozzle", "", "", "log_viewer"},
		// The service outweighs the image, the image the name.
		{"irc", "atheme", "chat-xmpp-1", "irc"},
		{"", "atheme", "chat-xmpp-1", "irc_services"},
		// None of these is what its name contains.
		{"nginx", "nginx", "chat-nginx-1", ""},
		{"xmpp-db", "postgres:16", "chat-xmpp-db-1", ""},
		{"xmpp", "postgres:16", "", ""},
		{"irc", "nginx", "", ""},
		{"prosody-exporter", "", "", ""},
		{"irc-bot", "", "", ""},
		{"irc-stats", "", "", ""},
		{"test-irc", "", "", ""},
		{"discord-xmpp", "", "", ""},
		{"bridge-db", "", "", ""},
		{"bridge-irc", "", "", ""},
		{"circ", "", "", ""},
		{"ircle", "", "", ""},
		{"", "certbot/certbot", "xmpp-certbot", ""},
		{"server", "", "1", ""},
		{"", "", "", ""},
	} {
		if got := inferRole(tt.service, tt.image, tt.name); got != tt.want {
			t.Errorf("service %q, image %q, name %q: got %q, want %q", tt.service, tt.image, tt.name, got, tt.want)
		}
	}
}

func TestRolePhrasesAreWrittenAsNamesAreRead(t *testing.T) {
	for phrase, role := range rolePhrases {
		if got := strings.Join(nameWords(phrase), " "); got != phrase {
			t.Errorf("phrase %q can never match: names are read as %q", phrase, got)
		}
		if n := len(nameWords(phrase)); n > longestPhrase {
			t.Errorf("phrase %q has %d words, longestPhrase is %d", phrase, n, longestPhrase)
		}
		if !validRole.MatchString(role) {
			t.Errorf("role %q of %q is none", role, phrase)
		}
	}
}

// TestContainerThatTheEngineStumblesOverHidesNoOther has an engine that fails to describe one container, as it does when
// that container's layer is damaged.
func TestContainerThatTheEngineStumblesOverHidesNoOther(t *testing.T) {
	sick := plainContainer("sick", nil)
	sick.State.Health = &container.Health{Status: container.Unhealthy, FailingStreak: 3}
	e := startEngine(t, plainContainer("web", nil), sick)
	e.mu.Lock()
	e.answer = onEnginePath("/v1.41/containers/id-sick/json", func(w http.ResponseWriter) bool {
		engineSays(w, http.StatusInternalServerError, "RWLayer of container is unexpectedly nil")
		return true
	})
	e.mu.Unlock()
	b, err := readDocker(t, dockerSettings(e.host))
	if err != nil {
		t.Fatal(err)
	}
	page := string(pageOf(t, b, true))
	for _, want := range []string{
		`chatstack_container_health{container="sick",docker_host="local",health="unhealthy"} 1`,
		`chatstack_container_state{container="sick",docker_host="local",state="running"} 1`,
		`chatstack_container_state{container="web",docker_host="local",state="running"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s:\n%s", want, page)
		}
	}
	if notes := strings.Join(b.Notes, "; "); !strings.Contains(notes, "cannot describe 1 of 2") || !strings.Contains(notes, "sick is unhealthy") {
		t.Errorf("notes: %s", notes)
	}
}

func TestWhatAListSaysOfAContainer(t *testing.T) {
	for name, c := range map[string]struct {
		summary container.Summary
		want    containerStatus
		trouble string
	}{
		"killed": {
			container.Summary{ID: "i", Names: []string{"/a"}, State: container.StateExited, Status: "Exited (137) 2 hours ago"},
			containerStatus{id: "i", name: "a", state: container.StateExited, health: container.NoHealthcheck, stopped: true, exitCode: 137, listed: true, said: summaryWords{state: container.StateExited}},
			"a is exited, exit code 137",
		},
		"dead": {
			container.Summary{ID: "i", Names: []string{"/a"}, State: container.StateDead, Status: "Dead"},
			containerStatus{id: "i", name: "a", state: container.StateDead, health: container.NoHealthcheck, listed: true, said: summaryWords{state: container.StateDead}},
			"a is dead",
		},
		"linked": {
			container.Summary{ID: "i", Names: []string{"/other/alias", "/a"}, State: container.StateRunning, Status: "Up 2 hours (healthy)"},
			containerStatus{id: "i", name: "a", state: container.StateRunning, health: container.Healthy, listed: true, said: summaryWords{container.StateRunning, container.Healthy}},
			"",
		},
	} {
		got, err := statusOf(fromSummary(&c.summary), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got != c.want || got.trouble() != c.trouble {
			t.Errorf("%s: got %+v, %q; want %+v, %q", name, got, got.trouble(), c.want, c.trouble)
		}
	}
}

func TestMistypedRoleIsWarnedOf(t *testing.T) {
	s := &Docker{Roles: map[string]string{"chat-xmpp-1": "xmpp", "chat-irc-1": "icr"}}
	want := "roles.chat-irc-1 is \"icr\", which no rule or dashboard knows; they know bridge, "
	if got := s.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want one that begins with %q", got, want)
	}
}

func TestDigitsArePartsOfWords(t *testing.T) {
	if got, want := nameWords("irc10_2a/9.b0"), []string{"irc10", "2a", "9", "b0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
