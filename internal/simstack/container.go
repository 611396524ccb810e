package simstack

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
)

// ContainerSpec is what a container is created from.
type ContainerSpec struct {
	Name, Image string
	// Service is the compose service that the container belongs to. A container without one has no labels.
	Service string
	// DependsOn is the compose label of that name, such as "irc:service_started:false,db:service_healthy:true".
	DependsOn string
	// NetworkOf is a compose service. The new container shares the network of the service's present container. The default is a
	// network of the project, or of the engine.
	NetworkOf string
	// Restart is the restart policy: no (the default), always, unless-stopped, on-failure or on-failure:N.
	Restart string
	// MemoryLimit is in bytes; 0 is none. WorkingSet is what the container uses of it, without its page cache.
	MemoryLimit, WorkingSet int64
	// Health is whether the container has a health check.
	Health bool

	// replaces is the name of the container that this one replaced. revision counts deploys without a change.
	replaces string
	revision int
}

const (
	composeProject = "chat"
	checkInterval  = 30 * time.Second
	checkTimeout   = 5 * time.Second
	// checkRetries is how many failures in a row make a container unhealthy.
	checkRetries = 3
	// maxChecks is how many health checks the engine remembers.
	maxChecks = 5
)

// labels returns the labels of compose. The config hash differs if compose would make another container.
func (s *ContainerSpec) labels() map[string]string {
	if s.Service == "" {
		return map[string]string{}
	}
	hash := sha256.Sum256(fmt.Append(nil, s.Service, s.Image, s.DependsOn, s.NetworkOf, s.Restart, s.MemoryLimit, s.Health, s.revision))
	labels := map[string]string{
		"com.docker.compose.project":          composeProject,
		"com.docker.compose.service":          s.Service,
		"com.docker.compose.container-number": "1",
		"com.docker.compose.oneoff":           "False",
		"com.docker.compose.config-hash":      hex.EncodeToString(hash[:]),
		"com.docker.compose.depends_on":       s.DependsOn,
	}
	if s.replaces != "" {
		labels["com.docker.compose.replace"] = s.replaces
	}
	return labels
}

// policy splits a restart policy into its name and the number of its retries.
func (s *ContainerSpec) policy() (name string, retries int) {
	name, count, _ := strings.Cut(s.Restart, ":")
	retries, _ = strconv.Atoi(count)
	return name, retries
}

// Container is one container of an engine. A new container with the same name is another Container. A method that is impossible in the
// container's state, such as pausing a stopped one, changes nothing.
type Container struct {
	engine  *Engine
	id      string
	spec    ContainerSpec
	labels  map[string]string // never changed once made
	listed  []byte            // the constant part of its row in a list
	network string            // the network mode

	name    string
	created time.Time
	removed bool
	run
	// health has an empty status without a check. Its log is never changed in place.
	health container.Health

	workingSet int64
	extraCPU   time.Duration
}

// run is the current or last run of a container.
type run struct {
	state             string // the engine's word, such as "running"
	started, finished time.Time
	pid, exitCode     int
	oomKilled         bool
	restarts          int  // by the policy, since the last start by hand
	stoppedByHand     bool // so unless-stopped does not restart it
}

// alive reports whether the container has processes.
func (r *run) alive() bool { return r.state == "running" || r.state == "paused" }

// ID returns the container's id: 64 hexadecimal digits.
func (c *Container) ID() string { return c.id }

// RestartCount returns the engine's count of restarts by policy. Every start by hand sets it to 0.
func (c *Container) RestartCount() int { return c.now().restarts }

// now returns the run as it is now.
func (c *Container) now() run {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	return c.run
}

// do changes a container that was not removed.
func (c *Container) do(change func(*Engine, *Container)) {
	c.engine.mu.Lock()
	defer c.engine.mu.Unlock()
	if !c.removed {
		change(c.engine, c)
	}
}

// Start starts a stopped container, as docker start does. Its restart count becomes 0. With a health check, its health becomes starting.
func (c *Container) Start() { c.do((*Engine).startByHand) }

// Stop stops the container, as docker stop does; it ends with code 0. There is no die event
// if the container was waiting for its restart.
func (c *Container) Stop() { c.do(func(e *Engine, c *Container) { e.stopContainer(c, true) }) }

// Restart restarts the container, as docker restart does. Its restart count becomes 0.
func (c *Container) Restart() { c.do((*Engine).restartContainer) }

// Die makes the container exit by itself with a code. If its restart policy applies, its state becomes restarting, and the restart
// count rises before the event.
func (c *Container) Die(code int) { c.do(func(e *Engine, c *Container) { e.exit(c, code) }) }

// Crash is Die, followed by the restart if the restart policy applies.
func (c *Container) Crash(code int) {
	c.do(func(e *Engine, c *Container) {
		e.exit(c, code)
		e.revive(c)
	})
}

// Revive starts a container that waits for its restart by the restart policy.
func (c *Container) Revive() { c.do((*Engine).revive) }

// OOM makes the kernel kill the container because memory is short. It dies with code 137. See Die for what follows.
func (c *Container) OOM() { c.do((*Engine).oom) }

// OOMChild makes the kernel kill a process in the container other than its first, so that the container runs on.
func (c *Container) OOMChild() { c.do((*Engine).oomChild) }

// Pause pauses the container. The engine calls it unhealthy from then on.
func (c *Container) Pause() { c.do((*Engine).pause) }

// Unpause lets a paused container run again. It stays unhealthy until its next health check.
func (c *Container) Unpause() { c.do((*Engine).unpause) }

// Remove removes the container, as docker rm -f does: a running one is killed first.
func (c *Container) Remove() { c.do((*Engine).removeContainer) }

// Recreate replaces the container as compose does: it creates the new one, stops and removes this one, renames and
// starts the new one. change edits the spec; if it is nil, only the config hash changes. Recreate does nothing to a removed container.
func (c *Container) Recreate(change func(*ContainerSpec)) {
	c.do(func(e *Engine, c *Container) { e.recreate(c, change) })
}

// SetUsage sets the working set in bytes, and adds to the container's processor time.
func (c *Container) SetUsage(workingSet int64, cpu time.Duration) {
	c.do(func(_ *Engine, c *Container) { c.workingSet, c.extraCPU = workingSet, c.extraCPU+cpu })
}

// SetHealth makes a running container "healthy" or "unhealthy". A change emits an event. For "unhealthy", three checks fail, an
// interval apart, the last of them now.
func (c *Container) SetHealth(status string) {
	c.do(func(_ *Engine, c *Container) {
		if status == "healthy" {
			c.passCheck()
		} else {
			c.failChecks()
		}
	})
}

// The callers of all functions below hold the engine's lock.

func (e *Engine) startByHand(c *Container) {
	if c.alive() || c.state == "restarting" {
		return
	}
	c.restarts, c.stoppedByHand = 0, false
	e.start(c)
}

// revive starts a container that waits for its restart.
func (e *Engine) revive(c *Container) {
	if c.state == "restarting" {
		e.start(c)
	}
}

func (e *Engine) start(c *Container) {
	c.started = e.log.before(2 * time.Millisecond)
	c.state, c.exitCode, c.oomKilled, c.pid = "running", 0, false, 1000+e.next()
	if c.spec.Health {
		c.health.Status, c.health.FailingStreak = "starting", 0
	}
	e.emit(c, "start")
}

func (e *Engine) stopContainer(c *Container, byHand bool) {
	switch {
	case c.alive():
		e.emit(c, "kill", "signal", "15")
		e.end(c, 0, false)
	case c.state == "restarting":
		c.state = "exited"
	default:
		return
	}
	c.stoppedByHand = c.stoppedByHand || byHand
	e.emit(c, "stop")
}

func (e *Engine) restartContainer(c *Container) {
	e.stopContainer(c, true)
	e.startByHand(c)
	e.emit(c, "restart")
}

// exit ends a container that nobody stopped.
func (e *Engine) exit(c *Container, code int) {
	if c.alive() {
		e.end(c, code, c.policyRestarts(false, code))
	}
}

// end ends a running container.
func (e *Engine) end(c *Container, code int, again bool) {
	c.state, c.exitCode, c.pid = "exited", code, 0
	c.finished = e.log.before(30 * time.Millisecond)
	if c.finished.Before(c.started) {
		c.finished = c.started
	}
	if again {
		c.restarts++
		c.state = "restarting"
	}
	c.markUnchecked()
	e.emit(c, "die", "exitCode", strconv.Itoa(code))
}

// policyRestarts reports whether the restart policy starts a container that ended with this code.
func (c *Container) policyRestarts(byHand bool, code int) bool {
	switch name, retries := c.spec.policy(); name {
	case "always":
		return true
	case "unless-stopped":
		return !byHand
	case "on-failure":
		return code != 0 && (retries == 0 || c.restarts < retries)
	default:
		return false
	}
}

func (e *Engine) oom(c *Container) {
	if c.alive() {
		c.oomKilled = true
		e.emit(c, "oom")
		e.exit(c, 137)
	}
}

func (e *Engine) oomChild(c *Container) {
	if c.alive() {
		e.emit(c, "oom")
	}
}

func (e *Engine) pause(c *Container) {
	if c.state == "running" {
		c.state = "paused"
		c.markUnchecked()
		e.emit(c, "pause")
	}
}

func (e *Engine) unpause(c *Container) {
	if c.state == "paused" {
		c.state = "running"
		e.emit(c, "unpause")
	}
}

func (e *Engine) removeContainer(c *Container) {
	switch {
	case c.alive():
		e.emit(c, "kill", "signal", "9")
		e.end(c, 137, false)
	case c.state == "restarting":
		c.state = "exited"
	}
	e.containers = slices.DeleteFunc(slices.Clone(e.containers), func(other *Container) bool { return other == c })
	delete(e.known, c.id)
	delete(e.known, c.name)
	c.removed = true
	e.emit(c, "destroy")
}

func (e *Engine) recreate(c *Container, change func(*ContainerSpec)) *Container {
	name, spec := c.name, c.spec
	if change == nil {
		spec.revision++
	} else {
		change(&spec)
	}
	spec.replaces, spec.Name = name, c.id[:12]+"_"+name
	successor := e.create(spec)
	e.stopContainer(c, true)
	e.removeContainer(c)
	delete(e.known, successor.name)
	successor.name, e.known[name] = name, successor
	e.emit(successor, "rename", "oldName", "/"+spec.Name)
	e.startByHand(successor)
	return successor
}

// markUnchecked makes a container unhealthy, as a real engine does while it does not run the health check.
func (c *Container) markUnchecked() {
	if c.spec.Health {
		c.health.Status = "unhealthy"
	}
}

// checked reports whether the engine runs the container's health check now.
func (c *Container) checked() bool { return c.spec.Health && c.state == "running" }

// setHealth changes the health and emits its event.
func (c *Container) setHealth(status string) {
	if c.health.Status != status {
		c.health.Status = status
		c.engine.emit(c, "health_status: "+status)
	}
}

func (c *Container) recordCheck(at time.Time, passed bool) {
	result := &container.HealthcheckResult{Start: at, End: at.Add(20 * time.Millisecond), Output: "ok"}
	if !passed {
		result.ExitCode, result.Output = 1, "no answer"
	}
	log := append(slices.Clone(c.health.Log), result)
	c.health.Log = log[max(0, len(log)-maxChecks):]
}

func (c *Container) passCheck() {
	if c.checked() {
		c.recordCheck(time.Now().UTC(), true)
		c.health.FailingStreak = 0
		c.setHealth("healthy")
	}
}

// failChecks records the failed checks that make the container unhealthy. A young container gets them closer together, so that all
// are after its start.
func (c *Container) failChecks() {
	if !c.checked() {
		return
	}
	now := time.Now().UTC()
	c.health.FailingStreak = checkRetries
	apart := min(checkInterval, now.Sub(c.started)/(checkRetries+1))
	first := now.Add(-(checkRetries - 1) * apart)
	c.health.Log = slices.DeleteFunc(slices.Clone(c.health.Log),
		func(old *container.HealthcheckResult) bool { return !old.Start.Before(first) })
	for i := range checkRetries {
		c.recordCheck(first.Add(time.Duration(i)*apart), false)
	}
	c.setHealth("unhealthy")
}

// keepChecking records the checks that are due since the last one, with the last one's result.
func (c *Container) keepChecking(now time.Time) {
	if log := c.health.Log; c.checked() && len(log) > 0 && c.health.Status != "starting" {
		c.check(log[len(log)-1].Start, now)
	}
}

// check records one check per interval from after to now.
func (c *Container) check(after, now time.Time) {
	n := int(now.Sub(after) / checkInterval)
	passes := c.health.FailingStreak == 0
	for i := max(1, n-maxChecks+1); i <= n; i++ {
		c.recordCheck(after.Add(time.Duration(i)*checkInterval), passes)
	}
	switch {
	case n < 1:
	case passes:
		c.setHealth("healthy")
	default:
		c.health.FailingStreak += n
	}
}
