package simstack

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/docker/docker/api/types/container"
)

// containerSpecs are the stack's containers, in starting order. Containers that a fault stops have no restart policy.
var containerSpecs = []ContainerSpec{
	{
		Name:       "irc",
		Image:      "chat/unrealircd:6.1.10",
		Restart:    "always",
		Health:     true,
		WorkingSet: 48e6,
	},
	{
		Name:       "irc-services",
		Image:      "chat/atheme:7.2.12",
		Restart:    "unless-stopped",
		NetworkOf:  "irc",
		DependsOn:  "irc:service_healthy:false",
		Health:     true,
		WorkingSet: 21e6,
	},
	{
		Name:        "xmpp",
		Image:       "chat/prosody:0.12.3",
		Restart:     "unless-stopped",
		MemoryLimit: 2 << 30,
		Health:      true,
		WorkingSet:  96e6,
	},
	{
		Name:       "xmpp-proxy",
		Image:      "chat/nginx:1.22.1",
		Restart:    "unless-stopped",
		DependsOn:  "xmpp:service_started:false",
		Health:     true,
		WorkingSet: 9e6,
	},
	{
		Name:        "bridge",
		Image:       "chat/bridge:1.4.0",
		Restart:     "unless-stopped",
		DependsOn:   "irc:service_healthy:false,xmpp:service_healthy:true",
		MemoryLimit: 512 << 20,
		Health:      true,
		WorkingSet:  130e6,
	},
	{
		Name:        "web-irc",
		Image:       "chat/web-irc:4.4.3",
		Restart:     "no",
		DependsOn:   "irc:service_started:false",
		MemoryLimit: 256 << 20,
		Health:      true,
		WorkingSet:  85e6,
	},
	{
		Name:       "web-panel",
		Image:      "chat/web-panel:1.0.7",
		Restart:    "on-failure:5",
		DependsOn:  "irc:service_started:false",
		Health:     true,
		WorkingSet: 44e6,
	},
	{
		Name:       "docs",
		Image:      "chat/docs:2026.11",
		Restart:    "no",
		WorkingSet: 150e6,
	},
	{
		Name:        "plant-store",
		Image:       "chat/plant-store:1.0.0",
		Restart:     "unless-stopped",
		MemoryLimit: 128 << 20,
		Health:      true,
		WorkingSet:  31e6,
	},
	{
		Name:       "identity",
		Image:      "chat/identity:2.3.1",
		Restart:    "unless-stopped",
		Health:     true,
		WorkingSet: 58e6,
	},
	{
		Name:       "log-viewer",
		Image:      "chat/dozzle:8.5",
		Restart:    "unless-stopped",
		WorkingSet: 18e6,
	},
}

// Engine is a simulated Docker Engine. A test starts, stops and breaks its containers,
// and its API answers as a real engine would. Its methods are safe for concurrent use.
type Engine struct {
	service    *service
	crashEvery time.Duration
	// checks is true if the engine runs the health checks of its containers by itself.
	checks bool
	close  func() error
	seed   string

	mu         sync.Mutex
	containers []*Container          // in the order of their creation
	known      map[string]*Container // by id and by name
	serial     int
	down       bool
	crashLoop  *time.Timer
	log        eventLog
}

// NewEngine starts an engine without containers and without a stack around it, on a network in memory or, where that is
// nil, on a socket of its own. Its health checks run only when a test calls SetHealth. The caller closes it.
func NewEngine(network *Network) (*Engine, error) {
	k := &Stack{opts: withDefaults(Options{Network: network})}
	k.engine = newEngine(k.opts.CrashEvery)
	k.engine.close = k.Close
	err := k.makeDir()
	if err == nil {
		err = k.add(newDocker(k.engine, filepath.Join(k.dir, "docker.sock")), nil)
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k.engine, nil
}

func newEngine(crashEvery time.Duration) *Engine {
	return &Engine{
		crashEvery: crashEvery,
		seed:       rand.Text(),
		known:      map[string]*Container{},
		log:        eventLog{streams: map[*subscription]struct{}{}, changed: make(chan struct{})},
	}
}

// newStackEngine is a stack's engine, with the stack's containers.
func newStackEngine(crashEvery time.Duration) *Engine {
	e := newEngine(crashEvery)
	e.checks = true
	for _, spec := range containerSpecs {
		spec.Service = spec.Name
		e.Add(spec)
	}
	return e
}

// Engine returns the stack's Docker Engine. The stack closes it.
func (k *Stack) Engine() *Engine { return k.engine }

// Host returns the engine's address, as DOCKER_HOST has it.
func (e *Engine) Host() string { return "unix://" + e.service.address() }

// Requests returns what the engine was asked, oldest first; at most the last 10,000.
func (e *Engine) Requests() []Request { return e.service.recorded() }

// Switch turns one fault of the engine on or off, as Stack.Switch does for the service "docker". The error of an
// unknown fault lists the known ones.
func (e *Engine) Switch(fault string, on bool) error { return e.service.turn(fault, on) }

// Close stops an engine that NewEngine started and waits for what it began. Connections are cut; a second Close does
// nothing.
func (e *Engine) Close() error { return e.close() }

// Add adds a healthy container that has been running for three hours, without an event. Like Run, it panics if the name is in use,
// because that is a mistake of the test.
func (e *Engine) Add(spec ContainerSpec) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.make(spec)
	now := time.Now().UTC()
	// Some time lies between the creations of two containers, so that a list has an order.
	c.created = now.Add(-3*time.Hour + time.Duration(e.serial)*time.Millisecond)
	c.started = c.created.Add(200 * time.Millisecond)
	c.state, c.pid = "running", 1000+e.next()
	if c.spec.Health {
		c.health.Status = "healthy"
		c.check(c.started, now)
	}
	return c
}

// Run creates and starts a container, as docker run does.
func (e *Engine) Run(spec ContainerSpec) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.create(spec)
	e.startByHand(c)
	return c
}

// create creates a container, as docker create does. The caller holds the lock.
func (e *Engine) create(spec ContainerSpec) *Container {
	c := e.make(spec)
	c.created = e.log.before(10 * time.Millisecond)
	e.emit(c, "create")
	return c
}

// make registers a container that was never started. The caller holds the lock.
func (e *Engine) make(spec ContainerSpec) *Container {
	if e.known[spec.Name] != nil {
		panic(fmt.Sprintf("the name %s is in use", spec.Name))
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", e.seed, e.next()))
	c := &Container{
		engine:     e,
		id:         hex.EncodeToString(sum[:]),
		name:       spec.Name,
		spec:       spec,
		labels:     spec.labels(),
		workingSet: spec.WorkingSet,
	}
	c.state, c.network = "created", "default"
	if spec.Service != "" {
		c.network = composeProject + "_default"
	}
	for _, other := range e.containers {
		if spec.NetworkOf != "" && other.spec.Service == spec.NetworkOf {
			c.network = sharedNetwork + other.id // stays when that container is removed
		}
	}
	if spec.Health {
		c.health.Log = []*container.HealthcheckResult{}
	}
	c.listed = c.listedAlways()
	e.containers = append(e.containers, c)
	e.known[c.id], e.known[c.name] = c, c
	return c
}

// next returns an unused number. The caller holds the lock.
func (e *Engine) next() int {
	e.serial++
	return e.serial
}

// Container returns the container with the name, nil if there is none.
func (e *Engine) Container(name string) *Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.known[name]
}

// snapshot returns copies of the containers, newest first, as the engine lists them.
func (e *Engine) snapshot() []Container {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest := make([]Container, 0, len(e.containers))
	for _, c := range slices.Backward(e.containers) {
		newest = append(newest, *c)
	}
	return newest
}

// copyOf returns a copy of the container of that name or id.
func (e *Engine) copyOf(name string) (Container, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := e.known[name]
	if c == nil {
		return Container{}, false
	}
	if e.checks {
		c.keepChecking(time.Now().UTC())
	}
	return *c, true
}

// Restart restarts the engine, as systemctl restart docker does: every container is stopped, streams are cut, the
// engine forgets its events, and then starts the containers that have the policy always, or unless-stopped and were not
// stopped by hand, or on-failure and failed. Such a start sets the restart count to 0.
func (e *Engine) Restart() error {
	e.Stop()
	return e.Start()
}

// Stop stops the engine and all its containers, which is the first half of Restart. Nothing listens until Start.
func (e *Engine) Stop() {
	e.service.turning.Lock()
	defer e.service.turning.Unlock()
	e.shut()
}

// Start starts an engine that was stopped, which is the second half of Restart. The error is that of listening.
func (e *Engine) Start() error {
	e.service.turning.Lock()
	defer e.service.turning.Unlock()
	return e.open()
}

func (e *Engine) shut() {
	e.mu.Lock()
	e.down = true
	for _, c := range e.containers {
		e.stopContainer(c, false)
	}
	e.mu.Unlock()
	e.CutEvents()
	e.service.shut()
	e.mu.Lock()
	defer e.mu.Unlock()
	e.log.events = nil
}

func (e *Engine) open() error {
	if !e.startContainers() || e.service.on("stopped") {
		return nil
	}
	return e.service.open()
}

// startContainers starts the containers that an engine starts at boot. It returns false if the engine was already running.
func (e *Engine) startContainers() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.down {
		return false
	}
	e.down = false
	for _, c := range e.containers {
		if !c.started.IsZero() && c.policyRestarts(c.stoppedByHand, c.exitCode) {
			e.startByHand(c)
			if e.checks {
				c.passCheck()
			}
		}
	}
	return true
}

// crashing is the container of the fault crash_loop.
const crashing = "irc-services"

// containerFault is a fault of one container. A one-time fault has no off.
type containerFault struct {
	name, container string
	on, off         func(*Engine, *Container)
}

// containerFaults use a different container each, except one-time faults, so that all can be on together.
var containerFaults = []containerFault{
	{
		"unhealthy",
		"bridge",
		func(_ *Engine, c *Container) { c.failChecks() },
		func(_ *Engine, c *Container) { c.passCheck() },
	},
	{
		"starting",
		"xmpp-proxy",
		(*Engine).restartContainer,
		func(_ *Engine, c *Container) { c.passCheck() },
	},
	{
		"crash_loop",
		crashing,
		(*Engine).beginCrashLoop,
		(*Engine).endCrashLoop,
	},
	{
		"exited",
		"docs",
		func(e *Engine, c *Container) { e.exit(c, 1) },
		(*Engine).startWell,
	},
	{
		"paused",
		"web-panel",
		(*Engine).pause,
		func(e *Engine, c *Container) { e.unpause(c); c.passCheck() },
	},
	{
		"missing",
		"plant-store",
		(*Engine).removeContainer,
		nil,
	}, // see bringBack
	{
		"oom_killed",
		"web-irc",
		(*Engine).oom,
		(*Engine).startWell,
	},
	{
		"oom_child",
		"xmpp",
		(*Engine).oomChild,
		nil,
	},
	{
		"restarted",
		"irc",
		func(e *Engine, c *Container) { e.restartContainer(c); c.passCheck() },
		nil,
	},
	{
		"deployed",
		"docs",
		func(e *Engine, c *Container) { e.recreate(c, nil).passCheck() },
		nil,
	},
	{
		"memory_high",
		"xmpp",
		func(_ *Engine, c *Container) { c.workingSet = 600e6 },
		func(_ *Engine, c *Container) { c.workingSet = c.spec.WorkingSet },
	},
}

// switchContainer carries out a fault of a container.
func (e *Engine) switchContainer(f containerFault, on bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	act := f.off
	if on {
		act = f.on
	}
	switch c := e.known[f.container]; {
	case f.name == "missing" && !on:
		e.bringBack(f.container)
	case act != nil && c != nil:
		act(e, c)
	}
}

// bringBack creates and starts one of the stack's own containers that was removed. The caller holds the lock.
func (e *Engine) bringBack(name string) {
	for _, spec := range containerSpecs {
		if spec.Name == name && e.known[name] == nil {
			spec.Service = name
			e.startWell(e.create(spec))
		}
	}
}

// switchRestart restarts the engine, and when the fault ends, starts the containers that stayed stopped, unless another
// fault stops them.
func (e *Engine) switchRestart(on bool) {
	if on {
		e.shut()
		_ = e.open() // a test notices if nothing listens
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range e.containers {
		faulty := slices.ContainsFunc(containerFaults, func(f containerFault) bool { return f.container == c.name && e.service.on(f.name) })
		if c.state == "exited" && !faulty {
			e.startWell(c)
		}
	}
}

// startWell starts a container that passes its first health check at once. The caller holds the lock.
func (e *Engine) startWell(c *Container) {
	e.startByHand(c)
	c.passCheck()
}

// beginCrashLoop makes a container crash and restart repeatedly. The caller holds the lock.
func (e *Engine) beginCrashLoop(c *Container) {
	e.exit(c, 1)
	e.crashLoop = time.AfterFunc(e.crashEvery/2, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.crashLoop == nil || e.service.ended() {
			return
		}
		if c.state == "restarting" {
			e.revive(c)
		} else {
			e.exit(c, 1)
		}
		e.crashLoop.Reset(e.crashEvery / 2)
	})
}

func (e *Engine) endCrashLoop(c *Container) {
	if e.crashLoop != nil {
		e.crashLoop.Stop()
		e.crashLoop = nil
		e.revive(c)
		c.passCheck()
	}
}
