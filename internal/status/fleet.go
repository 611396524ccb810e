package status

import (
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/exposition"
	"github.com/chatstack-exporter/chatstack_exporter/internal/health"
)

const created = "created"

// place names a container.
type place struct{ host, name string }

func (p place) subject() health.Subject { return health.ContainerSubject(p.host, p.name) }

// facts are what an engine's families say about a container.
type facts struct {
	state, health, role string
	expected, stopped   bool // stopped: exitCode is known
	exitCode            float64
	restarts, oom       float64
	started             time.Time
	usage
}

// usage is a container's use of memory and CPU.
type usage struct {
	memory, limit, cpu float64
	measured, timed    bool // whether memory and cpu are known
}

// containerFamilies are the families that facts come from, with their readers.
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
	"chatstack_container_exit_code":          func(f *facts, s *exposition.Line) { f.exitCode, f.stopped = s.Value, true },
	"chatstack_container_restarts_total":     func(f *facts, s *exposition.Line) { f.restarts = s.Value },
	"chatstack_container_oom_events_total":   func(f *facts, s *exposition.Line) { f.oom = s.Value },
	"chatstack_container_start_time_seconds": func(f *facts, s *exposition.Line) { f.started = unix(s.Value) },
	"chatstack_container_memory_limit_bytes": func(f *facts, s *exposition.Line) { f.limit = s.Value },
	"chatstack_container_cpu_seconds_total":  func(f *facts, s *exposition.Line) { f.cpu, f.timed = s.Value, true },
	"chatstack_container_memory_working_set_bytes": func(f *facts, s *exposition.Line) {
		f.memory, f.measured = s.Value, true
	},
}

func unix(seconds float64) time.Time { return time.UnixMilli(int64(seconds * 1000)).UTC() }

// fleet is all containers in one snapshot.
type fleet struct {
	facts   map[place]*facts
	engines int
}

// containerOfRole returns the name of the only container with a role, "" if there are none or several.
func (f *fleet) containerOfRole(role string) string {
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

// readFacts reads each container's facts from an engine's families.
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
