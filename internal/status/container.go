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
)

const (
	// maxContainers bounds how many containers a report tells of, the worst first.
	maxContainers = 2000
	// vanishedFor is how long containers are told of whose engine does not answer.
	vanishedFor = time.Hour
)

// readFleet reads what the engines' families say. Of a target that is not up nothing is known.
func (m *memory) readFleet(in *Input, targets []observed) *fleet {
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
		for p, f := range readFacts(t.families) {
			f.maintained = excuse(in.Maintenance, config.MaintenanceContainer, p.name, "") != ""
			all.facts[p] = f
			if m.containers[p] == nil {
				m.containers[p] = m.seenFirst(p, t.Target)
			}
			m.containers[p].target = t.Target
		}
	}
	all.findWaiting()
	all.findExcuses()
	return all
}

// reportContainers reports all containers, the worst first.
func (m *memory) reportContainers(in *Input, all *fleet, targets []observed, now time.Time) (list []Container, left int) {
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
		past.last = m.reportContainer(in, p, f, past, now)
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

// reportContainer reports one container.
func (m *memory) reportContainer(in *Input, p place, f *facts, past *pastContainer, now time.Time) Container {
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
	past.updateSince(&c, f, now)
	past.updateBlame(in.Alerts, f, now)
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
		c.Text = healthyText(f)
		if f.state == "" {
			c.Level = Unknown
		}
	}
	if c.Maintenance != "" && c.Level > Maintenance {
		c.Level = Maintenance
	}
	m.addContainerValues(&c, f, past, now)
	m.noteContainerState(&c, past, restarted, now)
	return c
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
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it ended: "+logs, "waits for a restart that does not come%s", exitText(f, past, now))
	case f.state == restarting:
		add("state", Warning, "Read why it ends: "+logs, "ends and is restarted by its policy%s%s", exitText(f, past, now), because)
	case f.down() && f.state == created:
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it did not start, then start it: docker inspect --format '{{.State.Error}}' "+name,
			"was made and does not run%s", because)
	case f.down():
		add("state", after(now, past.stoppedSince, a.ContainerDown.Critical.For), "Read why it ended, then start it: "+logs, "does not run: %s%s%s", f.state, exitText(f, past, now), because)
	}
	if f.health == unhealthy {
		long := now.Sub(past.badSince) > a.ContainerUnhealthy.Critical.After.Std()
		add("health", criticalIf(long && !past.justExcused(a, now)), "See what the check says: docker inspect --format '{{json .State.Health}}' "+name, "its health check fails%s", because)
		list[len(list)-1].since = f.unhealthySince
	}
	n, limits, window := past.restarts.within(), a.ContainerRestarts, a.ContainerRestarts.Window.Std()
	restarts := func(level Level, hint string) {
		add("restarts", level, hint+logs, "restarted %s within %s, %s", times(n), ago(window), counts(a, &past.restarts, now))
		list[len(list)-1].first = past.restarts.increases[0].at
	}
	switch {
	case n > float64(limits.Critical.Over):
		restarts(Critical, "Read why it ends: ")
	case n > float64(limits.Warning.Over):
		restarts(Warning, "Unless somebody did it, read why it ended: ")
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

// exitText says how a container ended.
func exitText(f *facts, past *pastContainer, now time.Time) string {
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

// healthyText describes a container with which nothing is wrong.
func healthyText(f *facts) string {
	switch {
	case f.state == "":
		return "is gone; unless it comes back, it counts as missing or removed in a moment"
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

// addContainerValues adds the numbers and charts of a container.
func (m *memory) addContainerValues(c *Container, f *facts, past *pastContainer, now time.Time) {
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

// noteContainerState notes how the container is now beside how it was.
func (m *memory) noteContainerState(c *Container, past *pastContainer, restarted float64, now time.Time) {
	state := c.stateText()
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
