package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
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

// serving is what chatstack:container_serving is in the alert rules.
func (f *facts) serving() bool { return f.state == running && !f.excused() }

// excused is what chatstack:container_excused is in the alert rules, or that the container waits for another one.
func (e *excuses) excused() bool { return e.maintained || e.excuse != "" || e.waitsFor != "" }

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

// ofRole is the name of the container of a role, "" where there is none or where there are several.
func (f *fleet) ofRole(role string) string {
	name := ""
	for p, c := range f.facts {
		switch {
		case role == "" || c.role != role:
		case name != "":
			return ""
		default:
			name = p.name
		}
	}
	return name
}

// roleExcused reports whether the containers of a role explain that their service fails. One that serves is enough to be
// blamed.
func (f *fleet) roleExcused(role string) bool {
	excused := false
	for _, c := range f.facts {
		if c.role != role {
			continue
		}
		if c.serving() {
			return false
		}
		excused = excused || c.down() || c.excused()
	}
	return excused
}

// readFacts reads what an engine's families say of each container.
func readFacts(f *families) map[place]*facts {
	all := map[place]*facts{}
	for name, read := range containerFamilies {
		for _, s := range f.of(name) {
			p := place{s.Label("docker_host"), s.Label("container")}
			if all[p] == nil {
				all[p] = &facts{health: "none"}
			}
			read(all[p], &s)
		}
	}
	return all
}

// Troubled returns the names of those containers of an engine's metrics that should run and do not, or are unhealthy, and
// of those that are named in expected and are not there. The names are sorted.
func Troubled(metrics []prometheus.Metric, expected []string) ([]string, error) {
	given, err := new(exposition.Encoder).Encode(metrics)
	if err != nil {
		return nil, err
	}
	var read families
	read.renew(given, func(name string) bool { return containerFamilies[name] != nil })
	there := map[string]bool{}
	var names []string
	for p, f := range readFacts(&read) {
		there[p.name] = there[p.name] || f.state != "" // what has been gone for a moment only has no state
		if f.down() || f.health == unhealthy {
			names = append(names, p.name)
		}
	}
	for _, name := range expected {
		if !there[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
