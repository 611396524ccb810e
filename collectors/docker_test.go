package collectors

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/fleet"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exchange"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

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

// TestEngineIsAskedNoMoreThanNeeded has it filter by labels.
func TestEngineIsAskedNoMoreThanNeeded(t *testing.T) {
	labels := map[string]string{fleet.ComposeProject: "chat", "tier": "front", "watched": ""}
	e := startEngine(t, plainContainer("a", labels), plainContainer("b", labels), plainContainer("c", labels), plainContainer("d", nil))
	s := dockerSettings(e.host)
	s.Exclude, s.Projects, s.Labels = []string{"b"}, []string{"chat"}, []string{"tier=front", "watched"}
	if _, err := readDocker(t, s); err != nil {
		t.Fatal(err)
	}
	got := e.asked()
	slices.Sort(got[2:])
	filters := url.QueryEscape(`{"label":{"com.docker.compose.project=chat":true,"tier=front":true,"watched":true}}`)
	want := []string{
		"HEAD /_ping", "GET /v1.41/containers/json?all=1&filters=" + filters,
		"GET /v1.41/containers/id-a/json", "GET /v1.41/containers/id-c/json",
	}
	if !slices.Equal(got, want) {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

// TestNamesThatMoveBetweenTheListAndTheInspection has containers be removed and replaced meanwhile, as compose does.
func TestNamesThatMoveBetweenTheListAndTheInspection(t *testing.T) {
	const temporary = "0123456789ab_a"
	for _, tt := range []struct {
		inspected map[string]string // the name that a container of the list has then; "" for none
		want      string
	}{
		{map[string]string{"a": "", "b": "b"}, "b"},
		{map[string]string{"a": "", temporary: "a", "other": "fedcba987654_other"}, "a"},
		{map[string]string{"a": "a", "b": "a"}, "a"},
	} {
		var listed []container.InspectResponse
		for name := range tt.inspected {
			listed = append(listed, plainContainer(name, nil))
		}
		e := startEngine(t, listed...)
		e.answer = func(w http.ResponseWriter, r *http.Request) bool {
			_, id, _ := strings.Cut(strings.TrimSuffix(r.URL.Path, "/json"), "/id-")
			name, known := tt.inspected[id]
			switch {
			case !known:
			case name == "":
				engineRefuses(w, http.StatusNotFound, "No such container: "+id)
			default:
				c := plainContainer(name, nil)
				c.ID = "id-" + id
				engineAnswers(w, c)
			}
			return known
		}
		s := dockerSettings(e.host)
		s.Names = []string{"a", "b", "other"}
		b, err := readDocker(t, s)
		if err != nil {
			t.Fatal(err)
		}
		if got := containersOn(t, b); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%v: got %q, want %s", tt.inspected, got, tt.want)
		}
	}
}

const (
	listPath    = "/v1.41/containers/json"
	inspectPath = "/v1.41/containers/id-a/json"
)

// dockerFailure is how an engine, or a server in its place, fails on requests whose path contains path. An empty path means all.
type dockerFailure struct {
	name, path string
	answer     http.HandlerFunc
	reason     failure.Reason
	hint       string // a part of it
	status     int
}

func fails(name, path string, answer http.HandlerFunc, reason failure.Reason, hint string, status int) dockerFailure {
	return dockerFailure{
		name:   name,
		path:   path,
		answer: answer,
		reason: reason,
		hint:   hint,
		status: status,
	}
}

const (
	noEngineHint = "the server at this address is not a Docker Engine"
	jsonHint     = "another service may listen"
	brokenHint   = "the connection broke"
)

var dockerFailures = []dockerFailure{
	fails("proxy refuses the ping", "", engineForbids, failure.Forbidden, "PING=1", 403),
	fails("proxy refuses the list", listPath, engineForbids, failure.Forbidden, "CONTAINERS=1", 403),
	fails("proxy refuses the inspection", inspectPath, engineForbids, failure.Forbidden, "CONTAINERS=1", 403),
	fails("proxy's page is long", listPath, engineSends("502 Bad Gateway", strings.Repeat("<p>", 100_000)), failure.HTTPStatus, "log", 502),
	fails("engine is in trouble", listPath, engineSays(500, "database is locked"), failure.HTTPStatus, "log", 500),
	fails("no such page", inspectPath, engineSays(404, "page not found"), failure.NotFound, "404", 404),
	fails("redirect", listPath, engineSends("301 Moved Permanently\r\nLocation: http://other/", ""), failure.HTTPStatus, "log", 301),
	fails("web server without engine", "", engineSends("200 OK", ""), failure.Malformed, noEngineHint, 200),
	fails("version that is none", "", engineSends("200 OK\r\nApi-Version: 1.41/../../images", ""), failure.Malformed, noEngineHint, 200),
	fails("no HTTP at all", "", rawEngine("SSH-2.0-OpenSSH_9.2\r\n"), failure.Malformed, jsonHint, 0),
	fails("list is no JSON", listPath, engineSends("200 OK", `[{"Id": 7}]`), failure.Malformed, jsonHint, 200),
	fails("list has an id that is none", listPath, engineSends("200 OK", `[{"Id": "../images", "Names": ["/a"]}]`),
		failure.Malformed, jsonHint, 200),
	fails("list is empty text", listPath, engineSends("200 OK", ""), failure.Malformed, jsonHint, 200),
	fails("description of nothing", inspectPath, engineSends("200 OK", "{}"), failure.Malformed, jsonHint, 200),
	fails("connection is closed instead of an answer", "", rawEngine(""), failure.Closed, brokenHint, 0),
	fails("connection ends at an inspection", inspectPath, rawEngine(""), failure.Closed, "", 200),
	fails("list is cut in the middle", listPath, rawEngine("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n[{\"Id\":\"id-a\","),
		failure.Closed, brokenHint, 200),
	fails("list without a length is cut in the middle", listPath, rawEngine("HTTP/1.0 200 OK\r\n\r\n[{\"Id\":\"id-a\","),
		failure.Closed, brokenHint, 200),
	fails("description is cut in the middle", inspectPath,
		rawEngine("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Id\"\r\n"), failure.Closed, brokenHint, 200),
	fails("endless list", listPath, engineFloods("[", "{},"), failure.TooLarge, "limits.metrics_body", 200),
	fails("endless header", "", rawEngine("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*exchange.MaxHeaderBytes)+"\r\n\r\n"),
		failure.TooLarge, "limit", 0),
}

func TestDockerFailuresHaveTheirReasons(t *testing.T) {
	for _, tt := range dockerFailures {
		t.Run(tt.name, func(t *testing.T) {
			e := startEngine(t, plainContainer("a", nil))
			e.on(tt.path, tt.answer)
			b, err := readDocker(t, dockerSettings(e.host))
			wantDockerFailure(t, err, tt.reason, tt.hint)
			if got := len(b.Metrics(false)); b.HTTPStatus != tt.status || got != 0 {
				t.Errorf("got HTTP status %d and %d metrics, want %d and none", b.HTTPStatus, got, tt.status)
			}
		})
	}
}

func wantDockerFailure(t *testing.T, err error, reason failure.Reason, hint string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", reason)
	}
	wantListed(t, "docker", failure.ReasonOf(err))
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
	for methods, reason := range map[string]failure.Reason{"HEAD": "", "HEAD GET": failure.Malformed} {
		e := startEngine(t, plainContainer("a", nil))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		e.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/_ping" || !strings.Contains(methods, r.Method) {
				return false
			}
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return true
			}
			defer conn.Close() //nolint:errcheck // a test's connection
			//nolint:errcheck // the client's loss
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
			<-ctx.Done()
			return true
		}
		_, err := readDockerUntil(ctx, t, dockerSettings(e.host))
		cancel()
		if got := reasonOrNone(err); got != reason {
			t.Errorf("101 to %s: reason %q, want %q: %v", methods, got, reason, err)
		}
	}
}

func TestEngineThatIsNotThereIsRefused(t *testing.T) {
	dir := filepath.Dir(engineSocket(t))
	file, mounted := filepath.Join(dir, "file"), filepath.Join(dir, "mounted") // Docker makes a directory of a mount that was not there yet
	if err := errors.Join(os.WriteFile(file, nil, 0o600), os.Mkdir(mounted, 0o700)); err != nil {
		t.Fatal(err)
	}
	stopped := httptest.NewServer(http.NotFoundHandler())
	stopped.Close()
	for host, hint := range map[string]string{
		"unix://" + dir + "/none": "mount the socket", "unix://" + mounted: "mount the socket",
		"unix://" + file + "/docker.sock":           "mount the socket",
		"tcp://" + stopped.Listener.Addr().String(): "nothing listens there",
	} {
		_, err := readDocker(t, dockerSettings(host))
		wantDockerFailure(t, err, failure.Refused, hint)
		if _, address, _ := strings.Cut(host, "://"); !strings.Contains(err.Error(), address) {
			t.Errorf("error: got %q, want the address in it", err)
		}
	}
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

// TestHungEngineCostsOneDeadline has an engine hang before an answer, or in the middle of one.
func TestHungEngineCostsOneDeadline(t *testing.T) {
	for _, tt := range []struct{ path, begins string }{
		{path: "/_ping"}, {path: listPath}, {path: "/containers/id-"}, {listPath, `[{"Id":`},
	} {
		t.Run(tt.path+tt.begins, func(t *testing.T) {
			e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			e.on(tt.path, func(w http.ResponseWriter, r *http.Request) {
				if tt.begins != "" {
					io.WriteString(w, tt.begins)          //nolint:errcheck // the client's loss
					http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
				}
				engineHangs(w, r)
			})
			_, err := readDockerUntil(ctx, t, dockerSettings(e.host))
			wantDockerFailure(t, err, failure.Timeout, "hangs")
		})
	}
}

// TestCallsAboutContainersAreParallelAndBounded has an engine hold calls until as many have come as may at once.
func TestCallsAboutContainersAreParallelAndBounded(t *testing.T) {
	const parallelism = 3
	for _, call := range []string{"/json", "/stats"} {
		e := startEngine(t, crowd("c", 4*parallelism)...)
		var (
			mu            sync.Mutex
			running, most int
			full          = make(chan struct{})
		)
		e.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasPrefix(r.URL.Path, "/v1.41/containers/id-") || !strings.HasSuffix(r.URL.Path, call) {
				return false
			}
			mu.Lock()
			running++
			if running > most {
				if most = running; most == parallelism {
					close(full)
				}
			}
			mu.Unlock()
			<-full
			mu.Lock()
			defer mu.Unlock()
			running--
			if call == "/stats" {
				io.WriteString(w, plainStats) //nolint:errcheck // the client's loss
			}
			return call == "/stats"
		}
		w := watching(t, e, func(s *Docker) {
			s.Parallelism, s.ResourcesParallelism = parallelism, parallelism
			s.Resources = map[string]string{"/json": resourcesNone, "/stats": resourcesEngine}[call]
		})
		w.docker.once = true
		w.read()
		w.wantShown(4 * parallelism)
		if most != parallelism {
			t.Errorf("%s: %d calls at once, want %d", call, most, parallelism)
		}
	}
}

// TestReadingLeavesNoDescriptor has every failure happen. TestMain holds that no goroutine is left.
func TestReadingLeavesNoDescriptor(t *testing.T) {
	e := startEngine(t, plainContainer("a", nil), plainContainer("b", nil))
	read := func(path string, answer http.HandlerFunc, timeout time.Duration) {
		t.Helper()
		e.on(path, answer)
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		if _, err := readDockerUntil(ctx, t, dockerSettings(e.host)); (err == nil) != (answer == nil) {
			t.Errorf("reading: got error %v, want one: %t", err, answer != nil)
		}
		e.waitForSilence(t)
	}
	read("none", nil, time.Minute) // what the runtime opens once
	before := openDescriptors(t)
	for range 3 {
		read("none", nil, time.Minute)
		for _, tt := range dockerFailures {
			read(tt.path, tt.answer, time.Minute)
		}
		read("", engineHangs, 20*time.Millisecond)
	}
	if after := openDescriptors(t); after > before {
		t.Errorf("open descriptors: got %d, want at most %d as before", after, before)
	}
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

func TestMistypedRoleIsWarnedOf(t *testing.T) {
	s := &Docker{Roles: map[string]string{"chat-xmpp-1": "xmpp", "chat-irc-1": "icr"}}
	want := "roles.chat-irc-1 is \"icr\", which no alert rule or dashboard uses; known roles: bridge, "
	if got := s.Warnings(); len(got) != 1 || !strings.HasPrefix(got[0], want) {
		t.Errorf("got %q, want one that begins with %q", got, want)
	}
}
