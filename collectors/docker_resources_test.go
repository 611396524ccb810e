package collectors

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

// measureStats returns the stats of the subjects that an engine gives, so many at once.
func measureStats(
	ctx context.Context, t *testing.T, host string, parallelism int, subjects []usage.Subject,
) (map[string]usage.Usage, error) {
	t.Helper()
	w := watchEngine(t, host, nil)
	w.docker.engine.Limit = 4 << 20
	s := w.session(parallelism) //nolint:contextcheck // ctx is for measuring alone
	defer s.Close()
	return s.Measure(ctx, subjects, parallelism, func(string) bool { return false })
}

// wantStats wants plainResources of the named subjects, and nothing else.
func wantStats(t *testing.T, got map[string]usage.Usage, ids ...string) {
	t.Helper()
	want := map[string]usage.Usage{}
	for _, id := range ids {
		want[id] = plainResources
	}
	if !maps.Equal(got, want) {
		t.Errorf("resources: got %v, want %v", got, want)
	}
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

var plainResources = usage.Usage{WorkingSet: 7, HasMemory: true}

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

func subjectsOf(ids ...string) []usage.Subject {
	var subjects []usage.Subject
	for _, id := range ids {
		subjects = append(subjects, usage.Subject{ID: id})
	}
	return subjects
}

func TestStatsGiveWhatDockerStatsShows(t *testing.T) {
	const hostMemory, limit = 25276514304, 67108864
	first := usage.Usage{
		WorkingSet:  524288000 - 209715200,
		HasMemory:   true,
		CPUSeconds:  93.25,
		HasCPU:      true,
		Received:    1234,
		Transmitted: 340,
		HasNetwork:  true,
	}
	beyond := first
	beyond.Limit = hostMemory
	for name, tt := range map[string]struct {
		answer string
		limit  int64
		want   usage.Usage
	}{
		"cgroup v1, without a limit":                          {statsContent(t, "cgroup1"), 0, first},
		"cgroup v1, with a limit beyond the machine's memory": {statsContent(t, "cgroup1"), 1 << 50, beyond},
		"cgroup v2, with a limit": {statsContent(t, "cgroup2"), limit, usage.Usage{
			WorkingSet:  33554432 - 16777216,
			Limit:       limit,
			HasMemory:   true,
			CPUSeconds:  0.0015,
			HasCPU:      true,
			Received:    5012,
			Transmitted: 7770,
			HasNetwork:  true,
		}},
		"an answer without its limit":        {plainStats, limit, usage.Usage{WorkingSet: 7, Limit: limit, HasMemory: true}},
		"an engine that may count no memory": {statsContent(t, "rootless"), limit, usage.Usage{CPUSeconds: 2, HasCPU: true}},
		"the host's network, or none":        {`{"read":"2026-03-01T10:00:01Z","memory_stats":{"usage":7}}`, 0, plainResources},
		"a network that carried nothing": {
			`{"read":"2026-03-01T10:00:01Z","networks":{"eth0":{"rx_bytes":0,"tx_bytes":0}}}`, 0, usage.Usage{HasNetwork: true},
		},
	} {
		e := statsEngine(t, map[string]http.HandlerFunc{"a": engineSends("200 OK", tt.answer)})
		got, err := measureStats(t.Context(), t, e.host, 1, []usage.Subject{{ID: "a", Limit: tt.limit}})
		if err != nil || got["a"] != tt.want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, tt.want)
		}
		calls := []string{"HEAD /_ping", "GET /v1.41/containers/a/stats?one-shot=1&stream=0"}
		if got := e.asked(); !slices.Equal(got, calls) {
			t.Errorf("calls: got %q, want %q", got, calls)
		}
	}
}

func TestContainersThatAreGoneHaveNoResources(t *testing.T) {
	e := statsEngine(t, map[string]http.HandlerFunc{
		"removed":  engineSays(http.StatusNotFound, "No such container: removed"),
		"removing": engineSays(http.StatusConflict, "container removing is marked for removal"),
		"stopped":  engineSends("200 OK", statsContent(t, "stopped")),
		"leaving":  engineSends("200 OK", ""), // it was removed while the engine waited
	})
	got, err := measureStats(t.Context(), t, e.host, 2, subjectsOf("removed", "a", "removing", "stopped", "leaving", "b"))
	wantStats(t, got, "a", "b")
	none, errNone := measureStats(t.Context(), t, e.host, 2, subjectsOf("removed", "stopped"))
	wantStats(t, none)
	if err != nil || errNone != nil {
		t.Errorf("got errors %v and %v, want none: each of these is about one container", err, errNone)
	}
}

// TestFailureOfStatsKeepsWhatWasGot has failures that mean more than one container.
func TestFailureOfStatsKeepsWhatWasGot(t *testing.T) {
	before := 0
	for round := range 2 {
		for _, f := range []dockerFailure{
			fails("a proxy refuses", "", engineForbids, failure.Forbidden, "/stats", 0),
			fails("a proxy knows no such path", "", engineSends("404 Not Found", "404 page not found"), failure.NotFound, "404", 0),
			fails("the connection is closed", "", rawEngine(""), failure.Closed, "crashed", 0),
			fails("the answer is cut", "", rawEngine("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"read\":"),
				failure.Closed, "crashed", 0),
			fails("the answer is not JSON", "", engineSends("200 OK", "It works!"), failure.Malformed, jsonHint, 0),
			fails("the answer has another shape", "", engineSends("200 OK", `{"memory_stats":[]}`), failure.Malformed, jsonHint, 0),
			fails("the answer never ends", "", engineFloods("", " "), failure.TooLarge, "larger", 0),
		} {
			e := statsEngine(t, map[string]http.HandlerFunc{"bad": f.answer})
			got, err := measureStats(t.Context(), t, e.host, 1, subjectsOf("a", "bad", "b"))
			wantDockerFailure(t, err, f.reason, f.hint)
			wantStats(t, got, "a")
			e.waitForSilence(t)
			e.server.Close()
		}
		if open := openDescriptors(t); round == 0 {
			before = open // what the runtime opens once
		} else if open > before {
			t.Errorf("open descriptors: got %d, want %d as before", open, before)
		}
	}
}

// TestContainerThatCannotBeMeasuredHidesNoOther has an engine that has lost the files of a container.
func TestContainerThatCannotBeMeasuredHidesNoOther(t *testing.T) {
	sick := engineSays(http.StatusInternalServerError, "cannot read cgroup")
	e := statsEngine(t, map[string]http.HandlerFunc{"sick": sick, "ill": sick})
	got, err := measureStats(t.Context(), t, e.host, 1, subjectsOf("sick", "a"))
	wantStats(t, got, "a")
	if err != nil {
		t.Error(err)
	}
	_, err = measureStats(t.Context(), t, e.host, 1, subjectsOf("sick", "ill"))
	wantDockerFailure(t, err, failure.HTTPStatus, "log")
	if err != nil && !strings.Contains(err.Error(), "cannot read cgroup") {
		t.Errorf("error: got %q, want the engine's own words in it", err)
	}
}

func TestHungStatsEndWithTheContext(t *testing.T) {
	for _, begun := range []string{"", `{"read":`} {
		ctx, cancel := context.WithCancel(t.Context())
		e := statsEngine(t, map[string]http.HandlerFunc{"hung": func(w http.ResponseWriter, r *http.Request) {
			if begun != "" {
				io.WriteString(w, begun)              //nolint:errcheck // the client's loss
				http.NewResponseController(w).Flush() //nolint:errcheck // the client's loss
			}
			cancel()
			engineHangs(w, r)
		}})
		got, err := measureStats(ctx, t, e.host, 1, subjectsOf("a", "hung", "b"))
		if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), e.host) {
			t.Errorf("error: got %v, want the context's, with the engine's address", err)
		}
		wantStats(t, got, "a")
		e.waitForSilence(t)
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := measureStats(late, t, statsEngine(t, nil).host, 1, subjectsOf("a"))
	wantDockerFailure(t, err, failure.Timeout, "hangs")
}

func TestResourcesPage(t *testing.T) {
	b := &Batch{}
	for name, r := range map[string]usage.Usage{
		"all": {
			WorkingSet:  314572800,
			Limit:       1 << 30,
			HasMemory:   true,
			CPUSeconds:  93.25,
			HasCPU:      true,
			Received:    1234,
			Transmitted: 340,
			HasNetwork:  true,
		},
		"idle": {
			WorkingSet: 0,
			HasMemory:  true,
			CPUSeconds: 0.5,
			HasCPU:     true,
			HasNetwork: true,
		},
		"unlimited": {WorkingSet: 7, HasMemory: true},
		"uncounted": {Limit: 1 << 30, CPUSeconds: 2, HasCPU: true},
		"unknown": {
			WorkingSet:  1,
			Limit:       1,
			CPUSeconds:  1,
			Received:    1,
			Transmitted: 1,
		},
	} {
		writeUsage(b, &r, name, "local")
	}
	goldenPage(t, "docker/resources", b)
}
