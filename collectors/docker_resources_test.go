package collectors

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var compareResources = cmp.AllowUnexported(containerResources{})

// statsSession is a session with an engine that lets so many calls through at once.
func statsSession(t *testing.T, host string, parallelism int) *dockerSession {
	t.Helper()
	c, err := newDocker(dockerSettings(host), Deps{
		Limits: config.Limits{MetricsBody: 4 << 20}, UserAgent: "chatstack_exporter/test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.(*docker).openSingle(parallelism)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.transport.CloseIdleConnections)
	if err := s.negotiate(t.Context(), &Batch{}); err != nil {
		t.Fatal(err)
	}
	return s
}

func statsContent(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("testdata", "docker", "stats", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// plainStats are of a container that uses 7 bytes of memory.
const plainStats = `{"read":"2026-03-01T10:00:01Z","memory_stats":{"usage":7}}`

var plainResources = containerResources{workingSet: 7, hasMemory: true}

// statsEngine answers calls for stats, by container.
func statsEngine(t *testing.T, answers map[string]http.HandlerFunc) *engine {
	t.Helper()
	e := startEngine(t)
	e.answer = func(w http.ResponseWriter, r *http.Request) bool {
		id, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/v1.41/containers/"), "/stats")
		if !ok {
			return false
		}
		if answer, ok := answers[id]; ok {
			answer(w, r)
		} else {
			io.WriteString(w, plainStats) //nolint:errcheck // the client's loss
		}
		return true
	}
	return e
}

func subjectsOf(ids ...string) []resourceSubject {
	var subjects []resourceSubject
	for _, id := range ids {
		subjects = append(subjects, resourceSubject{id: id})
	}
	return subjects
}

func TestStatsGiveWhatDockerStatsShows(t *testing.T) {
	cgroup1, cgroup2 := statsContent(t, "cgroup1"), statsContent(t, "cgroup2")
	const hostMemory, limit = 25276514304, 67108864
	for name, tt := range map[string]struct {
		answer string
		limit  int64
		want   containerResources
	}{
		"cgroup v1, without a limit": {
			answer: cgroup1,
			want: containerResources{
				workingSet: 524288000 - 209715200, hasMemory: true, cpuSeconds: 93.25, hasCPU: true,
				received: 1234, transmitted: 340, hasNetwork: true,
			},
		},
		"cgroup v1, with a limit beyond the machine's memory": {
			answer: cgroup1, limit: 1 << 50,
			want: containerResources{
				workingSet: 524288000 - 209715200, limit: hostMemory, hasMemory: true, cpuSeconds: 93.25, hasCPU: true,
				received: 1234, transmitted: 340, hasNetwork: true,
			},
		},
		"cgroup v2, with a limit": {
			answer: cgroup2, limit: limit,
			want: containerResources{
				workingSet: 33554432 - 16777216, limit: limit, hasMemory: true, cpuSeconds: 0.0015, hasCPU: true,
				received: 5012, transmitted: 7770, hasNetwork: true,
			},
		},
		"an answer without its limit": {
			answer: plainStats, limit: limit,
			want: containerResources{workingSet: 7, limit: limit, hasMemory: true},
		},
		"an engine that may count no memory": {
			answer: statsContent(t, "rootless"), limit: limit,
			want: containerResources{cpuSeconds: 2, hasCPU: true},
		},
		"the host's network, or none": {
			answer: `{"read":"2026-03-01T10:00:01Z","cpu_stats":{"cpu_usage":{"total_usage":1000000000}},"memory_stats":{"usage":9},"networks":{}}`,
			want:   containerResources{workingSet: 9, hasMemory: true, cpuSeconds: 1, hasCPU: true},
		},
		"a network that carried nothing": {
			answer: `{"read":"2026-03-01T10:00:01Z","networks":{"eth0":{"rx_bytes":0,"tx_bytes":0}}}`,
			want:   containerResources{hasNetwork: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := statsEngine(t, map[string]http.HandlerFunc{
				"a": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tt.answer) }, //nolint:errcheck // the client's loss
			})
			got, err := statsSession(t, e.host, 1).resources(t.Context(), []resourceSubject{{id: "a", limit: tt.limit}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]containerResources{"a": tt.want}, got, compareResources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWorkingSetIsUsageWithoutInactiveFiles(t *testing.T) {
	for _, tt := range []struct {
		name  string
		usage uint64
		cache inactiveFile
		want  uint64
	}{
		{"nothing cached", 100, inactiveFile{}, 100},
		{"cgroup v1 counts the groups below", 100, inactiveFile{Total: 30, Own: 10}, 70},
		{"cgroup v2 has no total", 100, inactiveFile{Own: 10}, 90},
		{"the total is more than the usage", 100, inactiveFile{Total: 101, Own: 10}, 90},
		{"all is cache", 100, inactiveFile{Total: 100, Own: 100}, 100},
		{"usage was read before the cache grew", 100, inactiveFile{Own: 101}, 100},
	} {
		if got := workingSet(tt.usage, tt.cache); got != tt.want {
			t.Errorf("%s: got %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestStatsAreAskedForInOneShot(t *testing.T) {
	e := statsEngine(t, nil)
	if _, err := statsSession(t, e.host, 1).resources(t.Context(), subjectsOf("a"), 1); err != nil {
		t.Fatal(err)
	}
	want := []string{"HEAD /_ping", "GET /v1.41/containers/a/stats?one-shot=1&stream=0"}
	if got := e.asked(); !slices.Equal(got, want) {
		t.Errorf("calls: got %q, want %q", got, want)
	}
}

func TestContainersThatAreGoneHaveNoResources(t *testing.T) {
	stopped := statsContent(t, "stopped")
	answers := map[string]http.HandlerFunc{
		"removed":  engineSays(http.StatusNotFound, "No such container: removed"),
		"removing": engineSays(http.StatusConflict, "container removing is marked for removal"),
		"stopped":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, stopped) }, //nolint:errcheck // the client's loss
		"leaving": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusOK) // it was removed while the engine waited: nothing follows
		},
	}
	e := statsEngine(t, answers)
	got, err := statsSession(t, e.host, 2).resources(t.Context(), subjectsOf("removed", "a", "removing", "stopped", "leaving", "b"), 2)
	if err != nil {
		t.Errorf("got error %v, want none: each of these is about one container", err)
	}
	want := map[string]containerResources{"a": plainResources, "b": plainResources}
	if diff := cmp.Diff(want, got, compareResources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if got, err := statsSession(t, e.host, 2).resources(t.Context(), subjectsOf("removed", "stopped"), 2); err != nil || len(got) != 0 {
		t.Errorf("all are gone: got %v, error %v; want nothing and none", got, err)
	}
}

// statsFailures are failures that mean more than one container.
var statsFailures = []struct {
	name   string
	answer http.HandlerFunc
	reason failure.Reason
	hint   string
}{
	{"a proxy refuses", engineForbids, failure.Forbidden, "/stats"},
	{"a proxy knows no such path", func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) }, failure.NotFound, "404"},
	{"the connection is closed", rawEngine(""), failure.Closed, "crashed"},
	{"the answer is cut", rawEngine("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"read\":"), failure.Closed, "crashed"},
	{"the answer is no JSON", engineSends("200 OK", "It works!"), failure.Malformed, "something else"},
	{"the answer has another shape", engineSends("200 OK", `{"read":"2026-03-01T10:00:01Z","memory_stats":[]}`), failure.Malformed, "something else"},
	{"the answer never ends", func(w http.ResponseWriter, _ *http.Request) {
		chunk := bytes.Repeat([]byte(" "), 64<<10)
		for _, err := w.Write(chunk); err == nil; {
			_, err = w.Write(chunk)
		}
	}, failure.TooLarge, "larger"},
}

func TestFailureOfStatsKeepsWhatWasGot(t *testing.T) {
	for _, tt := range statsFailures {
		t.Run(tt.name, func(t *testing.T) {
			e := statsEngine(t, map[string]http.HandlerFunc{"bad": tt.answer})
			got, err := statsSession(t, e.host, 1).resources(t.Context(), subjectsOf("a", "bad", "b"), 1)
			wantDockerFailure(t, err, tt.reason, tt.hint)
			if diff := cmp.Diff(map[string]containerResources{"a": plainResources}, got, compareResources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

// An engine fails to measure a container whose files it has lost, and says so with status 500.
func TestContainerThatCannotBeMeasuredHidesNoOther(t *testing.T) {
	sick := engineSays(http.StatusInternalServerError, "cannot read cgroup")
	e := statsEngine(t, map[string]http.HandlerFunc{"sick": sick, "ill": sick})
	s := statsSession(t, e.host, 1)
	got, err := s.resources(t.Context(), subjectsOf("sick", "a"), 1)
	if want := []string{"a"}; err != nil || !slices.Equal(slices.Collect(maps.Keys(got)), want) {
		t.Errorf("got %v, error %v; want those of %q, and none", got, err, want)
	}
	_, err = s.resources(t.Context(), subjectsOf("sick", "ill"), 1)
	wantDockerFailure(t, err, failure.HTTPStatus, "log")
	if err != nil && !strings.Contains(err.Error(), "cannot read cgroup") {
		t.Errorf("error: got %q, want the engine's own words in it", err)
	}
}

func TestHungStatsEndWithTheContext(t *testing.T) {
	for _, begun := range []string{"", `{"read":`} {
		t.Run("after "+begun, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			e := statsEngine(t, map[string]http.HandlerFunc{"hung": func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, begun) //nolint:errcheck // the client's loss
				if begun != "" {
					http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
				}
				cancel()
				<-r.Context().Done() // until the client goes away
			}})
			got, err := statsSession(t, e.host, 1).resources(ctx, subjectsOf("a", "hung", "b"), 1)
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), e.host) {
				t.Errorf("error: got %v, want the context's, with the engine's address", err)
			}
			if diff := cmp.Diff(map[string]containerResources{"a": plainResources}, got, compareResources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			e.waitForSilence(t)
		})
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := statsSession(t, statsEngine(t, nil).host, 1).resources(late, subjectsOf("a"), 1)
	wantDockerFailure(t, err, failure.Timeout, "hangs")
}

func TestFirstFailureEndsTheOtherCallsForStats(t *testing.T) {
	waiting := make(chan struct{})
	e := statsEngine(t, map[string]http.HandlerFunc{
		"hung": func(_ http.ResponseWriter, r *http.Request) {
			close(waiting)
			<-r.Context().Done()
		},
		"bad": func(w http.ResponseWriter, r *http.Request) {
			<-waiting
			engineForbids(w, r)
		},
	})
	_, err := statsSession(t, e.host, 2).resources(t.Context(), subjectsOf("hung", "bad"), 2)
	wantDockerFailure(t, err, failure.Forbidden, "/stats")
}

func TestCallsForStatsAreParallelAndBounded(t *testing.T) {
	const parallelism = 3
	var (
		mu            sync.Mutex
		running, most int
		ids           []string
	)
	full := make(chan struct{})
	answers := map[string]http.HandlerFunc{}
	for i := range 4 * parallelism {
		id := fmt.Sprintf("c%d", i)
		ids = append(ids, id)
		answers[id] = func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			running++
			most = max(most, running)
			if running == parallelism && !isClosed(full) {
				close(full)
			}
			mu.Unlock()
			select {
			case <-full:
			case <-r.Context().Done():
			}
			mu.Lock()
			running--
			mu.Unlock()
			io.WriteString(w, plainStats) //nolint:errcheck // the client's loss
		}
	}
	e := statsEngine(t, answers)
	got, err := statsSession(t, e.host, 4*parallelism).resources(t.Context(), subjectsOf(ids...), parallelism)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(ids) {
		t.Errorf("containers: got %d, want %d", len(got), len(ids))
	}
	mu.Lock()
	defer mu.Unlock()
	if most != parallelism {
		t.Errorf("calls at once: got %d, want %d", most, parallelism)
	}
}

func TestPanicInAWorkerReachesTheCaller(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		if !strings.HasPrefix(text, "broken") || !strings.Contains(text, "docker_resources_test.go") {
			t.Errorf("recovered %.200q, want what was said and where", text)
		}
	}()
	err := inParallel(t.Context(), 5, 2, func(ctx context.Context, i int) error {
		if i == 1 {
			panic("broken")
		}
		<-ctx.Done() // the panic ends the others
		return ctx.Err()
	})
	t.Errorf("returned %v, want a panic", err)
}

func TestMeasuringLeavesNoGoroutineOrDescriptor(t *testing.T) {
	answers := map[string]http.HandlerFunc{}
	var ids []string
	for i, f := range statsFailures {
		ids = append(ids, fmt.Sprint(i))
		answers[ids[i]] = f.answer
	}
	e := statsEngine(t, answers)
	measure := func(ids ...string) {
		t.Helper()
		s := statsSession(t, e.host, 2)
		for _, id := range ids {
			if _, err := s.resources(t.Context(), subjectsOf("a", "b", id), 2); err == nil {
				t.Errorf("container %s: got no error, want one", id)
			}
		}
		s.transport.CloseIdleConnections()
		e.waitForSilence(t)
	}
	measure(ids[0]) // what the runtime opens once
	ignore := goleak.IgnoreCurrent()
	before := openDescriptors(t)
	measure(ids...)
	if after := openDescriptors(t); after != before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
	goleak.VerifyNone(t, ignore)
}

func TestResourcesPage(t *testing.T) {
	b := &Batch{}
	for name, r := range map[string]containerResources{
		"all": {
			workingSet: 314572800, limit: 1 << 30, hasMemory: true, cpuSeconds: 93.25, hasCPU: true, received: 1234, transmitted: 340, hasNetwork: true,
		},
		"idle":      {workingSet: 0, hasMemory: true, cpuSeconds: 0.5, hasCPU: true, hasNetwork: true},
		"unlimited": {workingSet: 7, hasMemory: true},
		"uncounted": {limit: 1 << 30, cpuSeconds: 2, hasCPU: true},
		"unknown":   {workingSet: 1, limit: 1, cpuSeconds: 1, received: 1, transmitted: 1},
	} {
		r.write(b, name, "local")
	}
	goldenPage(t, "docker/resources", b)
}
