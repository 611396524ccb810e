package health

import (
	"slices"
	"testing"
	"time"
)

// TestContainersOfSeveralEngines has containers of the same names on two engines. The target and the component are critical
// unless something explains them.
func TestContainersOfSeveralEngines(t *testing.T) {
	dead := func(host, name string) Container {
		return Container{
			Host:     host,
			Name:     name,
			Role:     "bridge",
			State:    "exited",
			Health:   "none",
			Expected: true,
		}
	}
	well := func(host, name string, needs ...string) Container {
		return Container{
			Host:      host,
			Name:      name,
			Role:      "bridge",
			State:     Running,
			Health:    "none",
			Expected:  true,
			DependsOn: needs,
		}
	}
	needing := func(c Container, needs ...string) Container {
		c.DependsOn = needs
		return c
	}
	roleless := func(c Container) Container {
		c.Role = ""
		return c
	}
	unexpected := func(c Container) Container {
		c.Expected, c.Health = false, Starting
		return c
	}
	for _, c := range []struct {
		name       string
		containers []Container
		critical   []string // by name and alert
	}{
		{"one runs", []Container{well("local", "irc")}, []string{"irc TargetDown", "irc XMPPComponentDisconnected"}},
		{"it is down", []Container{dead("local", "irc")}, []string{"irc ContainerDown"}},
		{
			"one of two is down",
			[]Container{dead("local", "irc"), well("second", "irc")},
			[]string{"irc ContainerDown", "irc TargetDown", "irc XMPPComponentDisconnected"},
		},
		{"both are down", []Container{dead("local", "irc"), dead("second", "irc")}, []string{"irc ContainerDown", "irc ContainerDown"}},
		{
			"one is down, and the other one has lost its dependency",
			[]Container{dead("local", "irc"), well("second", "irc", "db"), roleless(dead("second", "db"))},
			[]string{"db ContainerDown", "irc ContainerDown"},
		},
		{
			"a dependency of that name on another engine",
			[]Container{needing(dead("local", "irc"), "db"), roleless(well("local", "db")), roleless(dead("second", "db"))},
			[]string{"db ContainerDown", "irc ContainerDown"},
		},
		{
			"a dependency that need not run",
			[]Container{needing(dead("local", "irc"), "migrate"), roleless(unexpected(dead("local", "migrate")))},
			[]string{"irc ContainerDown"},
		},
		{
			"a circle that a third one brought down",
			[]Container{needing(dead("local", "irc"), "web", "db"), needing(dead("local", "web"), "irc"), roleless(dead("local", "db"))},
			[]string{"db ContainerDown"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.target("irc").Container = "irc"
			w.target("irc").Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "bridge.example"}}
			well := slices.Clone(c.containers)
			for i := range well {
				well[i].State = Running
			}
			look := func(containers []Container) {
				f := w.Facts
				f.Now = w.now
				f.Engines = nil
				for _, host := range []string{"local", "second"} {
					e := Engine{Host: host, Read: true}
					for _, c := range containers {
						if c.Host == host {
							e.Containers = append(e.Containers, c)
						}
					}
					f.Engines = append(f.Engines, e)
				}
				w.last = w.judge.Judge(&f)
				w.now = w.now.Add(10 * time.Second)
			}
			look(well)
			w.target("irc").Up = false
			w.target("irc").Conditions = []Condition{{Alert: AlertComponentDisconnected, Of: "bridge.example", Holds: true}}
			for range 33 {
				look(c.containers)
			}
			var critical []string
			for _, p := range w.last.Problems {
				if p.Severity == Critical {
					critical = append(critical, p.Name+" "+p.Alert)
				}
			}
			if slices.Sort(critical); !slices.Equal(critical, c.critical) {
				t.Errorf("critical are %q, want %q", critical, c.critical)
			}
		})
	}
}

func TestServicesThatAreToldOfAreNotMissed(t *testing.T) {
	for name, excuse := range map[string]func(w *world){
		"told as down": func(w *world) { w.target("services").Up = false },
		"maintenance":  func(w *world) { w.Maintenance = []Subject{TargetSubject("services")} },
		"nothing":      func(*world) {},
	} {
		w := newWorld(t)
		w.target("irc").be("irc_rpc")
		w.target("services").be("irc_services")
		w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked}}
		w.look()
		w.target("irc").Conditions = []Condition{{Alert: AlertServicesUnlinked, Holds: true}}
		excuse(w)
		w.pass(time.Hour)
		unlinked := Pending
		for _, p := range w.last.Problems {
			if p.Alert == AlertServicesUnlinked {
				unlinked = p.Severity
			}
		}
		if want := map[string]Severity{"nothing": Critical}[name]; unlinked != want {
			t.Errorf("%s: %s, want %s", name, unlinked, want)
		}
	}
}
