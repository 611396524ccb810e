package alertpath

import (
	"errors"
	"maps"
	"slices"
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
			ConfigFile: "our.yaml",
			Job:        "chatstack_exporter",
			Lookback:   2 * time.Minute,
			Clocks:     time.Minute,
			LabelCheck: map[string]string{"target": "ours"},
			Drill:      "ChatstackDrill",
			Checksum:   "abcd",
		},
		Now:          noon,
		Exporter:     Server{URL: "http://e", Version: "1", ClockKnown: true},
		Prometheus:   Server{URL: "http://p", ClockKnown: true, Ahead: time.Second},
		Alertmanager: Server{URL: "http://a", ClockKnown: true},
		Checksums:    []string{"abcd"},
		unserved:     map[string]error{},
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
	rule := func(kind, name, query string, labels map[string]string) Rule {
		keep := 300.0
		return Rule{
			Name:     name,
			Type:     kind,
			Query:    query,
			Duration: 120,
			Keep:     &keep,
			Labels:   labels,
			Health:   "ok",
		}
	}
	ours := func(severity string) map[string]string {
		labels := map[string]string{"stack": "chat", "severity": severity}
		maps.DeleteFunc(labels, func(_, value string) bool { return value == "" })
		return labels
	}
	f.Rules = Group{Interval: 30, Rules: []Rule{
		rule("alerting", "ChatstackDrill", "chatstack_drill == 1", ours("")),
		rule("alerting", "TargetDown", `max without (job) (chatstack:down{kind="a b"}) > 2000000000`, ours("critical")),
		rule("alerting", "Watchdog", "vector(1)", ours("none")),
		rule("recording", "chatstack:down", "max(chatstack_target_down_seconds)", nil),
	}}
	f.Rules.Rules[0].Duration = 0
	f.Groups = []Group{{
		Name:           "chatstack",
		File:           "chatstack.rules.yml",
		Interval:       30,
		LastEvaluation: noon.Add(-20 * time.Second),
		Rules:          slices.Clone(f.Rules.Rules),
	}}
	f.loaded("Watchdog").Alerts = []Alert{{State: "firing", ActiveAt: noon.Add(-time.Hour)}}
	return f
}

// loaded is a rule as Prometheus has it, with labels of its own.
func (f *Facts) loaded(name string) *Rule {
	rules := f.Groups[0].Rules
	r := &rules[slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })]
	r.Labels = maps.Clone(r.Labels)
	return r
}

// without removes a loaded rule.
func (f *Facts) without(name string) {
	f.Groups[0].Rules = slices.DeleteFunc(f.Groups[0].Rules, func(r Rule) bool { return r.Name == name })
}

// relabelMetrics gives the exporter's job metric_relabel_configs.
func (f *Facts) relabelMetrics(t *testing.T, entries string) {
	t.Helper()
	config := "scrape_configs: [{job_name: chatstack_exporter, honor_labels: true, metric_relabel_configs: [" + entries + "]}]"
	if err := yaml.Unmarshal([]byte(config), &f.Setup); err != nil {
		t.Fatal(err)
	}
}

func receivedBy(labels map[string]string, receivers ...string) Received {
	r := Received{Labels: labels, StartsAt: noon}
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
	if len(steps) != 13 {
		t.Errorf("%d steps, want 13", len(steps))
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
			"http://a answers, version unknown; another one does not: connection refused",
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
			"job_name: chatstack_exporter in prometheus.yml; or set alerts.job in our.yaml",
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
			"a scrape interval that VictoriaMetrics shows",
			func(f *Facts) {
				f.Targets[0].Interval, f.Targets[0].Discovered = "", map[string]string{"__scrape_interval__": "20s"}
			},
			StepScrape,
			Works,
			"every 20s",
			"",
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
					f.Groups[0].Rules[i].Labels, f.Groups[0].Rules[i].Name = nil, "Another"
				}
			},
			StepRules,
			Wrong,
			"not loaded",
			"rule_files",
		},
		{
			"no drill",
			func(f *Facts) { f.without("ChatstackDrill") },
			StepRules,
			Wrong,
			"ChatstackDrill is missing",
			"rules --config.file=our.yaml`",
		},
		{
			"an exporter with other settings",
			func(f *Facts) { f.Checksums = []string{"1234"} },
			StepVersion,
			Unknown,
			"other alert settings (1234) than this command reads (abcd)",
			"--config.file",
		},
		{
			"one of two exporters has these settings",
			func(f *Facts) { f.Checksums = []string{"1234", "abcd"} },
			StepVersion,
			Works,
			"all 4 rules are as",
			"",
		},
		{
			"a rule deleted",
			func(f *Facts) { f.without("TargetDown") },
			StepVersion,
			Wrong,
			"configuration: TargetDown critical is missing",
			"rules --config.file=our.yaml`",
		},
		{
			"a recording rule deleted",
			func(f *Facts) { f.without("chatstack:down") },
			StepVersion,
			Wrong,
			"chatstack:down is missing",
			"deploy",
		},
		{
			"a threshold edited",
			func(f *Facts) {
				r := f.loaded("TargetDown")
				r.Query = strings.Replace(r.Query, "2000000000", "9000000000", 1)
			},
			StepVersion,
			Wrong,
			"TargetDown critical has expr: `9000000000` instead of `2000000000`",
			"deploy",
		},
		{
			"a comparison edited",
			func(f *Facts) { r := f.loaded("TargetDown"); r.Query = strings.Replace(r.Query, ">", "<", 1) },
			StepVersion,
			Wrong,
			"expr: `< 2000000000` instead of `> 2000000000`",
			"deploy",
		},
		{
			"a word in a label edited",
			func(f *Facts) { r := f.loaded("TargetDown"); r.Query = strings.Replace(r.Query, "a b", "a  b", 1) },
			StepVersion,
			Wrong,
			"TargetDown critical has expr:",
			"deploy",
		},
		{
			"the end of an expression cut off",
			func(f *Facts) { r := f.loaded("TargetDown"); r.Query = strings.TrimSuffix(r.Query, " > 2000000000") },
			StepVersion,
			Wrong,
			"TargetDown critical has expr:",
			"deploy",
		},
		{
			"an expression printed by Prometheus 2",
			func(f *Facts) {
				r := f.loaded("TargetDown")
				r.Query = `max without(job)(chatstack:down{kind="a b"}) > 2e+09`
			},
			StepVersion,
			Works,
			"all 4 rules",
			"",
		},
		{
			"for edited",
			func(f *Facts) { f.loaded("TargetDown").Duration = 3600 },
			StepVersion,
			Wrong,
			"TargetDown critical has for: `1h0m` instead of `2m`",
			"deploy",
		},
		{
			"keep_firing_for edited",
			func(f *Facts) { keep := 0.0; f.loaded("TargetDown").Keep = &keep },
			StepVersion,
			Wrong,
			"TargetDown critical has keep_firing_for: `0s` instead of `5m`",
			"deploy",
		},
		{
			"keep_firing_for edited in vmalert",
			func(f *Facts) { keep := 0.0; r := f.loaded("TargetDown"); r.Keep, r.KeepOfVMAlert = nil, &keep },
			StepVersion,
			Wrong,
			"keep_firing_for: `0s` instead of `5m`",
			"deploy",
		},
		{
			"a server that does not show keep_firing_for",
			func(f *Facts) { f.loaded("TargetDown").Keep = nil },
			StepVersion,
			Works,
			"all 4 rules",
			"",
		},
		{
			"a severity edited",
			func(f *Facts) { f.loaded("TargetDown").Labels["severity"] = "info" },
			StepVersion,
			Wrong,
			"TargetDown critical is missing",
			"deploy",
		},
		{
			"a label edited",
			func(f *Facts) { f.loaded("TargetDown").Labels["stack"] = "other" },
			StepVersion,
			Wrong,
			"TargetDown critical is missing",
			"deploy",
		},
		{
			"a label more",
			func(f *Facts) { f.loaded("TargetDown").Labels["team"] = "chat" },
			StepVersion,
			Works,
			"all 4 rules",
			"",
		},
		{
			"a recording rule with a label more",
			func(f *Facts) { f.loaded("chatstack:down").Labels = map[string]string{"team": "x"} },
			StepVersion,
			Wrong,
			`chatstack:down has another label: team="x"`,
			"deploy",
		},
		{
			"a recording rule with a label that all series have",
			func(f *Facts) {
				f.loaded("chatstack:down").Labels = map[string]string{"env": "prod"}
				f.Builds[0]["env"] = "prod"
			},
			StepVersion,
			Works,
			"all 4 rules",
			"",
		},
		{
			"kube-prometheus has rules with names of ours",
			func(f *Facts) {
				general := Group{
					Name:           "general.rules",
					Interval:       60,
					LastEvaluation: noon,
					Rules:          slices.Clone(f.Groups[0].Rules[1:3]),
				}
				for i := range general.Rules {
					r := &general.Rules[i]
					r.Query, r.Labels = "up == 0", map[string]string{"severity": r.Labels["severity"]}
				}
				f.Groups = slices.Insert(f.Groups, 0, general)
			},
			StepVersion,
			Works,
			"all 4 rules",
			"",
		},
		{
			"a group with an interval of an hour",
			func(f *Facts) { f.Groups[0].Interval = 3600 },
			StepVersion,
			Wrong,
			"configuration: the group chatstack is evaluated every 1h0m instead of 30s",
			"deploy",
		},
		{
			"an older file beside it",
			func(f *Facts) {
				old := f.Groups[0]
				old.Rules = slices.Clone(old.Rules)
				old.Rules[1].Query = "vector(0)"
				f.Groups = append(f.Groups, old)
			},
			StepVersion,
			Wrong,
			"TargetDown critical has expr:",
			"deploy",
		},
		{
			"many differences",
			func(f *Facts) { f.Groups[0].Interval, f.Groups[0].Rules = 60, f.Groups[0].Rules[:1] },
			StepVersion,
			Wrong,
			"every 1m instead of 30s; TargetDown critical is missing; Watchdog none is missing; and 1 more",
			"deploy",
		},
		{
			"recording rules in another Prometheus",
			func(f *Facts) { f.missing = []string{"chatstack:down"} },
			StepRecording,
			Wrong,
			"lacks the series that the rules should have recorded: chatstack:down",
			"where the alert rules are",
		},
		{
			"metrics dropped",
			func(f *Facts) { f.missing = []string{"chatstack_a", "chatstack_b", "chatstack:down"} },
			StepMetric,
			Wrong,
			"lacks the series that the rules read and the exporter has: chatstack_a, chatstack_b",
			"metric_relabel_configs",
		},
		{
			"metrics dropped that exist only while something is down",
			func(f *Facts) {
				f.relabelMetrics(t, "{source_labels: [__name__], regex: 'go_.*|chatstack_target_down.*', action: drop}")
			},
			StepMetric,
			Wrong,
			"drops metrics that the rules read: chatstack_target_down_seconds",
			"metric_relabel_configs",
		},
		{
			"only ours kept, and only of some targets",
			func(f *Facts) {
				f.relabelMetrics(t, "{source_labels: [__name__], regex: 'chatstack_.+', action: keep}, "+
					"{source_labels: [target], regex: web, action: keep}")
			},
			StepMetric,
			Works,
			"has all series",
			"",
		},
		{
			"the exporter is down, and its metrics are not known",
			func(f *Facts) { f.missingErr = errors.New("refused") },
			StepMetric,
			Unknown,
			"has: refused",
			"",
		},
		{
			"a ruler that lists no targets",
			func(f *Facts) { f.Targets, f.unserved["targets"] = nil, errors.New("status 404") },
			StepScrape,
			Unknown,
			"does not say how often it gets them: status 404",
			"",
		},
		{
			"a ruler without the exporter's series",
			func(f *Facts) { f.Targets, f.Builds, f.unserved["targets"] = nil, nil, errors.New("status 404") },
			StepScrape,
			Wrong,
			"no target",
			"scrape.yml",
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
			"no Alertmanager just after a reload",
			func(f *Facts) { f.Known, f.Setup.Alerting.Servers = nil, make([]alertmanagers, 1) },
			StepSending,
			Unknown,
			"not found yet",
			"wait ten seconds",
		},
		{
			"one of two Alertmanagers is dead",
			func(f *Facts) {
				f.Known, f.Lost = append(f.Known, "http://b/api/v2/alerts"), []string{"http://b/api/v2/alerts"}
			},
			StepSending,
			Unknown,
			"of 2 Alertmanagers, Prometheus cannot send to http://b/api/v2/alerts; Watchdog has arrived before",
			"start it",
		},
		{
			"the only Alertmanager is dead since Watchdog has arrived",
			func(f *Facts) { f.Lost = f.Known },
			StepSending,
			Unknown,
			"of 1 Alertmanagers, Prometheus cannot send to http://a/api/v2/alerts; Watchdog has arrived before",
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
			"http://a, as Prometheus reaches it, and its basic_auth or authorization",
		},
		{
			"nothing arrives yet",
			func(f *Facts) { f.Alerts, f.loaded("Watchdog").Alerts[0].ActiveAt = nil, noon.Add(-30*time.Second) },
			StepSending,
			Unknown,
			"not arrived",
			"wait",
		},
		{
			"Alertmanager has just started, and was missed",
			func(f *Facts) {
				f.Alerts, f.SendErrors, f.Alertmanager.Started = nil, map[string]float64{"x": 3}, noon.Add(-119*time.Second)
			},
			StepSending,
			Unknown,
			"has just started",
			"wait two minutes",
		},
		{
			"Alertmanager has started two minutes ago",
			func(f *Facts) { f.Alerts, f.Alertmanager.Started = nil, noon.Add(-2*time.Minute) },
			StepSending,
			Wrong,
			"without an error",
			"http://a, as Prometheus reaches it",
		},
		{
			"Watchdog does not fire yet",
			func(f *Facts) { f.Alerts, f.loaded("Watchdog").Alerts = nil, nil },
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
				f.Silences = []routing.Silence{silence(t, noon.Add(-time.Hour), noon.Add(time.Hour), "alertname", "Watch.*")}
			},
			StepWatchdog,
			Wrong,
			"silence s1 by anna until 2026-05-01 13:00 UTC (move)",
			"end it",
		},
		{
			"Watchdog inhibited",
			func(f *Facts) {
				f.routing = shippedRouting(t, "alertmanager.yml", "inhibit_rules:\n",
					"inhibit_rules:\n  - {source_matchers: [alertname=X], target_matchers: [alertname=Watchdog]}\n")
				f.Alerts = append(f.Alerts, receivedBy(map[string]string{"alertname": "X", "a": "b"}))
			},
			StepWatchdog,
			Wrong,
			`inhibited by X a="b"`,
			"end it",
		},
		{
			"Alertmanager holds back Watchdog for another reason",
			func(f *Facts) { f.Alerts[0].Status.State = "suppressed" },
			StepWatchdog,
			Wrong,
			"Watchdog is suppressed",
			"end it",
		},
		{
			"Watchdog is muted at night",
			func(f *Facts) {
				f.routing = shippedRouting(t, "alertmanager.yml", "- receiver: heartbeat\n",
					"- receiver: heartbeat\n      active_time_intervals: [waking_hours]\n")
			},
			StepWatchdog,
			Wrong,
			`at Fri 22:30 +0000, the route to "heartbeat" sends only during waking_hours`,
			"intervals",
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
	const upper = "alert_relabel_configs: [{action: uppercase, source_labels: [env], target_label: env}]"
	for name, tt := range map[string]struct {
		env, setup string
		want       State
	}{
		"this environment":                      {"prod", "", Works},
		"another environment":                   {"staging", "", Wrong},
		"no environment":                        {"", "", Wrong},
		"no environment, which is relabelled":   {"", "alert_relabel_configs: [{action: labeldrop, regex: env}]", Works},
		"no environment, with other relabeling": {"", "alert_relabel_configs: [{action: labeldrop, regex: replica}]", Wrong},
		"in upper case by relabeling":           {"PROD", upper, Works},
		"not in upper case":                     {"prod", upper, Wrong},
		"for one of two groups":                 {"PROD", "alertmanagers: [{}, {" + upper + "}]", Works},
		"for the other one":                     {"prod", "alertmanagers: [{}, {" + upper + "}]", Works},
		"dropped":                               {"prod", "alert_relabel_configs: [{action: drop}]", Wrong},
	} {
		t.Run(name, func(t *testing.T) {
			f := soundFacts(t)
			f.SendErrors = map[string]float64{"x": 3}
			f.Setup.Global.ExternalLabels = map[string]string{"env": "prod", "severity": "overridden"}
			if err := yaml.Unmarshal([]byte(tt.setup), &f.Setup.Alerting); err != nil {
				t.Fatal(err)
			}
			f.loaded("Watchdog").Labels = map[string]string{"stack": "chat", "severity": "none"}
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

// TestDrillWaitsForVMAlert holds that its rules may see a drill half a minute late.
func TestDrillWaitsForVMAlert(t *testing.T) {
	f := soundFacts(t)
	f.Groups[0].Interval = 120
	before := f.Lasts("none")
	keep := 0.0
	f.loaded("ChatstackDrill").KeepOfVMAlert = &keep
	if got := f.Lasts("none"); got != before+30*time.Second {
		t.Errorf("a drill lasts %s, and with vmalert %s", before, got)
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
	f.Groups[0].Interval, f.LabelChecks[0], f.missing = 60, nil, []string{"chatstack:down"}
	if blocked := Blocked(Chain(f)); len(blocked) > 0 {
		t.Errorf("%v blocks, which only makes alerts wrong", blocked)
	}
	f.Groups, f.Targets = nil, nil
	if blocked := strings.Join(Blocked(Chain(f)), " "); blocked != "scrape rules" {
		t.Errorf("%q blocks, want scrape and rules", blocked)
	}
}
