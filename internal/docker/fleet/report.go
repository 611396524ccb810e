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
)

// Report is what is known of one container at one moment.
type Report struct {
	Name string
	// Status is set if the container exists or is missing.
	Status *Status
	// ID is the container's; "" if it does not exist.
	ID string
	// Expected says that it should be running. DependsOn are the names of the containers that it needs. Both are known with Status.
	Expected  bool
	DependsOn []string
	// HostNames are what the exporter reaches it by, known with Status.
	HostNames []string
	// WaitsFor is the container that must start or become healthy before compose starts this one, "" if none.
	WaitsFor string
	// DownFor is how long ago its last run ended, by the engine's account, while it does not run. UnhealthyFor is how long its checks
	// had been failing at the last one, by the engine's clock alone. Both are 0 if unknown.
	DownFor, UnhealthyFor time.Duration
	Counts                Counts
}

// Report returns what is known of every member, in the order of their names.
func (f *Fleet) Report(now time.Time) []Report {
	services := map[composeUnit][]string{}
	for name, c := range f.Members {
		if c.Service != "" {
			unit := composeUnit{c.Project, c.Service}
			services[unit] = append(services[unit], name)
		}
	}
	waiting := f.findWaiting(services)
	reports := make([]Report, 0, len(f.Members))
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		c := f.Members[name]
		r := Report{Name: name, Counts: c.counts()}
		switch {
		case c.present:
			r.Status, r.ID = &c.Status, c.ID
		case f.missing(c, now):
			r.Status = &Status{Name: name, Labels: c.Labels, Run: Run{State: stateMissing}, Checks: Checks{Health: container.NoHealthcheck}}
		}
		if r.Status != nil {
			r.Expected = c.Wanted && waiting[c] == "" && !f.removed(name, c)
			r.WaitsFor = waiting[c]
			r.DownFor, r.UnhealthyFor = r.Status.durations(c.Gone, now, c.ahead)
			r.DependsOn, r.HostNames = f.dependencies(name, c, services), strings.Fields(c.HostNames)
		}
		if f.SavedCounts != nil {
			r.Counts = f.SavedCounts[name]
		}
		reports = append(reports, r)
	}
	return reports
}

// findWaiting finds for whom the members wait that compose has made, and starts later: once others are healthy, which are starting, or
// once others have started, which wait themselves.
func (f *Fleet) findWaiting(services map[composeUnit][]string) map[*Member]string {
	waiting, awaited := map[*Member]string{}, map[*Member][]condition{}
	for _, c := range f.Members {
		if c.present && c.Status.State == container.StateCreated {
			awaited[c] = f.awaited(c, services)
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
		// One that has not been made or started yet will be starting later.
		pending := slices.ContainsFunc(others, func(o condition) bool { return !o.present || o.Status.State == container.StateCreated })
		c.startable = c.startable || waiting[c] == "" && !pending
	}
	return waiting
}

// condition is a member that must have started, or be healthy too, before compose starts another one.
type condition struct {
	name string
	*Member
	healthy bool
}

// awaited are the first members of which compose wants something before it starts this one.
func (f *Fleet) awaited(c *Member, services map[composeUnit][]string) []condition {
	var others []condition
	for part := range strings.SplitSeq(c.DependsOn, ",") {
		service, rest, _ := strings.Cut(part, ":")
		wanted, _, _ := strings.Cut(rest, ":")
		for _, name := range services[composeUnit{c.Project, service}] {
			if len(others) == maxDependencies {
				return others
			}
			others = append(others, condition{name, f.Members[name], wanted == "service_healthy"})
		}
	}
	return others
}

// composeUnit is a compose service.
type composeUnit struct{ project, service string }

// dependencies are the names of the members that this one needs: those of the compose services that it depends on, and
// the one whose network it shares.
func (f *Fleet) dependencies(name string, c *Member, services map[composeUnit][]string) []string {
	var needed []string
	add := func(other string) {
		if other != name && !slices.Contains(needed, other) {
			needed = append(needed, other)
		}
	}
	switch of := c.Status.networkOf; {
	case c.present && of == "":
		c.NetworkOf = ""
	case f.names[of] != "":
		c.NetworkOf = f.names[of]
	case f.Members[of] != nil: // the network was chosen by name
		c.NetworkOf = of
	default: // whose network it was is gone, or this container is
	}
	if c.NetworkOf != "" {
		add(c.NetworkOf)
	}
	// The label holds service:condition:restart, with commas between them.
	for part := range strings.SplitSeq(c.DependsOn, ",") {
		service, _, _ := strings.Cut(part, ":")
		for _, other := range services[composeUnit{c.Project, service}] {
			if len(needed) == maxDependencies {
				return needed
			}
			add(other)
		}
	}
	return needed
}

// Subjects are the running containers whose resources are to be measured, in the order of their ids.
func (f *Fleet) Subjects() []usage.Subject {
	var subjects []usage.Subject
	for _, c := range f.Members {
		if c.present && (c.Status.State == container.StateRunning || c.Status.State == container.StatePaused) {
			subjects = append(subjects, usage.Subject{
				ID: c.ID, PID: c.Status.PID, Limit: c.Status.memoryLimit, Started: c.Status.Started,
			})
		}
	}
	slices.SortFunc(subjects, func(a, b usage.Subject) int { return strings.Compare(a.ID, b.ID) })
	return subjects
}

// Notes are what a person should know of the containers.
type Notes struct {
	Lines []string
	// Present counts the watched containers that exist; XMPP says that one of them has the role xmpp.
	Present int
	XMPP    bool
}

// Notes returns what a person should know of the containers.
func (f *Fleet) Notes(now time.Time) (n Notes) {
	note := func(line string) { n.Lines = append(n.Lines, line) }
	for _, name := range slices.Sorted(maps.Keys(f.Members)) {
		m := f.Members[name]
		n.XMPP = n.XMPP || m.present && m.Role == "xmpp"
		switch {
		case m.present:
			n.Present++
			if trouble := m.Status.trouble(); trouble != "" {
				note(trouble)
			}
		case f.missing(m, now):
			note(name + " is missing")
		}
	}
	for _, name := range f.Rules.Names {
		plain := !strings.ContainsAny(name, `*?[\`)
		if m := f.Members[name]; plain && (m == nil || !m.present) {
			note(fmt.Sprintf("names has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	for _, name := range f.Rules.Expected {
		if m := f.Members[name]; m == nil || !m.present && !f.missing(m, now) {
			note(fmt.Sprintf("expected has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.Rules.Roles)) {
		if f.Members[name] == nil {
			note(fmt.Sprintf("roles has %s, and there is no such container", failure.OneLine(name)))
		}
	}
	return n
}

// ShortenedLabels returns how many present containers have labels that are too long.
func (f *Fleet) ShortenedLabels() int {
	cut := 0
	for _, m := range f.Members {
		if m.present && m.Status.cut {
			cut++
		}
	}
	return cut
}
