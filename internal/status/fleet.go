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

// facts are what the page of metrics says of a container.
type facts struct {
	state, health, role string
	expected, stopped   bool // stopped: an exit code is known
	exitCode            float64
	restarts, oom       float64
	started             time.Time
	usage
}

// usage is what a container takes of its machine.
type usage struct {
	memory, limit, cpu float64
	measured, timed    bool // memory and cpu are known
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

// fleet are the containers of one moment.
type fleet struct {
	facts   map[place]*facts
	engines int
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
