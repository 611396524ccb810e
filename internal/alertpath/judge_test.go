package alertpath

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/routing"
)

// shippedRouting reads a shipped configuration with texts replaced that it must have.
func shippedRouting(t *testing.T, name string, replaced ...string) *routing.Routing {
	t.Helper()
	content, err := os.ReadFile("../../deploy/alertmanager/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return parsedRouting(t, string(content), replaced...)
}

func parsedRouting(t *testing.T, text string, replaced ...string) *routing.Routing {
	t.Helper()
	for i := 0; i < len(replaced); i += 2 {
		if !strings.Contains(text, replaced[i]) {
			t.Fatalf("the configuration lacks %q", replaced[i])
		}
		text = strings.ReplaceAll(text, replaced[i], replaced[i+1])
	}
	r, err := routing.Parse(text, time.UTC)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// judgedFacts have warnings and a critical alert about targets.
func judgedFacts(t *testing.T) *Facts {
	t.Helper()
	f := soundFacts(t)
	f.Groups[0].Rules = nil
	for _, r := range []struct{ name, severity string }{
		{"ChatstackDrill", ""}, {"RulesOutOfDate", warning}, {"Watchdog", "none"}, {"TargetDown", warning}, {"TargetDown", critical},
	} {
		f.Groups[0].Rules = append(f.Groups[0].Rules, Rule{
			Name: r.name,
			Type: "alerting",
			Labels: map[string]string{
				"stack": "chat", "severity": r.severity, "chat_server": "{{ with query (printf `x` $labels.target) }}{{ end }}",
			},
		})
	}
	return f
}

// kubePrometheus is the tree of the chart kube-prometheus-stack, with a route for us at its place.
const kubePrometheus = `
route:
  receiver: "null"
  group_by: [namespace]
  group_wait: 30s
  group_interval: 5m
  routes:
    - {receiver: "null", matchers: ['alertname = "Watchdog"', 'stack=""']}
    - {receiver: "null", matchers: ['alertname = "InfoInhibitor"']}
    - {receiver: drill, matchers: ['drill="true"', 'severity="none"']}
    - {receiver: heartbeat, matchers: ['stack="chat"', 'severity="none"']}
    - {receiver: page, matchers: ['stack="chat"']}
inhibit_rules:
  - {source_matchers: ['severity = critical'], target_matchers: ['severity =~ warning|info'], equal: [namespace, alertname]}
  - {source_matchers: ['severity = warning'], target_matchers: ['severity = info'], equal: [namespace, alertname]}
  - {source_matchers: ['alertname = InfoInhibitor'], target_matchers: ['severity = info'], equal: [namespace]}
  - {target_matchers: ['alertname = InfoInhibitor']}
receivers:
  - name: "null"
  - {name: drill, email_configs: [{to: a}]}
  - {name: heartbeat, webhook_configs: [{url: x}]}
  - {name: page, pagerduty_configs: [{routing_key: x}]}
`

const routeToPage = `    - {receiver: page, matchers: ['stack="chat"']}
`

func silence(t *testing.T, begins, ends time.Time, name, value string) routing.Silence {
	t.Helper()
	var s routing.Silence
	text := fmt.Sprintf(`{"id": "s1", "createdBy": "anna", "comment": "move", "startsAt": %q, "endsAt": %q, "matchers": [{"name": %q, `+
		`"value": %q, "isRegex": true}]}`, begins.Format(time.RFC3339), ends.Format(time.RFC3339), name, value)
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// inTree changes kubePrometheus.
func inTree(replaced ...string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) { t.Helper(); f.routing = parsedRouting(t, kubePrometheus, replaced...) }
}

// before has a route before that to the pager, or one of its keys.
func before(route string) func(*testing.T, *Facts) {
	return inTree(routeToPage, "    - "+route+"\n"+routeToPage)
}

// inhibiting has another rule of inhibition.
func inhibiting(rule string) func(*testing.T, *Facts) {
	return inTree("inhibit_rules:", "inhibit_rules:\n  - "+rule)
}

// alerting has another critical alert, whose rule has more labels.
func (f *Facts) alerting(name, query string, labels map[string]string) {
	all := map[string]string{"stack": "chat", "severity": critical}
	maps.Copy(all, labels)
	f.Groups[0].Rules = append(f.Groups[0].Rules, Rule{
		Name:   name,
		Type:   "alerting",
		Query:  query,
		Labels: all,
	})
}

// logging has a webhook that gets all alerts before the pager.
func logging(replaced ...string) func(*testing.T, *Facts) {
	return inTree(append([]string{
		"  routes:\n", "  routes:\n    - {receiver: logger, continue: true}\n",
		"receivers:\n", "receivers:\n  - {name: logger, webhook_configs: [{url: x}]}\n",
	}, replaced...)...)
}

// mutedAtNight are texts to replace, so that the pager is.
var mutedAtNight = []string{
	`['stack="chat"']}`, `['stack="chat"'], mute_time_intervals: [night]}`,
	"\ninhibit_rules:",
	"\ntime_intervals: [{name: night, time_intervals: [{times: [{start_time: '00:00', end_time: '07:00'}]}]}]\ninhibit_rules:",
}

// relabelled has alert_relabel_configs in Prometheus.
func relabelled(entry string) func(*testing.T, *Facts) {
	return func(t *testing.T, f *Facts) {
		t.Helper()
		inTree()(t, f)
		if err := yaml.Unmarshal([]byte("["+entry+"]"), &f.Setup.Alerting.Relabel); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChainsThatWakeNobodyAreWrong has the ways in which people's alerts are lost, though the alert of a drill arrives.
func TestChainsThatWakeNobodyAreWrong(t *testing.T) {
	const always = "\ntime_intervals:\n  - {name: never, time_intervals: [{years: ['2000']}]}\n" +
		"  - {name: office, time_intervals: [{times: [{start_time: '08:00', end_time: '18:00'}]}]}\ninhibit_rules:"
	for name, tt := range map[string]struct {
		cause func(*testing.T, *Facts)
		step  string
		says  string
	}{
		"kube-prometheus without a route for us": {
			inTree(routeToPage, ""),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		"an earlier route to null": {
			before(`{receiver: "null", matchers: ['alertname=~"Target.*"']}`),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		"a silence of 1000 h": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				inTree()(t, f)
				f.Silences = []routing.Silence{silence(t, noon.Add(-time.Hour), noon.Add(1000*time.Hour), "severity", "critical")}
			},
			StepSilence,
			`critical TargetDown: silence s1 by anna until 2026-06-12 04:00 UTC (move) of {severity=~"critical"}`,
		},
		"a silence that begins at 2 am": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				inTree()(t, f)
				f.Silences = []routing.Silence{silence(t, noon.Add(14*time.Hour), noon.Add(20*time.Hour), "stack", "chat")}
			},
			StepSilence,
			"critical TargetDown: silence s1",
		},
		"a log of all alerts beside a pager that is muted at night": {
			logging(mutedAtNight...),
			StepTimeInterval,
			`critical TargetDown: at Sat 03:00 +0000, the route to "page" sends nothing during night`,
		},
		"a log of all alerts beside a lost route": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				f.alerting("PollStalled", "", nil)
				logging(routeToPage, "    - {receiver: 'null', matchers: ['alertname=\"TargetDown\"']}\n"+routeToPage)(t, f)
			},
			StepRoute,
			`critical TargetDown: to "logger", "null", and not to "page"`,
		},
		"a route to a group of Telegram before the pager": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				before(`{receiver: telegram, matchers: ['chat_server="web"', 'severity="critical"']}`)(t, f)
				f.routing.Integrations["telegram"] = map[string]int{"telegram": 1}
			},
			StepRoute,
			`critical TargetDown: to "telegram", and not to "page"`,
		},
		"a slow route to the pager beside one that is muted at night": {
			logging(append([]string{
				"- {receiver: logger, continue: true}", "- {receiver: page, group_wait: 12h, continue: true}",
			}, mutedAtNight...)...),
			StepTimeInterval,
			`critical TargetDown: at Sat 03:00 +0000, the route to "page" sends nothing during night`,
		},
		"a silence of one server": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				inTree()(t, f)
				f.Silences = []routing.Silence{silence(t, noon.Add(-time.Hour), noon.Add(24*time.Hour), "chat_server", "we.")}
			},
			StepSilence,
			"critical TargetDown: silence s1",
		},
		"alert_relabel_configs that drop critical": {
			relabelled("{source_labels: [severity], regex: critical, action: drop}"),
			StepRoute,
			"critical TargetDown: alert_relabel_configs drop it",
		},
		"alert_relabel_configs that drop the label of the route": {
			relabelled("{regex: stack, action: labeldrop}"),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		"alert_relabel_configs of the Alertmanager": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				inTree()(t, f)
				entry := "{source_labels: [stack, severity], regex: chat;critical, action: drop}"
				if err := yaml.Unmarshal([]byte("[{alert_relabel_configs: ["+entry+"]}]"), &f.Setup.Alerting.Servers); err != nil {
					t.Fatal(err)
				}
			},
			StepRoute,
			"critical TargetDown: alert_relabel_configs drop it",
		},
		"an inhibition by Watchdog": {
			inhibiting(`{source_matchers: ['alertname="Watchdog"'], target_matchers: ['severity="critical"'], equal: [cluster]}`),
			StepInhibition,
			"critical TargetDown: inhibited by Watchdog",
		},
		"a route that is always muted": {
			inTree(routeToPage, `    - {receiver: page, matchers: ['stack="chat"'], active_time_intervals: [never]}
`, "\ninhibit_rules:", always),
			StepTimeInterval,
			`critical TargetDown: at Fri 12:00 +0000, the route to "page" sends only during never`,
		},
		// prometheus-operator#3737: the operator adds the namespace of the AlertmanagerConfig to its routes.
		"a route of another namespace": {
			inTree(`['stack="chat"']}`, `['stack="chat"', 'namespace="chat"']}`),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		// alertmanager#3120: a muted route takes the alert all the same.
		"a route before it that is muted at night": {
			inTree(routeToPage, `    - {receiver: page, matchers: ['severity="critical"'], mute_time_intervals: [night]}
`+routeToPage, "\ninhibit_rules:", `
mute_time_intervals:
  - {name: night, time_intervals: [{times: [{start_time: '00:00', end_time: '07:00'}]}]}
inhibit_rules:`),
			StepTimeInterval,
			`critical TargetDown: at Sat 03:00 +0000, the route to "page" sends nothing during night`,
		},
		"a route that is muted on Sundays": {
			inTree(routeToPage, `    - {receiver: page, matchers: ['stack="chat"'], mute_time_intervals: [sundays]}
`, "\ninhibit_rules:", `
time_intervals: [{name: sundays, time_intervals: [{weekdays: [sunday]}]}]
inhibit_rules:`),
			StepTimeInterval,
			`critical TargetDown: at Sun 00:00 +0000, the route to "page" sends nothing during sundays`,
		},
		// alertmanager#507 and #1727: labels that both alerts lack are equal.
		"an inhibition by an alert that lacks the labels, too": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				inhibiting(`{source_matchers: ['team="db"'], target_matchers: ['severity="critical"'], equal: [host]}`)(t, f)
				f.Alerts = append(f.Alerts, receivedBy(map[string]string{"alertname": "Backup", "team": "db"}, "null"))
			},
			StepInhibition,
			`critical TargetDown: inhibited by Backup team="db"`,
		},
		"an inhibition by its own warning": {
			inhibiting("{source_match: {severity: warning}, target_match: {severity: critical}, equal: [alertname, target]}"),
			StepInhibition,
			`critical TargetDown: inhibited by TargetDown chat_server="web"`,
		},
		// alertmanager#2191: group_wait of hours.
		"a route that waits for hours": {
			inTree(`['stack="chat"']}`, `['stack="chat"'], group_wait: 12h}`),
			StepRoute,
			"critical TargetDown: its route waits 12h",
		},
		// alertmanager#676: group_interval is the clock of a group that has sent before.
		"a group that waits for hours": {
			inTree(`group_interval: 5m`, `group_interval: 8h`),
			StepRoute,
			"critical TargetDown: its route waits 30s, and 8h0m after another alert of its group",
		},
		"a slow route to the pager beside a fast one by mail": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				before(`{receiver: drill, matchers: ['severity="critical"'], continue: true, group_wait: 2h}`)(t, f)
				f.routing.Integrations["page"] = map[string]int{"email": 1}
				f.routing.Integrations["drill"] = map[string]int{"opsgenie": 1}
			},
			StepRoute,
			"critical TargetDown: its route waits 2h",
		},
		"a route with a capital letter": {
			inTree(`['stack="chat"']}`, `['stack="chat"', 'severity="Critical"']}`),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		"a route of one server only": {
			inTree(`['stack="chat"']}`, `['stack="chat"', 'chat_server="web"']}`),
			StepRoute,
			`critical TargetDown: to "null", which notifies nobody`,
		},
		"a route to a channel before the pager": {
			func(t *testing.T, f *Facts) {
				t.Helper()
				before(`{receiver: channel, matchers: ['chat_server="web"', 'severity="critical"']}`)(t, f)
				f.routing.Integrations["channel"] = map[string]int{"slack": 1}
			},
			StepRoute,
			`critical TargetDown: to "channel", and not to "page"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := judgedFacts(t)
			f.routing = nil
			tt.cause(t, f)
			j := f.Judge("none", []string{"drill"})
			for _, s := range j.Steps {
				if (s.State == Wrong) != (s.Name == tt.step) || s.By != Computed {
					t.Errorf("%+v", s)
				}
			}
			if got := find(j.Steps, tt.step); !strings.HasPrefix(got.Error, tt.says) || got.Hint == "" {
				t.Errorf("got %+v, want %s", got, tt.says)
			}
			if len(j.Stops) > 0 {
				t.Errorf("the alert of a drill ends at %v, so that it would have shown this", j.Stops)
			}
			i := slices.IndexFunc(j.Told, func(told Told) bool { return told.Severity == critical })
			if j.Told[i].Told == WakesSomebody && !strings.Contains(tt.says, "sundays") {
				t.Errorf("%+v", j.Told[i])
			}
		})
	}
}

// TestAlertsAreJudgedWithAllTheirLabels silences and loses them by a label that only one of them has.
func TestAlertsAreJudgedWithAllTheirLabels(t *testing.T) {
	const problem = `chatstack:critical_seconds:all{alert="TargetUnstable"} > 0`
	for name, tt := range map[string]struct{ server, query, label string }{
		"DataVolumeUsage":      {"{{ with query `x` $labels.volume }}{{ end }}", "", "volume=data"},
		"TLSCertificateExpiry": {"{{ with query `x` $labels.endpoint }}{{ end }}", "", "target=web"},
		"TargetUnstable":       {"{{ with query `x` $labels.target }}{{ end }}", problem, "alert=TargetUnstable"},
		"PollStalled":          {"exporter", "", "job=chatstack_exporter"},
		"ExporterRestarts":     {"exporter", "", "instance=e:9655"},
	} {
		f := judgedFacts(t)
		f.Groups[0].Rules = f.Groups[0].Rules[:3]
		f.Own = []map[string]string{{"env": "prod", "job": "chatstack_exporter", "instance": "e:9655"}}
		f.Subjects = append(f.Subjects, map[string]string{"env": "prod", "volume": "data"})
		f.alerting(name, tt.query, map[string]string{"chat_server": tt.server, "target": "{{ $labels.endpoint }}"})
		f.alerting("MostTargetsDown", "", map[string]string{"chat_server": "stack"})
		f.routing = parsedRouting(t, kubePrometheus)
		label, value, _ := strings.Cut(tt.label, "=")
		f.Silences = []routing.Silence{silence(t, noon, noon.Add(time.Hour), label, value)}
		if got := find(f.Judge("none", nil).Steps, StepSilence).Error; !strings.HasPrefix(got, "critical "+name) {
			t.Errorf("%s: a silence of %s: %q", name, tt.label, got)
		}
		before(fmt.Sprintf("{receiver: 'null', matchers: ['%s=%q']}", label, value))(t, f)
		if got := find(f.Judge("none", nil).Steps, StepRoute).Error; !strings.HasPrefix(got, "critical "+name) {
			t.Errorf("%s: a route by %s: %q", name, tt.label, got)
		}
	}
}

// TestExporterDownMayHaveNoLabels since absent() has none of those that an operator adds.
func TestExporterDownMayHaveNoLabels(t *testing.T) {
	for query, want := range map[string]State{"chatstack:exporter_up == 0": Works, "x or absent(chatstack:exporter_up)": Wrong} {
		f := judgedFacts(t)
		f.Groups[0].Rules[1].Labels["severity"] = "none"
		f.alerting("ExporterDown", query, map[string]string{"chat_server": "exporter"})
		inTree(`['stack="chat"']}`, `['stack="chat"', 'env="prod"']}`)(t, f)
		if got := find(f.Judge("none", nil).Steps, StepRoute); got.State != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

// TestOtherEnvironmentsMayGoElsewhere has an exporter of production, which the drill asks, and one of staging.
func TestOtherEnvironmentsMayGoElsewhere(t *testing.T) {
	for env, want := range map[string]State{"prod": Works, "staging": Wrong, "": Works} {
		f := judgedFacts(t)
		f.Own = []map[string]string{{"env": env, "job": "chatstack_exporter", "container": "exporter"}}
		f.Subjects = append(f.Subjects, map[string]string{"env": "staging", "target": "web", "kind": "http", "chat_server": "web"})
		before(`{receiver: "null", matchers: ['env="staging"']}`)(t, f)
		if got := find(f.Judge("none", nil).Steps, StepRoute); got.State != want {
			t.Errorf("%s: %+v", env, got)
		}
	}
}

// TestWhichReceiverWakesSomebodyIsUnknown has webhooks, mail and chats: each may be a log, unless the user names one.
func TestWhichReceiverWakesSomebodyIsUnknown(t *testing.T) {
	muted := append([]string{"pagerduty_configs: [{routing_key: x}]", "webhook_configs: [{url: x}]"}, mutedAtNight...)
	parts := "    - {receiver: drill, matchers: ['chat_server=\"web\"', 'severity=\"critical\"']}\n" + routeToPage
	shipped := func(receiver, integration string) func(*testing.T, *Facts) {
		return func(t *testing.T, f *Facts) {
			t.Helper()
			f.routing = shippedRouting(t, "alertmanager.yml")
			f.routing.Integrations[receiver] = map[string]int{integration: 1}
		}
	}
	for name, tt := range map[string]struct {
		cause func(*testing.T, *Facts)
		named string
		want  State
		says  string
	}{
		"two webhooks get all alerts": {
			logging(muted[:2]...),
			"",
			Works,
			"",
		},
		"two webhooks, one of them muted at night": {
			logging(muted...),
			"",
			Unknown,
			`the route to "page" sends nothing during night; nothing shows which of "logger", "page" wakes somebody`,
		},
		"the muted one is named": {
			logging(muted...),
			"page",
			Wrong,
			`the route to "page" sends nothing during night`,
		},
		"two webhooks for two servers": {
			inTree("pagerduty_configs: [{routing_key: x}]", "webhook_configs: [{url: x}]", routeToPage, parts, "email_configs: [{to: a}]",
				"webhook_configs: [{url: x}]"),
			"",
			Unknown,
			`to "drill", and not to "page"; nothing shows which of "drill", "page" wakes somebody`,
		},
		"two services for two servers": {
			inTree(routeToPage, parts, "email_configs: [{to: a}]", "opsgenie_configs: [{api_key: x}]"),
			"",
			Works,
			"",
		},
		"the channel by a webhook, which gets some critical alerts": {
			shipped("chat", "webhook"),
			"",
			Unknown,
			`which of "chat", "page" wakes somebody`,
		},
		"the same with a name": {
			shipped("chat", "webhook"),
			"page",
			Works,
			"",
		},
		"the pager and the channel in chats, with a name": {
			shipped("page", "telegram"),
			"page",
			Works,
			"",
		},
	} {
		f := judgedFacts(t)
		tt.cause(t, f)
		j := f.Judge("critical", strings.Fields(tt.named))
		errs := j.Steps[0].Error + j.Steps[3].Error
		if Verdict(j.Steps) != tt.want || !strings.Contains(errs, tt.says) {
			t.Errorf("%s: %+v", name, j.Steps)
		}
		want := map[State]string{Works: WakesSomebody, Unknown: TellsUnknown, Wrong: TellsNextDay}[tt.want]
		for _, told := range j.Told { // at night, all get it that the shipped configuration has
			if told.Severity == critical && told.Told != want && !strings.Contains(tt.says, "chat") {
				t.Errorf("%s: %+v", name, told)
			}
		}
	}
}

func TestWithoutACriticalAlertNobodyIsWoken(t *testing.T) {
	f := judgedFacts(t)
	f.Groups[0].Rules = f.Groups[0].Rules[:4]
	j := f.Judge("none", nil)
	if got := find(j.Steps, StepRoute); got.State != Wrong || j.Told[0].Told != TellsNextDay ||
		got.Error != "the loaded rules: none of them is critical, so nobody is woken" {
		t.Errorf("%+v, %+v", got, j.Told)
	}
}

// TestVerdictDoesNotDependOnTheMinute has an interval between two full hours.
func TestVerdictDoesNotDependOnTheMinute(t *testing.T) {
	changes := slices.Clone(mutedAtNight)
	changes[3] = strings.NewReplacer("00:00", "03:05", "07:00", "03:10").Replace(changes[3])
	for _, after := range []time.Duration{0, 40 * time.Minute} {
		f := judgedFacts(t)
		f.Now = noon.Add(after)
		inTree(changes...)(t, f)
		if got := find(f.Judge("none", nil).Steps, StepTimeInterval); !strings.Contains(got.Error, "at Sat 03:05 +0000") {
			t.Errorf("%+v", got)
		}
	}
}

// TestSilenceOfLaterIsNoted since maintenance may be planned. One of the next night is wrong, though nobody is silenced now or at 3 am.
func TestSilenceOfLaterIsNoted(t *testing.T) {
	for after, want := range map[time.Duration]State{time.Hour: Wrong, 14 * time.Hour: Wrong, 48 * time.Hour: Works} {
		f := judgedFacts(t)
		from := noon.Add(after)
		f.Silences = []routing.Silence{silence(t, from, from.Add(time.Hour), "severity", "critical")}
		got := find(f.Judge("none", nil).Steps, StepSilence)
		if got.State != want || want == Works && (len(got.Notes) != 1 ||
			!strings.HasPrefix(got.Notes[0], "critical TargetDown: from 2026-05-03 12:00 UTC, silence s1")) {
			t.Errorf("%+v", got)
		}
	}
}

func TestCorrectChainsAreGreen(t *testing.T) {
	for name, r := range map[string]*routing.Routing{
		"alertmanager.yml": shippedRouting(t, "alertmanager.yml"), "first.yml": shippedRouting(t, "first.yml"),
		"kube-prometheus": parsedRouting(t, kubePrometheus),
		"a digest beside the pager": parsedRouting(t, kubePrometheus, routeToPage,
			"    - {receiver: drill, matchers: ['stack=\"chat\"'], continue: true, group_wait: 12h, group_interval: 12h}\n"+routeToPage),
		"only mail": parsedRouting(t, "{route: {receiver: a}, receivers: [{name: a, email_configs: [{to: b}]}]}"),
	} {
		f := judgedFacts(t)
		f.routing = r
		for _, severity := range []string{"none", "critical"} {
			j := f.Judge(severity, nil)
			if Verdict(j.Steps) != Works || len(j.Stops) > 0 || len(j.Steps) != 4 {
				t.Errorf("%s: %+v, stops at %v", name, j.Steps, j.Stops)
			}
			assumed := strings.Contains(strings.Join(j.Steps[0].Notes, " "), "assumed")
			if assumed != (name == "first.yml" || name == "only mail") {
				t.Errorf("%s: says that a receiver is only assumed to wake somebody: %t", name, assumed)
			}
		}
	}
}

// TestShippedAlertsWakeSomebody has all shipped rules with the shipped configuration, on a target and a container.
func TestShippedAlertsWakeSomebody(t *testing.T) {
	content, err := os.ReadFile("../../alerts/chatstack.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	f := judgedFacts(t)
	f.Subjects = append(f.Subjects, map[string]string{"env": "prod", "container": "db", "docker_host": "local", "chat_server": "db"})
	f.Groups[0].Rules = nil
	want := map[string]int{TellsNextDay: 0, WakesSomebody: 0}
	for _, r := range file.Groups[0].Rules {
		f.Groups[0].Rules = append(f.Groups[0].Rules, Rule{Name: r.Alert, Type: "alerting", Labels: r.Labels})
		switch r.Labels["severity"] {
		case warning:
			want[TellsNextDay]++
		case critical:
			want[WakesSomebody]++
		}
	}
	j := f.Judge("none", nil)
	got := map[string]int{}
	for _, told := range j.Told {
		got[told.Told]++
	}
	if !maps.Equal(got, want) || got[WakesSomebody] < 20 || Verdict(j.Steps) != Works {
		t.Errorf("got %v, want %v; %+v", got, want, j.Steps)
	}
}

// TestReceiverThatWasNotTriedIsUnknown has a receiver of pages that no drill has tried.
func TestReceiverThatWasNotTriedIsUnknown(t *testing.T) {
	sent := works(StepReceiver, "sent")
	refused := wrong(StepReceiver, "read the log", "fails")
	for name, tt := range map[string]struct {
		severity string
		sent     *Step
		wanted   []string
		want     State
		by       Basis
		hint     string
	}{
		"without a drill": {
			"none",
			nil,
			nil,
			Unknown,
			Assumed,
			"raise a test alert that they get: drill --severity=critical --yes",
		},
		"a drill that does not page": {
			"none",
			&sent,
			nil,
			Unknown,
			Assumed,
			"raise a test alert that they get: drill --severity=critical --yes",
		},
		"a drill that pages": {
			"critical",
			&sent,
			nil,
			Works,
			Asked,
			"",
		},
		"a dead receiver": {
			"critical",
			&refused,
			nil,
			Wrong,
			Asked,
			"read the log",
		},
		"a drill of the wanted one": {
			"none",
			&sent,
			[]string{"drill"},
			Works,
			Asked,
			"",
		},
		"wanted ones without a drill": {
			"none",
			nil,
			[]string{"drill"},
			Unknown,
			Assumed,
			"raise a test alert that they get: drill --receiver=drill",
		},
		"wanted ones that no test alert reaches": {
			"none",
			nil,
			[]string{"drill", "page"},
			Unknown,
			Assumed,
			"no test alert reaches them all: repair the steps above, or add a route for drills: deploy/alertmanager/README.md, Drill",
		},
		"a drill of one of the wanted": {
			"none",
			&sent,
			[]string{"drill", "page"},
			Unknown,
			Assumed,
			"raise a test alert that they get: drill --severity=critical --receiver=page --yes",
		},
	} {
		got := judgedFacts(t).Judge(tt.severity, nil).Receiver(tt.sent, tt.wanted)
		if got.State != tt.want || got.By != tt.by || got.Hint != tt.hint ||
			got.State == Unknown && !strings.Contains(got.Error, "nothing shows that a message to ") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	down := judgedFacts(t)
	down.Alertmanager.Err = errors.New("refused")
	if got := down.Judge("none", nil).Receiver(nil, []string{"drill"}); got.State != Unknown || got.Hint != "" {
		t.Errorf("without Alertmanager: %+v", got)
	}
}

// TestRulersShowLess has a server with rules that does not show its configuration: Watchdog has the external labels.
func TestRulersShowLess(t *testing.T) {
	f := judgedFacts(t)
	f.routing = parsedRouting(t, kubePrometheus, `['stack="chat"']}`, `['stack="chat"', 'tenant="a"']}`)
	f.Alerts[0].Labels["tenant"] = "a"
	f.unserved = map[string]error{"status/config": errors.New("status 404")}
	steps := f.Judge("none", nil).Steps
	if got := find(steps, StepRoute); got.State != Unknown ||
		!strings.Contains(got.Error, "alert_relabel_configs change the labels: status 404") {
		t.Errorf("got %+v", got)
	}
	if got := find(steps, StepSilence); got.State != Works {
		t.Errorf("got %+v", got)
	}
	if got := f.Judge("none", nil).Told; !slices.ContainsFunc(got, func(told Told) bool { return told.Told == TellsUnknown }) ||
		slices.ContainsFunc(got, func(told Told) bool { return told.Told == WakesSomebody }) {
		t.Errorf("told %+v", got)
	}
	f.Alerts[0].Labels["tenant"] = "b"
	if got := find(f.Judge("none", nil).Steps, StepRoute); got.State != Wrong || !strings.Contains(got.Error, "null") {
		t.Errorf("got %+v", got)
	}
}

// TestSeveralGroupsOfAlertmanagersAreUnknown has a group that drops critical alerts: nothing shows which one was asked.
func TestSeveralGroupsOfAlertmanagersAreUnknown(t *testing.T) {
	for text, want := range map[string]State{
		"[{}, {}]": Works, "[{}, {alert_relabel_configs: [{source_labels: [severity], regex: critical, action: drop}]}]": Unknown,
	} {
		f := judgedFacts(t)
		if err := yaml.Unmarshal([]byte(text), &f.Setup.Alerting.Servers); err != nil {
			t.Fatal(err)
		}
		if got := find(f.Judge("none", nil).Steps, StepRoute); got.State != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestInhibitionNeedsASource has rules that an alert without labels would match.
func TestInhibitionNeedsASource(t *testing.T) {
	f := judgedFacts(t)
	inhibiting(`{source_matchers: ['stack!="chat"'], target_matchers: ['stack="chat"'], equal: [host]}`)(t, f)
	if steps := f.Judge("none", nil).Steps; Verdict(steps) != Works {
		t.Errorf("got %+v", steps)
	}
	f.Groups[0].Rules = f.Groups[0].Rules[:len(f.Groups[0].Rules)-2]
	f.Groups[0].Rules[1].Labels["severity"] = critical // it has no warning that fires before
	inhibiting("{source_matchers: [severity=warning], target_matchers: [severity=critical], equal: [alertname]}")(t, f)
	if steps := f.Judge("none", nil).Steps; Verdict(steps) != Works {
		t.Errorf("got %+v", steps)
	}
}

func TestEveryAlertIsTold(t *testing.T) {
	f := judgedFacts(t)
	lines := func() string {
		var b strings.Builder
		for _, told := range f.Judge("none", nil).Told {
			fmt.Fprintf(&b, "%s %s: %v; %v: %s\n", told.Alert, told.Severity, told.Now, told.Night, told.Told)
		}
		return b.String()
	}
	for _, tt := range []struct{ replaced, by, want string }{
		{"x", "x", "RulesOutOfDate warning: [chat]; []: is told in the morning\n" +
			"TargetDown warning: [chat]; []: is told in the morning\nTargetDown critical: [page]; [page chat]: wakes somebody\n"},
		{
			`'stack="chat"', 'severity="warning"']`, `'stack="chat"', 'severity="warning"', 'chat_server!="web"']`,
			"RulesOutOfDate warning: [chat]; [chat]: is told in the morning\n" +
				"TargetDown warning: [chat]; [chat]: is told in the morning\nTargetDown critical: [page]; [page chat]: wakes somebody\n",
		},
	} {
		if f.routing = shippedRouting(t, "alertmanager.yml", tt.replaced, tt.by); lines() != tt.want {
			t.Errorf("%s: got\n%swant\n%s", tt.by, lines(), tt.want)
		}
	}
	f.routing = shippedRouting(t, "alertmanager.yml", "- receiver: page\n      matchers: ['stack=\"chat\"', 'severity=\"critical\"']",
		"- receiver: nobody\n      matchers: ['chat_server=\"web\"', 'severity=\"critical\"']\n"+
			"    - receiver: page\n      matchers: ['severity=\"critical\"']")
	if got := lines(); !strings.Contains(got, "TargetDown critical: []; []: nobody\n") {
		t.Errorf("got\n%s", got)
	}
	if text, err := json.Marshal(f.Judge("none", nil).Told); err != nil || strings.Contains(string(text), "null") {
		t.Errorf("a list is null: %s, %v", text, err)
	}
	f.routing, f.routingErr = nil, errors.New("no YAML")
	if got := lines(); strings.Count(got, ": unknown") != 3 {
		t.Errorf("got\n%s", got)
	}
	if got := f.Judge("none", nil).Receiver(nil, []string{"page"}); got.State != Unknown || !strings.Contains(got.Error, "page") {
		t.Errorf("got %+v", got)
	}
	if got := f.Judge("none", nil).Steps; Verdict(got) != Unknown || !strings.Contains(got[0].Error, "no YAML") {
		t.Errorf("got %+v", got)
	}
}

// TestDrillThatArrivesNowhereIsNotRaised has faults on the way of its own alert.
func TestDrillThatArrivesNowhereIsNotRaised(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Facts)
		wanted []string
		step   string
		says   string
	}{
		"nowhere": {
			func(f *Facts) { f.routing.Integrations["drill"] = nil },
			nil,
			StepRoute,
			`the test alert: to "drill", which notifies nobody`,
		},
		"to others": {
			func(*Facts) {},
			[]string{"page"},
			StepRoute,
			`the test alert: to "drill", and not to "page"`,
		},
		"to one that does not exist": {
			func(*Facts) {},
			[]string{"pagee"},
			StepRoute,
			`the test alert: no receiver is named "pagee"; Alertmanager has "chat", "drill", `,
		},
		"to one of two that are wanted": {
			func(*Facts) {},
			[]string{"drill", "page"},
			StepRoute,
			`the test alert: to "drill", and not to "page"`,
		},
		"to the wanted one, which is nobody": {
			func(f *Facts) { f.routing.Integrations["drill"] = nil },
			[]string{"drill"},
			StepRoute,
			`the test alert: to "drill", which notifies nobody`,
		},
		"silenced": {
			func(f *Facts) {
				f.Silences = []routing.Silence{silence(t, noon.Add(-time.Hour), noon.Add(time.Hour), "drill", "true")}
			},
			nil,
			StepSilence,
			"the test alert: silence s1",
		},
		"silenced until an hour ago": {
			func(f *Facts) {
				f.Silences = []routing.Silence{silence(t, noon.Add(-2*time.Hour), noon.Add(-time.Hour), "drill", "true")}
			},
			nil,
			"",
			"",
		},
		"inhibited": {
			func(f *Facts) {
				inhibiting("{source_matchers: [alertname=Watchdog], target_matchers: [drill=true]}")(t, f)
			},
			nil,
			StepInhibition,
			"the test alert: inhibited by Watchdog",
		},
		"muted": {
			func(f *Facts) {
				f.routing = parsedRouting(t, kubePrometheus, "{receiver: drill,", "{receiver: drill, active_time_intervals: [never],",
					"\ninhibit_rules:", "\ntime_intervals: [{name: never, time_intervals: [{years: ['2000']}]}]\ninhibit_rules:")
			},
			nil,
			StepTimeInterval,
			`the test alert: at Fri 12:00 +0000, the route to "drill" sends only during never`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := judgedFacts(t)
			tt.change(f)
			j := f.Judge("none", tt.wanted)
			if strings.Join(j.Stops, " ") != tt.step || tt.step == "" && Verdict(j.Steps) != Works {
				t.Fatalf("stops at %v: %+v", j.Stops, j.Steps)
			}
			if got := find(j.Steps, tt.step); tt.step != "" && !strings.HasPrefix(got.Error, tt.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestDrillThatWouldRingIsConfirmed has sites whose Alertmanager has no route for drills.
func TestDrillThatWouldRingIsConfirmed(t *testing.T) {
	drills := "'drill=\"true\"', 'severity=\"none\"'"
	for name, tt := range map[string]struct {
		replaced       []string
		severity, want string
	}{
		"as shipped":       {nil, "none", ""},
		"a warning":        {nil, "warning", `"chat"`}, // at night it gets what pages
		"critical":         {nil, "critical", `"page"`},
		"to the heartbeat": {[]string{drills, "'drill=\"no\"'"}, "none", ""},
		"to the channel": {
			[]string{drills, "'drill=\"no\"'", "matchers: ['stack=\"chat\"', 'severity=\"none\"']", "matchers: [a=b]"},
			"none",
			`"chat"`,
		},
		"everything to one receiver": {[]string{"'stack=\"chat\"'", "'a=b'"}, "warning", `"chat"`},
		"to drill, and to all's pager": {
			[]string{"group_by: [cluster, env, id]", "continue: true", "- receiver: heartbeat", "- receiver: page"},
			"none",
			`"page"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := judgedFacts(t)
			f.routing = shippedRouting(t, "alertmanager.yml", tt.replaced...)
			got := ""
			if step := f.Judge(tt.severity, nil).Unconfirmed(); step != nil {
				got = step.Error
			}
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q", got)
			}
		})
	}
	f := judgedFacts(t)
	f.routing, f.routingErr = nil, errors.New("no YAML")
	if step := f.Judge("none", nil).Unconfirmed(); step == nil || !strings.Contains(step.Error, "no YAML") {
		t.Errorf("without routes: %+v", step)
	}
}

// TestSubjectsHaveTheLabelsOfTheirServers has a pair of environments, and rules about targets, containers and the exporter.
func TestSubjectsHaveTheLabelsOfTheirServers(t *testing.T) {
	f := judgedFacts(t)
	f.Own = []map[string]string{{"env": "a", "job": "chatstack_exporter", "instance": "e:9655"}}
	f.Subjects = []map[string]string{
		{"env": "a"},
		{"env": "a", "target": "web", "kind": "http", "chat_server": "web"},
		{"env": "a", "container": "db", "docker_host": "local", "workload": "", "chat_server": "xmpp"},
	}
	for template, want := range map[string][]string{
		"exporter": {`X env="a" instance="e:9655" job="chatstack_exporter"`},
		"stack":    {`X env="a"`},
		"{{ printf $labels.target }}": {
			`X chat_server="web" env="a" kind="http" target="web"`,
			`X chat_server="stack" env="a" kind="http" target="web"`,
		},
		"{{ printf `x` $labels.cluster }}": {
			`X chat_server="stack" env="a"`, `X chat_server="web" env="a"`, `X chat_server="xmpp" env="a"`,
		},
		"{{ printf $labels.container $labels.docker_host }}": {
			`X chat_server="xmpp" container="db" docker_host="local" env="a" workload=""`,
			`X chat_server="stack" container="db" docker_host="local" env="a" workload=""`,
		},
	} {
		var got []string
		for _, labels := range f.subjects(&Rule{Name: "X", Labels: map[string]string{"chat_server": template}}) {
			got = append(got, "X"+describe(labels))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", template, got, want)
		}
	}
	server := map[string]string{"chat_server": "{{ $labels.target }}"}
	pages := &Rule{Query: "chatstack:target_unexplained_seconds:all > 120", Labels: server}
	f.Subjects = append(f.Subjects, map[string]string{"env": "a", "target": "store", "kind": "http"})
	f.Quiet = []map[string]string{{"__name__": "chatstack:target_pages", "env": "a", "target": "store"}, {"env": "b", "target": "web"}}
	for _, labels := range f.subjects(pages) {
		if labels["target"] != "web" {
			t.Errorf("a target that does not page: %v", labels)
		}
	}
	f.Subjects = nil // an older exporter
	if got := f.subjects(&Rule{Name: "X", Labels: map[string]string{"chat_server": "{{ $labels.target }}"}}); len(got) != 1 ||
		got[0]["chat_server"] != "stack" {
		t.Errorf("without series: %v", got)
	}
	f.Setup.Global.ExternalLabels = map[string]string{"env": "prod", "severity": "lost"}
	if labels := f.drillLabels("none"); labels["env"] != "prod" || labels["severity"] != "none" {
		t.Errorf("labels %v", labels)
	}
}
