package status

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/poll"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

const created = "created"

const (
	// maxContainers limits the containers in a report, the worst first.
	maxContainers = 2000
	// maxUnseen is how long a report keeps containers whose engine does not answer.
	maxUnseen = time.Hour
)

// place names a container.
type place struct{ host, name string }

func (p place) subject() health.Subject { return health.ContainerSubject(p.host, p.name) }

// fleet is all containers in one snapshot.
type fleet struct {
	containers map[place]*health.Container
	engines    int
}

// readFleet collects the containers of the engines. An engine that is not up contributes none.
func (m *memory) readFleet(targets []poll.Status) *fleet {
	all := &fleet{containers: map[place]*health.Container{}}
	for i := range targets {
		t := &targets[i]
		if t.Engine == nil {
			continue
		}
		all.engines++
		if !t.Known || !t.Up {
			continue
		}
		for _, given := range slices.Concat(t.Engine.Containers, t.Engine.Disappeared) {
			given.Host, given.Name, given.Role = printableName(given.Host), printableName(given.Name), printableName(given.Role)
			p := place{given.Host, given.Name}
			all.containers[p] = &given
			if m.containers[p] == nil {
				m.containers[p] = &pastContainer{}
			}
			m.containers[p].target = t.Target
		}
	}
	return all
}

// containerOfRole returns the name of the only container with a role, "" if there are none or several.
func (f *fleet) containerOfRole(role string) string {
	name := ""
	for p, c := range f.containers {
		switch {
		case role == "" || c.Role != role:
		case name != "":
			return ""
		default:
			name = p.name
		}
	}
	return name
}

// reportContainers reports all containers, the worst first.
func (m *memory) reportContainers(in *Input, all *fleet, j *judged, targets []poll.Status, now time.Time) (list []Container, left int) {
	answering := map[string]bool{}
	for i := range targets {
		answering[targets[i].Target] = targets[i].Known && targets[i].Up
	}
	list = make([]Container, 0, len(m.containers))
	for p, past := range m.containers {
		if given := all.containers[p]; given != nil {
			past.seen = now
			past.last = m.reportContainer(in, p, given, past, j, now)
			list = append(list, past.last)
			continue
		}
		answers, configured := answering[past.target]
		if answers || !configured || now.Sub(past.seen) > maxUnseen {
			delete(m.containers, p)
			continue
		}
		list = append(list, past.unknown(j, now))
	}
	for s, v := range j.Verdicts {
		p := place{s.Host, s.Name}
		if s.Kind == health.KindContainer && v.Unknown && m.containers[p] == nil { // known only from before the exporter restarted
			c := Container{
				ContainerState: ContainerState{
					Name:       p.name,
					DockerHost: p.host,
					State:      "unknown",
					Health:     "none",
				},
				Text:   "the engine has not answered yet",
				Values: []Value{},
				Charts: []string{},
			}
			list = append(list, c.judge(j, Unknown))
		}
	}
	slices.SortFunc(list, func(a, b Container) int {
		return cmp.Or(cmp.Compare(b.Level, a.Level), lossRank(a.RoleRow.Rank, a.Level)-lossRank(b.RoleRow.Rank, b.Level),
			strings.Compare(a.DockerHost, b.DockerHost), strings.Compare(a.Name, b.Name))
	})
	left = max(0, len(list)-maxContainers)
	return list[:len(list)-left], left
}

// unknown reports a container whose engine does not answer. It keeps its last state as long as the judgement does.
func (p *pastContainer) unknown(j *judged, now time.Time) Container {
	c := p.last
	c.Text = fmt.Sprintf("the engine has not answered for %s; last known state: %s", wording.Exact(now.Sub(p.seen)), p.state)
	c.Hint, c.Values = "", []Value{}
	if _, known := j.Verdicts[place{c.DockerHost, c.Name}.subject()]; !known {
		c.State, c.Health, c.Since = "unknown", "none", p.seen
	}
	return c.judge(j, Unknown)
}

// judge adds the judgement's problems. least is the container's level without any.
func (c Container) judge(j *judged, least Level) Container {
	s := place{c.DockerHost, c.Name}.subject()
	problems, worst := j.worstOf(s)
	c.Level, c.Excuse, c.Onset = max(least, worst), j.Verdicts[s].Excuse, Onset{}
	for i, p := range problems {
		switch {
		case i > 0 || least > OK:
			c.Text += "; " + p.Text
		default:
			c.Text = p.Text
		}
		if i == 0 {
			c.Hint, c.Onset = p.Hint, Onset{p.Since, p.AtLeast}
		}
	}
	return c
}

// reportContainer reports one container.
func (m *memory) reportContainer(in *Input, p place, given *health.Container, past *pastContainer, j *judged, now time.Time) Container {
	c := Container{
		ContainerState: ContainerState{
			Name:       p.name,
			DockerHost: p.host,
			Role:       given.Role,
			State:      cmp.Or(given.State, "unknown"),
			Health:     given.Health,
		},
		RoleRow: roleOf(given.Role),
		Values:  []Value{},
		Charts:  []string{},
	}
	restarted := past.restarts.observe(float64(given.Restarts))
	if past.kills.observe(float64(given.Kills)) > 0 {
		past.killed = now
	}
	v := j.Verdicts[p.subject()]
	past.updateSince(&c, given, &v, in.Snapshot.Time)
	c.Text = healthyText(given, past, now)
	c = c.judge(j, OK)
	c.Maintenance = underMaintenance(in.Maintenance, config.MaintenanceContainer, p.name, "", c.Level)
	switch {
	case len(j.bySubject[p.subject()]) > 0:
	case given.State == "":
		c.Level = Unknown
	case given.State == health.Restarting: // too rare for an alert
		c.Level = Pending
	}
	m.addContainerValues(&c, in, given, past, &v, now)
	m.recordContainerState(&c, past, restarted, now)
	return c
}

// exitText says how a container exited.
func exitText(given *health.Container, past *pastContainer, now time.Time) string {
	if !given.Stopped {
		return ""
	}
	text := fmt.Sprintf(" with exit code %d", given.ExitCode)
	switch {
	case !past.killed.IsZero() && now.Sub(past.killed) < maxUnseen:
		text += ", killed because memory ran out"
	case given.ExitCode == 137:
		text += ", killed"
	case given.ExitCode == 143:
		text += ", stopped by a signal"
	}
	return text
}

// healthyText describes a container without a problem.
func healthyText(given *health.Container, past *pastContainer, now time.Time) string {
	switch {
	case given.State == health.Restarting:
		return "keeps exiting and restarting" + exitText(given, past, now)
	case given.State == "":
		return "has just disappeared; unless it comes back, it soon counts as missing or removed"
	case given.State == health.Running && given.Health == "healthy":
		return "is running, and its health check passes"
	case given.State == health.Running && given.Health == health.Starting:
		return "is running; its health check has not passed yet"
	case given.State == health.Running:
		return "is running; it has no health check"
	case given.State == created:
		return "was created but never started"
	case given.Stopped:
		return fmt.Sprintf("exited with exit code %d; it is not expected to run", given.ExitCode)
	default:
		return "is " + given.State + "; it is not expected to run"
	}
}

// addContainerValues adds the numbers and charts of a container.
func (m *memory) addContainerValues(
	c *Container, in *Input, given *health.Container, past *pastContainer, v *health.Verdict, now time.Time,
) {
	prefix := "container/" + c.DockerHost + "/" + c.Name + "/"
	up := 0.0
	if given.State == health.Running && given.Health != health.Unhealthy {
		up = 1
	}
	c.Charts = m.chart(c.Charts, charted{name: prefix + "up", title: c.Name + ": healthy", aggregation: least}, now, up)
	if given.HasMemory {
		c.Values = append(c.Values, newValue("memory", given.Memory, "bytes"))
		if given.MemoryLimit > 0 {
			c.Values = append(c.Values, newValue("of its limit", given.Memory/given.MemoryLimit, "ratio"))
		}
		l := limitsOf(&in.Alerts, health.AlertContainerMemory)
		if c.Role != "xmpp" {
			l.warning = nil
		}
		c.Charts = m.chart(c.Charts, charted{
			name:   prefix + "memory",
			title:  c.Name + ": memory",
			unit:   "bytes",
			limits: l,
		}, now, given.Memory)
	}
	if rate, ok := past.cpu.observe(given.Usage, now); ok {
		c.Values = append(c.Values, newValue("CPU", rate, "ratio"))
		c.Charts = m.chart(c.Charts, charted{name: prefix + "cpu", title: c.Name + ": CPU", unit: "ratio"}, now, rate)
	}
	if n := v.RecentRestarts; n > 0 {
		c.Values = append(c.Values, newValue("recent restarts", float64(n), ""))
	}
}

// recordContainerState records a transition if the container's state has changed.
func (m *memory) recordContainerState(c *Container, past *pastContainer, restarted float64, now time.Time) {
	state := c.stateText()
	t := Transition{
		Time:       now,
		Kind:       health.KindContainer,
		Name:       c.Name,
		DockerHost: c.DockerHost,
		From:       past.state,
		To:         state,
		Level:      c.Level,
		Text:       c.Text,
	}
	switch {
	case past.state == "": // seen for the first time
	case restarted > 0:
		t.To, t.Text, t.Count = "restarted", "now "+state, int(min(restarted, math.MaxInt32))
		m.transitions.add(t)
	case past.state != state:
		m.transitions.add(t)
	}
	past.state = state
}
