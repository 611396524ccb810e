package status

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
)

const (
	// maxContainers bounds how many containers a report tells of, the worst first.
	maxContainers = 2000
	// vanishedFor is how long containers are told of whose engine does not answer.
	vanishedFor = time.Hour
	// idleAfter is how long a container's CPU time may stand still before it counts as idle.
	idleAfter = 90 * time.Second
)

// The states of a container that matter here.
const (
	running    = "running"
	restarting = "restarting"
	missing    = "missing"
	created    = "created"
	unhealthy  = "unhealthy"
	starting   = "starting"
)

// place names a container.
type place struct{ host, name string }

// facts are what the page of metrics says of a container.
type facts struct {
	state, health, role string
	dependsOn           []string
	expected, stopped   bool // stopped: an exit code is known
	exitCode            float64
	restarts, oom       float64
	started             time.Time
	unhealthySince      time.Time
	usage
	excuses
}

// usage is what a container takes of its machine.
type usage struct {
	memory, limit, cpu float64
	measured, timed    bool // memory and cpu are known
}

// excuses are why a container need not serve.
type excuses struct {
	maintained bool
	// excuse names the container whose being down excuses that this one does not serve, "" where nothing does.
	excuse string
	// waitsFor names the container that must become healthy before this one is started, "" where there is none.
	waitsFor string
}

// down is what chatstack:container_down is in the alert rules.
func (f *facts) down() bool { return f.expected && f.state != running && f.state != "" }

// pastContainer is what is known of a container's past.
type pastContainer struct {
	remembered
	target   string
	seen     time.Time
	restarts counter
	kills    counter // for want of memory
	killed   time.Time
	cpu      cpuMeter
	last     Container
	badSince time.Time // unhealthy
	// stoppedSince and missingSince are since when there has been no excuse either; excused is when there was one last.
	stoppedSince, missingSince, excused time.Time
	// present is when a container that is missing was there last, zero where the exporter has never seen it.
	present time.Time
}

// fleet are the containers of one moment.
type fleet struct {
	facts   map[place]*facts
	engines int
}

// chain is how many containers that are down may stand between one and the cause of it, as in the alert rules.
const chain = 3

// findWaiting finds what containers wait for that were made and are not expected to run yet.
func (f *fleet) findWaiting() {
	for more := true; more; {
		more = false
		for p, c := range f.facts {
			if c.state != created || c.expected || c.waitsFor != "" {
				continue
			}
			for _, name := range c.dependsOn {
				if on := f.facts[place{p.host, name}]; on != nil && (on.waitsFor != "" || on.state == running && on.health == starting) {
					c.waitsFor, more = name, true
					break
				}
			}
		}
	}
}

// findExcuses finds what excuses each container. A cause is what is down though nothing that it depends on is; of
// containers that depend on each other none is, so that none excuses another.
func (f *fleet) findExcuses() {
	told := map[place]bool{}
	for p, c := range f.facts {
		told[p] = c.down() && !slices.ContainsFunc(c.dependsOn, func(name string) bool { return f.isDown(place{p.host, name}) })
	}
	for range chain {
		found := map[place]string{}
		for p, c := range f.facts {
			for _, name := range c.dependsOn {
				if on := (place{p.host, name}); c.excuse == "" && f.isDown(on) && (told[on] || f.facts[on].excuse != "") {
					found[p] = name
					break
				}
			}
		}
		for p, name := range found {
			f.facts[p].excuse = name
		}
	}
}

func (f *fleet) isDown(p place) bool {
	c := f.facts[p]
	return c != nil && c.down()
}

// serving is what chatstack:container_serving is in the alert rules.
func (f *facts) serving() bool { return f.state == running && !f.excused() }

// excused is what chatstack:container_excused is in the alert rules, or that the container waits for another one.
func (e *excuses) excused() bool { return e.maintained || e.excuse != "" || e.waitsFor != "" }

// cause says why the container of a service explains that the service is down, "" where it does not: as long as one of
// that name serves, on whatever engine, the service is to blame.
func (f *fleet) cause(container string) string {
	if container == "" {
		return ""
	}
	text, host := "", ""
	for p, c := range f.facts {
		switch {
		case p.name != container:
			continue
		case c.serving():
			return ""
		case text != "" && p.host > host:
			continue
		case c.down():
			text, host = fmt.Sprintf("its container %s is %s", container, stateWord(c.state)), p.host
		case c.waitsFor != "":
			text, host = fmt.Sprintf("its container %s waits for %s to become healthy", container, c.waitsFor), p.host
		case c.excuse != "":
			text, host = fmt.Sprintf("its container %s depends on %s, which does not run", container, c.excuse), p.host
		}
	}
	return text
}

func stateWord(state string) string {
	if state == restarting {
		return "being restarted"
	}
	return state
}

// containerFamilies are those that facts are made of.
var containerFamilies = map[string]func(*facts, *exposition.Line){
	"chatstack_container_state": func(f *facts, s *exposition.Line) {
		if s.Value == 1 {
			f.state = s.Label("state")
		}
	},
	"chatstack_container_health": func(f *facts, s *exposition.Line) {
		if s.Value == 1 {
			f.health = s.Label("health")
		}
	},
	"chatstack_container_info":               func(f *facts, s *exposition.Line) { f.role = s.Label("role") },
	"chatstack_container_expected":           func(f *facts, s *exposition.Line) { f.expected = s.Value == 1 },
	"chatstack_container_dependency":         func(f *facts, s *exposition.Line) { f.dependsOn = append(f.dependsOn, s.Label("depends_on")) },
	"chatstack_container_exit_code":          func(f *facts, s *exposition.Line) { f.exitCode, f.stopped = s.Value, true },
	"chatstack_container_restarts_total":     func(f *facts, s *exposition.Line) { f.restarts = s.Value },
	"chatstack_container_oom_events_total":   func(f *facts, s *exposition.Line) { f.oom = s.Value },
	"chatstack_container_start_time_seconds": func(f *facts, s *exposition.Line) { f.started = unix(s.Value) },
	"chatstack_container_memory_limit_bytes": func(f *facts, s *exposition.Line) { f.limit = s.Value },
	"chatstack_container_cpu_seconds_total":  func(f *facts, s *exposition.Line) { f.cpu, f.timed = s.Value, true },
	"chatstack_container_memory_working_set_bytes": func(f *facts, s *exposition.Line) {
		f.memory, f.measured = s.Value, true
	},
	"chatstack_container_unhealthy_since_timestamp_seconds": func(f *facts, s *exposition.Line) { f.unhealthySince = unix(s.Value) },
}

func unix(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)).UTC() }

// fleet reads what the engines' families say. Of a target that is not up nothing is known.
func (m *memory) fleet(in *Input, targets []observed) *fleet {
	all := &fleet{facts: map[place]*facts{}}
	for i := range targets {
		t := &targets[i]
		if t.Kind != "docker" {
			continue
		}
		all.engines++
		if !t.Known || !t.Up {
			continue
		}
		for name, read := range containerFamilies {
			samples := t.families.of(name)
			for j := range samples {
				p := place{samples[j].Label("docker_host"), samples[j].Label("container")}
				f := all.facts[p]
				if f == nil {
					f = &facts{health: "none"}
					f.maintained = excuse(in.Maintenance, config.MaintenanceContainer, p.name, "") != ""
					all.facts[p] = f
					if m.containers[p] == nil {
						m.containers[p] = m.seenFirst(p, t.Target)
					}
				}
				m.containers[p].target = t.Target
				read(f, &samples[j])
			}
		}
	}
	all.findWaiting()
	all.findExcuses()
	return all
}

// tellContainers tells of all containers, the worst first.
func (m *memory) tellContainers(in *Input, all *fleet, targets []observed, now time.Time) (list []Container, left int) {
	answering := map[string]bool{}
	for i := range targets {
		answering[targets[i].Target] = targets[i].Known && targets[i].Up
	}
	list = make([]Container, 0, len(m.containers))
	for p, past := range m.containers {
		f := all.facts[p]
		if f == nil {
			answers, configured := answering[past.target]
			if answers || !configured || now.Sub(past.seen) > vanishedFor {
				if answers && past.last.State != missing {
					m.gone[p] = past.seen
				}
				delete(m.containers, p)
				continue
			}
			list = append(list, past.unknown(now))
			continue
		}
		past.seen = now
		past.last = m.container(in, p, f, past, now)
		list = append(list, past.last)
	}
	slices.SortFunc(list, func(a, b Container) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), a.loss()-b.loss(), strings.Compare(a.DockerHost, b.DockerHost), strings.Compare(a.Name, b.Name))
	})
	left = max(0, len(list)-maxContainers)
	return list[:len(list)-left], left
}

// seenFirst is the past of a container that was not there a moment ago: it may have been there before, which tells since
// when it is missing.
func (m *memory) seenFirst(p place, engine string) *pastContainer {
	past := &pastContainer{remembered: remembered{atTheStart: true}}
	known := m.services[engine]
	past.begun.looked = known != nil && known.state == up
	if gone, ok := m.gone[p]; ok {
		past.present, past.atTheStart, past.begun.looked = gone, false, true
		delete(m.gone, p)
	}
	return past
}

// unknown tells of a container whose engine does not answer.
func (p *pastContainer) unknown(now time.Time) Container {
	c := p.last
	c.Level, c.Since, c.Hint = Unknown, p.seen, ""
	c.ProblemSince, c.ProblemSinceAtLeast = p.seen, false
	c.Text = fmt.Sprintf("its engine has not answered for %s; before, it was %s", ago(now.Sub(p.seen)), p.state)
	c.State, c.Health, c.Values = "unknown", "none", []Value{}
	if c.Maintenance != "" {
		c.Level = Maintenance
	}
	return c
}

// container tells of one container.
func (m *memory) container(in *Input, p place, f *facts, past *pastContainer, now time.Time) Container {
	c := Container{
		Name: p.name, DockerHost: p.host, Role: f.role, State: f.state, Health: f.health, Values: []Value{}, Charts: []string{},
		Maintenance: excuse(in.Maintenance, config.MaintenanceContainer, p.name, ""),
	}
	window := in.Alerts.ContainerRestarts.Window.Std()
	restarted := past.restarts.observe(now, f.restarts, window)
	if past.kills.observe(now, f.oom, span) > 0 {
		past.killed = now
	}
	if f.state != missing {
		past.present = now
	}
	past.began(&c, f, now)
	past.blame(in.Alerts, f, now)
	problems := containerProblems(in.Alerts, p, f, past, now)
	worst := -1
	for i, problem := range problems {
		if problem.level > c.Level {
			worst, c.Level, c.Text, c.Hint = i, problem.level, problem.text, problem.hint
		}
	}
	for i, problem := range problems {
		if i != worst {
			c.Text += "; " + problem.text
		}
	}
	begun := first(problems, past.begun.of(problems, now), c.Level)
	c.ProblemSince, c.ProblemSinceAtLeast = begun.at, begun.atLeast
	if len(problems) == 0 {
		c.Text = calm(f)
	}
	if c.Maintenance != "" && c.Level > Maintenance {
		c.Level = Maintenance
	}
	m.containerValues(&c, f, past, now)
	m.containerTransitions(&c, past, restarted, now)
	return c
}

// began finds out since when the container has been what it is.
func (p *pastContainer) began(c *Container, f *facts, now time.Time) {
	track(&p.badSince, f.health == unhealthy, now)
	if f.health == unhealthy && !f.unhealthySince.IsZero() {
		p.badSince = f.unhealthySince
	}
	switch state := c.words(); {
	case p.state == "":
		p.since = now
	case p.state != state:
		p.since, p.atTheStart = now, false
	}
	switch {
	case f.state == missing && !p.present.IsZero():
		c.Since = p.present
	case f.health == unhealthy:
		c.Since = p.badSince
	case f.state == running && !f.started.IsZero():
		c.Since = f.started
	case !p.atTheStart:
		c.Since = p.since
	}
}

// blame finds out since when the container has been down of itself, as the alert rules count it. It takes a container a
// while to recover from the failure of another one, and what it was restarted for meanwhile is not its own fault.
func (p *pastContainer) blame(a config.Alerts, f *facts, now time.Time) {
	if f.excused() {
		p.excused = now
		p.restarts.forgive(now.Add(-a.Interval.Std()))
	} else if p.justExcused(a, now) {
		p.restarts.forgive(now)
	}
	comesBack := f.state == restarting && (p.restarts.within() > 0 || p.justExcused(a, now))
	track(&p.stoppedSince, f.down() && f.state != missing && !comesBack && !f.excused(), now)
	track(&p.missingSince, f.down() && f.state == missing && !f.excused(), now)
}

// justExcused reports whether the container has an excuse, or had one a moment ago.
func (p *pastContainer) justExcused(a config.Alerts, now time.Time) bool {
	return !p.excused.IsZero() && now.Sub(p.excused) < a.Lookback.Std()
}

// track keeps since when a condition holds.
func track(since *time.Time, is bool, now time.Time) {
	switch {
	case !is:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// words is the state with the health where that tells more.
func (c *Container) words() string {
	if c.State == running && c.Health != "none" {
		return c.State + ", " + c.Health
	}
	return c.State
}

// containerProblems are what is wrong with a container, by the thresholds of the alert rules.
func containerProblems(a config.Alerts, p place, f *facts, past *pastContainer, now time.Time) []problem {
	var list []problem
	name := p.name
	add := func(what string, level Level, hint, format string, args ...any) {
		list = append(list, problem{what: what, level: level, text: fmt.Sprintf(format, args...), hint: hint})
	}
	because := ""
	if f.excuse != "" {
		because = ", and " + f.excuse + ", which it depends on, does not run either"
	}
	logs := "docker logs --tail 50 " + name
	forget := fmt.Sprintf("curl -X DELETE http://EXPORTER:PORT/api/v1/containers/%s/%s (requires --web.enable-lifecycle)", url.PathEscape(p.host), url.PathEscape(name))
	switch {
	case f.state == missing && f.expected:
		add("state", after(now, past.missingSince, a.ContainerMissing.For), "Make it again. If it is not to come back, take it out of exporter.yaml where that names it, and have it forgotten: "+forget+". A deploy that takes longer than missing_after looks the same.",
			"does not exist any more%s", because)
		list[len(list)-1].first = past.present
	case f.state == missing:
		add("state", Warning, "If that was on purpose, there is nothing to do: it is forgotten an hour after the removal, or at once: "+forget+". Else make it again.",
			"was removed")
		list[len(list)-1].first = past.present
	case f.state == restarting && !past.stoppedSince.IsZero():
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it ended: "+logs, "waits for a restart that does not come%s", exit(f, past, now))
	case f.state == restarting:
		add("state", Warning, "Read why it ends: "+logs, "ends and is restarted by its policy%s%s", exit(f, past, now), because)
	case f.down() && f.state == created:
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it did not start, then start it: docker inspect --format '{{.State.Error}}' "+name,
			"was made and does not run%s", because)
	case f.down():
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it ended, then start it: "+logs, "does not run: %s%s%s", f.state, exit(f, past, now), because)
	}
	if f.health == unhealthy {
		level := Warning
		if now.Sub(past.badSince) > a.ContainerUnhealthy.Critical.After.Std() && !past.justExcused(a, now) {
			level = Critical
		}
		add("health", level, "See what the check says: docker inspect --format '{{json .State.Health}}' "+name, "its health check fails%s", because)
		list[len(list)-1].since = f.unhealthySince
	}
	switch n, window := past.restarts.within(), a.ContainerRestarts.Window.Std(); {
	case n > float64(a.ContainerRestarts.Critical.Over):
		add("restarts", Critical, "Read why it ends: "+logs, "restarted %s within %s, %s", times(n), ago(window), counts(a, &past.restarts, now))
	case n > float64(a.ContainerRestarts.Warning.Over):
		add("restarts", Warning, "Unless somebody did it, read why it ended: "+logs, "restarted %s within %s, %s", times(n), ago(window), counts(a, &past.restarts, now))
	}
	if n := len(list); n > 0 && list[n-1].what == "restarts" {
		list[n-1].first = past.restarts.increases[0].at
	}
	if f.measured {
		switch limits := a.ContainerMemory; {
		case f.memory > float64(limits.Critical.Over):
			add("memory", Critical, "Find out what takes it, or give the container a limit.", "uses %s of memory, over %s", bytesText(f.memory), bytesText(float64(limits.Critical.Over)))
		case f.role == "xmpp" && f.memory > float64(limits.Warning.Over):
			add("memory", Warning, "Watch whether it grows on; a restart of the XMPP server logs everybody out.", "uses %s of memory, over %s", bytesText(f.memory), bytesText(float64(limits.Warning.Over)))
		}
	}
	return list
}

// counts says until when restarts are critical, where they are, and until when they count at all: of a loop that is over,
// people are told for as long as its window is.
func counts(a config.Alerts, restarts *counter, now time.Time) string {
	limits := a.ContainerRestarts
	critical := restarts.until(float64(limits.Critical.Over), limits.Window.Std())
	end := soon(now, restarts.until(float64(limits.Warning.Over), limits.Window.Std()))
	if critical.IsZero() || soon(now, critical) == end {
		return "which counts until " + end
	}
	return "which is critical until " + soon(now, critical) + " and counts until " + end
}

// after is warning until something has lasted so long that it is critical. What does not last has no since.
func after(now, since time.Time, critical config.Duration) Level {
	if !since.IsZero() && now.Sub(since) >= critical.Std() {
		return Critical
	}
	return Warning
}

func times(n float64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%.0f times", n)
}

// exit says how a container ended.
func exit(f *facts, past *pastContainer, now time.Time) string {
	if !f.stopped {
		return ""
	}
	text := fmt.Sprintf(" with exit code %.0f", f.exitCode)
	switch {
	case !past.killed.IsZero() && now.Sub(past.killed) < vanishedFor:
		text += ", killed for want of memory"
	case f.exitCode == 137:
		text += ", killed"
	case f.exitCode == 143:
		text += ", stopped by a signal"
	}
	return text
}

// calm tells of a container with which nothing is wrong.
func calm(f *facts) string {
	switch {
	case f.state == running && f.health == "healthy":
		return "runs, and its health check passes"
	case f.state == running && f.health == starting:
		return "runs; its health check has not passed yet"
	case f.state == running:
		return "runs; it has no health check"
	case f.waitsFor != "":
		return "waits for " + f.waitsFor + " to become healthy"
	case f.state == created:
		return "was made and never started"
	case f.stopped:
		return fmt.Sprintf("ended with exit code %.0f, and is not expected to run", f.exitCode)
	default:
		return "is " + stateWord(f.state) + ", and is not expected to run"
	}
}

// containerValues adds the numbers and charts of a container.
func (m *memory) containerValues(c *Container, f *facts, past *pastContainer, now time.Time) {
	prefix := "container/" + c.DockerHost + "/" + c.Name + "/"
	up := 0.0
	if f.state == running && f.health != unhealthy {
		up = 1
	}
	c.Charts = m.chart(c.Charts, prefix+"up", c.Name+": runs and is not unhealthy", "", least, now, up)
	if f.measured {
		c.Values = append(c.Values, newValue("memory", f.memory, "bytes"))
		if f.limit > 0 {
			c.Values = append(c.Values, newValue("of its limit", f.memory/f.limit, "ratio"))
		}
		c.Charts = m.chart(c.Charts, prefix+"memory", c.Name+": memory", "bytes", most, now, f.memory)
	}
	if rate, ok := past.cpu.observe(f.usage, now); ok {
		c.Values = append(c.Values, newValue("CPU", rate, "ratio"))
		c.Charts = m.chart(c.Charts, prefix+"cpu", c.Name+": CPU", "ratio", most, now, rate)
	}
	if n := past.restarts.within(); n > 0 {
		c.Values = append(c.Values, newValue("restarts lately", n, ""))
	}
}

// cpuMeter makes a rate of a container's CPU time.
type cpuMeter struct {
	last  float64 // CPU time in seconds
	at    time.Time
	rate  float64 // of one core
	known bool
}

// observe returns how much of a core the container uses; false until two readings of it are known.
func (m *cpuMeter) observe(u usage, now time.Time) (float64, bool) {
	switch {
	case !u.timed:
		m.at, m.known = time.Time{}, false
	case m.at.IsZero() || u.cpu < m.last:
		m.last, m.at, m.known = u.cpu, now, false
	case u.cpu > m.last:
		if took := now.Sub(m.at).Seconds(); took >= 1 {
			m.rate, m.known = (u.cpu-m.last)/took, true
			m.last, m.at = u.cpu, now
		}
	case now.Sub(m.at) > idleAfter:
		m.rate, m.known = 0, true
	}
	return m.rate, m.known
}

// containerTransitions notes how the container is now beside how it was.
func (m *memory) containerTransitions(c *Container, past *pastContainer, restarted float64, now time.Time) {
	state := c.words()
	t := Transition{Time: now, Kind: "container", Name: c.Name, DockerHost: c.DockerHost, From: past.state, To: state, Level: c.Level, Text: c.Text}
	switch {
	case past.state == "": // seen for the first time
	case restarted > 0:
		t.To, t.Text, t.Count = "restarted", "now "+state, int(min(restarted, math.MaxInt32))
		m.transitions.note(t)
	case past.state != state:
		m.transitions.note(t)
	}
	past.state = state
}
