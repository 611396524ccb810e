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
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/api"
	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
)

var compareResources = cmp.AllowUnexported(usage.Usage{})

// statsSession is a session with an engine that lets so many calls through at once.
func statsSession(t *testing.T, host string, parallelism int) *api.Session {
	t.Helper()
	c, err := newDocker(dockerSettings(host), Deps{
		Limits: config.Limits{MetricsBody: 4 << 20}, UserAgent: "chatstack_exporter/test", Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.(*docker).engine.Open(parallelism)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	if _, err := s.Negotiate(t.Context()); err != nil {
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
	cgroup1, cgroup2 := statsContent(t, "cgroup1"), statsContent(t, "cgroup2")
	const hostMemory, limit = 25276514304, 67108864
	for name, tt := range map[string]struct {
		answer string
		limit  int64
		want   usage.Usage
	}{
		"cgroup v1, without a limit": {
			answer: cgroup1,
			want: usage.Usage{
				WorkingSet:  524288000 - 209715200,
				HasMemory:   true,
				CPUSeconds:  93.25,
				HasCPU:      true,
				Received:    1234,
				Transmitted: 340,
				HasNetwork:  true,
			},
		},
		"cgroup v1, with a limit beyond the machine's memory": {
			answer: cgroup1, limit: 1 << 50,
			want: usage.Usage{
				WorkingSet:  524288000 - 209715200,
				Limit:       hostMemory,
				HasMemory:   true,
				CPUSeconds:  93.25,
				HasCPU:      true,
				Received:    1234,
				Transmitted: 340,
				HasNetwork:  true,
			},
		},
		"cgroup v2, with a limit": {
			answer: cgroup2, limit: limit,
			want: usage.Usage{
				WorkingSet:  33554432 - 16777216,
				Limit:       limit,
				HasMemory:   true,
				CPUSeconds:  0.0015,
				HasCPU:      true,
				Received:    5012,
				Transmitted: 7770,
				HasNetwork:  true,
			},
		},
		"an answer without its limit": {
			answer: plainStats, limit: limit,
			want: usage.Usage{WorkingSet: 7, Limit: limit, HasMemory: true},
		},
		"an engine that may count no memory": {
			answer: statsContent(t, "rootless"), limit: limit,
			want: usage.Usage{CPUSeconds: 2, HasCPU: true},
		},
		"the host's network, or none": {
			answer: `{"read":"2026-03-01T10:00:01Z","cpu_stats":{"cpu_usage":{"total_usage":1000000000}},"memory_stats":{"usage":9},"networks":{}}`,
			want: usage.Usage{
				WorkingSet: 9,
				HasMemory:  true,
				CPUSeconds: 1,
				HasCPU:     true,
			},
		},
		"a network that carried nothing": {
			answer: `{"read":"2026-03-01T10:00:01Z","networks":{"eth0":{"rx_bytes":0,"tx_bytes":0}}}`,
			want:   usage.Usage{HasNetwork: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := statsEngine(t, map[string]http.HandlerFunc{
				"a": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, tt.answer) }, //nolint:errcheck // the client's loss
			})
			got, err := measureStats(t.Context(), statsSession(t, e.host, 1), []usage.Subject{{ID: "a", Limit: tt.limit}}, 1)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]usage.Usage{"a": tt.want}, got, compareResources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatsAreAskedForInOneShot(t *testing.T) {
	e := statsEngine(t, nil)
	if _, err := measureStats(t.Context(), statsSession(t, e.host, 1), subjectsOf("a"), 1); err != nil {
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
	got, err := measureStats(t.Context(), statsSession(t, e.host, 2), subjectsOf("removed", "a", "removing", "stopped", "leaving", "b"), 2)
	if err != nil {
		t.Errorf("got error %v, want none: each of these is about one container", err)
	}
	want := map[string]usage.Usage{"a": plainResources, "b": plainResources}
	if diff := cmp.Diff(want, got, compareResources); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
	if got, err := measureStats(t.Context(), statsSession(t, e.host, 2), subjectsOf("removed", "stopped"), 2); err != nil || len(got) != 0 {
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
	{
		"a proxy refuses",
		engineForbids,
		failure.Forbidden,
		"/stats",
	},
	{
		"a proxy knows no such path",
		func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) },
		failure.NotFound,
		"404",
	},
	{
		"the connection is closed",
		rawEngine(""),
		failure.Closed,
		"crashed",
	},
	{
		"the answer is cut",
		rawEngine("HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"read\":"),
		failure.Closed,
		"crashed",
	},
	{
		"the answer is not JSON",
		engineSends("200 OK", "It works!"),
		failure.Malformed,
		"another service",
	},
	{
		"the answer has another shape",
		engineSends("200 OK", `{"read":"2026-03-01T10:00:01Z","memory_stats":[]}`),
		failure.Malformed,
		"another service",
	},
	{
		"the answer never ends",
		func(w http.ResponseWriter, _ *http.Request) {
			chunk := bytes.Repeat([]byte(" "), 64<<10)
			for _, err := w.Write(chunk); err == nil; {
				_, err = w.Write(chunk)
			}
		},
		failure.TooLarge,
		"larger",
	},
}

func TestFailureOfStatsKeepsWhatWasGot(t *testing.T) {
	for _, tt := range statsFailures {
		t.Run(tt.name, func(t *testing.T) {
			e := statsEngine(t, map[string]http.HandlerFunc{"bad": tt.answer})
			got, err := measureStats(t.Context(), statsSession(t, e.host, 1), subjectsOf("a", "bad", "b"), 1)
			wantDockerFailure(t, err, tt.reason, tt.hint)
			if diff := cmp.Diff(map[string]usage.Usage{"a": plainResources}, got, compareResources); diff != "" {
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
	got, err := measureStats(t.Context(), s, subjectsOf("sick", "a"), 1)
	if want := []string{"a"}; err != nil || !slices.Equal(slices.Collect(maps.Keys(got)), want) {
		t.Errorf("got %v, error %v; want those of %q, and none", got, err, want)
	}
	_, err = measureStats(t.Context(), s, subjectsOf("sick", "ill"), 1)
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
			got, err := measureStats(ctx, statsSession(t, e.host, 1), subjectsOf("a", "hung", "b"), 1)
			if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), e.host) {
				t.Errorf("error: got %v, want the context's, with the engine's address", err)
			}
			if diff := cmp.Diff(map[string]usage.Usage{"a": plainResources}, got, compareResources); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			e.waitForSilence(t)
		})
	}
	late, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	_, err := measureStats(late, statsSession(t, statsEngine(t, nil).host, 1), subjectsOf("a"), 1)
	wantDockerFailure(t, err, failure.Timeout, "hangs")
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
			if _, err := measureStats(t.Context(), s, subjectsOf("a", "b", id), 2); err == nil {
				t.Errorf("container %s: got no error, want one", id)
			}
		}
		s.Close()
		e.waitForSilence(t)
	}
	measure(ids[0]) // what the runtime opens once
	ignore := goleak.IgnoreCurrent()
	before := openDescriptors(t)
	for range 3 { // a descriptor of the reading before may close late, which hides one
		measure(ids...)
	}
	goleak.VerifyNone(t, ignore) // a dial goes on for a moment when nobody needs it any more
	if after := openDescriptors(t); after > before {
		t.Errorf("open descriptors: got %d, want %d as before", after, before)
	}
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

// measureStats returns the stats of the subjects.
func measureStats(ctx context.Context, s *api.Session, subjects []usage.Subject, parallelism int) (map[string]usage.Usage, error) {
	return s.Measure(ctx, subjects, parallelism, func(string) bool { return false })
}
