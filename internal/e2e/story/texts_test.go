package story

import (
	"testing"
	"time"
)

// TestTextsAreOfTheEnvironment has a target of the same name fail for another reason in each environment, one of which has no label.
func TestTextsAreOfTheEnvironment(t *testing.T) {
	sites := []exporterSpec{{name: "n", targets: true, containers: true}, {name: "s", env: "staging", targets: true, containers: true}}
	play(t, sites, nil, func(w *world) {
		w.happen("n reaches nothing")
		w.happen("staging api fails")
		w.pass(4 * time.Minute)
		got := map[string]string{}
		for _, a := range w.prometheus.firing() {
			if a.Labels.Get("alertname") == "TargetDown" && a.Labels.Get("target") == "api" {
				got[a.Labels.Get("env")] = a.Annotations.Get("summary")
			}
		}
		for env, reason := range map[string]string{"": "refused", "staging": "http_status"} {
			if want := "Target api is down (" + reason + ")."; got[env] != want {
				t.Errorf("in the environment %q: %q, want %q", env, got[env], want)
			}
		}
	})
}
