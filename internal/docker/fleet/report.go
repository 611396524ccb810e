package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/chatstack-exporter/chatstack_exporter/internal/docker/usage"
	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

// Report is what the fleet knows of one container at one moment. Of one that has just disappeared, only the counts are known.
type Report struct {
	health.Container
	// Status has what only the metrics show; nil if the container has just disappeared.
	Status *Status
	// ID is the container's; "" if it does not exist.
	ID          string
	Recreations uint64
	// alone is true if the container is judged by itself, dead if it should run and does not.
	alone, dead bool
}

// Report returns a report of every member, sorted by name.
func (f *Fleet) Report(now time.Time) []Report {
	services := map[composeUnit][]string{}
	for name, c := range f.members {
		if c.Service != "" {
			unit := composeUnit{c.Project, c.Service}
			services[unit] = append(services[unit], name)
		}
	}
	waiting := f.findWaiting(services)
	reports := make([]Report, 0, len(f.members))
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		c := f.members[name]
		r := Report{Container: health.Container{Host: f.rules.Label, Name: name, Health: container.NoHealthcheck}}
		switch {
		case c.present:
			r.Status, r.ID = &c.Status, c.ID
		case f.missing(name, c, now):
			r.Status = &Status{
				Name:   name,
				Labels: c.Labels,
				Run:    Run{State: stateMissing},
				Checks: Checks{Health: container.NoHealthcheck},
			}
		}
		if s := r.Status; s != nil {
			r.Role, r.Proxy, r.State, r.Health = s.Role, IsProxy(s.Image), s.State, s.Health
			r.Started, r.Stopped, r.ExitCode = s.Started, s.Stopped, s.ExitCode
			r.Expected = c.Expected && waiting[c] == "" && !f.removed(name, c)
			r.WaitsFor = waiting[c]
			r.DownFor, r.UnhealthyFor = s.durations(c.GoneSince, now, c.clockAhead)
			r.DependsOn, r.HostNames = f.dependencies(name, c, services), strings.Fields(c.HostNames)
		}
		f.describeWorkload(&r, c)
		counts := f.shownCounts(name, c.counts())
		r.Restarts, r.Kills, r.Recreations = counts.Restarts, counts.OOMs, counts.Recreations
		reports = append(reports, r)
	}
	return reports
}

// findWaiting returns the name of the container that each created member waits for. Compose starts such a member once the other
// one, which is starting, is healthy, or once the other one, which is waiting too, has started.
func (f *Fleet) findWaiting(services map[composeUnit][]string) map[*Member]string {
	waiting, awaited := map[*Member]string{}, map[*Member][]condition{}
	for _, c := range f.members {
		if c.present && c.Status.State == container.StateCreated {
			awaited[c] = f.startConditions(c, services)
		}
	}
	delays := func(o condition) bool {
		return waiting[o.Member] != "" || o.healthy && o.present && o.Status.Health == container.Starting
	}
	for more := true; more; {
		more = false
		for c, others := range awaited {
			if i := slices.IndexFunc(others, delays); waiting[c] == "" && !c.startable && i >= 0 {
				waiting[c], more = others[i].name, true
			}
		}
	}
	for c, others := range awaited {
		// A dependency that was not created or started yet may still delay this one.
		pending := slices.ContainsFunc(others, func(o condition) bool { return !o.present || o.Status.State == container.StateCreated })
		c.startable = c.startable || waiting[c] == "" && !pending
	}
	return waiting
}

// condition is a member that must have started, or also be healthy, before compose starts another one.
type condition struct {
	name string
	*Member
	healthy bool
}

// startConditions returns at most maxDependencies conditions for compose to start a member.
func (f *Fleet) startConditions(c *Member, services map[composeUnit][]string) []condition {
	var others []condition
	// The label holds service:condition:restart, separated by commas.
	for part := range strings.SplitSeq(c.DependsOn, ",") {
		service, rest, _ := strings.Cut(part, ":")
		wanted, _, _ := strings.Cut(rest, ":")
		for _, name := range services[composeUnit{c.Project, service}] {
			if len(others) == maxDependencies {
				return others
			}
			others = append(others, condition{name, f.members[name], wanted == "service_healthy"})
		}
	}
	return others
}

// composeUnit is a compose service.
type composeUnit struct{ project, service string }

// dependencies returns the names of the members that this one needs: the containers of its compose dependencies, and the one
// whose network it shares.
func (f *Fleet) dependencies(name string, c *Member, services map[composeUnit][]string) []string {
	var needed []string
	add := func(other string) {
		if other != name && len(needed) < maxDependencies && !slices.Contains(needed, other) {
			needed = append(needed, other)
		}
	}
	switch of := c.Status.networkOf; {
	case c.present && of == "":
		c.NetworkOf = ""
	case f.names[of] != "":
		c.NetworkOf = f.names[of]
	case f.members[of] != nil: // network_mode names the container
		c.NetworkOf = of
	default: // keep the last owner: it, or this container, no longer exists
	}
	if c.NetworkOf != "" {
		add(c.NetworkOf)
	}
	for _, o := range f.startConditions(c, services) {
		add(o.name)
	}
	return needed
}

// Subjects returns the running containers to measure, sorted by id.
func (f *Fleet) Subjects() []usage.Subject {
	var subjects []usage.Subject
	for _, c := range f.members {
		if c.alive() {
			subjects = append(subjects, usage.Subject{
				ID:      c.ID,
				PID:     c.Status.PID,
				Limit:   c.Status.memoryLimit,
				Started: c.Status.Started,
			})
		}
	}
	slices.SortFunc(subjects, func(a, b usage.Subject) int { return strings.Compare(a.ID, b.ID) })
	return subjects
}

// Notes are the problems and the possible configuration mistakes of a fleet.
type Notes struct {
	Lines []string
	// Present counts the watched containers that exist. XMPP is true if one of them has the role xmpp.
	Present int
	XMPP    bool
}

// Notes returns the problems of the containers, and the names in the configuration without a container.
func (f *Fleet) Notes(now time.Time) (n Notes) {
	note := func(line string) { n.Lines = append(n.Lines, line) }
	for _, name := range slices.Sorted(maps.Keys(f.members)) {
		m := f.members[name]
		n.XMPP = n.XMPP || m.present && m.Role == "xmpp"
		switch {
		case m.present:
			n.Present++
			if problem := m.Status.problem(); problem != "" && !f.replaced(name, m) {
				note(problem)
			}
		case f.missing(name, m, now):
			note(name + " is missing")
		}
	}
	for _, name := range f.rules.Names {
		plain := !strings.ContainsAny(name, `*?[\`)
		if m := f.members[name]; plain && (m == nil || !m.present) {
			note(fmt.Sprintf("names lists %s, but no such container exists", failure.OneLine(name)))
		}
	}
	for _, name := range f.rules.Expected {
		if m := f.members[name]; m == nil || !m.present && !f.missing(name, m, now) && !f.replaced(name, m) {
			note(fmt.Sprintf("expected lists %s, but no such container exists", failure.OneLine(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.rules.Roles)) {
		if f.members[name] == nil && !f.had(name) {
			note(fmt.Sprintf("roles lists %s, but no such container exists", failure.OneLine(name)))
		}
	}
	return n
}

// ShortenedLabels returns how many existing containers have labels that are too long.
func (f *Fleet) ShortenedLabels() int {
	cut := 0
	for _, m := range f.members {
		if m.present && m.Status.labelsCut {
			cut++
		}
	}
	return cut
}
