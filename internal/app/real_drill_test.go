//go:build realservers

package app

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
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
	var rules bytes.Buffer
	must(t, alerts.Write(&rules, alerts.Defaults()))
	s.rules = strings.Replace(rules.String(), "interval: 30s", "interval: 1s", 1)
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
	o := options(nil, &logBuffer{}).with("poll: {}\n")
	o.EnableLifecycle = true
	s.exporter = startApp(s.T, o, &logBuffer{})
	s.am = realstack.StartAlertmanager(s.T, strings.NewReplacer("HOOK", s.hook, "MAIL", s.mailAddress).Replace(s.alertmanager), nil)
	s.server = realstack.StartPrometheus(s.T, strings.NewReplacer("ALERTMANAGER", s.am.Addr, "EXPORTER", strings.TrimPrefix(s.exporter.url, "http://")).Replace(s.prometheus),
		map[string][]byte{"chatstack.rules.yml": []byte(s.rules)}, "--rules.alert.resend-delay=1s")
	s.flags.Prometheus, s.flags.Alertmanager, s.flags.Exporter = s.server.URL(), s.am.URL(), s.exporter.url
	if s.flags.Severity == "" {
		s.flags.Severity = "none"
	}
}

// settled waits for an answer of an API that has a text.
func (s *drillSite) settled(url, text string) {
	s.Helper()
	if !exportertest.Eventually(time.Minute, 100*time.Millisecond, func() bool { return bytes.Contains(fetch(s.T, url), []byte(text)) }) {
		s.Fatalf("%s never has %s", url, text)
	}
}

// drill runs the command, and returns its steps by their names.
func (s *drillSite) drill() (steps map[string]alertpath.Step, ok bool) {
	s.Helper()
	var all []alertpath.Step
	o := options(nil, io.Discard).with("poll: {}\n")
	ok, err := Drill(s.Context(), o, s.flags, func(known []alertpath.Step) { all = append(all, known...) }, func(string) {})
	must(s.T, err)
	var table bytes.Buffer
	must(s.T, WriteDrillSteps(&table, all, false))
	s.Log("\n" + table.String())
	steps = map[string]alertpath.Step{}
	for _, step := range all {
		if _, twice := steps[step.Name]; twice {
			s.Errorf("step %s twice", step.Name)
		}
		steps[step.Name] = step
	}
	return steps, ok
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
	for url, trace := range map[string]string{
		s.exporter.url + "/metrics": "chatstack_drill{", s.server.URL() + "/api/v1/alerts": alerts.DrillAlert,
		s.am.URL() + "/api/v2/alerts": alerts.DrillAlert,
	} {
		if bytes.Contains(fetch(s.T, url), []byte(trace)) {
			s.Errorf("%s still has %s", url, trace)
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
	s.settled(s.am.URL()+"/api/v2/alerts", "Watchdog")
	steps, ok := s.drill()
	if !ok {
		t.Error("the drill failed")
	}
	for _, name := range []string{
		"exporter", "prometheus", "alertmanager", "clocks", "scrape", "labels", "rules", "rules_version", "evaluation", "sending", "watchdog",
		"raise", "sample", "alert", "delivery", "route", "suppression", "notification", "resolution",
	} {
		if steps[name].State != alertpath.Works {
			t.Errorf("%s: %+v", name, steps[name])
		}
	}
	if len(steps) != 19 {
		t.Errorf("%d steps, want 19", len(steps))
	}
	says(t, "notification", steps["notification"].Text, `sent to "drill" by email`)
	if strings.HasPrefix(steps["notification"].Text, "probably") {
		t.Error("nobody else is notified by mail, so that the message was the drill's")
	}
	if s.messages("mail") == 0 {
		t.Error("no mail has come")
	}
	s.leftNothing()
	silences := fetch(t, s.am.URL()+"/api/v2/silences")
	if strings.TrimSpace(string(silences)) != "[]" {
		t.Errorf("silences: %s", silences)
	}
}

var _ = fmt.Sprint
var _ = config.DefaultAlerts
