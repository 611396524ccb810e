package simstack

import (
	"fmt"
	"slices"
	"testing"
)

// activeFaults are the faults that are on, as service/fault.
func activeFaults(k *Stack) []string {
	var on []string
	for _, f := range k.Active() {
		on = append(on, f.Service+"/"+f.Name)
	}
	return on
}

func TestCoupledFaultsComeAndGoTogether(t *testing.T) {
	for service, c := range map[string]struct {
		fault, container, state string
		want                    []string
	}{
		"xmpp": {
			"stopped",
			"xmpp",
			"exited",
			[]string{"xmpp/stopped", "xmpp_c2s/stopped", "xmpp_s2s/stopped"},
		},
		"xmpp_s2s": {
			"stopped",
			"xmpp",
			"exited",
			[]string{"xmpp/stopped", "xmpp_c2s/stopped", "xmpp_s2s/stopped"},
		},
		"proxy": {
			"stopped",
			"xmpp-proxy",
			"exited",
			[]string{"proxy/stopped"},
		},
		"irc_tls": {
			"stopped",
			"irc",
			"exited",
			[]string{"irc_rpc/stopped", "irc_services/stopped", "irc_tls/stopped"},
		},
		"irc_services": {
			"stopped",
			"irc-services",
			"exited",
			[]string{"irc_rpc/services_unlinked", "irc_services/stopped"},
		},
		"plant_store": {
			"stopped",
			"plant-store",
			"exited",
			[]string{"plant_store/stopped"},
		},
		"identity": {
			"stopped",
			"identity",
			"exited",
			[]string{"identity/stopped"},
		},
		"docs_search": {
			"stopped",
			"docs",
			"exited",
			[]string{"docs_search/stopped"},
		},
		"web_irc": {
			"stopped",
			"web-irc",
			"exited",
			[]string{"web_irc/stopped"},
		},
		"web_panel": {
			"stopped",
			"web-panel",
			"exited",
			[]string{"web_panel/stopped"},
		},
		"log_viewer": {
			"stopped",
			"log-viewer",
			"exited",
			[]string{"log_viewer/stopped"},
		},
		"docker": {
			"stopped",
			"xmpp",
			"running",
			[]string{"docker/stopped"},
		},

		"docker oom_killed": {
			"oom_killed",
			"web-irc",
			"exited",
			[]string{"docker/oom_killed", "web_irc/stopped"},
		},
		"docker exited": {
			"exited",
			"docs",
			"exited",
			[]string{"docker/exited", "docs_search/stopped"},
		},
		"docker paused": {
			"paused",
			"web-panel",
			"paused",
			[]string{"docker/paused", "web_panel/hang"},
		},
		"docker crash_loop": {
			"crash_loop",
			"",
			"",
			[]string{"docker/crash_loop", "irc_rpc/services_unlinked", "irc_services/stopped"},
		},
		"docker missing": {
			"missing",
			"",
			"",
			[]string{"docker/missing", "plant_store/stopped"},
		},
		"docker engine_restarted": {
			"engine_restarted",
			"docs",
			"exited",
			[]string{"docker/engine_restarted", "docs_search/stopped", "web_irc/stopped", "web_panel/stopped"},
		},
	} {
		t.Run(service+" "+c.fault, func(t *testing.T) {
			k := started(t, Options{Coupled: true})
			var name string
			if _, err := fmt.Sscan(service, &name); err != nil {
				t.Fatal(err)
			}
			switchFault(t, k, name, c.fault, true)
			if got := activeFaults(k); !slices.Equal(got, c.want) {
				t.Errorf("on: got %v, want %v", got, c.want)
			}
			if c.container != "" && k.engine.stateOf(c.container) != c.state {
				t.Errorf("container %s: got %s, want %s", c.container, k.engine.stateOf(c.container), c.state)
			}
			switchFault(t, k, name, c.fault, false)
			if got := activeFaults(k); len(got) != 0 {
				t.Errorf("off: got %v, want none", got)
			}
			for _, container := range containerSpecs {
				if got := k.engine.stateOf(container.Name); got != "running" {
					t.Errorf("off: %s is %s", container.Name, got)
				}
			}
		})
	}
}

// TestCoupledServiceStartsItsContainerAgain: the switch of either ends what the other has caused.
func TestCoupledServiceStartsItsContainerAgain(t *testing.T) {
	k := started(t, Options{Coupled: true})
	for _, pair := range [][2]string{{"missing", "plant_store"}, {"crash_loop", "irc_services"}, {"oom_killed", "web_irc"}} {
		switchFault(t, k, "docker", pair[0], true)
		switchFault(t, k, pair[1], "stopped", false)
		k.mustBeWell(t, pair[1])
	}
	for _, f := range k.Faults() {
		switchFault(t, k, f.Service, f.Name, true)
	}
	if err := k.Reset(); err != nil {
		t.Fatal(err)
	}
	if got := activeFaults(k); len(got) != 0 {
		t.Errorf("after Reset: got %v, want none", got)
	}
	for _, service := range Services {
		k.mustBeWell(t, service)
	}
}
