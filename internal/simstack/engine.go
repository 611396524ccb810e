package simstack

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// containerSpecs are the stack's containers, in the order in which they are started. Those that a fault ends for good
// have no restart policy.
var containerSpecs = []ContainerSpec{
	{Name: "irc", Image: "chat/unrealircd:6.1.10", Restart: "always", Health: &HealthCheck{}, WorkingSet: 48e6},
	{Name: "irc-services", Image: "chat/atheme:7.2.12", Restart: "unless-stopped", Network: "service:irc", DependsOn: "irc:service_healthy:false", Health: &HealthCheck{}, WorkingSet: 21e6},
	{Name: "xmpp", Image: "chat/prosody:0.12.3", Restart: "unless-stopped", MemoryLimit: 2 << 30, Health: &HealthCheck{}, WorkingSet: 96e6},
	{Name: "xmpp-proxy", Image: "chat/nginx:1.22.1", Restart: "unless-stopped", DependsOn: "xmpp:service_started:false", Health: &HealthCheck{}, WorkingSet: 9e6},
	{Name: "bridge", Image: "chat/bridge:1.4.0", Restart: "unless-stopped", DependsOn: "irc:service_healthy:false,xmpp:service_healthy:true", MemoryLimit: 512 << 20, Health: &HealthCheck{}, WorkingSet: 130e6},
	{Name: "web-irc", Image: "chat/web-irc:4.4.3", Restart: "no", DependsOn: "irc:service_started:false", MemoryLimit: 256 << 20, Health: &HealthCheck{}, WorkingSet: 85e6},
	{Name: "web-panel", Image: "chat/web-panel:1.0.7", Restart: "on-failure:5", DependsOn: "irc:service_started:false", Health: &HealthCheck{}, WorkingSet: 44e6},
	{Name: "docs", Image: "chat/docs:2026.11", Restart: "no", WorkingSet: 150e6},
	{Name: "plant-store", Image: "chat/plant-store:1.0.0", Restart: "unless-stopped", MemoryLimit: 128 << 20, Health: &HealthCheck{}, WorkingSet: 31e6},
	{Name: "identity", Image: "chat/identity:2.3.1", Restart: "unless-stopped", Health: &HealthCheck{}, WorkingSet: 58e6},
	{Name: "log-viewer", Image: "chat/dozzle:8.5", Restart: "unless-stopped", WorkingSet: 18e6},
}

// loadName is how the containers beyond the stack's own ones are named.
const loadName = "worker-"

// EngineOptions say what a lone engine is. The zero value is an engine without containers on a socket of its own.
type EngineOptions struct {
	// Socket is where the engine listens. When empty, it lies in a temporary directory that Close removes.
	Socket string
	// Slow is how long an answer takes under the fault "slow": 3 s by default.
	Slow time.Duration
	// Network, where set, is a network in memory that the engine listens on, in place of the machine's.
	Network *Network
}

// Engine is a simulated Docker Engine. A test does to its containers what people, programs and accidents do to real
// ones; whoever reads its API sees what the real engine would show. Its methods may be called at any time and at once.
type Engine struct {
	service    *service
	crashEvery time.Duration
	// checking engines go on with the health checks of their containers by themselves.
	checking bool
	wg       *sync.WaitGroup
	ownDir   string
	seed     string

	mu     sync.Mutex
	all    []*Container // in the order of their creation
	byID   map[string]*Container
	byName map[string]*Container
	made   int
	pids   int
	down   bool
	// last is when the last event was: no two are at the same time.
	last    time.Time
	events  []*event
	streams map[*subscription]struct{}
	// opened is closed and replaced when the number of streams changes.
	opened   chan struct{}
	stopLoop func()
}

// NewEngine starts an engine that stands alone, without a stack around it. Its health checks happen only when it is
// told. The caller closes it.
func NewEngine(o EngineOptions) (*Engine, error) {
	e := newEmptyEngine(&sync.WaitGroup{}, defaultCrash)
	if o.Socket == "" {
		dir, err := os.MkdirTemp("", "engine-")
		if err != nil {
			return nil, err
		}
		e.ownDir, o.Socket = dir, filepath.Join(dir, "docker.sock")
	}
	s := newDocker(e, o.Socket)
	s.wg, s.slow, s.network = e.wg, cmp.Or(o.Slow, defaultSlow), o.Network
	if err := s.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("start engine: %w", err), e.Close())
	}
	return e, nil
}

const (
	defaultSlow  = 3 * time.Second
	defaultCrash = 2 * time.Second
)

func newEmptyEngine(wg *sync.WaitGroup, crashEvery time.Duration) *Engine {
	return &Engine{
		wg: wg, crashEvery: crashEvery, seed: rand.Text(),
		byID: map[string]*Container{}, byName: map[string]*Container{}, streams: map[*subscription]struct{}{}, opened: make(chan struct{}),
	}
}

// newEngine is a stack's engine, with the stack's containers and as many more as the options want.
func newEngine(o Options, wg *sync.WaitGroup) *Engine {
	e := newEmptyEngine(wg, o.CrashEvery)
	e.checking = true
	specs := slices.Clone(containerSpecs)
	for i := range specs {
		specs[i].Service = specs[i].Name
	}
	for i := len(specs); i < o.Containers; i++ {
		specs = append(specs, ContainerSpec{Name: fmt.Sprintf("%s%d", loadName, i), Service: strings.TrimSuffix(loadName, "-"), Image: "chat/worker:1", Restart: "unless-stopped", Health: &HealthCheck{}, WorkingSet: 12e6})
	}
	for _, spec := range specs {
		e.Add(spec)
	}
	return e
}

// Engine returns the stack's Docker Engine.
func (k *Stack) Engine() *Engine { return k.engine }

// Host returns the engine's address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return "unix://" + e.service.address() }

// Requests returns what the engine was asked, oldest first; of a long run only the last 10,000.
func (e *Engine) Requests() []Request { return e.service.recorded() }

// Switch turns one fault of the engine on or off, as Stack.Switch does for the service "docker". The error of an
// unknown fault lists the known ones.
func (e *Engine) Switch(fault string, on bool) error { return e.service.turn(fault, on) }

// Close stops an engine that NewEngine started and waits for what it began. Connections are cut; a second Close does
// nothing. A stack closes its engine itself.
func (e *Engine) Close() error {
	e.service.close()
	e.endLoop()
	e.wg.Wait()
	if e.ownDir != "" {
		return os.RemoveAll(e.ownDir)
	}
	return nil
}

// Add puts a container there that has been running for the spec's age, and is well; no event tells of it. It is for
// what was there before anybody looked.
func (e *Engine) Add(spec ContainerSpec) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.make(spec)
	now := time.Now().UTC()
	// Some time lies between the creations of two containers, so that a list has an order.
	c.created = now.Add(-cmp.Or(spec.Age, defaultAge) + time.Duration(e.made)*time.Millisecond)
	if c.created.After(now) {
		c.created = now.Add(-time.Millisecond)
	}
	c.started = c.created.Add(min(200*time.Millisecond, now.Sub(c.created)/2))
	c.state, c.pid = "running", e.newPID()
	if c.spec.Health != nil {
		c.health = "healthy"
		c.runChecks(c.started, now)
	}
	return c
}

// defaultAge is how long a container that Add makes has been running.
const defaultAge = 3 * time.Hour

// Create creates a container, as docker create does. Like Add and Run it panics when the name is in use, since the test's
// script is wrong then.
func (e *Engine) Create(spec ContainerSpec) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.create(spec)
}

// Run creates and starts a container, as docker run does.
func (e *Engine) Run(spec ContainerSpec) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.create(spec)
	e.start(c, true)
	return c
}

func (e *Engine) create(spec ContainerSpec) *Container {
	c := e.make(spec)
	c.created = e.before(10 * time.Millisecond)
	e.emit(c, "create")
	return c
}

// make registers a container that was never started. The caller holds the lock.
func (e *Engine) make(spec ContainerSpec) *Container {
	if e.byName[spec.Name] != nil {
		panic(fmt.Sprintf("the name %s is in use", spec.Name))
	}
	e.made++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", e.seed, e.made))
	c := &Container{engine: e, id: hex.EncodeToString(sum[:]), name: spec.Name, spec: spec.complete(), state: "created"}
	c.used = c.spec.WorkingSet
	c.labels = c.spec.allLabels()
	c.network = e.networkOf(&c.spec)
	c.lasting = c.lastingRow()
	e.all = append(e.all, c)
	e.byID[c.id], e.byName[c.name] = c, c
	return c
}

// networkOf is a container's network mode as the engine keeps it: that of another container names it by the id that it
// has now, and goes on to do so when that one is gone.
func (e *Engine) networkOf(spec *ContainerSpec) string {
	kind, name, ok := strings.Cut(spec.Network, ":")
	if !ok {
		return spec.Network
	}
	if kind == "service" {
		for _, c := range e.all {
			if c.spec.Service == name {
				return "container:" + c.id
			}
		}
	}
	if c := e.byName[name]; c != nil {
		return "container:" + c.id
	}
	return "container:" + name
}

func (e *Engine) newPID() int {
	e.pids++
	return 1000 + e.pids
}

// Container returns the container that bears the name now, nil where there is none.
func (e *Engine) Container(name string) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.byName[name]
}

// find returns a container by id, name or beginning of the id, as the engine looks for it: nil where there is none. The
// caller holds the lock.
func (e *Engine) find(name string) *Container {
	if c := e.byID[name]; c != nil {
		return c
	}
	if c := e.byName[strings.TrimPrefix(name, "/")]; c != nil {
		return c
	}
	for _, c := range e.all {
		if strings.HasPrefix(c.id, name) {
			return c
		}
	}
	return nil
}

// forget takes a container off the engine. The caller holds the lock.
func (e *Engine) forget(c *Container) {
	e.all = slices.DeleteFunc(slices.Clone(e.all), func(other *Container) bool { return other == c })
	delete(e.byID, c.id)
	delete(e.byName, c.name)
	c.gone = true
}

// snapshot returns copies of the containers, newest first, as the engine lists them.
func (e *Engine) snapshot() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest := slices.Clone(e.all)
	slices.Reverse(newest) // which is the order already, unless Add was told of ages
	slices.SortStableFunc(newest, func(a, b *Container) int { return b.created.Compare(a.created) })
	copies := make([]Container, len(newest))
	for i, c := range newest {
		copies[i] = *c
	}
	return copies
}

// one returns a copy of the container of that name or id.
func (e *Engine) one(name string) (Container, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.find(name)
	if c == nil {
		return Container{}, false
	}
	if e.checking {
		c.goOnChecking(time.Now().UTC())
	}
	return *c, true
}

// Restart restarts the engine, as systemctl restart docker does: every container is stopped, streams are cut, the
// engine forgets its events, and then starts the containers that have the policy always, or unless-stopped and were not
// stopped by hand, or on-failure and failed. Such a start counts no restart: it sets the count to 0, and only
// Container.StartedAt shows it.
func (e *Engine) Restart() error {
	e.Stop()
	return e.Start()
}

// Stop stops the engine and all its containers, which is the first half of Restart. Nothing listens until Start.
func (e *Engine) Stop() {
	e.service.switching.Lock()
	defer e.service.switching.Unlock()
	e.stop()
}

// Start starts an engine that was stopped, which is the second half of Restart. The error is that of listening.
func (e *Engine) Start() error {
	e.service.switching.Lock()
	defer e.service.switching.Unlock()
	return e.begin()
}

func (e *Engine) stop() {
	e.mu.Lock()
	e.down = true
	for _, c := range e.all {
		e.stopContainer(c, false)
	}
	ended := e.cutStreams()
	e.mu.Unlock()
	waitForAll(ended)
	e.service.shut()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = nil
}

func (e *Engine) begin() error {
	e.mu.Lock()
	if !e.down {
		e.mu.Unlock()
		return nil
	}
	e.down = false
	for _, c := range e.all {
		if !c.started.IsZero() && c.policyRestarts(c.byHand, c.exit) {
			e.start(c, true)
			if e.checking {
				c.pass()
			}
		}
	}
	e.mu.Unlock()
	if e.service.on("stopped") {
		return nil
	}
	return e.service.open()
}

// crashing is the container of the fault crash_loop.
const crashing = "irc-services"

// containerFaults are what can happen to containers: each to another one, so that all can be on at once.
var containerFaults = []struct {
	name, container, description string
	on, off                      func(*Engine, *Container)
}{
	{
		"unhealthy", "bridge", "the bridge's container fails its health check",
		func(_ *Engine, c *Container) { c.fail() },
		func(_ *Engine, c *Container) { c.pass() },
	},
	{
		"starting", "xmpp-proxy", "the proxy's container was restarted and has not yet passed a health check",
		(*Engine).restartContainer,
		func(_ *Engine, c *Container) { c.pass() },
	},
	{"crash_loop", crashing, "the services' container crashes and is restarted, again and again", (*Engine).beginLoop, nil},
	{
		"exited", "docs", "the documentation site's container exited with code 1",
		func(e *Engine, c *Container) { e.exit(c, 1) },
		(*Engine).startWell,
	},
	{
		"paused", "web-panel", "the panel's container is paused; the engine goes on to call it unhealthy",
		(*Engine).pause,
		func(e *Engine, c *Container) { e.unpause(c); c.pass() },
	},
	{
		"missing", "plant-store", "the plant store's container was removed; it comes back as a new one",
		(*Engine).removeContainer, nil,
	},
	{
		"oom_killed", "web-irc", "the web client's container was killed for want of memory",
		(*Engine).oom,
		(*Engine).startWell,
	},
	{
		"restarted", "irc", "the IRC server's container was restarted by hand: once, when this is switched on",
		func(e *Engine, c *Container) { e.restartContainer(c); c.pass() },
		func(*Engine, *Container) {},
	},
	{
		"deployed", "docs", "the documentation site was deployed: once, when this is switched on",
		func(e *Engine, c *Container) { e.recreate(c, nil).pass() },
		func(*Engine, *Container) {},
	},
	{
		"memory_high", "xmpp", "the XMPP server's container uses 600 MB",
		func(_ *Engine, c *Container) { c.used = 600e6 },
		func(_ *Engine, c *Container) { c.used = c.spec.WorkingSet },
	},
}

// switched carries out a fault of a container or of the events.
func (e *Engine) switched(fault string, on bool) {
	switch {
	case fault == "crash_loop" && !on:
		e.endLoop()
		return
	case (fault == "events_cut" || fault == "forbidden_events") && on: // a proxy that was told so was started anew
		e.CutEvents()
		return
	case fault == "engine_restarted" && on:
		e.stop()
		_ = e.begin() // that nobody listens then is plain to see
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case fault == "missing" && !on:
		e.bringBack("plant-store")
		return
	case fault == "engine_restarted" && !on:
		e.startIdle()
		return
	}
	for _, f := range containerFaults {
		c := e.byName[f.container]
		switch {
		case f.name != fault || c == nil:
		case on:
			f.on(e, c)
		default:
			f.off(e, c)
		}
	}
}

// bringBack creates and starts one of the stack's own containers that was removed. The caller holds the lock.
func (e *Engine) bringBack(name string) {
	for _, spec := range containerSpecs {
		if spec.Name == name && e.byName[name] == nil {
			spec.Service = name
			e.startWell(e.create(spec))
		}
	}
}

// startIdle starts the containers that do not run though no fault keeps them from it. The caller holds the lock.
func (e *Engine) startIdle() {
	ill := map[string]bool{}
	for _, f := range containerFaults {
		ill[f.container] = ill[f.container] || e.service.on(f.name)
	}
	for _, c := range e.all {
		if c.state == "exited" && !ill[c.name] {
			e.startWell(c)
		}
	}
}

// startWell starts a container that passes its first health check at once.
func (e *Engine) startWell(c *Container) {
	e.start(c, true)
	c.pass()
}

// beginLoop starts a crash loop. The caller holds the lock.
func (e *Engine) beginLoop(c *Container) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	e.stopLoop = func() { cancel(); <-done }
	e.exit(c, 1)
	e.wg.Go(func() {
		defer close(done)
		for pause(ctx, e.crashEvery/2, nil) {
			e.mu.Lock()
			if c.state == "restarting" {
				e.start(c, false)
			} else {
				e.exit(c, 1)
			}
			e.mu.Unlock()
		}
	})
}

// endLoop ends a crash loop, if there is one. The caller does not hold the lock, which the loop needs.
func (e *Engine) endLoop() {
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
	if c := e.byName[crashing]; c != nil {
		if c.state == "restarting" {
			e.start(c, false)
		}
		c.pass()
	}
}
