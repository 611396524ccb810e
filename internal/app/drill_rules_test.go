package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
)

// editRules changes the loaded rules with a name that begins so.
func editRules(name string, change func(r map[string]any)) func(group map[string]any) {
	return func(group map[string]any) {
		for _, r := range rulesIn(group) {
			if strings.HasPrefix(r["name"].(string), name) { //nolint:forcetypeassert // Loaded writes a string
				change(r)
			}
		}
	}
}

// removeRules removes loaded rules.
func removeRules(remove func(name string) bool) func(group map[string]any) {
	return func(group map[string]any) {
		group["rules"] = slices.DeleteFunc(group["rules"].([]any), func(r any) bool { //nolint:forcetypeassert // it is a group of rules
			return remove(r.(map[string]any)["name"].(string)) //nolint:forcetypeassert // it is a rule
		})
	}
}

// TestDrillIsNotGreenForNothing has chains that deliver a test alert, and would not wake anybody.
func TestDrillIsNotGreenForNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		cause      func(c *chain)
		step, says string
	}{
		"three rules deleted": {
			func(c *chain) {
				c.edit = removeRules(func(name string) bool {
					return slices.Contains([]string{"TargetDown", "ContainerDown", "ExporterDown"}, name)
				})
			},
			"rules_version",
			"ContainerDown warning is missing; ContainerDown critical is missing; TargetDown warning is missing; and 3 more",
		},
		"thresholds edited": {
			func(c *chain) {
				c.edit = editRules("TargetDown", func(r map[string]any) {
					query, _ := r["query"].(string)
					r["query"] = strings.Replace(query, "> 120", "> 86400", 1)
				})
			},
			"rules_version", "TargetDown warning has expr: `86400 or ignoring` instead of `120 or ignoring`",
		},
		"recording rules absent": {
			func(c *chain) {
				c.edit = removeRules(func(name string) bool { return strings.HasPrefix(name, "chatstack:") })
			},
			"rules_version", "chatstack:target_down_seconds:any is missing",
		},
		"recording rules in another Prometheus": {
			func(c *chain) { c.unrecorded = []string{"chatstack:exporter_up"} },
			"recording_rules", "should have recorded: chatstack:exporter_up",
		},
		"metrics dropped by relabeling": {
			func(c *chain) { c.dropped = []string{"chatstack_exporter_starting", "chatstack_rules_info"} },
			"metric", "the exporter has: chatstack_exporter_starting, chatstack_rules_info",
		},
		"a group with an interval of an hour": {
			func(c *chain) { c.edit = func(group map[string]any) { group["interval"] = 3600 } },
			"rules_version", "the group chatstack is evaluated every 1h0m instead of 30s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				c := newChain(t)
				c.flags.DryRun = true
				tt.cause(c)
				steps, verdict, err := c.drill(contextOf(t), t)
				must(t, err)
				got := stepOf(steps, tt.step)
				if verdict != alertpath.Wrong || got.State != alertpath.Wrong || !strings.Contains(got.Error, tt.says) {
					t.Errorf("%s, got %+v", verdict, got)
				}
			})
		})
	}
}

// TestDrillAsksAgainForWhatIsMissing has a metric and a recorded series that Prometheus gets with its next scrape.
func TestDrillAsksAgainForWhatIsMissing(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		c := newChain(t)
		c.flags.DryRun = true
		c.dropped, c.unrecorded = []string{"chatstack_exporter_starting"}, []string{"chatstack:exporter_up"}
		c.repaired = time.Now().Add(20 * time.Second)
		steps, _, err := c.drill(contextOf(t), t)
		must(t, err)
		if stepOf(steps, "metric").State != alertpath.Works || stepOf(steps, "recording_rules").State != alertpath.Works {
			t.Errorf("got %+v", steps)
		}
	})
}

// TestDrillOverARuler has servers that lack a part of Prometheus' API, and show rules in another shape.
func TestDrillOverARuler(t *testing.T) {
	for name, tt := range map[string]struct {
		cause func(t *testing.T, c *chain)
		want  map[string]alertpath.State
	}{
		"Mimir": {
			func(_ *testing.T, c *chain) {
				c.lacks = []string{"/api/v1/targets", "/api/v1/status/config", "/api/v1/status/runtimeinfo", "/api/v1/alertmanagers"}
			},
			map[string]alertpath.State{"scrape": "unknown", "labels": "works", "metric": "works", "rules_version": "works"},
		},
		"Mimir with an edited rule": {
			func(_ *testing.T, c *chain) {
				c.lacks = []string{"/api/v1/targets", "/api/v1/status/config", "/api/v1/status/runtimeinfo", "/api/v1/alertmanagers"}
				c.edit = editRules("TargetDown", func(r map[string]any) { r["duration"] = 3600 })
			},
			map[string]alertpath.State{"scrape": "unknown", "rules_version": "wrong"},
		},
		"Thanos, which adds its external labels": {
			func(_ *testing.T, c *chain) {
				c.lacks = []string{"/api/v1/targets", "/api/v1/status/config", "/api/v1/status/runtimeinfo", "/api/v1/alertmanagers"}
				c.edit = editRules("", func(r map[string]any) {
					delete(r, "keepFiringFor")
					labels, _ := r["labels"].(map[string]any)
					if labels == nil {
						labels = map[string]any{}
					}
					labels["replica"], r["labels"] = "a", labels
				})
			},
			map[string]alertpath.State{"rules": "works", "rules_version": "works", "metric": "works", "recording_rules": "works"},
		},
		"vmalert, which has no labels where a rule has none": {
			func(t *testing.T, c *chain) {
				t.Helper()
				c.flags.Ruler = serve(t, c.answer(t, c.prometheus))
				c.lacks = []string{"/api/v1/status/config", "/api/v1/status/runtimeinfo", "/api/v1/alertmanagers"}
				c.edit = editRules("", func(r map[string]any) {
					r["keep_firing_for"], r["datasourceType"], r["debug"] = r["keepFiringFor"], "prometheus", false
					if r["keep_firing_for"] == nil {
						r["keep_firing_for"] = 0
					}
					delete(r, "keepFiringFor")
				})
			},
			map[string]alertpath.State{"scrape": "works", "rules_version": "works", "evaluation": "works"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inSimulatedTime(t, func(t *testing.T) {
				c := newChain(t)
				c.flags.DryRun = true
				tt.cause(t, c)
				steps, _, err := c.drill(contextOf(t), t)
				must(t, err)
				for step, want := range tt.want {
					if got := stepOf(steps, step); got.State != want {
						t.Errorf("want %s, got %+v", want, got)
					}
				}
			})
		})
	}
}
