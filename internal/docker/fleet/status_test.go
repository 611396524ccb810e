package fleet

import (
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
)

func TestHealthIsOnlyOfRunningContainers(t *testing.T) {
	health := func(status string, streak int) *container.Health {
		return &container.Health{Status: status, FailingStreak: streak}
	}
	for _, tt := range []struct {
		name   string
		state  string
		health *container.Health
		want   string
	}{
		{
			"healthy",
			"running",
			health("healthy", 0),
			"healthy",
		},
		{
			"healthy again fails once",
			"running",
			health("healthy", 1),
			"healthy",
		},
		{
			"unhealthy",
			"running",
			health("unhealthy", 3),
			"unhealthy",
		},
		{
			"starting",
			"running",
			health("starting", 0),
			"starting",
		},
		{
			"starting and failing",
			"running",
			health("starting", 2),
			"starting",
		},
		{
			"no check",
			"running",
			nil,
			"none",
		},
		{
			"check that says none",
			"running",
			health("none", 0),
			"none",
		},
		{
			"check without a word",
			"running",
			health("", 0),
			"none",
		},
		{
			"word of another engine",
			"running",
			health("wobbly", 9),
			"none",
		},
		{
			"unpaused, not checked yet",
			"running",
			health("unhealthy", 0),
			"starting",
		},
		{
			"unpaused, was unhealthy before",
			"running",
			health("unhealthy", 5),
			"unhealthy",
		},
		{
			"paused",
			"paused",
			health("unhealthy", 0),
			"none",
		},
		{
			"paused, was unhealthy before",
			"paused",
			health("unhealthy", 5),
			"none",
		},
		{
			"stopped",
			"exited",
			health("unhealthy", 0),
			"none",
		},
		{
			"stopped, was unhealthy before",
			"exited",
			health("unhealthy", 5),
			"none",
		},
		{
			"restarting",
			"restarting",
			health("unhealthy", 2),
			"none",
		},
		{
			"removing",
			"removing",
			health("healthy", 0),
			"none",
		},
		{
			"dead",
			"dead",
			health("unhealthy", 0),
			"none",
		},
		{
			"created",
			"created",
			nil,
			"none",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := healthOf(tt.state, tt.health); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
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
	for name, c := range map[string]struct {
		summary container.Summary
		want    Status
		trouble string
	}{
		"killed": {
			container.Summary{
				ID:     "i",
				Names:  []string{"/a"},
				State:  container.StateExited,
				Status: "Exited (137) 2 hours ago",
			},
			Status{
				id:       "i",
				Name:     "a",
				Run:      Run{State: container.StateExited, Stopped: true, ExitCode: 137},
				Checks:   Checks{Health: container.NoHealthcheck},
				chosen:   true,
				fromList: true,
				reported: stateAndHealth{state: container.StateExited},
			},
			"a is exited, exit code 137",
		},
		"dead": {
			container.Summary{
				ID:     "i",
				Names:  []string{"/a"},
				State:  container.StateDead,
				Status: "Dead",
			},
			Status{
				id:       "i",
				Name:     "a",
				Run:      Run{State: container.StateDead},
				Checks:   Checks{Health: container.NoHealthcheck},
				chosen:   true,
				fromList: true,
				reported: stateAndHealth{state: container.StateDead},
			},
			"a is dead",
		},
		"linked": {
			container.Summary{
				ID:     "i",
				Names:  []string{"/other/alias", "/a"},
				State:  container.StateRunning,
				Status: "Up 2 hours (healthy)",
			},
			Status{
				id:       "i",
				Name:     "a",
				Run:      Run{State: container.StateRunning},
				Checks:   Checks{Health: container.Healthy},
				chosen:   true,
				fromList: true,
				reported: stateAndHealth{container.StateRunning, container.Healthy},
			},
			"",
		},
	} {
		got := StatusOfSummary(&c.summary, defaultRules())
		c.want.Workload = WorkloadOf(c.summary.Labels, c.want.Name)
		if got != c.want || got.problem() != c.trouble {
			t.Errorf("%s: got %+v, %q; want %+v, %q", name, got, got.problem(), c.want, c.trouble)
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
