package simstack

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// containerSpec is what a compose file says of a container, and what it uses when all is well.
type containerSpec struct {
	name, image string
	// network is the compose service whose network is shared; empty for one of its own.
	network string
	// depends is the compose label depends_on.
	depends string
	// checked containers have a health check.
	checked bool
	// limit is the memory limit in bytes; 0 is none. used is the working set.
	limit, used int64
}

// containerSpecs are the stack's containers, in the order in which they are started.
var containerSpecs = []containerSpec{
	{name: "irc", image: "chat/unrealircd:6.1.10", checked: true, used: 48e6},
	{name: "irc-services", image: "chat/atheme:7.2.12", network: "irc", depends: "irc:service_healthy:false", checked: true, used: 21e6},
	{name: "xmpp", image: "chat/prosody:0.12.3", checked: true, limit: 2 << 30, used: 96e6},
	{name: "xmpp-proxy", image: "chat/nginx:1.22.1", depends: "xmpp:service_started:false", checked: true, used: 9e6},
	{name: "bridge", image: "chat/bridge:1.4.0", depends: "irc:service_healthy:false,xmpp:service_healthy:false", checked: true, limit: 512 << 20, used: 130e6},
	{name: "web-irc", image: "chat/web-irc:4.4.3", depends: "irc:service_started:false", checked: true, used: 85e6},
	{name: "web-panel", image: "chat/web-panel:1.0.7", depends: "irc:service_started:false", checked: true, used: 44e6},
	{name: "docs", image: "chat/docs:2026.11", used: 150e6},
	{name: "plant-store", image: "chat/plant-store:1.0.0", checked: true, used: 31e6},
}

const (
	composeProject = "chat"
	checkInterval  = 30 * time.Second
	// running for so long when the stack starts.
	initialAge = 3 * time.Hour
)

// box is one container.
type box struct {
	containerSpec
	generation int
	created    time.Time
	started    time.Time
	finished   time.Time
	state      string
	health     string
	// ailing is since when the health check fails.
	ailing   time.Time
	exit     int
	oom      bool
	restarts int
	missing  bool
}

// id changes with each recreation.
func (b *box) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", b.name, b.generation))
	return hex.EncodeToString(sum[:])
}

func (b *box) labels() map[string]string {
	hash := sha256.Sum256([]byte(b.image))
	service := b.name
	if n := strings.LastIndexByte(b.name, '-'); strings.HasPrefix(b.name, loadName) {
		service = b.name[:n]
	}
	return map[string]string{
		"com.docker.compose.project":          composeProject,
		"com.docker.compose.service":          service,
		"com.docker.compose.container-number": "1",
		"com.docker.compose.oneoff":           "False",
		"com.docker.compose.config-hash":      hex.EncodeToString(hash[:]),
		"com.docker.compose.depends_on":       b.depends,
	}
}

func (b *box) running() bool { return b.state == "running" || b.state == "paused" }

// streak is how many health checks in a row failed.
func (b *box) streak(now time.Time) int {
	if b.ailing.IsZero() {
		return 0
	}
	return 3 + int(now.Sub(b.ailing)/checkInterval)
}

// event is one line of the engine's event stream.
type event struct {
	at         time.Time
	box        string
	id, image  string
	action     string
	attributes map[string]string
}

// engine is the state of the Docker Engine. Its faults change containers as an operator or a crash would.
type engine struct {
	service    *service
	crashEvery time.Duration
	wg         *sync.WaitGroup

	mu       sync.Mutex
	boxes    []*box
	events   []event
	dropped  int // events that are no longer kept
	emitted  chan struct{}
	stopLoop func()
}

// loadName is how the containers beyond the stack's own ones are named.
const loadName = "worker-"

func newEngine(o Options, wg *sync.WaitGroup) *engine {
	e := &engine{crashEvery: o.CrashEvery, wg: wg, emitted: make(chan struct{})}
	specs := slices.Clone(containerSpecs)
	for i := len(specs); i < o.Containers; i++ {
		specs = append(specs, containerSpec{name: fmt.Sprintf("%s%d", loadName, i), image: "chat/worker:1", checked: true, used: 12e6})
	}
	began := time.Now().UTC().Add(-initialAge)
	for i, spec := range specs {
		b := &box{containerSpec: spec, created: began.Add(time.Duration(i) * time.Millisecond)}
		b.started = b.created.Add(200 * time.Millisecond)
		b.state, b.health = "running", b.wellness()
		e.boxes = append(e.boxes, b)
	}
	return e
}

// wellness is the health of a container that is well.
func (b *box) wellness() string {
	if b.checked {
		return "healthy"
	}
	return ""
}

// containerFaults are what can happen to containers: each to another one, so that all can be on at once.
var containerFaults = []struct {
	name, container, description string
	on, off                      func(*engine, *box)
}{
	{
		"unhealthy", "bridge", "the bridge's container fails its health check",
		func(e *engine, b *box) { b.ail(); e.emit(b, "health_status: unhealthy") },
		func(e *engine, b *box) { b.recover(); e.emit(b, "health_status: healthy") },
	},
	{
		"starting", "xmpp-proxy", "the proxy's container was restarted and has not yet passed a health check",
		func(e *engine, b *box) { e.stop(b, 0); e.start(b); b.health = "starting" },
		func(e *engine, b *box) { b.recover(); e.emit(b, "health_status: healthy") },
	},
	{"crash_loop", "irc-services", "the services' container crashes and is restarted, again and again", (*engine).beginLoop, nil},
	{
		"exited", "docs", "the documentation site's container exited with code 1",
		func(e *engine, b *box) { e.stop(b, 1) },
		(*engine).start,
	},
	{
		"paused", "web-panel", "the panel's container is paused; the engine goes on to call it unhealthy",
		func(e *engine, b *box) { b.ail(); b.state = "paused"; e.emit(b, "pause") },
		func(e *engine, b *box) { b.recover(); b.state = "running"; e.emit(b, "unpause") },
	},
	{
		"missing", "plant-store", "the plant store's container was removed; it comes back as a new one",
		func(e *engine, b *box) { e.stop(b, 0); b.missing = true; e.emit(b, "destroy") },
		(*engine).recreate,
	},
	{
		"oom_killed", "web-irc", "the web client's container was killed for want of memory",
		func(e *engine, b *box) { e.emit(b, "oom"); e.stop(b, 137); b.oom = true },
		(*engine).start,
	},
	{
		"restarted", "irc", "the IRC server's container was restarted by hand: once, when this is switched on",
		func(e *engine, b *box) { e.stop(b, 0); e.start(b); e.emit(b, "restart") },
		func(*engine, *box) {},
	},
	{
		"memory_high", "xmpp", "the XMPP server's container uses 600 MB",
		func(_ *engine, b *box) { b.used = 600e6 },
		func(_ *engine, b *box) { b.used = 96e6 },
	},
}

// switched carries out a container fault.
func (e *engine) switched(fault string, on bool) {
	if fault == "crash_loop" && !on {
		e.endLoop()
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range containerFaults {
		if f.name != fault {
			continue
		}
		if b := e.find(f.container); on {
			f.on(e, b)
		} else {
			f.off(e, b)
		}
	}
}

func (b *box) ail() { b.health, b.ailing = "unhealthy", time.Now().UTC() }

func (b *box) recover() { b.health, b.ailing = b.wellness(), time.Time{} }

// stop ends a container. The engine calls a stopped container with a health check unhealthy.
func (e *engine) stop(b *box, exit int) {
	b.state, b.exit, b.finished = "exited", exit, time.Now().UTC()
	if b.checked {
		b.health = "unhealthy"
	}
	e.emit(b, "die", "exitCode", strconv.Itoa(exit))
}

// start starts a stopped container, which is well at once.
func (e *engine) start(b *box) {
	b.state, b.exit, b.oom, b.started = "running", 0, false, time.Now().UTC()
	b.recover()
	e.emit(b, "start")
}

func (e *engine) recreate(b *box) {
	b.generation++
	b.missing, b.restarts, b.created, b.finished = false, 0, time.Now().UTC(), time.Time{}
	e.emit(b, "create")
	e.start(b)
}

// beginLoop starts a crash loop. The caller holds the lock.
func (e *engine) beginLoop(b *box) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.stopLoop = func() { cancel(); <-done }
	e.crash(b)
	e.wg.Go(func() {
		defer close(done)
		for pause(ctx, e.crashEvery/2, nil) {
			e.mu.Lock()
			if b.state == "restarting" {
				b.restarts++
				e.start(b)
			} else {
				e.crash(b)
			}
			e.mu.Unlock()
		}
	})
}

// crash ends a container that its restart policy is about to start again.
func (e *engine) crash(b *box) {
	e.stop(b, 1)
	b.state = "restarting"
}

// endLoop ends a crash loop, if there is one. The caller does not hold the lock, which the loop needs.
func (e *engine) endLoop() {
	e.mu.Lock()
	stop := e.stopLoop
	e.stopLoop = nil
	e.mu.Unlock()
	if stop == nil {
		return
	}
	stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	if b := e.find("irc-services"); b.state == "restarting" {
		b.restarts++
		e.start(b)
	}
}

func (e *engine) close() { e.endLoop() }

// maxEvents is how many events the engine keeps.
const maxEvents = 256

// emit tells of something that happened to a container. The caller holds the lock.
func (e *engine) emit(b *box, action string, attributes ...string) {
	all := b.labels()
	all["image"], all["name"] = b.image, b.name
	for pair := range slices.Chunk(attributes, 2) {
		all[pair[0]] = pair[1]
	}
	e.events = append(e.events, event{time.Now().UTC(), b.name, b.id(), b.image, action, all})
	if extra := len(e.events) - maxEvents; extra > 0 {
		e.events = slices.Clone(e.events[extra:])
		e.dropped += extra
	}
	close(e.emitted)
	e.emitted = make(chan struct{})
}

// after returns the events from the n-th on, the number of the next one, and what is closed when that one comes.
func (e *engine) after(n int) ([]event, int, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	first := min(max(0, n-e.dropped), len(e.events))
	return slices.Clone(e.events[first:]), e.dropped + len(e.events), e.emitted
}

// find returns a container that is there by name, id or beginning of the id, nil where there is none. A missing one is
// found by its name only. The caller holds the lock.
func (e *engine) find(name string) *box {
	for _, b := range e.boxes {
		if b.name == name {
			return b
		}
	}
	for _, b := range e.boxes {
		if !b.missing && len(name) >= 4 && strings.HasPrefix(b.id(), name) {
			return b
		}
	}
	return nil
}

// snapshot returns copies of the containers that are there, newest first, as the engine lists them.
func (e *engine) snapshot() []box {
	e.mu.Lock()
	defer e.mu.Unlock()
	var all []box
	for _, b := range e.boxes {
		if !b.missing {
			all = append(all, *b)
		}
	}
	slices.SortStableFunc(all, func(a, b box) int { return cmp.Compare(b.created.UnixNano(), a.created.UnixNano()) })
	return all
}

// one returns a copy of the container of that name or id, and the id of the container whose network it shares.
func (e *engine) one(name string) (b box, network string, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	found := e.find(name)
	if found == nil || found.missing {
		return box{}, "", false
	}
	network = composeProject + "_default"
	if found.network != "" {
		network = "container:" + e.find(found.network).id()
	}
	return *found, network, true
}

// filtered reports whether a container passes the engine's filters; an error names a filter that does not exist.
func (b *box) filtered(filters map[string]map[string]bool) (bool, error) {
	for key, values := range filters {
		matches, known := boxFilters[key]
		if !known {
			return false, fmt.Errorf("Invalid filter '%s'", key) //nolint:staticcheck // the engine's words
		}
		all := key == "label" // labels must all match, of others one must
		want := slices.Collect(maps.Keys(values))
		match := func(v string) bool { return matches(b, v) }
		if all && slices.ContainsFunc(want, func(v string) bool { return !match(v) }) || !all && !slices.ContainsFunc(want, match) {
			return false, nil
		}
	}
	return true, nil
}
