package simstack

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContainerSpec is what a container is created from.
type ContainerSpec struct {
	Name, Image string
	// Service is the compose service that the container belongs to. Without one the container is not compose's: it has
	// no labels.
	Service string
	// DependsOn is the compose label of that name, such as "irc:service_started:false,db:service_healthy:true".
	DependsOn string
	// ConfigHash is the compose label of that name; by default it is made from the rest of the spec.
	ConfigHash string
	// Network is the network mode. "service:NAME" is the network of the container of that compose service, and
	// "container:NAME" that of the container of that name, either as it is when this one is created. The default is the
	// project's own network, or the engine's.
	Network string
	// Restart is the restart policy: no (the default), always, unless-stopped, on-failure or on-failure:N.
	Restart string
	// MemoryLimit is in bytes; 0 is none. WorkingSet is what the container uses of it, without its page cache.
	MemoryLimit, WorkingSet int64
	// Health is the health check; nil is none.
	Health *HealthCheck
	// Age is how long ago Add lets the container have been created: 3 hours by default.
	Age time.Duration

	// replaces is the name of the container that this one was created in place of.
	replaces string
}

// HealthCheck is a container's health check.
type HealthCheck struct {
	// Interval is the time from one check to the next: 30 s by default. Timeout is 5 s by default.
	Interval, Timeout time.Duration
	// Retries is how many failures in a row make a container unhealthy: 3 by default.
	Retries int
}

const composeProject = "chat"

// complete fills in the defaults. The health check is copied, so that the spec's owner can change it.
func (s ContainerSpec) complete() ContainerSpec {
	network := "default"
	if s.Service != "" {
		s.ConfigHash = cmp.Or(s.ConfigHash, s.hash())
		network = composeProject + "_default"
	}
	s.Network = cmp.Or(s.Network, network)
	s.Restart = cmp.Or(s.Restart, "no")
	if s.Health != nil {
		h := *s.Health
		h.Interval, h.Timeout, h.Retries = cmp.Or(h.Interval, 30*time.Second), cmp.Or(h.Timeout, 5*time.Second), cmp.Or(h.Retries, 3)
		s.Health = &h
	}
	return s
}

// hash is different for specs of which compose would make another container.
func (s *ContainerSpec) hash() string {
	sum := sha256.New()
	_, _ = fmt.Fprintln(sum, s.Service, s.Image, s.DependsOn, s.Network, s.Restart, s.MemoryLimit, s.Health)
	if s.Health != nil {
		_, _ = fmt.Fprintln(sum, *s.Health)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

func (s *ContainerSpec) allLabels() map[string]string {
	if s.Service == "" {
		return map[string]string{}
	}
	labels := map[string]string{
		"com.docker.compose.project":          composeProject,
		"com.docker.compose.service":          s.Service,
		"com.docker.compose.container-number": "1",
		"com.docker.compose.oneoff":           "False",
		"com.docker.compose.config-hash":      s.ConfigHash,
		"com.docker.compose.depends_on":       s.DependsOn,
	}
	if s.replaces != "" {
		labels["com.docker.compose.replace"] = s.replaces
	}
	return labels
}

// policy takes a restart policy apart.
func (s *ContainerSpec) policy() (name string, most int) {
	name, count, _ := strings.Cut(s.Restart, ":")
	most, _ = strconv.Atoi(count)
	return name, most
}

// Container is one container of an engine: a new one under the same name is another Container. Its methods do what is
// possible in the state that it is in, and nothing else: pausing a stopped one, say, changes nothing.
type Container struct {
	engine  *Engine
	id      string
	spec    ContainerSpec
	labels  map[string]string // never changed once made
	lasting []byte            // what never changes of the container in a list, which says it all the time
	network string

	name     string
	created  time.Time
	started  time.Time
	finished time.Time
	state    string
	pid      int
	exit     int
	oom      bool
	restarts int
	// byHand is whether somebody stopped it, so that unless-stopped no longer holds.
	byHand bool
	gone   bool

	// health is the engine's word, "" without a check. streak and checks outlive what the engine says.
	health string
	streak int
	checks []check // the last ones, oldest first; never changed in place

	used  int64
	usage *Usage
}

// check is one health check that was made.
type check struct {
	Start, End time.Time
	ExitCode   int
	Output     string
}

// Usage is what a container uses.
type Usage struct {
	// WorkingSet and Cache are in bytes; what the kernel counts is their sum.
	WorkingSet, Cache int64
	CPU               time.Duration
	// Receive and Transmit are the bytes of its network. A container on another's network shows the other's.
	Receive, Transmit int64
}

// ID returns the container's id: 64 hexadecimal digits.
func (c *Container) ID() string { return c.id }

// Name returns the name that the container has now.
func (c *Container) Name() string { return read(c, func() string { return c.name }) }

// State returns the engine's word for the container's state, such as "running".
func (c *Container) State() string { return read(c, func() string { return c.state }) }

// RestartCount returns the engine's count of restarts by policy. Every start by hand sets it to 0.
func (c *Container) RestartCount() int { return read(c, func() int { return c.restarts }) }

// StartedAt returns when the container was last started; zero before the first time.
func (c *Container) StartedAt() time.Time { return read(c, func() time.Time { return c.started }) }

func read[T any](c *Container, what func() T) T {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return what()
}

func (c *Container) do(what func(*Engine, *Container)) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	if !c.gone {
		what(c.engine, c)
	}
}

// running is whether the container has processes.
func (c *Container) running() bool { return c.state == "running" || c.state == "paused" }

// Start starts a container that does not run, as docker start does. Its restart count becomes 0, and its health, if it
// has one, starting.
func (c *Container) Start() { c.do(func(e *Engine, c *Container) { e.start(c, true) }) }

// start starts a container; by hand means that it was not its policy. The caller holds the lock.
func (e *Engine) start(c *Container, byHand bool) {
	if c.running() || c.state == "restarting" && byHand {
		return
	}
	if byHand {
		c.restarts, c.byHand = 0, false
	}
	e.emitNetwork(c, "connect")
	c.started = e.before(2 * time.Millisecond)
	c.state, c.exit, c.oom, c.pid = "running", 0, false, e.newPID()
	if c.spec.Health != nil {
		c.health, c.streak = "starting", 0
	}
	e.emit(c, "start")
}

// Stop stops the container, as docker stop does; it ends with code 0. Of one that waits for its restart, no die event
// tells.
func (c *Container) Stop() {
	c.do(func(e *Engine, c *Container) { e.stopContainer(c, true) })
}

func (e *Engine) stopContainer(c *Container, byHand bool) {
	switch {
	case c.running():
		c.byHand = c.byHand || byHand
		e.emit(c, "kill", "signal", "15")
		e.end(c, 0, false)
	case c.state == "restarting":
		c.byHand = c.byHand || byHand
		c.state = "exited"
	default:
		return
	}
	e.emit(c, "stop")
}

// Restart restarts the container, as docker restart does. Its restart count becomes 0.
func (c *Container) Restart() { c.do((*Engine).restartContainer) }

func (e *Engine) restartContainer(c *Container) {
	if c.running() || c.state == "restarting" {
		e.stopContainer(c, true)
	}
	e.start(c, true)
	e.emit(c, "restart")
}

// Die ends the container by itself with an exit code. Where its restart policy wants it to run, the restart count has
// gone up by the time of the event, and the container is restarting until Revive.
func (c *Container) Die(code int) { c.do(func(e *Engine, c *Container) { e.exit(c, code) }) }

// Revive starts a container that its restart policy holds back for some time after it has died.
func (c *Container) Revive() {
	c.do(func(e *Engine, c *Container) {
		if c.state == "restarting" {
			e.start(c, false)
		}
	})
}

// Crash is Die and Revive.
func (c *Container) Crash(code int) {
	c.Die(code)
	c.Revive()
}

// OOM lets the kernel kill the container for want of memory: it dies with code 137. See Die for what follows.
func (c *Container) OOM() { c.do((*Engine).oom) }

func (e *Engine) oom(c *Container) {
	if !c.running() {
		return
	}
	c.oom = true
	e.emit(c, "oom")
	e.exit(c, 137)
}

// exit ends a container that nobody stopped. The caller holds the lock.
func (e *Engine) exit(c *Container, code int) {
	if c.running() {
		e.end(c, code, c.policyRestarts(false, code))
	}
}

// end ends a running container. The caller holds the lock.
func (e *Engine) end(c *Container, code int, again bool) {
	c.state, c.exit, c.pid = "exited", code, 0
	c.finished = e.before(30 * time.Millisecond)
	if c.finished.Before(c.started) {
		c.finished = c.started
	}
	if again {
		c.restarts++
		c.state = "restarting"
	}
	if c.spec.Health != nil {
		c.health = "unhealthy" // which is what the engine says of all that it does not check
	}
	e.emit(c, "die", "exitCode", strconv.Itoa(code))
	e.emitNetwork(c, "disconnect")
}

// policyRestarts is whether the restart policy starts a container that ended with this code.
func (c *Container) policyRestarts(byHand bool, code int) bool {
	switch name, most := c.spec.policy(); name {
	case "always":
		return true
	case "unless-stopped":
		return !byHand
	case "on-failure":
		return code != 0 && (most == 0 || c.restarts < most)
	default:
		return false
	}
}

// Pause pauses the container. The engine calls it unhealthy from then on.
func (c *Container) Pause() { c.do((*Engine).pause) }

func (e *Engine) pause(c *Container) {
	if c.state != "running" {
		return
	}
	c.state = "paused"
	if c.spec.Health != nil {
		c.health = "unhealthy"
	}
	e.emit(c, "pause")
}

// Unpause lets a paused container run again. Unhealthy it remains until its next health check.
func (c *Container) Unpause() { c.do((*Engine).unpause) }

func (e *Engine) unpause(c *Container) {
	if c.state == "paused" {
		c.state = "running"
		e.emit(c, "unpause")
	}
}

// Remove removes the container, as docker rm -f does: a running one is killed first.
func (c *Container) Remove() { c.do((*Engine).removeContainer) }

func (e *Engine) removeContainer(c *Container) {
	switch {
	case c.running():
		c.byHand = true
		e.emit(c, "kill", "signal", "9")
		e.end(c, 137, false)
	case c.state == "restarting":
		c.state = "exited"
	}
	e.forget(c)
	e.emit(c, "destroy")
}

func (e *Engine) rename(c *Container, name string) {
	old := c.name
	delete(e.byName, old)
	c.name = name
	e.byName[name] = c
	e.emit(c, "rename", "oldName", "/"+old)
}

// successor creates the container that compose puts in this one's place, under the temporary name that it bears until
// this one is removed: the first 12 digits of this one's id, and the name.
func (e *Engine) successor(c *Container, change func(*ContainerSpec)) *Container {
	spec := c.spec
	if change == nil {
		sum := sha256.Sum256([]byte(spec.ConfigHash))
		spec.ConfigHash = hex.EncodeToString(sum[:])
	} else {
		before := spec.hash()
		change(&spec)
		if after := spec.hash(); after != before && spec.ConfigHash == c.spec.ConfigHash {
			spec.ConfigHash = after
		}
	}
	spec.replaces, spec.Name = c.name, c.id[:12]+"_"+c.name
	return e.create(spec)
}

// Recreate puts a new container in this one's place as compose does: the new one is created, this one stopped and
// removed, and the new one renamed and started. change, where not nil, changes the spec, and the config hash follows if
// there is a difference; a nil one is a deploy of which only the hash tells. It returns the new one; nil when this one
// was removed before.
func (c *Container) Recreate(change func(*ContainerSpec)) *Container {
	var successor *Container
	c.do(func(e *Engine, c *Container) { successor = e.recreate(c, change) })
	return successor
}

func (e *Engine) recreate(c *Container, change func(*ContainerSpec)) *Container {
	name := c.name
	successor := e.successor(c, change)
	e.stopContainer(c, true)
	e.removeContainer(c)
	e.rename(successor, name)
	e.start(successor, true)
	return successor
}

// SetUsage sets what the container uses, from now on and for good. Until then it uses more CPU and network as time goes by.
func (c *Container) SetUsage(u Usage) { c.do(func(_ *Engine, c *Container) { c.usage = &u }) }

// maxChecks is how many health checks the engine remembers.
const maxChecks = 5

// SetHealth makes the health checks of a running container come out as "healthy", "unhealthy" or "starting", the last of
// which is how it was after its start. An event tells of it if it was something else before. Of an unhealthy one, as many
// checks failed as its Retries want, an interval apart, the last of them now.
func (c *Container) SetHealth(health string) {
	c.do(func(_ *Engine, c *Container) {
		switch health {
		case "healthy":
			c.pass()
		case "unhealthy":
			c.fail()
		case "starting":
			if c.checked() {
				c.health, c.streak = "starting", 0
			}
		}
	})
}

// Check makes one health check with that result, with all that follows from it: the events of its exec, the failing
// streak, and the health once as many have failed as the check's Retries want.
func (c *Container) Check(exitCode int, output string) {
	c.do(func(e *Engine, c *Container) {
		if !c.checked() {
			return
		}
		e.emitExec(c, exitCode)
		now := e.before(time.Millisecond)
		c.note(check{now.Add(-50 * time.Millisecond), now, exitCode, output})
		if exitCode == 0 {
			c.streak = 0
			c.setHealth("healthy")
		} else if c.streak++; c.streak >= c.spec.Health.Retries {
			c.setHealth("unhealthy")
		}
	})
}

// checked is whether the engine runs the container's health check now.
func (c *Container) checked() bool { return c.spec.Health != nil && c.state == "running" }

// setHealth changes the health and tells of it.
func (c *Container) setHealth(health string) {
	if c.health != health {
		c.health = health
		c.engine.emit(c, "health_status: "+health)
	}
}

// note remembers a check.
func (c *Container) note(checks ...check) {
	all := slices.Concat(c.checks, checks)
	c.checks = all[max(0, len(all)-maxChecks):]
}

// pass is a check that the container passes.
func (c *Container) pass() {
	if !c.checked() {
		return
	}
	c.note(c.checkAt(time.Now().UTC(), true))
	c.streak = 0
	c.setHealth("healthy")
}

// fail has the checks fail that make the container unhealthy. What would lie before its start lies closer together.
func (c *Container) fail() {
	if !c.checked() {
		return
	}
	now := time.Now().UTC()
	h := c.spec.Health
	c.streak = h.Retries
	apart := min(h.Interval, now.Sub(c.started)/time.Duration(c.streak+1))
	n := min(c.streak, maxChecks)
	first := now.Add(-time.Duration(c.streak-1) * apart)
	c.checks = slices.DeleteFunc(slices.Clone(c.checks), func(old check) bool { return !old.Start.Before(first) })
	for i := n - 1; i >= 0; i-- {
		c.note(c.checkAt(now.Add(-time.Duration(i)*apart), false))
	}
	c.setHealth("unhealthy")
}

func (c *Container) checkAt(at time.Time, well bool) check {
	if well {
		return check{at, at.Add(20 * time.Millisecond), 0, "ok"}
	}
	return check{at, at.Add(20 * time.Millisecond), 1, "no answer"}
}

// goOnChecking makes the checks whose time has come since the last one: they fail as long as they have failed before.
func (c *Container) goOnChecking(now time.Time) {
	if c.checked() && len(c.checks) > 0 && c.health != "starting" {
		c.runChecks(c.checks[len(c.checks)-1].Start, now)
	}
}

// runChecks makes a check each interval after a time.
func (c *Container) runChecks(after, now time.Time) {
	interval := c.spec.Health.Interval
	n := int(now.Sub(after) / interval)
	well := c.streak == 0
	for i := max(1, n-maxChecks+1); i <= n; i++ {
		c.note(c.checkAt(after.Add(time.Duration(i)*interval), well))
	}
	switch {
	case n < 1:
	case well:
		c.setHealth("healthy")
	default:
		c.streak += n
	}
}
