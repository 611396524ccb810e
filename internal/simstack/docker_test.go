package simstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

func engineClient(t *testing.T, k *Stack) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(k.Environ()["DOCKER_HOST"]), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// inspected asks for one container over a connection of its own and reads the answer strictly.
func inspected(t *testing.T, k *Stack, name string) container.InspectResponse {
	t.Helper()
	got := k.do(t, call{service: "docker", target: "/v1.41/containers/" + name + "/json"})
	if got.err != nil || got.status != http.StatusOK {
		t.Fatalf("inspect %s: got status %d, error %v", name, got.status, got.err)
	}
	var c container.InspectResponse
	if err := json.Unmarshal([]byte(got.body), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// state is the effect of a fault on what is told of one container.
func state(name string, check func(container.InspectResponse) bool) effect {
	return func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		if c := inspected(t, k, name); !check(c) {
			t.Errorf("got %+v, health %+v, %d restarts", *c.State, c.State.Health, c.RestartCount)
		}
	}
}

var dockerEffects = map[string]effect{
	"docker/unhealthy": state("bridge", func(c container.InspectResponse) bool {
		log := c.State.Health.Log
		return c.State.Status == "running" && c.State.Health.Status == "unhealthy" && c.State.Health.FailingStreak == 3 && len(log) == 5 && log[1].ExitCode == 0 && log[2].ExitCode == 1 && log[2].Start.Before(log[4].Start)
	}),
	"docker/starting": state("xmpp-proxy", func(c container.InspectResponse) bool { return c.State.Health.Status == "starting" }),
	"docker/crash_loop": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		before := inspected(t, k, "irc-services")
		for { // until the test's own deadline
			if c := inspected(t, k, "irc-services"); c.RestartCount > before.RestartCount && c.State.StartedAt > before.State.StartedAt && c.State.Restarting {
				return
			}
		}
	},
	"docker/exited": state("docs", func(c container.InspectResponse) bool {
		return c.State.Status == "exited" && !c.State.Running && c.State.ExitCode == 1 && c.State.Health == nil
	}),
	"docker/paused": state("web-panel", func(c container.InspectResponse) bool {
		return c.State.Status == "paused" && c.State.Running && c.State.Paused && c.State.Health.Status == "unhealthy"
	}),
	"docker/oom_killed": state("web-irc", func(c container.InspectResponse) bool {
		return c.State.Status == "exited" && c.State.OOMKilled && c.State.ExitCode == 137 && c.State.Health.Status == "unhealthy"
	}),
	"docker/restarted": state("irc", func(c container.InspectResponse) bool {
		return c.State.Status == "running" && c.RestartCount == 0 && c.State.FinishedAt != stamp(time.Time{})
	}),
	"docker/missing": answers(get("docker", "/containers/plant-store/json", nil), 404, "No such container: plant-store"),
	"docker/memory_high": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		if got := used(t, k, "xmpp"); got != 600e6 {
			t.Errorf("got %d bytes, want 600 MB", got)
		}
	},
	"docker/forbidden_stats": func(t *testing.T, k *Stack, service string) {
		t.Helper()
		answers(get("docker", "/containers/xmpp/stats?stream=false", nil), 403, "")(t, k, service)
		inspected(t, k, "xmpp")
	},
	"docker/forbidden_events": answers(get("docker", "/events", nil), 403, ""),
	"docker/events_cut":       cutsOff("/events"),
	"docker/events_deaf": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		stream := k.engine.subscribe(time.Time{}, time.Time{}, nil, nil)
		k.engine.Noise(1)
		if events, last := k.engine.next(stream); len(events) > 0 || last {
			t.Errorf("got %d events, last %v; want a silent stream", len(events), last)
		}
		k.engine.unsubscribe(stream)
	},
	"docker/engine_restarted": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		got := k.do(t, call{service: "docker", target: "/events?since=0&until=" + seconds(time.Now())})
		if strings.Contains(got.body, `"die"`) || !strings.Contains(got.body, `"start"`) {
			t.Errorf("got %s, error %v; want none of the events before the restart", got.body, got.err)
		}
		if c := inspected(t, k, "irc"); c.State.Status != "running" || c.RestartCount != 0 || c.State.FinishedAt == stamp(time.Time{}) {
			t.Errorf("got %+v, %d restarts", *c.State, c.RestartCount)
		}
		if c := inspected(t, k, "docs"); c.State.Status != "exited" {
			t.Errorf("without a restart policy: got %s", c.State.Status)
		}
		switchFault(t, k, "docker", "engine_restarted", false)
		if c := inspected(t, k, "docs"); c.State.Status != "running" {
			t.Errorf("without a restart policy, afterwards: got %s", c.State.Status)
		}
	},
	"docker/hang_list":    hangs("hang_list", "/containers/json"),
	"docker/hang_inspect": hangs("hang_inspect", "/containers/irc/json"),
	"docker/hang_stats":   hangs("hang_stats", "/containers/irc/stats?stream=false"),
	"docker/deployed": state("docs", func(c container.InspectResponse) bool {
		return c.State.Status == "running" && c.State.FinishedAt == stamp(time.Time{}) && c.Config.Labels["com.docker.compose.replace"] == "docs"
	}),
	"docker/partial": cutsOff("/containers/xmpp/json"),
}

// cutsOff is the effect of a fault that cuts one answer off, and leaves the list whole.
func cutsOff(target string) effect {
	return func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		k.mustBeWell(t, "docker")
		if got := k.do(t, call{service: "docker", target: target}); !errors.Is(got.err, io.ErrUnexpectedEOF) {
			t.Errorf("got status %d, error %v; want an unexpected end", got.status, got.err)
		}
	}
}

// hangs is the effect of a fault that stops an answer in the middle, and lets it go on when it passes.
func hangs(fault, target string) effect {
	return func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		if got := k.do(t, call{service: "docker", target: target, timeout: 50 * time.Millisecond}); got.err == nil {
			t.Errorf("got all of %s", got.body)
		}
		c := engineClient(t, k)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.HTTPClient().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		first := make([]byte, 1)
		if _, err := io.ReadFull(resp.Body, first); err != nil {
			t.Fatal(err)
		}
		switchFault(t, k, "docker", fault, false)
		rest, err := io.ReadAll(resp.Body)
		if err != nil || !json.Valid(slices.Concat(first, rest)) {
			t.Errorf("after the fault: got %s%s, error %v", first, rest, err)
		}
	}
}

// used is a container's working set, as docker stats counts it.
func used(t *testing.T, k *Stack, name string) uint64 {
	t.Helper()
	got := k.do(t, call{service: "docker", target: "/v1.41/containers/" + name + "/stats?stream=false&one-shot=true"})
	var s container.StatsResponse
	if err := json.Unmarshal([]byte(got.body), &s); err != nil {
		t.Fatalf("%s: %v, %v", got.body, got.err, err)
	}
	return s.MemoryStats.Usage - s.MemoryStats.Stats["total_inactive_file"]
}

func TestEngineSpeaksWithTheRealClient(t *testing.T) {
	k := started(t, Options{Containers: 12})
	c := engineClient(t, k)
	all, err := c.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.ClientVersion() != "1.41" {
		t.Errorf("negotiated version: got %s, want 1.41", c.ClientVersion())
	}
	if len(all) != 12 {
		t.Errorf("got %d containers, want 12", len(all))
	}
	if methods := k.Requests("docker"); methods[0].Method != http.MethodHead || methods[0].Path != "/_ping" {
		t.Errorf("first request: got %s %s, want HEAD /_ping", methods[0].Method, methods[0].Path)
	}
	irc, err := c.ContainerInspect(t.Context(), "irc")
	if err != nil {
		t.Fatal(err)
	}
	services, err := c.ContainerInspect(t.Context(), "irc-services")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(services.HostConfig.NetworkMode), "container:"+irc.ID; got != want {
		t.Errorf("network of the services: got %s, want %s", got, want)
	}
	if services.State.Health.Status != "healthy" || services.Config.Healthcheck.Interval != 30*time.Second || services.Config.Labels["com.docker.compose.project"] != "chat" || services.HostConfig.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("got %+v, %+v", services.State.Health, services.Config)
	}
	if irc.Name != "/irc" || irc.Config.Image != "chat/unrealircd:6.1.10" {
		t.Errorf("got name %s, image %s", irc.Name, irc.Config.Image)
	}
	if _, err := time.Parse(time.RFC3339Nano, irc.State.StartedAt); err != nil {
		t.Error(err)
	}
	stats, err := c.ContainerStatsOneShot(t.Context(), irc.ID[:12])
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Body.Close() //nolint:errcheck // only read
	var s container.StatsResponse
	if err := json.NewDecoder(stats.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.CPUStats.CPUUsage.TotalUsage == 0 || s.Networks["eth0"].RxBytes == 0 || s.MemoryStats.Usage == 0 || s.Name != "/irc" {
		t.Errorf("got %+v", s)
	}
	if v, err := c.ServerVersion(t.Context()); err != nil || v.Version != "20.10.24+dfsg1" {
		t.Errorf("version: got %+v, %v", v, err)
	}
	if i, err := c.Info(t.Context()); err != nil || i.ContainersRunning != 12 {
		t.Errorf("info: got %+v, %v", i, err)
	}
}

func TestEngineListHonoursFilters(t *testing.T) {
	k := started(t, Options{})
	switchFault(t, k, "docker", "exited", true)
	c := engineClient(t, k)
	for _, row := range []struct {
		name    string
		all     bool
		filters []filters.KeyValuePair
		want    int
	}{
		{"running", false, nil, 10},
		{"all", true, nil, 11},
		{"label", true, []filters.KeyValuePair{filters.Arg("label", "com.docker.compose.project=chat")}, 11},
		{"other label", true, []filters.KeyValuePair{filters.Arg("label", "com.docker.compose.project=other")}, 0},
		{"two labels", true, []filters.KeyValuePair{filters.Arg("label", "com.docker.compose.project"), filters.Arg("label", "com.docker.compose.service=irc")}, 1},
		{"name", true, []filters.KeyValuePair{filters.Arg("name", "^irc")}, 2},
	} {
		got, err := c.ContainerList(t.Context(), container.ListOptions{All: row.all, Filters: filters.NewArgs(row.filters...)})
		if err != nil || len(got) != row.want {
			t.Errorf("%s: got %d containers, error %v; want %d", row.name, len(got), err, row.want)
		}
	}
	got := k.do(t, call{service: "docker", target: "/containers/json?filters=" + url.QueryEscape(`{"nope":{"x":true}}`)})
	if got.status != 400 || !strings.Contains(got.body, "Invalid filter 'nope'") {
		t.Errorf("unknown filter: got %d %s, %v", got.status, got.body, got.err)
	}
}

func TestEngineRefusesWhatChangesAnything(t *testing.T) {
	k := started(t, Options{})
	for _, c := range []struct {
		method, target string
		want           int
	}{
		{"POST", "/v1.41/containers/xmpp/restart", 405},
		{"DELETE", "/containers/xmpp", 405},
		{"PUT", "/containers/json", 405},
		{"GET", "/images/json", 404},
		{"GET", "/containers/xmpp/archive", 404},
		{"GET", "/v1.99/version", 400},
		{"GET", "/v1.11/version", 400},
		{"GET", "/version", 200},
		{"GET", "/_ping", 200},
		{"HEAD", "/_ping", 200},
	} {
		if got := k.do(t, call{service: "docker", method: c.method, target: c.target}); got.status != c.want {
			t.Errorf("%s %s: got %d %s, error %v; want %d", c.method, c.target, got.status, got.body, got.err, c.want)
		}
	}
	if c := inspected(t, k, "xmpp"); !c.State.Running {
		t.Errorf("got %+v, want it running", c.State)
	}
}

func TestEventsTellWhatHappens(t *testing.T) {
	k := started(t, Options{})
	c := engineClient(t, k)
	before := time.Now().Add(-time.Second)
	switchFault(t, k, "docker", "exited", true)
	stream, errs := c.Events(t.Context(), events.ListOptions{
		Since:   before.Format(time.RFC3339Nano),
		Filters: filters.NewArgs(filters.Arg("type", "container"), filters.Arg("event", "die"), filters.Arg("event", "start"), filters.Arg("event", "health_status"), filters.Arg("event", "oom")),
	})
	next := func(name, action string) events.Message {
		t.Helper()
		select {
		case m := <-stream:
			if m.Actor.Attributes["name"] != name || string(m.Action) != action || m.TimeNano < before.UnixNano() {
				t.Errorf("got %s of %s at %d, want %s of %s", m.Action, m.Actor.Attributes["name"], m.TimeNano, action, name)
			}
			return m
		case err := <-errs:
			t.Fatal(err)
		}
		return events.Message{}
	}
	if m := next("docs", "die"); m.Actor.Attributes["exitCode"] != "1" || m.Actor.Attributes["com.docker.compose.service"] != "docs" {
		t.Errorf("got %v", m.Actor.Attributes)
	}
	switchFault(t, k, "docker", "exited", false)
	next("docs", "start")
	switchFault(t, k, "docker", "unhealthy", true)
	next("bridge", "health_status: unhealthy")
	switchFault(t, k, "docker", "paused", true) // not asked for
	switchFault(t, k, "docker", "oom_killed", true)
	next("web-irc", "oom")
	next("web-irc", "die")
	switchFault(t, k, "docker", "stopped", true)
	if err := <-errs; err == nil {
		t.Error("the stream outlives the engine")
	}
}

func TestEventsEndAtUntil(t *testing.T) {
	k := started(t, Options{})
	switchFault(t, k, "docker", "restarted", true)
	got := k.do(t, call{service: "docker", target: "/events?since=1.5&until=" + seconds(time.Now().Add(time.Hour)) + "&filters=" + url.QueryEscape(`{"event":{"nothing":true}}`), timeout: 50 * time.Millisecond})
	if got.err == nil {
		t.Errorf("a stream until later: got its end %q", got.body)
	}
	got = k.do(t, call{service: "docker", target: "/events?since=0&until=" + seconds(time.Now())})
	var actions []string
	for line := range strings.Lines(got.body) {
		var m events.Message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		actions = append(actions, string(m.Action))
	}
	want := []string{"kill", "die", "disconnect", "stop", "connect", "start", "restart", "health_status: healthy"}
	if got.err != nil || !slices.Equal(actions, want) {
		t.Errorf("got %v, error %v; want %v", actions, got.err, want)
	}
	if got := k.do(t, call{service: "docker", target: "/events?since=yesterday"}); got.status != 500 {
		t.Errorf("no time: got %d, want 500", got.status)
	}
	if got := k.do(t, call{service: "docker", target: "/events?since=2&until=1"}); got.status != 400 || !strings.Contains(got.body, "cannot be after") {
		t.Errorf("until before since: got %d %s, want 400", got.status, got.body)
	}
}

// seconds writes a time as the engine's clients do.
func seconds(t time.Time) string { return fmt.Sprintf("%d.%09d", t.Unix(), t.Nanosecond()) }

func TestRecreatedContainerHasAnotherID(t *testing.T) {
	k := started(t, Options{})
	before := inspected(t, k, "plant-store")
	switchFault(t, k, "docker", "missing", true)
	switchFault(t, k, "docker", "missing", false)
	after := inspected(t, k, "plant-store")
	if before.ID == after.ID || before.Created >= after.Created || after.RestartCount != 0 {
		t.Errorf("got %s of %s, before %s of %s", after.ID, after.Created, before.ID, before.Created)
	}
}
