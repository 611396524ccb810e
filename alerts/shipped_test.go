package alerts_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
)

func shipped(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// TestWarningIsRepeatedBeforeTheNightIsOver holds that an alert which ended and came again is not kept quiet for longer
// than the hours in which its end could not be told.
func TestWarningIsRepeatedBeforeTheNightIsOver(t *testing.T) {
	var config struct {
		Route struct {
			Repeat model.Duration `yaml:"repeat_interval"`
		} `yaml:"route"`
		Intervals []struct {
			Intervals []struct {
				Times []struct {
					Start string `yaml:"start_time"`
					End   string `yaml:"end_time"`
				} `yaml:"times"`
			} `yaml:"time_intervals"`
		} `yaml:"time_intervals"`
	}
	if err := yaml.Unmarshal([]byte(shipped(t, "../deploy/alertmanager/alertmanager.yml")), &config); err != nil {
		t.Fatal(err)
	}
	clock := func(s string) time.Duration {
		at, err := time.Parse("15:04", s)
		if err != nil {
			t.Fatal(err)
		}
		return at.Sub(at.Truncate(24 * time.Hour))
	}
	day := config.Intervals[0].Intervals[0].Times[0]
	night := 24*time.Hour - (clock(day.End) - clock(day.Start))
	if repeat := time.Duration(config.Route.Repeat); repeat >= night {
		t.Errorf("repeat_interval is %s, want less than the %s in which nothing is told", repeat, night)
	}
}

// TestChannelIsToldOfCriticalAlertsWithoutAWarning holds the alerts of one route against the table of the rules.
func TestChannelIsToldOfCriticalAlertsWithoutAWarning(t *testing.T) {
	// The warnings of these are about something else: one exporter of several, what somebody removed, and targets that do not page.
	want := []string{"ExporterDown", "ContainerMissing", "XMPPComponentDisconnected", "IRCServicesUnlinked", "BridgeNotRelaying"}
	severities := map[string]string{}
	for _, r := range rulesFor(t, alerts.Defaults()) {
		severities[r.Alert] += r.Labels["severity"]
	}
	for name, all := range severities {
		if all == alerts.Critical {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	route := `'severity="critical"', 'alertname=~"` + strings.Join(want, "|") + `"']`
	if !strings.Contains(shipped(t, "../deploy/alertmanager/alertmanager.yml"), route) {
		t.Errorf("alertmanager.yml has no route with %s", route)
	}
	for _, name := range want {
		if !strings.Contains(shipped(t, "../deploy/alertmanager/README.md"), "`"+name+"`") {
			t.Errorf("the README does not tell that the channel is told of %s", name)
		}
	}
}

// TestWhatIsAheadHasAPageOfItsOwn holds that no page of an outage contains a critical alert on what users will lose.
func TestWhatIsAheadHasAPageOfItsOwn(t *testing.T) {
	// Nothing is down either while these last.
	want := []string{"ContainerMemory", "XMPPAuthFailureRate"}
	for _, r := range rulesFor(t, alerts.Defaults()) {
		if r.Labels["severity"] == alerts.Critical && alerts.Ahead(r.Alert) {
			want = append(want, r.Alert)
		}
	}
	slices.Sort(want)
	if route := `        - matchers: ['alertname=~"` + strings.Join(want, "|") + `"']`; !strings.Contains(
		shipped(t, "../deploy/alertmanager/alertmanager.yml"), route) {
		t.Errorf("alertmanager.yml has no route with %s", route)
	}
	for _, name := range want {
		if !strings.Contains(shipped(t, "../deploy/alertmanager/README.md"), "`"+name+"`") {
			t.Errorf("the README does not tell that %s has a page of its own", name)
		}
	}
}

// TestInhibitionsAreOfTheseRules holds that no alert of other rules silences ours, or is silenced.
func TestInhibitionsAreOfTheseRules(t *testing.T) {
	for _, file := range []string{"../deploy/alertmanager/alertmanager.yml", "../deploy/alertmanager/first.yml"} {
		var config struct {
			Rules []struct {
				Source []string `yaml:"source_matchers"`
				Target []string `yaml:"target_matchers"`
			} `yaml:"inhibit_rules"`
		}
		if err := yaml.Unmarshal([]byte(shipped(t, file)), &config); err != nil || len(config.Rules) == 0 {
			t.Fatalf("%s: %d inhibitions, %v", file, len(config.Rules), err)
		}
		for i, rule := range config.Rules {
			if !slices.Contains(rule.Source, `stack="chat"`) || !slices.Contains(rule.Target, `stack="chat"`) {
				t.Errorf("%s: inhibition %d is not of alerts with stack=\"chat\" alone", file, i)
			}
		}
	}
}

// TestScrapeJobInTheReadmeIsTheRules holds what the rules rest on.
func TestScrapeJobInTheReadmeIsTheRules(t *testing.T) {
	readme := shipped(t, "../README.md")
	for _, line := range []string{
		"- job_name: " + alerts.Defaults().Job, "scrape_interval: 30s", "scrape_timeout: 10s", "honor_labels: true",
	} {
		if !strings.Contains(readme, line+"\n") {
			t.Errorf("the README's scrape configuration lacks %q", line)
		}
	}
}
