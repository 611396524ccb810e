package status

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
	"github.com/chatstack-exporter/chatstack_exporter/internal/wording"
)

// States and health of containers.
const (
	created      = "created"
	unknownState = "unknown"
	noCheck      = "none"
)

const (
	// maxContainers limits the containers in a report, the worst first.
	maxContainers = 2000
	// maxUnseen is how long a report keeps containers whose engine does not answer.
	maxUnseen = time.Hour
)

// readTargets finds the targets, and the containers of the engines that are up.
func (m *memory) readTargets(j *judged) {
	for i := range j.Snapshot.Statuses {
		t := &j.Snapshot.Statuses[i]
		j.targets[health.TargetSubject(t.Target)] = t
		if t.Engine == nil || !t.Known || !t.Up {
			continue
		}
		for _, given := range slices.Concat(t.Engine.Containers, t.Engine.Disappeared) {
			given.Host, given.Name, given.Role = printableName(given.Host), printableName(given.Name), printableName(given.Role)
			given.Workload = printableName(given.Workload)
			s := given.Subject()
			if m.containers[s] == nil {
				m.containers[s] = &pastContainer{}
			}
			m.containers[s].target, j.containers[s] = t.Target, &given
			j.byRole[given.Role] = append(j.byRole[given.Role], s.Name)
		}
	}
}

// reportContainers reports all containers, the worst first.
func (m *memory) reportContainers(j *judged) (list []Container, left int) {
	list = make([]Container, 0, len(m.containers))
	for s, past := range m.containers {
		switch given, engine := j.containers[s], j.targets[health.TargetSubject(past.target)]; {
		case given != nil:
			list = append(list, m.reportContainer(j, s, given))
		case engine == nil || engine.Known && engine.Up || j.now.Sub(past.seen) > maxUnseen && !j.isJudged(s):
			delete(m.containers, s)
			delete(m.transitions.states, s)
		default:
			list = append(list, past.unseen(j))
		}
	}
	for s, v := range j.verdicts {
		if s.OnEngine() && v.Unknown && m.containers[s] == nil { // known only from before the exporter restarted
			c := newContainer(s)
			c.judge(j, "the engine has not answered yet")
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b Container) int {
		return cmp.Or(a.compare(a.RoleRow.Rank, &b.Shown, b.RoleRow.Rank), cmp.Compare(a.DockerHost, b.DockerHost),
			cmp.Compare(a.Name, b.Name))
	})
	left = max(0, len(list)-maxContainers)
	return list[:len(list)-left], left
}

// isJudged reports whether the judgement knows a subject.
func (j *judged) isJudged(s health.Subject) bool {
	_, known := j.verdicts[s]
	return known
}

// newContainer returns a container of which nothing is known.
func newContainer(s health.Subject) Container {
	return Container{
		ContainerState: ContainerState{
			Name:       s.Name,
			DockerHost: s.Host,
			State:      unknownState,
			Health:     noCheck,
			Shared:     s.Kind == health.KindWorkload,
		},
		Shown: Shown{Values: []Value{}, Charts: []string{}},
	}
}

// unseen reports a container whose engine does not answer. It keeps its last state as long as the judgement does.
func (p *pastContainer) unseen(j *judged) Container {
	c := p.last
	c.Hint, c.Values = "", []Value{}
	if !j.isJudged(c.Subject()) {
		c.State, c.Health, c.Since = unknownState, noCheck, p.seen
	}
	c.judge(j, fmt.Sprintf("the engine has not answered for %s; last known state: %s", wording.Exact(j.now.Sub(p.seen)), p.state))
	return c
}

// judge adds the judgement's problems. unknown says why the present state is unknown, "" if it is not.
func (c *Container) judge(j *judged, unknown string) {
	s := c.Subject()
	problems, worst := j.problemsOf(s)
	c.Level, c.Excuse, c.Onset = worst, j.verdicts[s].Excuse, Onset{}
	for i, p := range problems {
		if i == 0 {
			c.tell(p)
		} else {
			c.Text += "; " + p.Text
		}
	}
	switch {
	case unknown == "":
	case len(problems) == 0:
		c.Level, c.Text = Unknown, unknown
	default:
		c.Level, c.Text = max(c.Level, Unknown), unknown+"; "+c.Text
	}
}

// reportContainer reports one container.
func (m *memory) reportContainer(j *judged, s health.Subject, given *health.Container) Container {
	c, past, v := newContainer(s), m.containers[s], j.verdicts[s]
	c.Instances = given.Members
	c.Role, c.RoleRow, c.Health, c.State = given.Role, roleOf(given.Role), given.Health, cmp.Or(given.State, c.State)
	if past.kills.observe(float64(given.Kills)) > 0 {
		past.killed = j.now
	}
	past.updateSince(&c, given, &v, j.Snapshot.Time)
	c.Text = healthyText(given, past, j.now)
	c.judge(j, "")
	c.Maintenance = j.underMaintenance(s, "", c.Level)
	switch {
	case len(j.bySubject[s]) > 0:
	case given.State == "":
		c.Level = Unknown
	case given.State == health.Restarting: // too rare for an alert
		c.Level = Pending
	}
	m.addContainerValues(&c, j, given, past)
	m.transitions.tell(s, c.Level, c.Text)
	past.state, past.seen, past.last = c.stateText(), j.now, c
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
	case given.Shared && given.State == health.Running:
		return numberOf(given.Instances, given.Wanted)
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
func (m *memory) addContainerValues(c *Container, j *judged, given *health.Container, past *pastContainer) {
	s, up := c.Subject(), 0.0
	if given.State == health.Running && given.Health != health.Unhealthy {
		up = 1
	}
	m.chart(j, s, &c.Shown, History{Name: "up", Title: "healthy", Keeps: least}, up)
	if given.HasMemory {
		c.addValue("memory", given.Memory, "bytes")
		if given.MemoryLimit > 0 {
			c.addValue("of its limit", given.Memory/given.MemoryLimit, "ratio")
		}
		l := j.limits(health.AlertContainerMemory)
		if c.Role != "xmpp" {
			l.Warning = nil
		}
		m.chart(j, s, &c.Shown, History{Name: "memory", Unit: "bytes", Limits: l}, given.Memory)
	}
	if rate, ok := past.cpu.observe(given.Usage, j.now); ok {
		c.addValue("CPU", rate, "ratio")
		m.chart(j, s, &c.Shown, History{Name: "cpu", Title: "CPU", Unit: "ratio"}, rate)
	}
	if n := j.verdicts[s].RecentRestarts; n > 0 {
		c.addValue("recent restarts", float64(n), "")
	}
}
