//go:build realservers

package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/alertpath"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// drillSite is an exporter with a real Prometheus and a real Alertmanager. Its files are changed before it starts.
type drillSite struct {
	*testing.T
	prometheus, rules, alertmanager string
	flags                           DrillOptions
	// environ has the credentials of the servers, which are behind a proxy at this path if it is not "".
	environ map[string]string
	behind  string
	// files are Alertmanager's, peers the flags of its cluster.
	files map[string][]byte
	peers []string

	exporter    *exporter
	server, am  *realstack.Program
	mu          sync.Mutex
	got         map[string]int // messages by receiver
	hook        string         // the receivers' address
	answer      int            // their status
	mailAddress string
}

// newDrillSite has the files of a site where everything works, with short intervals.
func newDrillSite(t *testing.T) *drillSite {
	t.Helper()
	s := &drillSite{T: t, got: map[string]int{}, answer: http.StatusOK}
	hooks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // its arrival counts
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got[strings.Trim(r.URL.Path, "/")]++
		w.WriteHeader(s.answer)
	}))
	t.Cleanup(hooks.Close)
	s.hook = hooks.URL
	s.mailAddress = realstack.ReceiveMail(t, func([]byte) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got["mail"]++
	})
	s.rules = rulesOf(t, alerts.Defaults())
	s.prometheus = `
global: {scrape_interval: 1s, scrape_timeout: 1s, external_labels: {env: test}}
rule_files: [chatstack.rules.yml]
alerting: {alertmanagers: [{static_configs: [{targets: [ALERTMANAGER]}]}]}
scrape_configs:
  - job_name: chatstack_exporter
    honor_labels: true
    static_configs: [{targets: [EXPORTER]}]
`
	s.alertmanager = `
global: {smtp_smarthost: 'MAIL', smtp_from: a@example.org, smtp_require_tls: false}
route:
  receiver: page
  group_wait: 1s
  group_interval: 10s
  routes:
    - {receiver: drill, matchers: ['stack="chat"', 'drill="true"', 'severity="none"']}
    - {receiver: heartbeat, matchers: ['stack="chat"', 'severity="none"'], group_interval: 1s, repeat_interval: 1s}
receivers:
  - name: drill
    email_configs: [{to: drill@example.org}]
  - name: page
    webhook_configs: [{url: 'HOOK/page'}]
  - name: heartbeat
    webhook_configs: [{url: 'HOOK/heartbeat'}]
`
	return s
}

// with replaces a text that must be in one of the files.
func (s *drillSite) with(before, after string) *drillSite {
	s.Helper()
	found := false
	for _, file := range []*string{&s.prometheus, &s.rules, &s.alertmanager} {
		found = found || strings.Contains(*file, before)
		*file = strings.ReplaceAll(*file, before, after)
	}
	if !found {
		s.Fatalf("no file has %q", before)
	}
	return s
}

// start starts the three servers, and waits until Watchdog has arrived or, if it cannot, fires.
func (s *drillSite) start() {
	s.Helper()
	o := options(nil, &logBuffer{}).with(everySecond)
	o.EnableLifecycle = true
	s.exporter = startApp(s.T, o, &logBuffer{})
	s.am = realstack.StartAlertmanager(s.T, s.filled(s.alertmanager), s.files, s.peers...)
	s.flags.Alertmanager, s.flags.Exporter = s.reached(s.am), s.exporter.url
	where, err := url.Parse(s.flags.Alertmanager)
	must(s.T, err)
	s.server = realstack.StartPrometheus(s.T,
		strings.NewReplacer("ALERTMANAGER", where.Host, "EXPORTER", strings.TrimPrefix(s.exporter.url, "http://")).Replace(s.prometheus),
		map[string][]byte{"chatstack.rules.yml": []byte(s.rules)}, "--rules.alert.resend-delay=1s")
	s.flags.Prometheus = s.reached(s.server)
	if s.flags.Severity == "" {
		s.flags.Severity = "none"
	}
}

// filled names the receivers in a configuration of Alertmanager.
func (s *drillSite) filled(config string) string {
	return strings.NewReplacer("HOOK", s.hook, "MAIL", s.mailAddress).Replace(config)
}

// reached is the URL by which a server is reached.
func (s *drillSite) reached(server *realstack.Program) string {
	s.Helper()
	if s.behind == "" {
		return server.URL()
	}
	target, err := url.Parse(server.URL())
	must(s.T, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	front := httptest.NewServer(http.StripPrefix(s.behind, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user != "anna" || password != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		proxy.ServeHTTP(w, r)
	})))
	s.Cleanup(front.Close)
	return front.URL + s.behind
}

// settled waits for an answer of an API that matches a regular expression.
func (s *drillSite) settled(url, text string) {
	s.Helper()
	if !exportertest.Eventually(time.Minute, 100*time.Millisecond, func() bool { return regexp.MustCompile(text).Match(fetch(s.T, url)) }) {
		s.Fatalf("%s never has %s", url, text)
	}
}

// drill runs the command, and returns its steps by their names.
func (s *drillSite) drill() (steps map[string]alertpath.Step, verdict alertpath.State) {
	s.Helper()
	var all []alertpath.Step
	o := options(s.environ, io.Discard).with(everySecond)
	verdict, told, err := Drill(s.Context(), o, s.flags, func(known []alertpath.Step) { all = append(all, known...) }, func(string) {})
	must(s.T, err)
	var table bytes.Buffer
	must(s.T, WriteDrillSteps(&table, all, false))
	if s.flags.EveryAlert {
		must(s.T, WriteTold(&table, told))
	}
	s.Log("\n" + table.String())
	steps = map[string]alertpath.Step{}
	for _, step := range all {
		if _, twice := steps[step.Name]; twice {
			s.Errorf("step %s twice", step.Name)
		}
		steps[step.Name] = step
	}
	return steps, verdict
}

// messages is how many have come to a receiver.
func (s *drillSite) messages(receiver string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got[receiver]
}

// leftNothing fails unless the drill is gone everywhere, and only its own receiver was notified.
func (s *drillSite) leftNothing() {
	s.Helper()
	traces := map[string]string{s.exporter.url + "/metrics": "chatstack_drill{", s.server.URL() + "/api/v1/alerts": alerts.DrillAlert}
	if s.am.PID() > 0 {
		traces[s.am.URL()+"/api/v2/alerts"] = alerts.DrillAlert
	}
	for address, trace := range traces {
		if bytes.Contains(fetch(s.T, address), []byte(trace)) {
			s.Errorf("%s still has %s", address, trace)
		}
	}
	if n := s.messages("page"); n > 0 {
		s.Errorf("%d pages, want none", n)
	}
}

func TestRealDrillFindsThatAChainWorks(t *testing.T) {
	t.Parallel()
	s := newDrillSite(t)
	s.flags.Receivers = []string{"drill"}
	s.start()
	s.wait()
	steps, verdict := s.drill()
	if verdict != alertpath.Works {
		t.Errorf("the drill is %s", verdict)
	}
	for _, name := range []string{
		"exporter", "prometheus", "alertmanager", "clocks", "scrape", "labels", "metric", "recording_rules", "rules",
		"rules_version", "evaluation", "sending", "watchdog", "route", "inhibition", "silence", "time_interval",
		"raise", "sample", "alert", "delivery", "receiver", "resolution",
	} {
		if steps[name].State != alertpath.Works {
			t.Errorf("%s: %+v", name, steps[name])
		}
	}
	if len(steps) != 23 {
		t.Errorf("%d steps, want 23", len(steps))
	}
	says(t, "receiver", steps["receiver"].Text, `sent to "drill" by email`)
	if s.messages("mail") == 0 {
		t.Error("no mail has come")
	}
	s.leftNothing()
	silences := fetch(t, s.am.URL()+"/api/v2/silences")
	if strings.TrimSpace(string(silences)) != "[]" {
		t.Errorf("silences: %s", silences)
	}
}

// drillFault is a fault of the chain, and the step that must name it.
type drillFault struct {
	name  string
	cause func(s *drillSite)
	// after is done when the servers run.
	after func(s *drillSite)
	// step is wrong, and its error and its hint have these words. So is the step also.
	step, err, hint, also string
	// stops reports whether no test alert is raised.
	stops bool
	// short faults are tried at each push.
	short bool
}

var drillFaults = []drillFault{
	{
		name:  "wrong job name",
		step:  "scrape",
		err:   `as job "other", but the rules expect "chatstack_exporter"`,
		hint:  "set job_name: chatstack_exporter",
		stops: true,
		short: true,
		cause: func(s *drillSite) { s.with("job_name: chatstack_exporter", "job_name: other") },
	},
	{
		name:  "no job",
		step:  "scrape",
		err:   `no target of the job "chatstack_exporter"`,
		hint:  "add the job",
		stops: true,
		cause: func(s *drillSite) { s.with("[EXPORTER]", "[]") },
	},
	{
		name:  "wrong address",
		step:  "scrape",
		err:   "connection refused",
		hint:  "open that address",
		stops: true,
		cause: func(s *drillSite) { s.with("[EXPORTER]", "['127.0.0.1:1']") },
	},
	{
		name:  "no honor_labels",
		step:  "labels",
		err:   "lacks honor_labels",
		hint:  "set honor_labels: true",
		cause: func(s *drillSite) { s.with("    honor_labels: true\n", "") },
	},
	{
		name: "no honor_labels, and a clash",
		step: "labels",
		err:  `overwrites the exporter's label target with "x"`,
		hint: "set honor_labels: true",
		cause: func(s *drillSite) {
			s.with("    honor_labels: true\n", "").with("[EXPORTER]", "[EXPORTER], labels: {target: x}")
		},
	},
	{
		name:  "rules missing",
		step:  "rules",
		err:   "has not loaded the alert rules",
		also:  "recording_rules",
		hint:  "rule_files",
		stops: true,
		cause: func(s *drillSite) { s.with("[chatstack.rules.yml]", "[]") },
	},
	{
		name: "old rules",
		step: "rules_version",
		err:  "do not match the exporter's configuration",
		hint: "chatstack_exporter rules",
		cause: func(s *drillSite) {
			old := alerts.Defaults()
			old.Of("target_down").Critical.For = config.Duration(time.Hour)
			s.rules = rulesOf(s.T, old)
		},
	},
	{
		name: "three rules deleted",
		step: "rules_version",
		err:  "ContainerMissing critical is missing; TargetDown warning is missing; and 1 more",
		hint: "chatstack_exporter rules",
		cause: func(s *drillSite) {
			s.rules = regexp.MustCompile(`(?m)^      - alert: (TargetDown|ContainerMissing)\n(        .*\n)+`).ReplaceAllString(s.rules, "")
		},
	},
	{
		name:  "a threshold edited",
		step:  "rules_version",
		err:   "TargetDown critical has expr: `86400 or ignoring` instead of `300 or ignoring`",
		hint:  "chatstack_exporter rules",
		short: true,
		cause: func(s *drillSite) {
			s.with("target_unexplained_seconds:all > 300", "target_unexplained_seconds:all > 86400")
		},
	},
	{
		name: "recording rules absent",
		step: "rules_version",
		err:  "chatstack:target_down_seconds:any is missing",
		hint: "chatstack_exporter rules",
		also: "recording_rules",
		cause: func(s *drillSite) {
			s.rules = regexp.MustCompile(`(?m)^      - record: .*\n(        .*\n)+`).ReplaceAllString(s.rules, "")
		},
	},
	{
		name:  "metrics dropped",
		step:  "metric",
		err:   "the exporter has: chatstack_exporter_starting, chatstack_rules_info",
		hint:  "metric_relabel_configs",
		short: true,
		cause: func(s *drillSite) {
			s.with("    honor_labels: true\n", "    honor_labels: true\n    metric_relabel_configs: [{source_labels: [__name__], "+
				"regex: chatstack_exporter_starting|chatstack_rules_info, action: drop}]\n")
		},
	},
	{
		name:  "a group with another interval",
		step:  "rules_version",
		err:   "the group chatstack is evaluated every 3s instead of 1s",
		hint:  "chatstack_exporter rules",
		cause: func(s *drillSite) { s.with("    interval: 1s\n", "    interval: 3s\n") },
	},
	{
		name:  "rules from before drills",
		step:  "rules",
		err:   "ChatstackDrill is missing",
		also:  "rules_version",
		hint:  "chatstack_exporter rules",
		stops: true,
		cause: func(s *drillSite) { s.with("alert: ChatstackDrill", "alert: Another") },
	},
	{
		name:  "rule error",
		step:  "evaluation",
		err:   "the rule ClockSkew fails: ",
		also:  "rules_version",
		hint:  "as `chatstack_exporter rules` prints them",
		stops: true,
		cause: func(s *drillSite) {
			s.with("expr: abs(timestamp(chatstack_exporter_time_seconds",
				`expr: up + on () (vector(1) or label_replace(vector(1), "other", "other=1", "", `+
					`"")) or abs(timestamp(chatstack_exporter_time_seconds`)
		},
	},
	{
		name:  "no Alertmanager",
		step:  "sending",
		err:   "knows no Alertmanager",
		hint:  "under alerting",
		stops: true,
		cause: func(s *drillSite) { s.with("[{static_configs: [{targets: [ALERTMANAGER]}]}]", "[]") },
	},
	{
		// So soon after a start, nobody knows yet whether Watchdog arrives.
		name:  "Prometheus cannot reach Alertmanager, which has just started",
		step:  "delivery",
		err:   "has not arrived",
		hint:  "under alerting",
		cause: func(s *drillSite) { s.with("ALERTMANAGER", "127.0.0.1:1") },
	},
	{
		name:  "Alertmanager down",
		step:  "alertmanager",
		err:   "connection refused",
		stops: true,
		after: func(s *drillSite) { s.am.Stop() },
	},
	{
		name:  "Watchdog goes nowhere",
		step:  "watchdog",
		err:   `nobody notices when alerting stops: Watchdog goes to "heartbeat"`,
		hint:  "outside service",
		cause: func(s *drillSite) { s.with("    webhook_configs: [{url: 'HOOK/heartbeat'}]\n", "") },
	},
	{
		name:  "route to nowhere",
		step:  "route",
		err:   `the test alert: to "drill", which notifies nobody`,
		hint:  "give that receiver an integration",
		stops: true,
		short: true,
		cause: func(s *drillSite) { s.with("    email_configs: [{to: drill@example.org}]\n", "") },
	},
	{
		name:  "another route",
		step:  "route",
		err:   `the test alert: to "heartbeat", and not to "drill"`,
		hint:  `amtool config routes test alertname=ChatstackDrill drill="true" env="test" job="`,
		stops: true,
		cause: func(s *drillSite) { s.with(`'drill="true"'`, `'drill="yes"'`); s.flags.Receivers = []string{"drill"} },
	},
	{
		name:  "no route for drills",
		step:  "raise",
		err:   `it would notify "page", as real problems do`,
		hint:  "add a route for drills",
		stops: true,
		short: true,
		cause: func(s *drillSite) {
			s.with(`'drill="true"'`, `'drill="yes"'`).with(`matchers: ['stack="chat"', 'severity="none"']`,
				`matchers: ['alertname="Watchdog"']`)
		},
	},
	{
		name:  "silence",
		step:  "silence",
		err:   "by anna until",
		hint:  "end the silence",
		stops: true,
		after: func(s *drillSite) {
			now := time.Now().UTC()
			s.am.Ask(http.MethodPost, "/api/v2/silences", fmt.Sprintf(`{"matchers": [{"name": "drill", "value": "true", "isRegex": `+
				`false}], "startsAt": %q, "endsAt": %q, "createdBy": "anna", "comment": "deploy"}`,
				now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339)))
		},
	},
	{
		name:  "inhibition",
		step:  "inhibition",
		err:   `inhibited by Watchdog`,
		hint:  "inhibit_rules",
		stops: true,
		cause: func(s *drillSite) {
			s.with("receivers:\n",
				"inhibit_rules: [{source_matchers: ['alertname=\"Watchdog\"'], target_matchers: ['drill=\"true\"']}]\nreceivers:\n")
		},
	},
	{
		name:  "muted by time",
		step:  "time_interval",
		err:   "never",
		stops: true,
		cause: func(s *drillSite) {
			s.with(`{receiver: drill, `, `{receiver: drill, active_time_intervals: [never], `).
				with("receivers:\n", "time_intervals: [{name: never, time_intervals: [{years: ['2000']}]}]\nreceivers:\n")
		},
	},
	{
		name: "critical alerts go to null, as in kube-prometheus",
		step: "route",
		err:  `to "null", which notifies nobody`,
		hint: "add a route",
		cause: func(s *drillSite) {
			s.with("  receiver: page\n", "  receiver: \"null\"\n").with("receivers:\n", "receivers:\n  - name: \"null\"\n")
		},
	},
	{
		name:  "an earlier route to null",
		step:  "route",
		err:   `critical TargetDown: to "null", which notifies nobody`,
		hint:  "add a route",
		short: true,
		cause: func(s *drillSite) {
			const route = "    - {receiver: \"null\", matchers: ['alertname = TargetDown', 'chat_server =~ \"web|stack\"']}\n"
			s.with("  routes:\n", "  routes:\n"+route).
				with("receivers:\n", "receivers:\n  - name: \"null\"\n")
		},
	},
	{
		name: "silence of 1000 h",
		step: "silence",
		err:  "by bob until",
		hint: "end the silence",
		after: func(s *drillSite) {
			now := time.Now().UTC()
			s.am.Ask(http.MethodPost, "/api/v2/silences", fmt.Sprintf(`{"matchers": [{"name": "severity", "value": "crit.*", "isRegex": `+
				`true}], "startsAt": %q, "endsAt": %q, "createdBy": "bob", "comment": "move"}`,
				now.Format(time.RFC3339), now.Add(1000*time.Hour).Format(time.RFC3339)))
		},
	},
	{
		name: "alert_relabel_configs drop critical",
		step: "route",
		err:  "alert_relabel_configs drop it",
		hint: "alert_relabel_configs",
		cause: func(s *drillSite) {
			s.with("alerting: {", "alerting: {alert_relabel_configs: [{source_labels: [severity], regex: critical, action: drop}], ")
		},
	},
	{
		name: "Watchdog inhibits critical alerts",
		step: "inhibition",
		err:  "inhibited by Watchdog",
		hint: "inhibit_rules",
		cause: func(s *drillSite) {
			s.with("receivers:\n", "inhibit_rules: [{source_matchers: ['alertname=\"Watchdog\"'], target_matchers: "+
				"['severity=\"critical\"'], equal: [env]}]\nreceivers:\n")
		},
	},
	{
		name: "the route to the pager is always muted",
		step: "time_interval",
		err:  `the route to "page" sends only during never`,
		hint: "intervals",
		cause: func(s *drillSite) {
			const route = "    - {receiver: page, matchers: ['severity=\"critical\"'], active_time_intervals: [never]}\n"
			s.with("  routes:\n", "  routes:\n"+route).
				with("receivers:\n", "time_intervals: [{name: never, time_intervals: [{years: ['2000']}]}]\nreceivers:\n")
		},
	},
	{
		name: "dead pager",
		step: "receiver",
		err:  `the message to "page" probably fails: webhook`,
		hint: "Notify for alerts failed",
		cause: func(s *drillSite) {
			s.with("'HOOK/page'", "'http://127.0.0.1:1/dead'")
			s.flags.Severity, s.flags.Yes = "critical", true
		},
	},
	{
		name:  "dead mail server",
		step:  "receiver",
		err:   `the message to "drill" fails: email`,
		hint:  "Notify for alerts failed",
		cause: func(s *drillSite) { s.mailAddress = "127.0.0.1:1" },
	},
	{
		name:  "webhook answers 500",
		step:  "receiver",
		err:   `the message to "drill" fails: webhook`,
		hint:  "Notify for alerts failed",
		short: true,
		cause: func(s *drillSite) {
			s.answer = http.StatusInternalServerError
			// Nobody else uses webhooks.
			s.with("email_configs: [{to: drill@example.org}]", "webhook_configs: [{url: 'HOOK/drill'}]").
				with("webhook_configs: [{url: 'HOOK/heartbeat'}]", "email_configs: [{to: a@example.org}]")
		},
	},
	{
		name: "dead webhook beside the one of Watchdog",
		step: "receiver",
		err:  `the message to "drill" probably fails: webhook`,
		hint: "Notify for alerts failed",
		cause: func(s *drillSite) {
			s.with("email_configs: [{to: drill@example.org}]", "webhook_configs: [{url: 'http://127.0.0.1:1/dead'}]")
			s.flags.Receivers = []string{"drill"}
		},
	},
	{
		name: "webhook hangs",
		step: "receiver",
		err:  "webhook does not answer",
		hint: "Notify for alerts failed",
		cause: func(s *drillSite) {
			s.with("group_interval: 10s", "group_interval: 1m").with("email_configs: [{to: drill@example.org}]",
				"webhook_configs: [{url: 'HOOK/hang'}]").with("webhook_configs: [{url: 'HOOK/heartbeat'}]",
				"email_configs: [{to: a@example.org}]")
		},
	},
	{
		name:  "clocks apart",
		step:  "clocks",
		err:   "the clock of Alertmanager is ",
		hint:  "timedatectl",
		after: func(s *drillSite) { s.flags.Alertmanager = s.ahead(s.am.URL(), 5*time.Minute) },
	},
}

func rulesOf(t *testing.T, a config.Alerts) string {
	t.Helper()
	a.Interval = config.Duration(time.Second)
	var rules bytes.Buffer
	must(t, alerts.Write(&rules, a))
	return rules.String()
}

// everySecond is the configuration whose rules are evaluated that often.
const everySecond = "poll: {}\nalerts: {interval: 1s}\n"

// ahead is the address of a proxy that gives a server another clock.
func (s *drillSite) ahead(of string, by time.Duration) string {
	s.Helper()
	target, err := url.Parse(of)
	must(s.T, err)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error {
			r.Header.Set("Date", time.Now().Add(by).UTC().Format(http.TimeFormat))
			return nil
		},
	}
	server := httptest.NewServer(proxy)
	s.Cleanup(server.Close)
	return server.URL
}

func TestRealDrillNamesEachFault(t *testing.T) {
	for _, f := range drillFaults {
		t.Run(f.name, func(t *testing.T) {
			if testing.Short() && !f.short {
				t.Skip("the others show that faults are found; all are tried at night")
			}
			t.Parallel()
			s := newDrillSite(t)
			if f.cause != nil {
				f.cause(s)
			}
			s.start()
			s.wait()
			if f.after != nil {
				f.after(s)
			}
			steps, verdict := s.drill()
			if verdict != alertpath.Wrong {
				t.Errorf("the drill calls the chain %s", verdict)
			}
			for name, step := range steps {
				if (step.State == alertpath.Wrong) != (name == f.step || name == f.also) {
					t.Errorf("%s is %s: %s", name, step.State, step.Error)
				}
			}
			says(t, "error", steps[f.step].Error, f.err)
			says(t, "hint", steps[f.step].Hint, f.hint)
			if _, raised := steps["sample"]; raised == f.stops {
				t.Errorf("raised: %t", raised)
			}
			s.leftNothing()
		})
	}
}

// TestRealDryRunNeverPromisesAReceiver has a pager that is dead, and one that works: only a message shows the difference.
func TestRealDryRunNeverPromisesAReceiver(t *testing.T) {
	t.Parallel()
	s := newDrillSite(t).with("'HOOK/page'", "'http://127.0.0.1:1/dead'")
	s.flags.DryRun = true
	s.start()
	s.wait()
	steps, verdict := s.drill()
	if got := steps["receiver"]; verdict != alertpath.Unknown || got.State != alertpath.Unknown || got.By != alertpath.Assumed {
		t.Errorf("%s: %+v", verdict, got)
	}
	says(t, "receiver", steps["receiver"].Error, "nothing shows that a message to page (webhook) arrives")
}

// TestRealShippedConfigurationsAreGreen has every step work but the receivers, which nobody has tried.
func TestRealShippedConfigurationsAreGreen(t *testing.T) {
	for _, name := range []string{"alertmanager.yml", "first.yml"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDrillSite(t)
			s.alertmanager = strings.NewReplacer("mail.example.org:587", "MAIL", "https://heartbeat.example.org", "HOOK").
				Replace(string(contentOf(t, filepath.Join(alertmanagerDir, name))))
			s.flags.EveryAlert = true
			s.start()
			s.wait()
			steps, _ := s.drill()
			for _, step := range steps {
				// The minimal configuration sends Watchdog to nobody.
				if (step.State != alertpath.Works) != (step.Name == "receiver" || step.Name == "watchdog" && name == "first.yml") {
					t.Errorf("%+v", step)
				}
			}
		})
	}
}

// correctChains wake somebody, so that nothing of them is wrong or unknown.
var correctChains = map[string]func(s *drillSite){
	"what is shipped": func(s *drillSite) {
		s.alertmanager = realstack.FitAlertmanager(s.T, string(contentOf(s.T, filepath.Join(alertmanagerDir, "alertmanager.yml"))), s.hook,
			s.mailAddress, [2]string{`group_wait: \S+`, "group_wait: 1s"})
		s.files = map[string][]byte{
			"templates/chatstack.tmpl": contentOf(s.T, filepath.Join(alertmanagerDir, "templates", "chatstack.tmpl")),
			"secrets/chat_webhook_url": []byte(s.hook + "/chat"),
			"secrets/oncall_token":     []byte("a"),
			"secrets/heartbeat_token":  []byte("b"),
		}
	},
	"kube-prometheus with a route for the chat stack": func(s *drillSite) {
		s.alertmanager = `
global: {smtp_smarthost: 'MAIL', smtp_from: a@example.org, smtp_require_tls: false}
inhibit_rules:
  - {source_matchers: [severity = critical], target_matchers: [severity =~ warning|info], equal: [namespace, alertname]}
  - {source_matchers: [severity = warning], target_matchers: [severity = info], equal: [namespace, alertname]}
  - {source_matchers: [alertname = InfoInhibitor], target_matchers: [severity = info], equal: [namespace]}
route:
  receiver: "null"
  group_by: [namespace]
  group_wait: 1s
  routes:
    - {receiver: watchdog, matchers: [alertname = Watchdog]}
    - {receiver: chat, matchers: [stack = chat]}
receivers:
  - name: "null"
  - {name: watchdog, webhook_configs: [{url: 'HOOK/heartbeat'}]}
  - {name: chat, email_configs: [{to: a@example.org}]}
`
	},
	"Alertmanager with a peer": func(s *drillSite) {
		first, second := realstack.FreeAddress(s.T), realstack.FreeAddress(s.T)
		s.peers = []string{"--cluster.listen-address=" + first, "--cluster.peer=" + second, "--cluster.settle-timeout=1s"}
		peer := realstack.StartAlertmanager(s.T, s.filled(s.alertmanager), nil,
			"--cluster.listen-address="+second, "--cluster.peer="+first, "--cluster.settle-timeout=1s")
		s.with("[ALERTMANAGER]", "[ALERTMANAGER, '"+peer.Addr+"']")
		s.flags.Others = []string{peer.URL()}
	},
	"behind a password and a path": func(s *drillSite) {
		s.with("{static_configs: [{targets: [ALERTMANAGER]}]}",
			"{path_prefix: /behind, basic_auth: {username: anna, password: secret}, static_configs: [{targets: [ALERTMANAGER]}]}")
		file := filepath.Join(s.TempDir(), "password")
		must(s.T, os.WriteFile(file, []byte("secret\n"), 0o600))
		s.environ = map[string]string{}
		for _, server := range []string{"PROMETHEUS", "ALERTMANAGER"} {
			s.environ["DRILL_"+server+"_USER"], s.environ["DRILL_"+server+"_PASSWORD_FILE"] = "anna", file
		}
		s.behind = "/behind"
	},
}

// TestRealCorrectChainsAreGreen has a critical test alert reach the receivers of critical alerts, not only as Watchdog reaches its own.
func TestRealCorrectChainsAreGreen(t *testing.T) {
	for name, change := range correctChains {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDrillSite(t).with("  - name: page\n", "  - name: page\n    email_configs: [{to: page@example.org}]\n")
			s.flags.Severity, s.flags.Yes = "critical", true
			change(s)
			s.start()
			s.wait()
			if steps, verdict := s.drill(); verdict != alertpath.Works {
				t.Errorf("the drill is %s: %+v", verdict, steps)
			}
			if s.messages("page") == 0 && s.messages("mail") == 0 {
				t.Error("no page has come")
			}
		})
	}
}

// TestRealMessageAmongOthersIsUnknown has a page by webhook, as Watchdog is sent.
func TestRealMessageAmongOthersIsUnknown(t *testing.T) {
	t.Parallel()
	s := newDrillSite(t)
	s.flags.Severity, s.flags.Yes = "critical", true
	s.start()
	s.wait()
	steps, verdict := s.drill()
	if got := steps["receiver"]; verdict != alertpath.Unknown || got.State != alertpath.Unknown {
		t.Errorf("%s: %+v", verdict, got)
	}
	says(t, "receiver", steps["receiver"].Error, `its counters do not show whether one of them was to "page"`)
}

// TestRealDrillFindsADeadAlertmanagerOfTwo has a Prometheus that does not scrape itself.
func TestRealDrillFindsADeadAlertmanagerOfTwo(t *testing.T) {
	t.Parallel()
	s := newDrillSite(t).with("[ALERTMANAGER]", "[ALERTMANAGER, '127.0.0.1:1']")
	s.flags.DryRun = true
	s.start()
	s.wait()
	s.settled(s.server.URL()+"/metrics", `prometheus_notifications_errors_total\{alertmanager="http://127.0.0.1:1/api/v2/alerts"\} [1-9]`)
	steps, verdict := s.drill()
	if got := steps["sending"]; verdict != alertpath.Unknown || got.State != alertpath.Unknown {
		t.Errorf("%s: %+v", verdict, got)
	}
	says(t, "sending", steps["sending"].Error, "of 2 Alertmanagers, Prometheus cannot send to http://127.0.0.1:1/api/v2/alerts")
}

// wait waits until the servers show all that the steps before the fault need.
func (s *drillSite) wait() {
	s.Helper()
	health := "up"
	if !strings.Contains(s.prometheus, "EXPORTER") {
		health = "down"
	}
	if !strings.Contains(s.prometheus, "targets: []") {
		s.settled(s.server.URL()+"/api/v1/targets", `"health":"`+health+`"`)
	}
	switch {
	case strings.Contains(s.rules, "other=1"):
		s.settled(s.server.URL()+"/api/v1/rules", `"health":"err"`)
	case !strings.Contains(s.prometheus, "ALERTMANAGER") && strings.Contains(s.prometheus, "alertmanagers: [{"):
		s.settled(s.server.URL()+"/metrics",
			`prometheus_notifications_errors_total\{alertmanager="http://127.0.0.1:1/api/v2/alerts"\} [1-9]`)
	case strings.Contains(s.prometheus, "alertmanagers: []"), strings.Contains(s.prometheus, "rule_files: []"):
	default:
		s.settled(s.am.URL()+"/api/v2/alerts", "Watchdog")
	}
}
