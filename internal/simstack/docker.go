package simstack

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httputil"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The engine's version and the API versions that it speaks.
const (
	engineVersion = "20.10.24+dfsg1"
	apiVersion    = "1.41"
	minAPIVersion = "1.12"
	hostMemory    = 16 << 30
)

// dockerHeader begins the header of every answer of the engine.
var dockerHeader = []string{"Api-Version: " + apiVersion, "Docker-Experimental: false", "Ostype: linux", "Server: Docker/" + engineVersion + " (linux)", "Date"}

// newDocker is the Docker Engine API on a Unix socket: the reading half of it, as version 20.10 answers.
func newDocker(e *engine, socket string) *service {
	s := &service{
		name:      "docker",
		endpoints: []*endpoint{{network: "unix", address: socket}},
		handle:    e.handle,
		switched:  e.switched,
		faults: []Fault{
			{Name: "forbidden_stats", Description: "a socket proxy refuses the containers' statistics: 403"},
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

func (e *engine) handle(x *exchange) *answer {
	path := x.req.URL.Path
	if m := versioned.FindStringSubmatch(path); m != nil {
		minor, _ := strconv.Atoi(m[1])
		switch {
		case minor > minorOf(apiVersion):
			return dockerError(http.StatusBadRequest, fmt.Sprintf("client version 1.%d is too new. Maximum supported API version is %s", minor, apiVersion))
		case minor < minorOf(minAPIVersion):
			return dockerError(http.StatusBadRequest, fmt.Sprintf("client version 1.%d is too old. Minimum supported API version is %s, please upgrade your client to a newer version", minor, minAPIVersion))
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
		return dockerReply(map[string]any{"Version": engineVersion, "ApiVersion": apiVersion, "MinAPIVersion": minAPIVersion, "Os": "linux", "Arch": "amd64", "Platform": map[string]string{"Name": ""}})
	case path == "/info":
		return e.info()
	case path == "/events":
		return e.eventStream(x)
	case path == "/containers/json":
		return e.list(x)
	}
	if rest, ok := strings.CutPrefix(path, "/containers/"); ok {
		if name, what, ok := strings.Cut(rest, "/"); ok {
			return e.about(name, what)
		}
	}
	return dockerError(http.StatusNotFound, "page not found")
}

func minorOf(version string) int {
	_, minor, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(minor)
	return n
}

// about answers what is asked of one container.
func (e *engine) about(name, what string) *answer {
	b, network, ok := e.one(name)
	if !ok {
		return dockerError(http.StatusNotFound, "No such container: "+name)
	}
	switch what {
	case "json":
		a := dockerReply(b.inspect(network))
		if e.service.on("partial") {
			a.missing, a.end = len(a.body)/2, endCut
			a.body = a.body[:len(a.body)-a.missing]
		}
		return a
	case "stats":
		if e.service.on("forbidden_stats") {
			return reply(http.StatusForbidden, "text/html", "<html><body><h1>403 Forbidden</h1>\nRequest forbidden by administrative rules.\n</body></html>\n")
		}
		return dockerReply(b.stats())
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

func dockerReply(v any) *answer {
	return &answer{status: http.StatusOK, body: append(mustJSON(v), '\n'), header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Content-Length"})}
}

func dockerError(status int, message string) *answer {
	a := dockerReply(map[string]string{"message": message})
	a.status = status
	return a
}

func (e *engine) info() *answer {
	all := e.snapshot()
	count := func(keep func(string) bool) (n int) {
		for _, b := range all {
			if keep(b.state) {
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

// boxFilters are the filters of the container list.
var boxFilters = map[string]func(*box, string) bool{
	"id":     func(b *box, v string) bool { return strings.HasPrefix(b.id(), v) },
	"status": func(b *box, v string) bool { return b.state == v },
	"health": func(b *box, v string) bool { return b.health == v || b.health == "" && v == "none" },
	"name": func(b *box, v string) bool {
		matched, err := regexp.MatchString(v, "/"+b.name)
		bare, bareErr := regexp.MatchString(v, b.name)
		return err == nil && matched || bareErr == nil && bare
	},
	"label": func(b *box, v string) bool { return hasLabel(b.labels(), v) },
}

// hasLabel matches "key" or "key=value".
func hasLabel(labels map[string]string, want string) bool {
	key, value, exact := strings.Cut(want, "=")
	got, ok := labels[key]
	return ok && (!exact || got == value)
}

// readFilters reads the engine's two ways to write filters: {"key":{"value":true}} and {"key":["value"]}.
func readFilters(raw string) (map[string]map[string]bool, error) {
	filters := map[string]map[string]bool{}
	if raw == "" || json.Unmarshal([]byte(raw), &filters) == nil {
		return filters, nil
	}
	var lists map[string][]string
	if err := json.Unmarshal([]byte(raw), &lists); err != nil {
		return nil, err
	}
	clear(filters)
	for key, values := range lists {
		filters[key] = map[string]bool{}
		for _, v := range values {
			filters[key][v] = true
		}
	}
	return filters, nil
}

func (e *engine) list(x *exchange) *answer {
	query := x.req.URL.Query()
	filters, err := readFilters(query.Get("filters"))
	if err != nil {
		return dockerError(http.StatusBadRequest, "invalid filter: "+err.Error())
	}
	all := query.Get("all") == "1" || query.Get("all") == "true" || len(filters["status"]) > 0
	rows := []map[string]any{}
	for _, b := range e.snapshot() {
		keep, err := b.filtered(filters)
		if err != nil {
			return dockerError(http.StatusBadRequest, err.Error())
		}
		if keep && (all || b.running() || b.state == "restarting") {
			_, network, _ := e.one(b.name)
			rows = append(rows, b.row(network))
		}
	}
	return dockerReply(rows)
}

// row is a container in the list.
func (b *box) row(network string) map[string]any {
	return map[string]any{
		"Id": b.id(), "Names": []string{"/" + b.name}, "Image": b.image, "ImageID": "sha256:" + strings.Repeat("0", 64),
		"Command": "/" + b.name, "Created": b.created.Unix(), "Ports": []any{}, "Labels": b.labels(),
		"State": b.state, "Status": b.statusText(time.Now()),
		"HostConfig":      map[string]string{"NetworkMode": network},
		"NetworkSettings": map[string]any{"Networks": map[string]any{}}, "Mounts": []any{},
	}
}

// statusText is the state in words.
func (b *box) statusText(now time.Time) string {
	switch b.state {
	case "exited":
		return fmt.Sprintf("Exited (%d) %s ago", b.exit, roughly(now.Sub(b.finished)))
	case "restarting":
		return fmt.Sprintf("Restarting (%d) %s ago", b.exit, roughly(now.Sub(b.finished)))
	}
	text := "Up " + roughly(now.Sub(b.started))
	switch {
	case b.state == "paused":
		text += " (Paused)"
	case b.health == "starting":
		text += " (health: starting)"
	case b.health != "":
		text += " (" + b.health + ")"
	}
	return text
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Second:
		return "Less than a second"
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	}
}

// inspect is what the engine tells of one container.
func (b *box) inspect(network string) map[string]any {
	now := time.Now()
	state := map[string]any{
		"Status": b.state, "Running": b.running() || b.state == "restarting", "Paused": b.state == "paused", "Restarting": b.state == "restarting",
		"OOMKilled": b.oom, "Dead": false, "Pid": 0, "ExitCode": b.exit, "Error": "", "StartedAt": stamp(b.started), "FinishedAt": stamp(b.finished),
	}
	config := map[string]any{
		"Hostname": b.id()[:12], "Image": b.image, "Labels": b.labels(), "Env": []string{"PATH=/usr/bin:/bin"}, "Cmd": []string{"/" + b.name},
	}
	if b.running() {
		state["Pid"] = 1000 + len(b.name)
	}
	if b.checked {
		state["Health"] = map[string]any{"Status": b.health, "FailingStreak": b.streak(now), "Log": b.checks(now)}
		config["Healthcheck"] = map[string]any{"Test": []string{"CMD", "/check"}, "Interval": checkInterval, "Timeout": 5 * time.Second, "Retries": 3}
	}
	return map[string]any{
		"Id": b.id(), "Created": stamp(b.created), "Path": "/" + b.name, "Args": []string{}, "State": state,
		"Image": "sha256:" + strings.Repeat("0", 64), "Name": "/" + b.name, "RestartCount": b.restarts, "Driver": "overlay2", "Platform": "linux",
		"HostConfig": map[string]any{
			"NetworkMode": network, "RestartPolicy": map[string]any{"Name": "unless-stopped", "MaximumRetryCount": 0},
			"Memory": b.limit, "LogConfig": map[string]any{"Type": "json-file", "Config": map[string]string{}},
		},
		"Mounts": []any{}, "Config": config, "NetworkSettings": map[string]any{"Networks": map[string]any{}},
	}
}

// stamp writes a time as the engine does; one that never was is the year 1.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// maxChecks is how many health checks the engine remembers.
const maxChecks = 5

// checks are the last health checks, oldest first. Of a container that fails them, the first failures came just before
// it was called unhealthy.
func (b *box) checks(now time.Time) []map[string]any {
	log := []map[string]any{}
	if b.health == "starting" {
		return log
	}
	last, exit, output := b.started.Add(now.Sub(b.started).Truncate(checkInterval)), 0, "ok"
	n := maxChecks
	if !b.ailing.IsZero() {
		last, exit, output = b.ailing.Add(now.Sub(b.ailing).Truncate(checkInterval)), 1, "no answer"
		n = min(n, b.streak(now))
	}
	for i := n - 1; i >= 0; i-- {
		at := last.Add(-time.Duration(i) * checkInterval)
		if at.Before(b.started) {
			continue
		}
		log = append(log, map[string]any{"Start": stamp(at), "End": stamp(at.Add(20 * time.Millisecond)), "ExitCode": exit, "Output": output})
	}
	return log
}

// stats is what a container uses: nothing unless it runs. One on another's network has no network of its own to count.
func (b *box) stats() map[string]any {
	none := map[string]any{"total_usage": 0, "usage_in_kernelmode": 0, "usage_in_usermode": 0}
	throttling := map[string]any{"periods": 0, "throttled_periods": 0, "throttled_time": 0}
	out := map[string]any{
		"read": stamp(time.Time{}), "preread": stamp(time.Time{}), "name": "/" + b.name, "id": b.id(), "num_procs": 0,
		"pids_stats": map[string]any{}, "blkio_stats": map[string]any{}, "storage_stats": map[string]any{}, "memory_stats": map[string]any{},
		"cpu_stats":    map[string]any{"cpu_usage": none, "throttling_data": throttling},
		"precpu_stats": map[string]any{"cpu_usage": none, "throttling_data": throttling},
	}
	if !b.running() {
		return out
	}
	now := time.Now()
	up := now.Sub(b.started)
	busy := up.Nanoseconds() / 50 // 2 % of a core
	limit := b.limit
	if limit == 0 {
		limit = hostMemory
	}
	const cache = 4 << 20
	out["read"] = stamp(now)
	out["pids_stats"] = map[string]any{"current": 4}
	out["cpu_stats"] = map[string]any{
		"cpu_usage":        map[string]any{"total_usage": busy, "percpu_usage": []int64{busy / 2, busy - busy/2}, "usage_in_kernelmode": busy / 4, "usage_in_usermode": busy - busy/4},
		"system_cpu_usage": now.UnixNano(), "online_cpus": 2, "throttling_data": throttling,
	}
	out["memory_stats"] = map[string]any{
		"usage": b.used + cache, "max_usage": b.used + 2*cache, "limit": limit,
		"stats": map[string]any{"cache": cache, "rss": b.used, "inactive_file": cache, "total_inactive_file": cache, "total_rss": b.used, "total_cache": cache},
	}
	if b.network == "" {
		bytes := int64(up.Seconds() * 1000)
		out["networks"] = map[string]any{"eth0": map[string]any{
			"rx_bytes": bytes, "rx_packets": bytes / 500, "rx_errors": 0, "rx_dropped": 0,
			"tx_bytes": 2 * bytes, "tx_packets": bytes / 250, "tx_errors": 0, "tx_dropped": 0,
		}}
	}
	return out
}

// eventStream tells what happens, and with since what happened, until the client leaves or the time is until.
func (e *engine) eventStream(x *exchange) *answer {
	query := x.req.URL.Query()
	filters, err := readFilters(query.Get("filters"))
	if err != nil {
		return dockerError(http.StatusBadRequest, "invalid filter: "+err.Error())
	}
	since, sinceErr := readTime(query.Get("since"))
	until, untilErr := readTime(query.Get("until"))
	if sinceErr != nil || untilErr != nil {
		return dockerError(http.StatusBadRequest, "invalid time: since and until are seconds since 1970")
	}
	_, next, _ := e.after(math.MaxInt)
	if !since.IsZero() {
		next = 0
	}
	a := &answer{status: http.StatusOK, end: endClose, header: slices.Concat(dockerHeader, []string{"Content-Type: application/json", "Transfer-Encoding: chunked"})}
	a.rest = func(w io.Writer) error {
		ctx, stop := x.untilGone()
		defer stop()
		if !until.IsZero() {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, until)
			defer cancel()
		}
		chunks := httputil.NewChunkedWriter(w)
		for {
			events, following, emitted := e.after(next)
			for _, ev := range events {
				if ev.at.Before(since) || !until.IsZero() && ev.at.After(until) || !ev.passes(filters) {
					continue
				}
				if _, err := chunks.Write(append(mustJSON(ev.json()), '\n')); err != nil {
					return err
				}
			}
			next = following
			select {
			case <-emitted:
			case <-ctx.Done():
				if err := chunks.Close(); err != nil {
					return err
				}
				_, err := io.WriteString(w, "\r\n")
				return err
			}
		}
	}
	return a
}

// passes reports whether an event passes the filters; one that is not known lets nothing through.
func (ev *event) passes(filters map[string]map[string]bool) bool {
	verb, _, _ := strings.Cut(ev.action, ":")
	for key, values := range filters {
		ok := false
		for v := range maps.Keys(values) {
			switch key {
			case "type":
				ok = ok || v == "container"
			case "event":
				ok = ok || v == ev.action || v == verb
			case "container":
				ok = ok || v == ev.box || strings.HasPrefix(ev.id, v)
			case "label":
				ok = ok || hasLabel(ev.attributes, v)
			case "image":
				ok = ok || v == ev.image
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

func (ev *event) json() map[string]any {
	return map[string]any{
		"status": ev.action, "id": ev.id, "from": ev.image, "Type": "container", "Action": ev.action,
		"Actor": map[string]any{"ID": ev.id, "Attributes": ev.attributes},
		"scope": "local", "time": ev.at.Unix(), "timeNano": ev.at.UnixNano(),
	}
}

// readTime reads seconds since 1970 with a fraction; nothing is the zero time.
func readTime(s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	whole, fraction, _ := strings.Cut(s, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	nanos, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Unix(seconds, nanos), err
}
