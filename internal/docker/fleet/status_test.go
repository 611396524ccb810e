package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

func TestHealthIsOnlyOfRunningContainers(t *testing.T) {
	for _, row := range []string{ // state, the engine's health and failing streak, and what is reported
		"running healthy 0 healthy", "running healthy 1 healthy", "running unhealthy 3 unhealthy", "running starting 0 starting",
		"running starting 2 starting", "running none 0 none", "running wobbly 9 none",
		"running unhealthy 0 starting", // unpaused, and not checked yet
		"running unhealthy 5 unhealthy", "paused unhealthy 0 none", "paused unhealthy 5 none", "exited unhealthy 0 none",
		"exited unhealthy 5 none", "restarting unhealthy 2 none", "removing healthy 0 none", "dead unhealthy 0 none",
	} {
		f := strings.Fields(row)
		streak, err := strconv.Atoi(f[2])
		if err != nil {
			t.Fatal(err)
		}
		if got := healthOf(f[0], &container.Health{Status: f[1], FailingStreak: streak}); got != f[3] {
			t.Errorf("%s: got %s", row, got)
		}
	}
	for _, none := range []*container.Health{nil, {}} {
		if got := healthOf(container.StateRunning, none); got != container.NoHealthcheck {
			t.Errorf("without a check: got %s", got)
		}
	}
}

func TestStateIsTheEnginesWordOrFollowsFromItsFlags(t *testing.T) {
	const some = "2026-01-02T03:04:05Z"
	for _, tt := range []struct {
		state container.State
		want  string
	}{
		{container.State{Status: "created"}, "created"},
		{container.State{Status: "running", Running: true}, "running"},
		{container.State{Status: "paused", Running: true, Paused: true}, "paused"},
		{container.State{Status: "restarting", Running: true, Restarting: true}, "restarting"},
		{container.State{Status: "removing"}, "removing"},
		{container.State{Status: "exited"}, "exited"},
		{container.State{Status: "dead", Dead: true}, "dead"},
		{container.State{Status: "stopped", StartedAt: some}, "exited"},
		{container.State{Status: "configured"}, "created"},
		{container.State{Running: true, Paused: true}, "paused"},
		{container.State{Running: true, Restarting: true}, "restarting"},
		{container.State{Running: true}, "running"},
		{container.State{Dead: true}, "dead"},
	} {
		if got := stateOf(&tt.state); got != tt.want {
			t.Errorf("state of %+v: got %s, want %s", tt.state, got, tt.want)
		}
	}
}

func TestWhatAListSaysOfAContainer(t *testing.T) {
	for _, tt := range []struct{ state, status, want string }{
		{"exited", "Exited (137) 2 hours ago", "exited none, exit code 137, a is exited, exit code 137"},
		{"exited", "Exited (0) 2 hours ago", "exited none, exit code 0, "},
		{"dead", "Dead", "dead none, a is dead"},
		{"running", "Up 2 hours (healthy)", "running healthy, "},
		{"running", "Up 2 hours (unhealthy)", "running unhealthy, a is unhealthy"},
	} {
		l := &container.Summary{
			ID:     "i",
			Names:  []string{"/other/alias", "/a"},
			State:  tt.state,
			Status: tt.status,
		}
		s := StatusOfSummary(l, defaultRules())
		got := s.State + " " + s.Health
		if s.Stopped {
			got += fmt.Sprintf(", exit code %d", s.ExitCode)
		}
		got += ", " + s.problem()
		if got != tt.want || s.id+s.Name != "ia" || !s.chosen || !s.fromList || s.reported != stateAndHealthOf(l) {
			t.Errorf("%s: got %q of %+v, want %q", tt.status, got, s, tt.want)
		}
	}
}

func TestStatusSaysWhatTheEngineKnows(t *testing.T) {
	labels := func(pairs ...string) func(*container.InspectResponse) {
		return func(c *container.InspectResponse) {
			c.Config.Labels = map[string]string{}
			for i := 0; i < len(pairs); i += 2 {
				c.Config.Labels[pairs[i]] = pairs[i+1]
			}
		}
	}
	state := func(status string, code int) func(*container.InspectResponse) {
		return func(c *container.InspectResponse) { c.State.Status, c.State.ExitCode = status, code }
	}
	image := func(name string) func(*container.InspectResponse) {
		return func(c *container.InspectResponse) { c.Config.Image = name }
	}
	for _, tt := range []struct {
		name string
		is   func(*container.InspectResponse)
		want func(*Status)
	}{
		{"plain", func(*container.InspectResponse) {}, func(*Status) {}},
		{"never started", func(c *container.InspectResponse) {
			c.State = &container.State{Status: "created", StartedAt: "0001-01-01T00:00:00Z", ExitCode: 127}
		}, func(s *Status) { s.State, s.Started = "created", time.Time{} }},
		{
			"start that cannot be read",
			func(c *container.InspectResponse) { c.State.StartedAt = "yesterday" },
			func(s *Status) { s.Started = time.Time{} },
		},
		{"killed", state("exited", 137), func(s *Status) { s.State, s.Stopped, s.ExitCode = "exited", true, 137 }},
		{"dead", state("dead", 0), func(s *Status) { s.State, s.Stopped = "dead", true }},
		{"restarting has no exit code, since it is not stopped", state("restarting", 3), func(s *Status) { s.State = "restarting" }},
		{
			"compose",
			labels(ComposeProject, "chat", ComposeService, "irc"),
			func(s *Status) { s.Project, s.Service, s.Role = "chat", "irc", "irc" },
		},
		{
			"role by label",
			labels(ComposeService, "irc", roleLabel, "irc_services"),
			func(s *Status) { s.Service, s.Role = "irc", "irc_services" },
		},
		{"label that is no role", labels(roleLabel, "My Role!"), func(*Status) {}},
		{"digest beside a tag", image("docs/web:1@sha256:0123"), func(s *Status) { s.Image = "docs/web:1" }},
		{"image by id", image("sha256:0123"), func(s *Status) { s.Image = "sha256:0123" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := plainContainer("name", nil)
			tt.is(&in)
			want := Status{
				id:     "id-name",
				Name:   "name",
				chosen: true,
				Run:    Run{State: "running", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
				Checks: Checks{Health: "none"},
				Labels: Labels{Image: "image"},
			}
			tt.want(&want)
			want.reported.state = want.State
			want.Workload = WorkloadOf(in.Config.Labels, want.Name)
			if got, err := StatusOf(&in, defaultRules()); err != nil || got != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
	t.Run("role by configuration", func(t *testing.T) {
		in := plainContainer("name", map[string]string{roleLabel: "irc"})
		if got, err := StatusOf(&in, &Rules{Roles: map[string]string{"name": "xmpp"}}); err != nil || got.Role != "xmpp" {
			t.Errorf("role: got %q, %v, want xmpp", got.Role, err)
		}
	})
}
