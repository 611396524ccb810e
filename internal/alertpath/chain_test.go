package alertpath

import (
	"errors"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/failure"
	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// soundFacts are those of a path where everything works.
func soundFacts(t *testing.T) *Facts {
	t.Helper()
	f := &Facts{
		Expected: Expected{
			Job:        "chatstack_exporter",
			Lookback:   2 * time.Minute,
			Clocks:     time.Minute,
			LabelCheck: map[string]string{"target": "ours"},
			Drill:      "ChatstackDrill",
		},
		Now:          noon,
		Exporter:     Server{URL: "http://e", Version: "1", ClockKnown: true},
		Prometheus:   Server{URL: "http://p", ClockKnown: true, Ahead: time.Second},
		Alertmanager: Server{URL: "http://a", ClockKnown: true},
		Checksums:    []string{"abcd"},
		Targets: []Target{{
			Labels:    map[string]string{"job": "chatstack_exporter"},
			ScrapeURL: "http://e/metrics",
			Health:    "up",
			Interval:  "30s",
		}},
		Builds:      []map[string]string{{"job": "chatstack_exporter"}},
		LabelChecks: []map[string]string{{"target": "ours"}},
		Subjects:    []map[string]string{{"env": "prod"}, {"env": "prod", "target": "web", "kind": "http", "chat_server": "web"}},
		Known:       []string{"http://a/api/v2/alerts"},
		routing:     shippedRouting(t, "alertmanager.yml"),
		Alerts:      []Received{receivedBy(map[string]string{"alertname": "Watchdog", "stack": "chat", "severity": "none"}, "heartbeat")},
	}
	rule := func(name, query, severity string) Rule {
		return Rule{
			Name:  name,
			Type:  "alerting",
			Query: query,
			Labels: map[string]string{
				"stack": "chat", "severity": severity, "chat_server": "{{ with query (printf `x` $labels.target) }}{{ end }}",
			},
			Health: "ok",
		}
	}
	watchdog := rule("Watchdog", "vector(1)", "none")
	watchdog.Alerts = []Alert{{State: "firing", ActiveAt: noon.Add(-time.Hour)}}
	f.Groups = []Group{{
		Name:           "chatstack",
		File:           "chatstack.rules.yml",
		Interval:       30,
		LastEvaluation: noon.Add(-20 * time.Second),
		Rules: []Rule{
			rule("ChatstackDrill", "chatstack_drill == 1", ""),
			rule("RulesOutOfDate", `max (chatstack_rules_info{checksum!="abcd"}) == 1`, "warning"), watchdog,
			rule("TargetDown", "down > 120", "warning"), rule("TargetDown", "down > 300", "critical"),
		},
	}}
	return f
}

func receivedBy(labels map[string]string, receivers ...string) Received {
	r := Received{Labels: labels, Fingerprint: "f-" + labels["alertname"], StartsAt: noon}
	for _, name := range receivers {
		r.Receivers = append(r.Receivers, struct {
			Name string `json:"name"`
		}{name})
	}
	return r
}

// find returns a step, which is empty if there is none.
func find(steps []Step, name string) (found Step) {
	for _, s := range steps {
		if s.Name == name {
			found = s
		}
	}
	return found
}

func TestSoundChainWorks(t *testing.T) {
	steps := Chain(soundFacts(t))
	if len(steps) != 11 {
		t.Errorf("%d steps, want 11", len(steps))
	}
	for _, s := range steps {
		if s.State != Works || s.Text == "" || s.Hint != "" {
			t.Errorf("%+v", s)
		}
	}
	if blocked := Blocked(steps); len(blocked) > 0 {
		t.Errorf("blocked: %v", blocked)
	}
}

func TestChainNamesWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name  string
		cause func(f *Facts)
		step  string
		state State
		says  string
		hint  string
	}{
		{
			"exporter refuses",
			func(f *Facts) { f.Exporter.Err = failure.Errorf(failure.Refused, "refused").WithHint("start it") },
			StepExporter,
			Wrong,
			"refused",
			"start it",
		},
		{
			"Prometheus refuses",
			func(f *Facts) { f.Prometheus.Err = errors.New("refused") },
			StepPrometheus,
			Wrong,
			"refused",
			"",
		},
		{
			"Alertmanager refuses",
			func(f *Facts) { f.Alertmanager.Err = errors.New("refused") },
			StepAlertmanager,
			Wrong,
			"refused",
			"",
		},
		{
			"another Alertmanager of the cluster refuses",
			func(f *Facts) { f.Silent = failure.Errorf(failure.Refused, "connection refused").WithHint("start it") },
			StepAlertmanager,
			Unknown,
			"http://a answers, version ; another one does not: connection refused",
			"start it",
		},
		{
			"exporter's clock",
			func(f *Facts) { f.Exporter.Ahead = -time.Hour },
			StepClocks,
			Wrong,
			"Prometheus is 1h0m1s ahead of the clock of the exporter",
			"timedatectl",
		},
		{
			"one clock",
			func(f *Facts) { f.Exporter.ClockKnown, f.Prometheus.ClockKnown = false, false },
			StepClocks,
			Unknown,
			"fewer than two",
			"",
		},
		{
			"a second is no fault",
			func(f *Facts) { f.Alertmanager.Ahead = time.Minute },
			StepClocks,
			Works,
			"agree to 1m",
			"",
		},
		{
			"other job",
			func(f *Facts) { f.Targets, f.Builds = nil, []map[string]string{{"job": "x"}} },
			StepScrape,
			Wrong,
			`job "x"`,
			"job_name: chatstack_exporter",
		},
		{
			"no target",
			func(f *Facts) { f.Targets, f.Builds = nil, nil },
			StepScrape,
			Wrong,
			"no target",
			"scrape.yml",
		},
		{
			"target down",
			func(f *Facts) { f.Targets[0].Health, f.Targets[0].LastError = "down", "status 401" },
			StepScrape,
			Wrong,
			"status 401",
			"credentials",
		},
		{
			"not scraped yet",
			func(f *Facts) { f.Targets[0].Health = "unknown" },
			StepScrape,
			Unknown,
			"not scraped",
			"wait",
		},
		{
			"something else",
			func(f *Facts) { f.Builds = nil },
			StepScrape,
			Wrong,
			"not a chatstack_exporter",
			"address",
		},
		{
			"too seldom",
			func(f *Facts) { f.Targets[0].Interval = "5m" },
			StepScrape,
			Wrong,
			"every 5m",
			"scrape_interval: 30s",
		},
		{
			"label overwritten",
			func(f *Facts) { f.LabelChecks[0] = map[string]string{"target": "x"} },
			StepLabels,
			Wrong,
			`target with "x"`,
			"honor_labels: true",
		},
		{
			"no label check",
			func(f *Facts) { f.LabelChecks = nil },
			StepLabels,
			Unknown,
			"no chatstack_label_check",
			"scrape",
		},
		{
			"no rules",
			func(f *Facts) { f.Groups = nil },
			StepRules,
			Wrong,
			"not loaded",
			"rule_files",
		},
		{
			"rules of others",
			func(f *Facts) {
				for i := range f.Groups[0].Rules {
					f.Groups[0].Rules[i].Labels = nil
				}
			},
			StepRules,
			Wrong,
			"not loaded",
			"rule_files",
		},
		{
			"no drill",
			func(f *Facts) { f.Groups[0].Rules = f.Groups[0].Rules[1:] },
			StepRules,
			Wrong,
			"ChatstackDrill is missing",
			"deploy",
		},
		{
			"other version",
			func(f *Facts) { f.Checksums = []string{"1234"} },
			StepVersion,
			Wrong,
			"(abcd) do not match the exporter's configuration (1234)",
			"deploy",
		},
		{
			"two exporters differ",
			func(f *Facts) { f.Checksums = []string{"1234", "abcd"} },
			StepVersion,
			Wrong,
			"(1234, abcd)",
			"deploy",
		},
		{
			"two versions",
			func(f *Facts) {
				f.Groups = append(f.Groups, f.Groups[0])
				f.Groups[1].Rules = []Rule{{
					Name:   "RulesOutOfDate",
					Type:   "alerting",
					Labels: map[string]string{"stack": "chat"},
					Query:  `chatstack_rules_info{checksum!="1234"}`,
				}}
			},
			StepVersion,
			Wrong,
			"1234, abcd",
			"older file",
		},
		{
			"no checksum",
			func(f *Facts) { f.Checksums = nil },
			StepVersion,
			Unknown,
			"cannot be compared",
			"",
		},
		{
			"rule error",
			func(f *Facts) { f.Groups[0].Rules[0].Health, f.Groups[0].Rules[0].LastError = "err", "many-to-many" },
			StepEvaluation,
			Wrong,
			"ChatstackDrill fails: many-to-many",
			"prints them",
		},
		{
			"evaluated long ago",
			func(f *Facts) { f.Groups[0].LastEvaluation = noon.Add(-10 * time.Minute) },
			StepEvaluation,
			Wrong,
			"10m1s ago",
			"log",
		},
		{
			"by Prometheus' clock it is not",
			func(f *Facts) {
				f.Groups[0].LastEvaluation, f.Prometheus.Ahead = noon.Add(-30*time.Second), -20*time.Second
			},
			StepEvaluation,
			Works,
			"every 30s",
			"",
		},
		{
			"never evaluated",
			func(f *Facts) { f.Groups[0].LastEvaluation = time.Time{} },
			StepEvaluation,
			Unknown,
			"not been evaluated",
			"wait",
		},
		{
			"no Alertmanager",
			func(f *Facts) { f.Known = nil },
			StepSending,
			Wrong,
			"knows no Alertmanager",
			"alerting",
		},
		{
			"one of two Alertmanagers is dead",
			func(f *Facts) {
				f.Known, f.Lost = append(f.Known, "http://b/api/v2/alerts"), []string{"http://b/api/v2/alerts"}
			},
			StepSending,
			Unknown,
			"of 2 Alertmanagers, Prometheus cannot send to http://b/api/v2/alerts; if the others fail, nobody is woken",
			"start it",
		},
		{
			"the other Alertmanager is dead, and nothing arrives",
			func(f *Facts) {
				f.Alerts, f.Known, f.Lost = nil, append(f.Known, "http://b/api/v2/alerts"), []string{"http://b/api/v2/alerts"}
			},
			StepSending,
			Wrong,
			"without an error",
			"http://a, as Prometheus reaches it",
		},
		{
			"nothing arrives",
			func(f *Facts) { f.Alerts = nil },
			StepSending,
			Wrong,
			"without an error",
			"http://a, as Prometheus reaches it",
		},
		{
			"sending fails",
			func(f *Facts) { f.Alerts, f.SendErrors = nil, map[string]float64{"x": 3} },
			StepSending,
			Wrong,
			"failed 3 times",
			"http://a, as Prometheus reaches it",
		},
		{
			"nothing arrives yet",
			func(f *Facts) { f.Alerts, f.Groups[0].Rules[2].Alerts[0].ActiveAt = nil, noon.Add(-30*time.Second) },
			StepSending,
			Unknown,
			"not arrived",
			"wait",
		},
		{
			"Watchdog does not fire yet",
			func(f *Facts) { f.Alerts, f.Groups[0].Rules[2].Alerts = nil, nil },
			StepSending,
			Unknown,
			"does not fire",
			"wait",
		},
		{
			"nothing arrives for its clock",
			func(f *Facts) { f.Alerts, f.Alertmanager.Ahead = nil, time.Hour },
			StepSending,
			Wrong,
			"without an error",
			"set the clocks",
		},
		{
			"Watchdog silenced",
			func(f *Facts) {
				f.Alerts[0].Status.SilencedBy = []string{"s1"}
				f.Silences = []routing.Silence{{
					ID:        "s1",
					CreatedBy: "anna",
					Comment:   "why",
					EndsAt:    noon,
				}}
			},
			StepWatchdog,
			Wrong,
			"silence s1 by anna until 2026-05-01 12:00 UTC (why)",
			"end it",
		},
		{
			"Watchdog inhibited",
			func(f *Facts) {
				f.Alerts[0].Status.InhibitedBy = []string{"f-X"}
				f.Alerts = append(f.Alerts, receivedBy(map[string]string{"alertname": "X", "a": "b"}))
			},
			StepWatchdog,
			Wrong,
			`inhibited by X a="b"`,
			"end it",
		},
		{
			"Watchdog goes nowhere",
			func(f *Facts) { f.routing.Integrations["heartbeat"] = nil },
			StepWatchdog,
			Wrong,
			`goes to "heartbeat", which notifies nobody`,
			"outside service",
		},
		{
			"Watchdog goes where other alerts go",
			func(f *Facts) { f.Alerts[0] = receivedBy(f.Alerts[0].Labels, "chat", "page") },
			StepWatchdog,
			Wrong,
			`Watchdog goes to "chat", "page", as other alerts do`,
			"outside service",
		},
		{
			"Watchdog goes there too",
			func(f *Facts) { f.Alerts[0] = receivedBy(f.Alerts[0].Labels, "chat", "heartbeat") },
			StepWatchdog,
			Works,
			"goes to heartbeat (webhook)",
			"",
		},
		{
			"routes are not known",
			func(f *Facts) { f.routing, f.routingErr = nil, errors.New("no YAML") },
			StepWatchdog,
			Unknown,
			"no YAML",
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := soundFacts(t)
			tt.cause(f)
			steps := Chain(f)
			got := find(steps, tt.step)
			if got.State != tt.state || !strings.Contains(got.Text+got.Error, tt.says) || !strings.Contains(got.Hint, tt.hint) {
				t.Errorf("got %+v", got)
			}
			if tt.hint == "" && got.Hint != "" && got.Reason == "" {
				t.Errorf("hint %q, want none", got.Hint)
			}
		})
	}
}

// TestWatchdogOfAnotherPrometheusDoesNotCount has two environments at one Alertmanager.
func TestWatchdogOfAnotherPrometheusDoesNotCount(t *testing.T) {
	var drop routing.Relabeling
	if err := yaml.Unmarshal([]byte("{action: labeldrop, regex: replica}"), &drop); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		env     string
		relabel []routing.Relabeling
		want    State
	}{
		"this environment":                      {"prod", nil, Works},
		"another environment":                   {"staging", nil, Wrong},
		"no environment":                        {"", nil, Wrong},
		"no environment, perhaps by relabeling": {"", []routing.Relabeling{drop}, Works},
		"another one, with relabeling":          {"staging", []routing.Relabeling{drop}, Wrong},
	} {
		t.Run(name, func(t *testing.T) {
			f := soundFacts(t)
			f.SendErrors = map[string]float64{"x": 3}
			f.Setup.Global.ExternalLabels, f.Setup.Alerting.Relabel = map[string]string{"env": "prod", "severity": "overridden"}, tt.relabel
			f.Groups[0].Rules[2].Labels = map[string]string{"stack": "chat", "severity": "none"}
			if tt.env != "" {
				f.Alerts[0].Labels["env"] = tt.env
			}
			steps := Chain(f)
			if got := find(steps, StepSending); got.State != tt.want {
				t.Errorf("got %+v", got)
			}
			if got := find(steps, StepWatchdog); (got.State == Works) != (tt.want == Works) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestSecretsInTheAddressOfATargetAreNotShown(t *testing.T) {
	const address = "http://me:s3cret@gate/metrics?token=s3cret"
	for health, want := range map[string]string{
		"up":      "http://gate/metrics every 30s",
		"down":    `Get "http://gate/metrics": connection refused`,
		"unknown": "http://gate/metrics",
	} {
		f := soundFacts(t)
		f.Targets[0].ScrapeURL, f.Targets[0].Health, f.Targets[0].LastError = address, health, `Get "`+address+`": connection refused`
		s := find(Chain(f), StepScrape)
		if text := s.Text + s.Error; strings.Contains(text, "s3cret") || !strings.Contains(text, want) {
			t.Errorf("%s: %s", health, text)
		}
		if list := targetsOf(f.Targets); list != "http://gate/metrics" {
			t.Errorf("targets: %s", list)
		}
	}
}

func TestDrillIsNotRaisedWhereItShowsNothing(t *testing.T) {
	f := soundFacts(t)
	f.Checksums, f.LabelChecks[0] = []string{"1"}, nil
	if blocked := Blocked(Chain(f)); len(blocked) > 0 {
		t.Errorf("%v blocks, which only makes alerts wrong", blocked)
	}
	f.Groups, f.Targets = nil, nil
	if blocked := strings.Join(Blocked(Chain(f)), " "); blocked != "scrape rules" {
		t.Errorf("%q blocks, want scrape and rules", blocked)
	}
}
