package simstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
)

// loneEngine is an engine and its client.
type loneEngine struct {
	*Engine
	client *client.Client
}

func lone(tb testing.TB) loneEngine {
	tb.Helper()
	e, err := NewEngine(EngineOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := e.Close(); err != nil {
			tb.Error(err)
		}
	})
	c, err := client.NewClientWithOpts(client.WithHost(e.Host()), client.WithAPIVersionNegotiation())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return loneEngine{e, c}
}

func (e loneEngine) inspect(tb testing.TB, name string) container.InspectResponse {
	tb.Helper()
	c, err := e.client.ContainerInspect(tb.Context(), name)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// words are what the list says of a container's state and health, without its times.
func (e loneEngine) words(tb testing.TB, name string) string {
	tb.Helper()
	rows, err := e.client.ContainerList(tb.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("name", "^/"+name+"$"))})
	if err != nil {
		tb.Fatal(err)
	}
	if len(rows) != 1 {
		return ""
	}
	status := rows[0].Status
	for _, vague := range []string{" Less than a second", " 1 second", " About a minute", " 3 hours", " ago"} {
		status = strings.ReplaceAll(status, vague, "")
	}
	return rows[0].State + ": " + status
}

// told are the events since a time that are about containers, but for those of commands in them.
func (e loneEngine) told(tb testing.TB, since time.Time) []events.Message {
	tb.Helper()
	stream, errs := e.client.Events(tb.Context(), events.ListOptions{Since: stampNano(since), Until: stampNano(time.Now()), Filters: filters.NewArgs(filters.Arg("type", "container"))})
	var all []events.Message
	for {
		select {
		case m := <-stream:
			if !strings.HasPrefix(string(m.Action), "exec_") {
				all = append(all, m)
			}
		case err := <-errs:
			if !errors.Is(err, io.EOF) {
				tb.Fatal(err)
			}
			return all
		}
	}
}

func stampNano(t time.Time) string { return t.Format(time.RFC3339Nano) }

func actions(all []events.Message) string {
	var names []string
	for _, m := range all {
		names = append(names, string(m.Action))
	}
	return strings.Join(names, " ")
}

var web = ContainerSpec{Name: "chat-web-1", Service: "web", Image: "web:1", Restart: "unless-stopped", Health: &HealthCheck{Retries: 2}}

// TestContainersBehaveAsRealOnes holds what engine 20.10 was seen to do: the state, the list's words, the health's
// status and streak, the restart count and the events after each deed.
func TestContainersBehaveAsRealOnes(t *testing.T) {
	e := lone(t)
	began := time.Now()
	c := e.Create(web)
	if got := e.inspect(t, c.Name()); got.State.Health != nil || got.State.StartedAt != stamp(time.Time{}) {
		t.Errorf("created: got %+v", *got.State)
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
		{"start", c.Start, "running: Up (health: starting)", "starting", 0, 0, 0, "create start"},
		{"passes", func() { c.Check(0, "") }, "running: Up (healthy)", "healthy", 0, 0, 0, "health_status: healthy"},
		{"fails once", func() { c.Check(1, "") }, "running: Up (healthy)", "healthy", 1, 0, 0, ""},
		{"fails again", func() { c.Check(1, "") }, "running: Up (unhealthy)", "unhealthy", 2, 0, 0, "health_status: unhealthy"},
		{"pause", c.Pause, "paused: Up (Paused)", "unhealthy", 2, 0, 0, "pause"},
		{"unpause", c.Unpause, "running: Up (unhealthy)", "unhealthy", 2, 0, 0, "unpause"},
		{"restart", c.Restart, "running: Up (health: starting)", "starting", 0, 0, 0, "kill die stop start restart"},
		{"recover", func() { c.SetHealth("healthy") }, "running: Up (healthy)", "healthy", 0, 0, 0, "health_status: healthy"},
		{"pause a healthy one", c.Pause, "paused: Up (Paused)", "unhealthy", 0, 0, 0, "pause"},
		{"unpause a healthy one", c.Unpause, "running: Up (unhealthy)", "unhealthy", 0, 0, 0, "unpause"},
		{"die", func() { c.Die(3) }, "restarting: Restarting (3)", "unhealthy", 0, 1, 3, "die"},
		{"come back", c.Revive, "running: Up (health: starting)", "starting", 0, 1, 0, "start"},
		{"crash", func() { c.Crash(3) }, "running: Up (health: starting)", "starting", 0, 2, 0, "die start"},
		{"oom", c.OOM, "restarting: Restarting (137)", "unhealthy", 0, 3, 137, "oom die"},
		{"stop in backoff", c.Stop, "exited: Exited (137)", "unhealthy", 0, 3, 137, "stop"},
		{"start by hand", c.Start, "running: Up (health: starting)", "starting", 0, 0, 0, "start"},
		{"stop", c.Stop, "exited: Exited (0)", "unhealthy", 0, 0, 0, "kill die stop"},
		{"stop again", c.Stop, "exited: Exited (0)", "unhealthy", 0, 0, 0, ""},
		{"restart a stopped one", c.Restart, "running: Up (health: starting)", "starting", 0, 0, 0, "start restart"},
		{"stop for good", c.Stop, "exited: Exited (0)", "unhealthy", 0, 0, 0, "kill die stop"},
	} {
		step.do()
		got := e.inspect(t, web.Name)
		if words := e.words(t, web.Name); words != step.want || !strings.HasPrefix(words, got.State.Status+":") {
			t.Errorf("%s: list: got %q and state %s, want %q", step.name, words, got.State.Status, step.want)
		}
		if h := got.State.Health; h.Status != step.health || h.FailingStreak != step.streak {
			t.Errorf("%s: got %s with a streak of %d, want %s, %d", step.name, h.Status, h.FailingStreak, step.health, step.streak)
		}
		if got.RestartCount != step.restarts || got.State.ExitCode != step.exit || c.RestartCount() != step.restarts {
			t.Errorf("%s: got %d restarts, exit code %d; want %d, %d", step.name, got.RestartCount, got.State.ExitCode, step.restarts, step.exit)
		}
		if got.State.Running == (got.State.Pid == 0 && !got.State.Restarting) {
			t.Errorf("%s: got running %v with pid %d", step.name, got.State.Running, got.State.Pid)
		}
		all := e.told(t, began)
		if got := actions(all); got != step.events {
			t.Errorf("%s: got events %q, want %q", step.name, got, step.events)
		}
		began = time.Now()
	}
	c.Remove()
	if words := e.words(t, web.Name); words != "" {
		t.Errorf("removed: got %s", words)
	}
	if got := actions(e.told(t, began)); got != "destroy" {
		t.Errorf("removed: got events %s", got)
	}
}

func TestTimesLieJustBeforeTheirEvents(t *testing.T) {
	e := lone(t)
	began := time.Now()
	c := e.Run(web)
	for range 3 {
		c.Crash(1)
	}
	state := e.inspect(t, web.Name).State
	started, err := time.Parse(time.RFC3339Nano, state.StartedAt)
	if err != nil {
		t.Fatal(err)
	}
	finished, err := time.Parse(time.RFC3339Nano, state.FinishedAt)
	if err != nil {
		t.Fatal(err)
	}
	var last int64
	at := map[string]int64{}
	for _, m := range e.told(t, began) {
		if m.TimeNano <= last {
			t.Errorf("%s at %d is not after %d", m.Action, m.TimeNano, last)
		}
		last = m.TimeNano
		at[string(m.Action)] = m.TimeNano
	}
	if f, s := finished.UnixNano(), started.UnixNano(); f >= at["die"] || at["die"] >= s || s >= at["start"] {
		t.Errorf("got finished %d, die %d, started %d, start %d; want them in this order", f, at["die"], s, at["start"])
	}
	if !c.StartedAt().Equal(started) {
		t.Errorf("got %v, want %v", c.StartedAt(), started)
	}
}

func TestRestartPolicyIsKept(t *testing.T) {
	e := lone(t)
	for _, row := range []struct {
		policy string
		code   int
		want   string
	}{
		{"", 1, "exited"},
		{"no", 1, "exited"},
		{"always", 0, "restarting"},
		{"unless-stopped", 0, "restarting"},
		{"on-failure", 0, "exited"},
		{"on-failure", 1, "restarting"},
		{"on-failure:2", 1, "restarting"},
	} {
		c := e.Run(ContainerSpec{Name: "x", Image: "x:1", Restart: row.policy})
		c.Die(row.code)
		if got := c.State(); got != row.want {
			t.Errorf("%q, code %d: got %s, want %s", row.policy, row.code, got, row.want)
		}
		c.Remove()
	}
	c := e.Run(ContainerSpec{Name: "x", Image: "x:1", Restart: "on-failure:2"})
	for range 3 {
		c.Crash(1)
	}
	if got := e.inspect(t, "x"); got.RestartCount != 2 || got.State.Status != "exited" || got.HostConfig.RestartPolicy.MaximumRetryCount != 2 || got.HostConfig.RestartPolicy.Name != "on-failure" {
		t.Errorf("given up: got %d restarts, %s, %+v", got.RestartCount, got.State.Status, got.HostConfig.RestartPolicy)
	}
}

func TestRecreationGoesComposesWay(t *testing.T) {
	e := lone(t)
	old := e.Add(web)
	began := time.Now()
	same := old.Recreate(func(*ContainerSpec) {})
	other := same.Recreate(func(s *ContainerSpec) { s.Image = "web:2" })
	third := other.Recreate(nil)
	var got []string
	for _, m := range e.told(t, began)[:7] {
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
	var hashes []string
	for _, c := range []*Container{old, same, other, third} {
		hashes = append(hashes, c.labels["com.docker.compose.config-hash"])
	}
	if hashes[0] != hashes[1] || hashes[1] == hashes[2] || hashes[2] == hashes[3] {
		t.Errorf("got hashes %v; want another after a change only", hashes)
	}
	if c := e.inspect(t, "chat-web-1"); c.ID != third.ID() || c.Config.Image != "web:2" || c.Config.Labels["com.docker.compose.replace"] != "chat-web-1" || c.State.Status != "running" {
		t.Errorf("got %s of %s, %v", c.ID, c.Config.Image, c.Config.Labels)
	}
	e.Create(ContainerSpec{Name: "half", Image: "web:1"})
	if got := e.words(t, "half"); got != "created: Created" {
		t.Errorf("in the middle: got %q", got)
	}
}

func TestEngineRestartMovesStartsAndForgetsEvents(t *testing.T) {
	e := lone(t)
	run := func(name, policy string) *Container {
		return e.Add(ContainerSpec{Name: name, Image: "x:1", Restart: policy, Health: &HealthCheck{}})
	}
	always, unless, failing, never := run("always", "always"), run("unless", "unless-stopped"), run("failing", "on-failure"), run("never", "no")
	stopped, alwaysStopped := run("stopped", "unless-stopped"), run("always-stopped", "always")
	stopped.Stop()
	alwaysStopped.Stop()
	always.Crash(1)
	was := always.StartedAt()
	stream, errs := e.client.Events(t.Context(), events.ListOptions{Filters: filters.NewArgs(filters.Arg("event", "stop"))})
	if err := e.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := e.Restart(); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		select {
		case m := <-stream:
			if m.Action != "stop" {
				t.Errorf("got %s", m.Action)
			}
		case err := <-errs:
			t.Fatal(err)
		}
	}
	if err := <-errs; !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("end of the stream: got %v, want it cut", err)
	}
	for c, want := range map[*Container]string{always: "running", unless: "running", alwaysStopped: "running", failing: "exited", never: "exited", stopped: "exited"} {
		if got := c.State(); got != want {
			t.Errorf("%s: got %s, want %s", c.Name(), got, want)
		}
	}
	if !always.StartedAt().After(was) || always.RestartCount() != 0 {
		t.Errorf("got started at %v, before %v; %d restarts, want 0", always.StartedAt(), was, always.RestartCount())
	}
	if got := actions(e.told(t, began.Add(-time.Hour))); got != "start start start" {
		t.Errorf("afterwards the engine tells %q, want three starts", got)
	}
}

func TestEventsAreKeptWithinBounds(t *testing.T) {
	e := lone(t)
	c := e.Add(web)
	before := time.Now()
	c.Crash(1)
	all := e.told(t, before)
	if len(all) != 2 {
		t.Fatalf("got %d events, want 2", len(all))
	}
	at := time.Unix(0, all[1].TimeNano)
	if got := actions(e.told(t, at)); got != "start" {
		t.Errorf("since the start itself: got %q, want the start", got)
	}
	if got := e.told(t, at.Add(1)); len(got) != 0 {
		t.Errorf("a nanosecond later: got %q", actions(got))
	}
	e.Noise(maxEvents - 1)
	if got := actions(e.told(t, before)); got != "start" {
		t.Errorf("after 255 events more: got %q, want the last", got)
	}
	e.Noise(1)
	if got := actions(e.told(t, before)); got != "" {
		t.Errorf("after 256 events more: got %q", got)
	}
}

func TestEventFiltersMatchAsInTheEngine(t *testing.T) {
	e := lone(t)
	c := e.Run(web)
	c.Check(0, "")
	c.Stop()
	for _, row := range []struct {
		filters []filters.KeyValuePair
		want    string
	}{
		{[]filters.KeyValuePair{filters.Arg("type", "network")}, "connect disconnect"},
		{[]filters.KeyValuePair{filters.Arg("type", "container"), filters.Arg("event", "health_status")}, "health_status: healthy"},
		{[]filters.KeyValuePair{filters.Arg("event", "health_status: healthy")}, "health_status: healthy"},
		{[]filters.KeyValuePair{filters.Arg("event", "health_status"), filters.Arg("event", "st")}, "start health_status: healthy stop"},
		{[]filters.KeyValuePair{filters.Arg("event", "st")}, ""},
		{[]filters.KeyValuePair{filters.Arg("event", "die"), filters.Arg("event", "oom")}, "die"},
	} {
		args := filters.NewArgs(row.filters...)
		stream, errs := e.client.Events(t.Context(), events.ListOptions{Since: "1", Until: stampNano(time.Now()), Filters: args})
		var all []events.Message
		var err error
		for err == nil {
			select {
			case m := <-stream:
				all = append(all, m)
			case err = <-errs:
			}
		}
		if got := actions(all); got != row.want || !errors.Is(err, io.EOF) {
			t.Errorf("%v: got %q, error %v; want %q", row.filters, got, err, row.want)
		}
	}
}

func TestStreamsAreCutAndDeafened(t *testing.T) {
	e := lone(t)
	c := e.Add(web)
	stream, errs := e.client.Events(t.Context(), events.ListOptions{Filters: filters.NewArgs(filters.Arg("type", "container"))})
	if err := e.AwaitStreams(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	next := func() string {
		select {
		case m := <-stream:
			return string(m.Action)
		case err := <-errs:
			t.Fatal(err)
			return ""
		}
	}
	muted := time.Now()
	if err := e.Switch("events_deaf", true); err != nil {
		t.Fatal(err)
	}
	c.Pause()
	if err := e.Switch("events_deaf", false); err != nil {
		t.Fatal(err)
	}
	c.Unpause()
	if got := next(); got != "unpause" {
		t.Errorf("after the silence: got %s, want what came after it", got)
	}
	if got := actions(e.told(t, muted)); got != "pause unpause" {
		t.Errorf("kept: got %s", got)
	}
	e.Noise(3 * maxEvents)
	c.OOM()
	for want := 3 * maxEvents; want > 0; want-- {
		next()
	}
	if got := next(); got != "oom" {
		t.Errorf("got %s: a stream loses what the engine no longer keeps", got)
	}
	e.CutEvents()
	if got := next(); got != "die" {
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
	c := e.Add(ContainerSpec{Name: "x", Image: "x:1", Health: &HealthCheck{Interval: 10 * time.Second}})
	if log := e.inspect(t, "x").State.Health.Log; len(log) != 5 || log[0].ExitCode != 0 || log[1].Start.Sub(log[0].Start) != 10*time.Second {
		t.Errorf("well: got %d entries", len(log))
	}
	c.SetHealth("unhealthy")
	h := e.inspect(t, "x").State.Health
	if h.Status != "unhealthy" || h.FailingStreak != 3 || len(h.Log) != 5 || h.Log[1].ExitCode != 0 || h.Log[2].ExitCode != 1 || h.Log[4].Start.Sub(h.Log[2].Start) != 20*time.Second {
		t.Errorf("unhealthy: got %+v", h)
	}
	c.Restart()
	c.SetHealth("unhealthy")
	started := c.StartedAt()
	h = e.inspect(t, "x").State.Health
	if n := len(h.Log); h.FailingStreak != 3 || h.Log[n-3].Start.Before(started) {
		t.Errorf("after a restart: got a streak of %d since %v, started at %v", h.FailingStreak, h.Log[len(h.Log)-3].Start, started)
	}
}

func TestSharedNetworkIsCountedOnceForAll(t *testing.T) {
	e := lone(t)
	irc := e.Add(ContainerSpec{Name: "chat-irc-1", Service: "irc", Image: "irc:1"})
	e.Add(ContainerSpec{Name: "chat-services-1", Service: "services", Image: "services:1", Network: "service:irc", MemoryLimit: 1 << 20})
	irc.SetUsage(Usage{WorkingSet: 3e6, Cache: 1e6, CPU: time.Second, Receive: 7, Transmit: 8})
	read := func(name string) container.StatsResponse {
		resp, err := e.client.ContainerStatsOneShot(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // only read
		var s container.StatsResponse
		if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := read("chat-irc-1")
	if s.MemoryStats.Usage-s.MemoryStats.Stats["total_inactive_file"] != 3e6 || s.CPUStats.CPUUsage.TotalUsage != 1e9 || s.Networks["eth0"].TxBytes != 8 || s.MemoryStats.Limit != hostMemory {
		t.Errorf("got %+v", s)
	}
	if s := read("chat-services-1"); s.Networks["eth0"].RxBytes != 7 || s.MemoryStats.Limit != 1<<20 {
		t.Errorf("got %+v", s)
	}
	id := irc.ID()
	irc.Recreate(nil)
	if got := string(e.inspect(t, "chat-services-1").HostConfig.NetworkMode); got != "container:"+id {
		t.Errorf("got %s, want the id that was there at the creation", got)
	}
}

func BenchmarkThousandContainers(b *testing.B) {
	e := lone(b)
	for i := range 1000 {
		e.Add(ContainerSpec{Name: fmt.Sprintf("chat-worker-%d", i), Service: "worker", Image: "worker:1", Health: &HealthCheck{}})
	}
	x := &exchange{req: httptest.NewRequestWithContext(b.Context(), "GET", "/containers/json?all=1", nil)}
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			e.list(x)
		}
	})
	b.Run("inspect", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			c, _ := e.one(e.all[i%len(e.all)].id)
			dockerReply(c.inspect())
		}
	})
}
