package simstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// lone is an engine without a stack. It ends with the test.
func lone(t *testing.T) *Engine {
	t.Helper()
	e, err := NewEngine(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// clientOf is the real client, of the engine.
func clientOf(t *testing.T, e *Engine) *client.Client {
	t.Helper()
	c, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// described is what the engine tells of a container, and what its list says of its state, without times.
func described(t *testing.T, e *Engine, name string) (got container.InspectResponse, words string) {
	t.Helper()
	c, ok := e.copyOf(name)
	if !ok {
		t.Fatalf("%s does not exist", name)
	}
	words = c.state + ": " + c.statusText(time.Now())
	for _, vague := range []string{" Less than a second", " 1 second", " About a minute", " 3 hours", " ago"} {
		words = strings.ReplaceAll(words, vague, "")
	}
	return c.inspect(), words
}

// eventsSince are the events that the engine keeps since a time.
func eventsSince(e *Engine, since time.Time) []*events.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := slices.Clone(e.log.events)
	return slices.DeleteFunc(all, func(m *events.Message) bool { return m.TimeNano < since.UnixNano() })
}

func actions(all []*events.Message) string {
	var names []string
	for _, m := range all {
		names = append(names, string(m.Action))
	}
	return strings.Join(names, " ")
}

var web = ContainerSpec{
	Name:    "chat-web-1",
	Service: "web",
	Image:   "web:1",
	Restart: "unless-stopped",
	Health:  true,
}

// TestContainersBehaveAsRealOnes holds what engine 20.10 was seen to do: the state, the list's words, the health's
// status and streak, the restart count and the events after each deed.
func TestContainersBehaveAsRealOnes(t *testing.T) {
	e := lone(t)
	began := time.Now()
	e.mu.Lock()
	c := e.create(web)
	e.mu.Unlock()
	if got, words := described(t, e, web.Name); got.State.Health != nil || got.State.StartedAt != stamp(time.Time{}) ||
		words != "created: Created" {
		t.Errorf("created: got %+v, %s", *got.State, words)
	}
	for _, step := range []struct {
		name         string
		do           func()
		want, health string
		streak       int
		restarts     int
		exit         int
		events       string
	}{
		{
			"start",
			c.Start,
			"running: Up (health: starting)",
			"starting",
			0,
			0,
			0,
			"create start",
		},
		{
			"passes",
			func() { c.SetHealth("healthy") },
			"running: Up (healthy)",
			"healthy",
			0,
			0,
			0,
			"health_status: healthy",
		},
		{
			"fails",
			func() { c.SetHealth("unhealthy") },
			"running: Up (unhealthy)",
			"unhealthy",
			3,
			0,
			0,
			"health_status: unhealthy",
		},
		{
			"pause",
			c.Pause,
			"paused: Up (Paused)",
			"unhealthy",
			3,
			0,
			0,
			"pause",
		},
		{
			"unpause",
			c.Unpause,
			"running: Up (unhealthy)",
			"unhealthy",
			3,
			0,
			0,
			"unpause",
		},
		{
			"restart",
			c.Restart,
			"running: Up (health: starting)",
			"starting",
			0,
			0,
			0,
			"kill die stop start restart",
		},
		{
			"recover",
			func() { c.SetHealth("healthy") },
			"running: Up (healthy)",
			"healthy",
			0,
			0,
			0,
			"health_status: healthy",
		},
		{
			"pause a healthy one",
			c.Pause,
			"paused: Up (Paused)",
			"unhealthy",
			0,
			0,
			0,
			"pause",
		},
		{
			"unpause a healthy one",
			c.Unpause,
			"running: Up (unhealthy)",
			"unhealthy",
			0,
			0,
			0,
			"unpause",
		},
		{
			"die",
			func() { c.Die(3) },
			"restarting: Restarting (3)",
			"unhealthy",
			0,
			1,
			3,
			"die",
		},
		{
			"come back",
			func() { c.do((*Engine).revive) },
			"running: Up (health: starting)",
			"starting",
			0,
			1,
			0,
			"start",
		},
		{
			"crash",
			func() { c.Crash(3) },
			"running: Up (health: starting)",
			"starting",
			0,
			2,
			0,
			"die start",
		},
		{
			"oom",
			c.OOM,
			"restarting: Restarting (137)",
			"unhealthy",
			0,
			3,
			137,
			"oom die",
		},
		{
			"stop in backoff",
			c.Stop,
			"exited: Exited (137)",
			"unhealthy",
			0,
			3,
			137,
			"stop",
		},
		{
			"start by hand",
			c.Start,
			"running: Up (health: starting)",
			"starting",
			0,
			0,
			0,
			"start",
		},
		{
			"stop",
			c.Stop,
			"exited: Exited (0)",
			"unhealthy",
			0,
			0,
			0,
			"kill die stop",
		},
		{
			"stop again",
			c.Stop,
			"exited: Exited (0)",
			"unhealthy",
			0,
			0,
			0,
			"",
		},
		{
			"restart a stopped one",
			c.Restart,
			"running: Up (health: starting)",
			"starting",
			0,
			0,
			0,
			"start restart",
		},
	} {
		step.do()
		got, words := described(t, e, web.Name)
		if words != step.want || !strings.HasPrefix(words, got.State.Status+":") {
			t.Errorf("%s: list: got %q and state %s, want %q", step.name, words, got.State.Status, step.want)
		}
		if h := got.State.Health; h.Status != step.health || h.FailingStreak != step.streak {
			t.Errorf("%s: got %s with a streak of %d, want %s, %d", step.name, h.Status, h.FailingStreak, step.health, step.streak)
		}
		if got.RestartCount != step.restarts || got.State.ExitCode != step.exit || c.RestartCount() != step.restarts {
			t.Errorf("%s: got %d restarts, exit code %d; want %d, %d",
				step.name, got.RestartCount, got.State.ExitCode, step.restarts, step.exit)
		}
		if got.State.Running == (got.State.Pid == 0 && !got.State.Restarting) {
			t.Errorf("%s: got running %v with pid %d", step.name, got.State.Running, got.State.Pid)
		}
		if got := actions(eventsSince(e, began)); got != step.events {
			t.Errorf("%s: got events %q, want %q", step.name, got, step.events)
		}
		began = time.Now()
	}
	c.Remove()
	if e.Container(web.Name) != nil || len(e.snapshot()) != 0 || actions(eventsSince(e, began)) != "kill die destroy" {
		t.Errorf("removed: got events %s", actions(eventsSince(e, began)))
	}
}

func TestTimesLieJustBeforeTheirEvents(t *testing.T) {
	e := lone(t)
	began := time.Now()
	c := e.Run(web)
	for range 3 {
		c.Crash(1)
	}
	var last int64
	at := map[string]int64{}
	for _, m := range eventsSince(e, began) {
		if m.TimeNano <= last {
			t.Errorf("%s at %d is not after %d", m.Action, m.TimeNano, last)
		}
		last = m.TimeNano
		at[string(m.Action)] = m.TimeNano
	}
	if f, s := c.now().finished.UnixNano(), c.now().started.UnixNano(); f >= at["die"] || at["die"] >= s || s >= at["start"] {
		t.Errorf("got finished %d, die %d, started %d, start %d; want them in this order", f, at["die"], s, at["start"])
	}
}

func TestRestartPolicyIsKept(t *testing.T) {
	e := lone(t)
	for _, row := range []struct {
		policy        string
		code, crashes int
		want          string
	}{
		{
			"",
			1,
			0,
			"exited",
		},
		{
			"no",
			1,
			0,
			"exited",
		},
		{
			"always",
			0,
			0,
			"restarting",
		},
		{
			"unless-stopped",
			0,
			0,
			"restarting",
		},
		{
			"on-failure",
			0,
			0,
			"exited",
		},
		{
			"on-failure",
			1,
			0,
			"restarting",
		},
		{
			"on-failure:2",
			1,
			1,
			"restarting",
		},
		{
			"on-failure:2",
			1,
			2,
			"exited",
		},
	} {
		c := e.Run(ContainerSpec{Name: "x", Image: "x:1", Restart: row.policy})
		for range row.crashes {
			c.Crash(row.code)
		}
		c.Die(row.code)
		if got := c.now().state; got != row.want {
			t.Errorf("%q, code %d after %d crashes: got %s, want %s", row.policy, row.code, row.crashes, got, row.want)
		}
		got, _ := described(t, e, "x")
		if p := got.HostConfig.RestartPolicy; strings.HasSuffix(row.policy, ":2") && (p.Name != "on-failure" || p.MaximumRetryCount != 2) {
			t.Errorf("%q: told as %+v", row.policy, p)
		}
		c.Remove()
	}
}

func TestRecreationGoesComposesWay(t *testing.T) {
	e := lone(t)
	old := e.Add(web)
	began := time.Now()
	var hashes []string
	for _, change := range []func(*ContainerSpec){func(*ContainerSpec) {}, func(s *ContainerSpec) { s.Image = "web:2" }, nil} {
		c := e.Container(web.Name)
		hashes = append(hashes, c.labels["com.docker.compose.config-hash"])
		c.Recreate(change)
	}
	last := e.Container(web.Name)
	hashes = append(hashes, last.labels["com.docker.compose.config-hash"])
	var got []string
	for _, m := range eventsSince(e, began)[:7] {
		got = append(got, fmt.Sprintf("%s %s %s", m.Action, m.Actor.Attributes["name"], m.Actor.Attributes["oldName"]))
	}
	temporary := old.ID()[:12] + "_chat-web-1"
	want := []string{
		"create " + temporary + " ", "kill chat-web-1 ", "die chat-web-1 ", "stop chat-web-1 ", "destroy chat-web-1 ",
		"rename chat-web-1 /" + temporary, "start chat-web-1 ",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if die := eventsSince(e, began)[2].Actor.Attributes; die["exitCode"] != "0" || die["com.docker.compose.service"] != "web" {
		t.Errorf("the die event has %v", die)
	}
	if hashes[0] != hashes[1] || hashes[1] == hashes[2] || hashes[2] == hashes[3] {
		t.Errorf("got hashes %v; want another after a change only", hashes)
	}
	if c, _ := described(t, e, web.Name); c.ID != last.ID() || c.Config.Image != "web:2" ||
		c.Config.Labels["com.docker.compose.replace"] != web.Name || c.State.Status != "running" {
		t.Errorf("got %s of %s, %v", c.ID, c.Config.Image, c.Config.Labels)
	}
}

func TestEngineRestartMovesStartsAndForgetsEvents(t *testing.T) {
	e := lone(t)
	run := func(name, policy string) *Container {
		return e.Add(ContainerSpec{
			Name:    name,
			Image:   "x:1",
			Restart: policy,
			Health:  true,
		})
	}
	always, unless, failing, never := run("always", "always"), run("unless", "unless-stopped"),
		run("failing", "on-failure"), run("never", "no")
	stopped, alwaysStopped := run("stopped", "unless-stopped"), run("always-stopped", "always")
	stopped.Stop()
	alwaysStopped.Stop()
	always.Crash(1)
	before := always.now().started
	stream, errs := clientOf(t, e).Events(t.Context(), events.ListOptions{Filters: filters.NewArgs(filters.Arg("event", "stop"))})
	if err := e.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := e.Restart(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if got := next(t, stream, errs); got.Action != "stop" {
			t.Errorf("got %s", got.Action)
		}
	}
	if err := <-errs; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end of the stream: got %v, want it cut", err)
	}
	for c, want := range map[*Container]string{
		always: "running", unless: "running", alwaysStopped: "running", failing: "exited", never: "exited", stopped: "exited",
	} {
		if got := c.now().state; got != want {
			t.Errorf("%s: got %s, want %s", c.name, got, want)
		}
	}
	if now := always.now(); !now.started.After(before) || now.restarts != 0 {
		t.Errorf("got started at %v, before %v; %d restarts, want 0", now.started, before, now.restarts)
	}
	if got := actions(eventsSince(e, time.Time{})); got != "start start start" {
		t.Errorf("afterwards the engine tells %q, want three starts", got)
	}
}

// next is the next event of a stream.
func next(t *testing.T, stream <-chan events.Message, errs <-chan error) events.Message {
	t.Helper()
	select {
	case m := <-stream:
		return m
	case err := <-errs:
		t.Fatal(err)
	}
	return events.Message{}
}

func TestEventsAreKeptWithinBounds(t *testing.T) {
	e := lone(t)
	c := e.Add(web)
	c.Crash(1)
	at := time.Unix(0, eventsSince(e, time.Time{})[1].TimeNano)
	since := func(t time.Time) string {
		s := e.subscribe(t, filters.Args{}, nil)
		defer e.unsubscribe(s)
		queue, _ := e.pending(s)
		return actions(queue)
	}
	if got := since(at); got != "start" {
		t.Errorf("since the start itself: got %q, want the start", got)
	}
	if got := since(at.Add(1)); got != "" {
		t.Errorf("a nanosecond later: got %q", got)
	}
	e.Noise(maxEvents - 1)
	if got := since(at); !strings.HasPrefix(got, "start ") {
		t.Errorf("after 255 events more: got %.20q, want the last", got)
	}
	e.Noise(1)
	if got := since(at); !strings.HasPrefix(got, "exec_") {
		t.Errorf("after 256 events more: got %.20q", got)
	}
}

func TestEventFiltersMatchAsInTheEngine(t *testing.T) {
	e := lone(t)
	c := e.Run(web)
	c.SetHealth("healthy")
	c.Stop()
	for filter, want := range map[string]string{
		``:                        "create start health_status: healthy kill die stop",
		`{"type":{"image":true}}`: "",
		`{"type":{"container":true},"event":{"health_status":true}}`: "health_status: healthy",
		`{"event":{"health_status: healthy":true}}`:                  "health_status: healthy",
		`{"event":{"health_status":true,"st":true}}`:                 "start health_status: healthy stop",
		`{"event":{"st":true}}`:                                      "",
		`{"event":{"die":true,"oom":true}}`:                          "die",
	} {
		f, err := readFilters(filter, "type", "event")
		s := e.subscribe(time.Unix(1, 0), f, nil)
		queue, _ := e.pending(s)
		e.unsubscribe(s)
		if got := actions(queue); got != want || err != nil {
			t.Errorf("%s: got %q, error %v; want %q", filter, got, err, want)
		}
	}
}

func TestStreamsAreCutAndDeafened(t *testing.T) {
	e := lone(t)
	c := e.Add(web)
	stream, errs := clientOf(t, e).Events(t.Context(), events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", "container"))})
	if err := e.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	muted := time.Now()
	mute := func(on bool) {
		if err := e.Switch("events_deaf", on); err != nil {
			t.Fatal(err)
		}
	}
	mute(true)
	c.Pause()
	mute(false)
	c.Unpause()
	if got := next(t, stream, errs).Action; got != "unpause" {
		t.Errorf("after the silence: got %s, want what came after it", got)
	}
	if got := actions(eventsSince(e, muted)); got != "pause unpause" {
		t.Errorf("kept: got %s", got)
	}
	e.Noise(3 * maxEvents)
	c.OOM()
	for range 3 * maxEvents {
		next(t, stream, errs)
	}
	if got := next(t, stream, errs).Action; got != "oom" {
		t.Errorf("got %s: a stream loses what the engine no longer keeps", got)
	}
	e.CutEvents()
	if got := next(t, stream, errs).Action; got != "die" {
		t.Errorf("before the cut: got %s, want die", got)
	}
	if err := <-errs; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want it cut", err)
	}
	if err := e.AwaitStreams(t.Context(), 0); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := e.AwaitStreams(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestHealthLogTellsSinceWhen(t *testing.T) {
	e := lone(t)
	c := e.Add(web)
	health := func() *container.Health {
		got, _ := described(t, e, web.Name)
		return got.State.Health
	}
	if log := health().Log; len(log) != 5 || log[0].ExitCode != 0 || log[1].Start.Sub(log[0].Start) != checkInterval {
		t.Errorf("well: got %d entries", len(log))
	}
	c.SetHealth("unhealthy")
	h := health()
	if h.Status != "unhealthy" || h.FailingStreak != 3 || len(h.Log) != 5 || h.Log[1].ExitCode != 0 || h.Log[2].ExitCode != 1 ||
		h.Log[4].Start.Sub(h.Log[2].Start) != 2*checkInterval {
		t.Errorf("unhealthy: got %+v", h)
	}
	c.Restart()
	c.SetHealth("unhealthy")
	h = health()
	if n, started := len(h.Log), c.now().started; h.FailingStreak != 3 || h.Log[n-3].Start.Before(started) {
		t.Errorf("after a restart: got a streak of %d since %v, started at %v", h.FailingStreak, h.Log[n-3].Start, started)
	}
}

func TestSharedNetworkIsCountedOnceForAll(t *testing.T) {
	e := lone(t)
	irc := e.Add(ContainerSpec{Name: "chat-irc-1", Service: "irc", Image: "irc:1"})
	services := e.Run(ContainerSpec{
		Name:        "chat-services-1",
		Service:     "services",
		Image:       "services:1",
		NetworkOf:   "irc",
		MemoryLimit: 1 << 20,
	})
	irc.SetUsage(3e6, time.Second)
	s := e.stats(irc)
	if s.MemoryStats.Usage-s.MemoryStats.Stats["total_inactive_file"] != 3e6 || s.CPUStats.CPUUsage.TotalUsage < 1e9 ||
		s.Networks["eth0"].TxBytes < 1e7 || s.MemoryStats.Limit != hostMemory {
		t.Errorf("got %+v", s)
	}
	if s := e.stats(services); s.Networks["eth0"].RxBytes < 1e7 || s.MemoryStats.Limit != 1<<20 {
		t.Errorf("got %+v", s)
	}
	irc.Recreate(nil)
	if got, _ := described(t, e, "chat-services-1"); string(got.HostConfig.NetworkMode) != "container:"+irc.ID() {
		t.Errorf("got %s, want the id that was there at the creation", got.HostConfig.NetworkMode)
	}
	irc.Stop()
	if s := e.stats(services); len(s.Networks) != 0 {
		t.Errorf("without the other's network: got %+v", s.Networks)
	}
}

// inspected asks for one container and reads the answer strictly.
func inspected(t *testing.T, k *Stack, name string) container.InspectResponse {
	t.Helper()
	got := k.do(t, call{service: "docker", target: "/v1.41/containers/" + name + "/json"})
	var c container.InspectResponse
	if err := json.Unmarshal([]byte(got.body), &c); err != nil || got.status != http.StatusOK {
		t.Fatalf("inspect %s: got status %d, error %v, %v", name, got.status, got.err, err)
	}
	return c
}

var dockerEffects = map[string]effect{
	"docker/crash_loop": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		before := inspected(t, k, "irc-services")
		for { // until the test's own deadline
			if c := inspected(t, k, "irc-services"); c.RestartCount > before.RestartCount && c.State.StartedAt > before.State.StartedAt &&
				c.State.Restarting {
				return
			}
		}
	},
	"docker/missing": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		switchFault(t, k, "docker", "missing", false)
		if c := inspected(t, k, "plant-store"); c.Created <= inspected(t, k, "irc").Created || c.State.Health.Status != "healthy" {
			t.Errorf("it does not come back as a new one: %+v", *c.State)
		}
	},
	"docker/oom_child": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		before := inspected(t, k, "xmpp")
		switchFault(t, k, "docker", "oom_child", false)
		all := eventsSince(k.engine, time.Time{})
		if got := actions(all[len(all)-1:]); got != "oom" || before.State.Status != "running" ||
			inspected(t, k, "xmpp").State.StartedAt != before.State.StartedAt {
			t.Errorf("the last event is %s, and the container is %s; want oom of one that runs on", got, before.State.Status)
		}
	},
	"docker/events_cut": cutsOff("/events"),
	"docker/events_deaf": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		stream := k.engine.subscribe(time.Time{}, filters.Args{}, nil)
		k.engine.Noise(1)
		if events, last := k.engine.pending(stream); len(events) > 0 || last {
			t.Errorf("got %d events, last %v; want a silent stream", len(events), last)
		}
		k.engine.unsubscribe(stream)
	},
	"docker/engine_restarted": func(t *testing.T, k *Stack, _ string) {
		t.Helper()
		if got := actions(eventsSince(k.engine, time.Time{})); strings.Contains(got, "die") || !strings.Contains(got, "start") {
			t.Errorf("got %s; want none of the events before the restart", got)
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
	"docker/partial":      cutsOff("/containers/xmpp/json"),
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
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://engine"+target, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := clientOf(t, k.engine).HTTPClient().Do(req)
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

func TestEngineSpeaksWithTheRealClient(t *testing.T) {
	k := started(t, Options{})
	c := clientOf(t, k.engine)
	all, err := c.ContainerList(t.Context(), container.ListOptions{All: true})
	if err != nil || c.ClientVersion() != "1.41" || len(all) != len(containerSpecs) {
		t.Fatalf("got %d containers with version %s, error %v; want %d, 1.41", len(all), c.ClientVersion(), err, len(containerSpecs))
	}
	if first := k.Requests("docker")[0]; first.Method != http.MethodHead || first.Path != "/_ping" {
		t.Errorf("first request: got %s %s, want HEAD /_ping", first.Method, first.Path)
	}
	irc, err := c.ContainerInspect(t.Context(), "irc")
	if err != nil || irc.Name != "/irc" || irc.Config.Image != "chat/unrealircd:6.1.10" {
		t.Fatalf("got %+v, error %v", irc, err)
	}
	services, err := c.ContainerInspect(t.Context(), "irc-services")
	if err != nil || string(services.HostConfig.NetworkMode) != "container:"+irc.ID ||
		services.HostConfig.RestartPolicy.Name != "unless-stopped" {
		t.Errorf("got %+v, error %v; want irc's network", services.HostConfig, err)
	}
	if services.State.Health.Status != "healthy" || services.Config.Healthcheck.Interval != 30*time.Second ||
		services.Config.Labels["com.docker.compose.project"] != "chat" {
		t.Errorf("got %+v, %+v", services.State.Health, services.Config)
	}
	stats, err := c.ContainerStatsOneShot(t.Context(), irc.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer stats.Body.Close() //nolint:errcheck // only read
	var s container.StatsResponse
	if err := json.NewDecoder(stats.Body).Decode(&s); err != nil || s.CPUStats.CPUUsage.TotalUsage == 0 ||
		s.Networks["eth0"].RxBytes == 0 || s.MemoryStats.Usage == 0 || s.Name != "/irc" {
		t.Errorf("got %+v, error %v", s, err)
	}
}
