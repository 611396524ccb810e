package simstack

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-units"
)

// hostMemory is the memory of the engine's machine, in bytes.
const hostMemory = 16 << 30

// dockerHeader begins the header of every answer of the engine, which is Debian 12's.
var dockerHeader = []string{
	"Api-Version: 1.41", "Docker-Experimental: false", "Ostype: linux", "Server: Docker/20.10.24+dfsg1 (linux)", "Date",
}

// newDocker serves the read-only part of the Docker Engine API on a Unix socket.
func newDocker(e *Engine, socket string) *service {
	cutEvents := func(on bool) {
		if on {
			e.CutEvents()
		}
	}
	e.service = &service{
		name:      "docker",
		listening: listening{endpoints: []*endpoint{{network: "unix", address: socket}}},
		handle:    e.handle,
		// A proxy that refuses events has just been restarted with that setting.
		switched: map[string]func(bool){
			"forbidden_events": cutEvents,
			"events_cut":       cutEvents,
			"partial":          cutEvents,
			"engine_restarted": e.switchRestart,
		},
	}
	for _, f := range containerFaults {
		e.service.switched[f.name] = func(on bool) { e.switchContainer(f, on) }
	}
	return e.service
}

// versioned matches a path with or without an API version. The second group is a request about one container.
var versioned = regexp.MustCompile(`^(?:/v1\.\d+)?(/containers/([^/]+)/([^/]+)|/.*)$`)

func (e *Engine) handle(x *exchange) *answer {
	path := versioned.FindStringSubmatch(x.req.URL.Path)
	switch {
	case path == nil:
		return dockerError(http.StatusNotFound, "page not found")
	case x.req.Method != http.MethodGet && x.req.Method != http.MethodHead:
		return dockerError(http.StatusMethodNotAllowed, "the simulated engine can only be read")
	case path[1] == "/_ping":
		return &answer{
			status: http.StatusOK,
			body:   []byte("OK"),
			header: slices.Concat(dockerHeader, []string{
				"Cache-Control: no-cache, no-store, must-revalidate", "Pragma: no-cache",
				"Content-Length", "Content-Type: text/plain; charset=utf-8",
			}),
		}
	case path[1] == "/events":
		return e.eventStream(x)
	case path[1] == "/containers/json":
		return e.list(x)
	case path[2] == "":
		return dockerError(http.StatusNotFound, "page not found")
	}
	c, ok := e.copyOf(path[2])
	if !ok {
		return dockerError(http.StatusNotFound, "No such container: "+path[2])
	}
	switch path[3] {
	case "json":
		a := dockerReply(c.inspect())
		if e.service.on("partial") {
			a.missing, a.end = len(a.body)/2, endCut
			a.body = a.body[:len(a.body)-a.missing]
			return a
		}
		return e.hang(x, "hang_inspect", a)
	case "stats":
		if e.service.on("forbidden_stats") {
			return refusedByProxy()
		}
		return e.hang(x, "hang_stats", dockerReply(e.stats(&c)))
	default:
		return dockerError(http.StatusNotFound, "page not found")
	}
}

// refusedByProxy is the refusal of a proxy in front of the engine.
func refusedByProxy() *answer {
	return reply(http.StatusForbidden, "text/html",
		"<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n")
}

// hang stops an answer in the middle while a fault is on. The answer continues when the fault ends, unless the client has left.
func (e *Engine) hang(x *exchange, fault string, a *answer) *answer {
	if !e.service.on(fault) {
		return a
	}
	rest := a.body[len(a.body)/2:]
	a.body, a.missing = a.body[:len(a.body)/2], len(rest)
	a.end = endClose // waiting for the client discards its next request
	a.tail = func(w io.Writer) error {
		ctx, stop := x.watchClient()
		defer stop()
		if !e.service.waitWhile(ctx, fault, maxHang) {
			return ctx.Err()
		}
		_, err := w.Write(rest)
		return err
	}
	return a
}

func dockerReply(v any) *answer {
	return &answer{
		status: http.StatusOK,
		body:   append(mustJSON(v), '\n'),
		header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Content-Length"}),
	}
}

func dockerError(status int, message string) *answer {
	a := dockerReply(map[string]string{"message": message})
	a.status = status
	return a
}

// readFilters parses the filters of a query. A filter that is not simulated is an error, so that no test relies on it.
func readFilters(raw string, known ...string) (filters.Args, error) {
	f, err := filters.FromJSON(raw)
	for _, key := range f.Keys() {
		if !slices.Contains(known, key) {
			err = fmt.Errorf("Invalid filter '%s'", key) //nolint:staticcheck // the engine's words
		}
	}
	return f, err
}

func (e *Engine) list(x *exchange) *answer {
	query := x.req.URL.Query()
	f, err := readFilters(query.Get("filters"), "label")
	if err != nil {
		return dockerError(http.StatusBadRequest, err.Error())
	}
	all, now := query.Get("all") == "1", time.Now()
	containers := e.snapshot()
	rows := append(make([]byte, 0, 1024*(len(containers)+1)), '[')
	for i := range containers {
		if c := &containers[i]; f.MatchKVList("label", c.labels) && (all || c.alive() || c.state == "restarting") {
			if len(rows) > 1 {
				rows = append(rows, ',')
			}
			rows = c.appendRow(rows, now)
		}
	}
	a := dockerReply(nil)
	a.body = append(rows, ']', '\n')
	return e.hang(x, "hang_list", a)
}

// imageID stands for every image's id.
var imageID = "sha256:" + strings.Repeat("0", 64)

// listedAlways returns the constant part of a container's row, as the beginning of a JSON object. It is made once, because lists are
// long and requested often.
func (c *Container) listedAlways() []byte {
	row := mustJSON(map[string]any{
		"Id": c.id, "Image": c.spec.Image, "ImageID": imageID, "Command": "/" + c.spec.Name, "Ports": []any{}, "Labels": c.labels,
		"HostConfig": map[string]any{"NetworkMode": c.network}, "NetworkSettings": map[string]any{}, "Mounts": []any{},
	})
	return row[:len(row)-1]
}

// appendRow appends a container to the list.
func (c *Container) appendRow(to []byte, now time.Time) []byte {
	to = append(to, c.listed...)
	to = append(to, `,"Names":[`...)
	to = append(to, mustJSON("/"+c.name)...)
	// words of the engine, without quotes
	to = fmt.Appendf(to, `],"Created":%d,"State":"%s","Status":"%s"}`, c.created.Unix(), c.state, c.statusText(now))
	return to
}

// sharedNetwork is the prefix of a network mode that names another container by id.
const sharedNetwork = "container:"

// statusText returns the state in words.
func (c *Container) statusText(now time.Time) string {
	ended := units.HumanDuration(now.Sub(c.finished))
	up := "Up " + units.HumanDuration(now.Sub(c.started))
	switch {
	case c.state == "created":
		return "Created"
	case c.state == "exited":
		return fmt.Sprintf("Exited (%d) %s ago", c.exitCode, ended)
	case c.state == "restarting":
		return fmt.Sprintf("Restarting (%d) %s ago", c.exitCode, ended)
	case c.state == "paused":
		return up + " (Paused)"
	case c.health.Status == "":
		return up
	case c.health.Status == "starting":
		return up + " (health: starting)"
	default:
		return up + " (" + c.health.Status + ")"
	}
}

// inspect returns the details of one container.
func (c *Container) inspect() container.InspectResponse {
	state := &container.State{
		Status:     c.state,
		Running:    c.alive() || c.state == "restarting",
		Paused:     c.state == "paused",
		Restarting: c.state == "restarting",
		OOMKilled:  c.oomKilled,
		Pid:        c.pid,
		ExitCode:   c.exitCode,
		StartedAt:  stamp(c.started),
		FinishedAt: stamp(c.finished),
	}
	config := &container.Config{
		Hostname: c.id[:12],
		Image:    c.spec.Image,
		Labels:   c.labels,
		Env:      []string{"PATH=/usr/bin:/bin"},
		Cmd:      []string{"/" + c.spec.Name},
	}
	if c.spec.Health {
		config.Healthcheck = &container.HealthConfig{
			Test:     []string{"CMD-SHELL", "/check"},
			Interval: checkInterval,
			Timeout:  checkTimeout,
			Retries:  checkRetries,
		}
		if !c.started.IsZero() {
			state.Health = &c.health
		}
	}
	policy, retries := c.spec.policy()
	return container.InspectResponse{
		ContainerJSONBase: &container.ContainerJSONBase{
			ID:           c.id,
			Created:      stamp(c.created),
			Path:         "/" + c.spec.Name,
			Args:         []string{},
			State:        state,
			Image:        imageID,
			Name:         "/" + c.name,
			RestartCount: c.restarts,
			Driver:       "overlay2",
			Platform:     "linux",
			HostConfig: &container.HostConfig{
				NetworkMode:   container.NetworkMode(c.network),
				Resources:     container.Resources{Memory: c.spec.MemoryLimit},
				LogConfig:     container.LogConfig{Type: "json-file"},
				RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyMode(cmp.Or(policy, "no")), MaximumRetryCount: retries},
			},
		},
		Mounts:          []container.MountPoint{},
		Config:          config,
		NetworkSettings: &container.NetworkSettings{Networks: c.networks()},
	}
}

// networks returns the container's networks, with its names in each as compose sets them.
func (c *Container) networks() map[string]*network.EndpointSettings {
	switch {
	case strings.HasPrefix(c.network, sharedNetwork):
		return map[string]*network.EndpointSettings{}
	case c.spec.Service == "":
		return map[string]*network.EndpointSettings{"bridge": {}}
	}
	return map[string]*network.EndpointSettings{c.network: {Aliases: []string{c.spec.Name, c.spec.Service, c.id[:12]}}}
}

// stamp formats a time as the engine does. The zero time is in the year 1.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// stats returns the usage of a container: 2 % of a core by default, and some network traffic; nothing if it is stopped. On another
// container's network, the traffic is that container's.
func (e *Engine) stats(c *Container) container.StatsResponse {
	out := container.StatsResponse{Name: "/" + c.name, ID: c.id}
	if !c.alive() {
		return out
	}
	now := time.Now()
	const cache = 4 << 20
	used, limit := uint64(c.workingSet), uint64(cmp.Or(c.spec.MemoryLimit, hostMemory))
	busy := uint64(now.Sub(c.started)/50 + c.extraCPU)
	out.Read, out.PidsStats.Current = now.UTC(), 4
	out.CPUStats = container.CPUStats{
		CPUUsage: container.CPUUsage{
			TotalUsage:        busy,
			UsageInKernelmode: busy / 4,
			UsageInUsermode:   busy - busy/4,
			PercpuUsage:       []uint64{busy / 2, busy - busy/2},
		},
		SystemUsage: uint64(now.UnixNano()), OnlineCPUs: 2,
	}
	out.MemoryStats = container.MemoryStats{
		Usage:    used + cache,
		MaxUsage: used + 2*cache,
		Limit:    limit,
		Stats: map[string]uint64{
			"cache": cache, "rss": used, "inactive_file": cache, "total_inactive_file": cache, "total_rss": used, "total_cache": cache,
			"hierarchical_memory_limit": limit,
		},
	}
	owner, found := *c, true
	if id, shared := strings.CutPrefix(c.network, sharedNetwork); shared {
		owner, found = e.copyOf(id)
	}
	if found && owner.alive() {
		bytes := uint64(now.Sub(owner.started).Seconds() * 1000)
		out.Networks = map[string]container.NetworkStats{"eth0": {
			RxBytes:   bytes,
			RxPackets: bytes / 500,
			TxBytes:   2 * bytes,
			TxPackets: bytes / 250,
		}}
	}
	return out
}
