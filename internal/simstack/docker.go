package simstack

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The engine is Debian 12's, on cgroup v1. It speaks API versions from oldestMinor to newestMinor.
const (
	engineVersion            = "20.10.24+dfsg1"
	oldestMinor, newestMinor = 12, 41
)

// hostMemory is what the engine's machine has.
const hostMemory = 16 << 30

// dockerHeader begins the header of every answer of the engine.
var dockerHeader = []string{"Api-Version: 1.41", "Docker-Experimental: false", "Ostype: linux", "Server: Docker/" + engineVersion + " (linux)", "Date"}

// newDocker is the Docker Engine API on a Unix socket: the reading half of it.
func newDocker(e *Engine, socket string) *service {
	s := &service{
		name:      "docker",
		endpoints: []*endpoint{{network: "unix", address: socket}},
		handle:    e.handle,
		switched:  e.switched,
		faults: []Fault{
			{Name: "forbidden_stats", Description: "a socket proxy refuses the containers' statistics: 403"},
			{Name: "forbidden_events", Description: "a socket proxy refuses the stream of events: 403"},
			{Name: "events_cut", Description: "streams of events are cut as soon as they are open"},
			{Name: "events_deaf", Description: "streams of events stay open and tell nothing any more"},
			{Name: "engine_restarted", Description: "the engine was restarted, once, when this is switched on; containers without a restart policy stay stopped"},
			{Name: "hang_list", Description: "the list of containers stops in the middle"},
			{Name: "hang_inspect", Description: "what is told of one container stops in the middle"},
			{Name: "hang_stats", Description: "a container's statistics stop in the middle"},
			{Name: "partial", Description: "the list is whole, but what is told of one container is cut in the middle"},
		},
	}
	for _, f := range containerFaults {
		s.faults = append(s.faults, Fault{Name: f.name, Description: f.description})
	}
	e.service = s
	return s
}

// versioned is a path that names an API version.
var versioned = regexp.MustCompile(`^/v1\.(\d+)(/.*)$`)

func (e *Engine) handle(x *exchange) *answer {
	path := x.req.URL.Path
	if m := versioned.FindStringSubmatch(path); m != nil {
		minor, _ := strconv.Atoi(m[1])
		switch {
		case minor > newestMinor:
			return dockerError(http.StatusBadRequest, fmt.Sprintf("client version 1.%d is too new. Maximum supported API version is 1.%d", minor, newestMinor))
		case minor < oldestMinor:
			return dockerError(http.StatusBadRequest, fmt.Sprintf("client version 1.%d is too old. Minimum supported API version is 1.%d, please upgrade your client to a newer version", minor, oldestMinor))
		}
		path = m[2]
	}
	read := x.req.Method == http.MethodGet
	switch {
	case path == "/_ping" && (read || x.req.Method == http.MethodHead):
		return &answer{status: http.StatusOK, body: []byte("OK"), header: slices.Concat(dockerHeader, []string{"Cache-Control: no-cache, no-store, must-revalidate", "Pragma: no-cache", "Content-Length", "Content-Type: text/plain; charset=utf-8"})}
	case !read && (strings.HasPrefix(path, "/containers") || path == "/events" || path == "/version" || path == "/info"):
		return dockerError(http.StatusMethodNotAllowed, "the simulated engine can only be read")
	case path == "/version":
		return dockerReply(map[string]any{"Version": engineVersion, "ApiVersion": fmt.Sprintf("1.%d", newestMinor), "MinAPIVersion": fmt.Sprintf("1.%d", oldestMinor), "Os": "linux", "Arch": "amd64", "Platform": map[string]string{"Name": ""}})
	case path == "/info":
		return e.info()
	case path == "/events":
		return e.eventStream(x)
	case path == "/containers/json":
		return e.list(x)
	}
	if rest, ok := strings.CutPrefix(path, "/containers/"); ok {
		if name, what, ok := strings.Cut(rest, "/"); ok {
			return e.about(x, name, what)
		}
	}
	return dockerError(http.StatusNotFound, "page not found")
}

// about answers what is asked of one container.
func (e *Engine) about(x *exchange, name, what string) *answer {
	c, ok := e.one(name)
	if !ok {
		return dockerError(http.StatusNotFound, "No such container: "+name)
	}
	switch what {
	case "json":
		a := dockerReply(c.inspect())
		if e.service.on("partial") {
			a.missing, a.end = len(a.body)/2, endCut
			a.body = a.body[:len(a.body)-a.missing]
			return a
		}
		return e.hang(x, "hang_inspect", a)
	case "stats":
		query := x.req.URL.Query()
		if e.service.on("forbidden_stats") {
			return refusedByProxy()
		}
		if isTrue(query.Get("one-shot")) && (!query.Has("stream") || isTrue(query.Get("stream"))) {
			return dockerError(http.StatusBadRequest, "cannot have stream=true and one-shot=true")
		}
		return e.hang(x, "hang_stats", dockerReply(e.stats(&c)))
	case "logs":
		text := "simulated\n"
		frame := binary.BigEndian.AppendUint32([]byte{1, 0, 0, 0}, uint32(len(text))) // one frame of stdout
		a := dockerReply(nil)
		a.body = append(frame, text...)
		return a.set("Content-Type", "application/octet-stream")
	default:
		return dockerError(http.StatusNotFound, "page not found")
	}
}

// refusedByProxy is what a proxy in front of the engine answers.
func refusedByProxy() *answer {
	return reply(http.StatusForbidden, "text/html", "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n")
}

// hang lets an answer stop in the middle while a fault is on. It goes on when the fault goes, unless the client has left.
func (e *Engine) hang(x *exchange, fault string, a *answer) *answer {
	if !e.service.on(fault) {
		return a
	}
	rest := a.body[len(a.body)/2:]
	a.body, a.missing = a.body[:len(a.body)/2], len(rest)
	a.end = endClose // waiting for the client to leave takes what it sends next
	a.rest = func(w io.Writer) error {
		ctx, stop := x.untilGone()
		defer stop()
		for {
			on, change := e.service.watch(fault)
			if !on {
				_, err := w.Write(rest)
				return err
			}
			if !pause(ctx, maxHang, change) {
				return ctx.Err()
			}
		}
	}
	return a
}

// isTrue reads a switch in a query as the engine does.
func isTrue(s string) bool {
	return !slices.Contains([]string{"", "0", "no", "false", "none"}, strings.ToLower(strings.TrimSpace(s)))
}

func dockerReply(v any) *answer {
	return &answer{status: http.StatusOK, body: append(mustJSON(v), '\n'), header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Content-Length"})}
}

func dockerError(status int, message string) *answer {
	a := dockerReply(map[string]string{"message": message})
	a.status = status
	return a
}

func (e *Engine) info() *answer {
	all := e.snapshot()
	count := func(keep func(string) bool) (n int) {
		for i := range all {
			if keep(all[i].state) {
				n++
			}
		}
		return n
	}
	return dockerReply(map[string]any{
		"ID": "SIMULATED", "Name": "simulated", "Containers": len(all), "Images": len(all),
		"ContainersRunning": count(func(s string) bool { return s == "running" || s == "restarting" }),
		"ContainersPaused":  count(func(s string) bool { return s == "paused" }),
		"ContainersStopped": count(func(s string) bool { return s == "exited" }),
		"ServerVersion":     engineVersion, "NCPU": 2, "MemTotal": int64(hostMemory), "OSType": "linux", "Architecture": "x86_64",
		"Driver": "overlay2", "CgroupDriver": "cgroupfs", "CgroupVersion": "1",
	})
}

// passes reports whether a container passes the filters of the list: all labels, and one of the patterns of a name.
func (c *Container) passes(filters map[string]map[string]bool) bool {
	for want := range filters["label"] {
		if !hasLabel(c.labels, want) {
			return false
		}
	}
	for pattern := range filters["name"] {
		name, err := regexp.Compile(pattern)
		if err == nil && (name.MatchString("/"+c.name) || name.MatchString(c.name)) {
			return true
		}
	}
	return len(filters["name"]) == 0
}

// hasLabel matches "key" or "key=value".
func hasLabel(labels map[string]string, want string) bool {
	key, value, exact := strings.Cut(want, "=")
	got, ok := labels[key]
	return ok && (!exact || got == value)
}

// readFilters reads filters as clients from API 1.22 on write them: {"key":{"value":true}}. Keys that are not simulated are
// an error, so that nobody relies on them.
func readFilters(raw string, known ...string) (map[string]map[string]bool, error) {
	filters := map[string]map[string]bool{}
	if raw == "" {
		return filters, nil
	}
	if err := json.Unmarshal([]byte(raw), &filters); err != nil {
		return nil, fmt.Errorf("invalid filter: %w", err)
	}
	for key := range filters {
		if !slices.Contains(known, key) {
			return nil, fmt.Errorf("Invalid filter '%s'", key) //nolint:staticcheck // the engine's words
		}
	}
	return filters, nil
}

func (e *Engine) list(x *exchange) *answer {
	query := x.req.URL.Query()
	filters, err := readFilters(query.Get("filters"), "label", "name")
	if err != nil {
		return dockerError(http.StatusBadRequest, err.Error())
	}
	all := isTrue(query.Get("all"))
	now := time.Now()
	containers := e.snapshot()
	rows := append(make([]byte, 0, 1024*(len(containers)+1)), '[')
	for i := range containers {
		if c := &containers[i]; c.passes(filters) && (all || c.running() || c.state == "restarting") {
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

// lastingRow is what a list says of a container for as long as it is there, as the beginning of an object in JSON.
func (c *Container) lastingRow() []byte {
	row := mustJSON(map[string]any{
		"Id": c.id, "Image": c.spec.Image, "ImageID": imageID, "Command": "/" + c.spec.Name, "Ports": []any{}, "Labels": c.labels,
		"HostConfig": map[string]any{"NetworkMode": c.network}, "NetworkSettings": map[string]any{"Networks": c.networks()}, "Mounts": []any{},
	})
	return row[:len(row)-1]
}

// appendRow appends a container of the list.
func (c *Container) appendRow(to []byte, now time.Time) []byte {
	to = append(to, c.lasting...)
	to = append(to, `,"Names":[`...)
	to = append(to, mustJSON("/"+c.name)...)
	to = fmt.Appendf(to, `],"Created":%d,"State":"%s","Status":"%s"}`, c.created.Unix(), c.state, c.statusText(now)) // words of the engine, without quotes
	return to
}

// networks are the networks that the container is in, of which no more is told than their names.
func (c *Container) networks() map[string]struct{} {
	if strings.HasPrefix(c.network, "container:") {
		return map[string]struct{}{}
	}
	return map[string]struct{}{c.network: {}}
}

// statusText is the state in words.
func (c *Container) statusText(now time.Time) string {
	ended := roughly(now.Sub(c.finished))
	up := "Up " + roughly(now.Sub(c.started))
	switch {
	case c.state == "created":
		return "Created"
	case c.state == "exited":
		return fmt.Sprintf("Exited (%d) %s ago", c.exit, ended)
	case c.state == "restarting":
		return fmt.Sprintf("Restarting (%d) %s ago", c.exit, ended)
	case c.state == "paused":
		return up + " (Paused)"
	case c.health == "":
		return up
	case c.health == "starting":
		return up + " (health: starting)"
	default:
		return up + " (" + c.health + ")"
	}
}

// roughly writes a duration for people. Hours are rounded, all others are cut off.
func roughly(d time.Duration) string {
	const day = 24
	seconds, minutes, hours := int(d.Seconds()), int(d.Minutes()), int(d.Hours()+0.5)
	switch {
	case seconds < 1:
		return "Less than a second"
	case seconds == 1:
		return "1 second"
	case seconds < 60:
		return fmt.Sprintf("%d seconds", seconds)
	case minutes == 1:
		return "About a minute"
	case minutes < 60:
		return fmt.Sprintf("%d minutes", minutes)
	case hours == 1:
		return "About an hour"
	case hours < 2*day:
		return fmt.Sprintf("%d hours", hours)
	case hours < 14*day:
		return fmt.Sprintf("%d days", hours/day)
	case hours < 60*day:
		return fmt.Sprintf("%d weeks", hours/(7*day))
	default:
		return fmt.Sprintf("%d months", hours/(30*day))
	}
}

// inspect is what the engine tells of one container.
func (c *Container) inspect() map[string]any {
	state := map[string]any{
		"Status": c.state, "Running": c.running() || c.state == "restarting", "Paused": c.state == "paused", "Restarting": c.state == "restarting",
		"OOMKilled": c.oom, "Dead": false, "Pid": c.pid, "ExitCode": c.exit, "Error": "", "StartedAt": stamp(c.started), "FinishedAt": stamp(c.finished),
	}
	config := map[string]any{
		"Hostname": c.id[:12], "Image": c.spec.Image, "Labels": c.labels, "Env": []string{"PATH=/usr/bin:/bin"}, "Cmd": []string{"/" + c.spec.Name},
	}
	if h := c.spec.Health; h != nil {
		config["Healthcheck"] = map[string]any{"Test": []string{"CMD-SHELL", "/check"}, "Interval": h.Interval, "Timeout": h.Timeout, "StartPeriod": 0, "Retries": h.Retries}
		if !c.started.IsZero() {
			state["Health"] = map[string]any{"Status": c.health, "FailingStreak": c.streak, "Log": append([]check{}, c.checks...)}
		}
	}
	policy, most := c.spec.policy()
	return map[string]any{
		"Id": c.id, "Created": stamp(c.created), "Path": "/" + c.spec.Name, "Args": []string{}, "State": state,
		"Image": imageID, "Name": "/" + c.name, "RestartCount": c.restarts, "Driver": "overlay2", "Platform": "linux",
		"HostConfig": map[string]any{
			"NetworkMode": c.network, "RestartPolicy": map[string]any{"Name": policy, "MaximumRetryCount": most}, "AutoRemove": false,
			"Memory": c.spec.MemoryLimit, "LogConfig": map[string]any{"Type": "json-file", "Config": map[string]string{}},
		},
		"Mounts": []any{}, "Config": config, "NetworkSettings": map[string]any{"Networks": c.networks()},
	}
}

// stamp writes a time as the engine does; one that never was is the year 1.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// stats is what a container uses: nothing unless it runs. One on another's network shows the other's.
func (e *Engine) stats(c *Container) map[string]any {
	none := map[string]any{"total_usage": 0, "usage_in_kernelmode": 0, "usage_in_usermode": 0}
	throttling := map[string]any{"periods": 0, "throttled_periods": 0, "throttled_time": 0}
	out := map[string]any{
		"read": stamp(time.Time{}), "preread": stamp(time.Time{}), "name": "/" + c.name, "id": c.id, "num_procs": 0,
		"pids_stats": map[string]any{}, "blkio_stats": map[string]any{}, "storage_stats": map[string]any{}, "memory_stats": map[string]any{},
		"cpu_stats":    map[string]any{"cpu_usage": none, "throttling_data": throttling},
		"precpu_stats": map[string]any{"cpu_usage": none, "throttling_data": throttling},
	}
	if !c.running() {
		return out
	}
	now := time.Now()
	u := c.uses(now)
	busy := u.CPU.Nanoseconds()
	cpu := map[string]any{"total_usage": busy, "usage_in_kernelmode": busy / 4, "usage_in_usermode": busy - busy/4, "percpu_usage": []int64{busy / 2, busy - busy/2}}
	limit := cmp.Or(c.spec.MemoryLimit, hostMemory)
	out["read"] = stamp(now)
	out["pids_stats"] = map[string]any{"current": 4}
	out["cpu_stats"] = map[string]any{"cpu_usage": cpu, "system_cpu_usage": now.UnixNano(), "online_cpus": 2, "throttling_data": throttling}
	out["memory_stats"] = map[string]any{
		"usage": u.WorkingSet + u.Cache, "max_usage": u.WorkingSet + 2*u.Cache, "limit": limit,
		"stats": map[string]any{"cache": u.Cache, "rss": u.WorkingSet, "inactive_file": u.Cache, "total_inactive_file": u.Cache, "total_rss": u.WorkingSet, "total_cache": u.Cache, "hierarchical_memory_limit": limit},
	}
	if net, ok := e.traffic(c, now); ok {
		out["networks"] = map[string]any{"eth0": map[string]any{
			"rx_bytes": net.Receive, "rx_packets": net.Receive / 500, "rx_errors": 0, "rx_dropped": 0,
			"tx_bytes": net.Transmit, "tx_packets": net.Transmit / 500, "tx_errors": 0, "tx_dropped": 0,
		}}
	}
	return out
}

// traffic is what a container's network counted: that of the container whose network it is. The machine's own network is
// not counted.
func (e *Engine) traffic(c *Container, now time.Time) (Usage, bool) {
	for range maxNetworkHops {
		id, shared := strings.CutPrefix(c.network, "container:")
		if !shared {
			return c.uses(now), c.network != "host" && c.network != "none"
		}
		other, ok := e.one(id)
		if !ok || !other.running() {
			return Usage{}, false
		}
		c = &other
	}
	return Usage{}, false
}

// maxNetworkHops is how many containers may be between one and its network.
const maxNetworkHops = 8

// uses is what the container has used until now: unless it was told, 2 % of a core and some network.
func (c *Container) uses(now time.Time) Usage {
	if c.usage != nil {
		return *c.usage
	}
	up := now.Sub(c.started)
	bytes := int64(up.Seconds() * 1000)
	return Usage{WorkingSet: c.used, Cache: 4 << 20, CPU: up / 50, Receive: bytes, Transmit: 2 * bytes}
}
