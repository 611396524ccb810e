//go:build realservers

package drill

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack/simstacktest"
)

var (
	messagesTree = flag.String("messages.tree", repository,
		"the checkout whose exporter, rules and Alertmanager configuration are tried; with another one, messages are counted only")
	messagesScale = flag.Int("messages.scale", 10, "divide every time of the rules, the routes and the faults by this; 1 takes 45 minutes")
)

// messageCount is how many messages there are to one kind of reader.
type messageCount struct{ pages, mails, chat int }

// ownCount is how many critical messages an exporter sends by itself, without Prometheus, and how many of their ends.
type ownCount struct{ calls, ends int }

// incident is a fault of a whole stack, and how many messages it may cause: while it lasts, and when it is over.
type incident struct {
	name string
	// cause brings it about, and repair ends it.
	cause, repair  func(s *messageSite)
	firing, ending messageCount
	own            ownCount
}

// incidents are tried at the same time, each at a stack of its own.
var incidents = []incident{
	{
		name:   "everything is stopped",
		cause:  func(s *messageSite) { s.switchAll("stopped", true) },
		repair: func(s *messageSite) { s.switchAll("stopped", false) },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:   "the XMPP server's container is stopped",
		cause:  func(s *messageSite) { s.turn("xmpp", "stopped", true) },
		repair: func(s *messageSite) { s.turn("xmpp", "stopped", false) },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:   "the XMPP server hangs, with five targets",
		cause:  func(s *messageSite) { s.hangXMPP(true) },
		repair: func(s *messageSite) { s.hangXMPP(false) },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name: "the engine is stopped, with all containers",
		cause: func(s *messageSite) {
			s.stack.Engine().Stop()
			s.switchAll("stopped", true)
		},
		repair: func(s *messageSite) {
			if err := s.stack.Engine().Start(); err != nil {
				s.t.Fatal(err)
			}
			s.switchAll("stopped", false)
		},
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:   "the engine hangs, and its containers run",
		cause:  func(s *messageSite) { s.turn("docker", "hang", true) },
		repair: func(s *messageSite) { s.turn("docker", "hang", false) },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:  "the network is cut between the exporter and everything",
		cause: func(s *messageSite) { s.switchAll("hang", true); s.turn("docker", "hang", true) },
		repair: func(s *messageSite) {
			s.switchAll("hang", false)
			s.turn("docker", "hang", false)
		},
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:   "the disk is full",
		cause:  func(s *messageSite) { s.fill() },
		repair: func(s *messageSite) { s.empty() },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
		own:    ownCount{1, 1},
	},
	{
		name:   "the network is cut between Prometheus and the exporter",
		cause:  func(s *messageSite) { s.exporter.Hang() },
		repair: func(s *messageSite) { s.exporter.Resume() },
		firing: messageCount{1, 1, 1},
		ending: messageCount{0, 0, 1},
	},
	{
		name: "five services are deployed", cause: func(s *messageSite) { s.deployFive() }, repair: func(*messageSite) {},
	},
}

// TestRealMessages counts what the receivers get of faults of a whole stack: of a simulated stack with the exporter, Prometheus
// and Alertmanager as they are shipped, with all times divided by -messages.scale.
func TestRealMessages(t *testing.T) {
	tree, err := filepath.Abs(*messagesTree)
	if err != nil {
		t.Fatal(err)
	}
	own, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "chatstack_exporter")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./cmd/chatstack_exporter")
	build.Dir, build.Env = tree, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	operators := startOperators(t)
	alertmanager := operators.startAlertmanager(t, tree, *messagesScale)
	settings := scaledSettings(t, tree)
	var sites []*messageSite
	for i := range incidents {
		s := &messageSite{
			t:         t,
			env:       fmt.Sprintf("site-%d", i+1),
			operators: operators,
			judged:    tree == own,
		}
		s.start(program, settings)
		operators.watch(s.exporter.Addr, s.env)
		sites = append(sites, s)
	}
	prometheus := realstack.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: %[3]s, scrape_timeout: 1s, evaluation_interval: %[3]s}
rule_files: [chatstack.rules.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: [%[1]q]}]
scrape_configs:
  - job_name: chatstack_exporter
    honor_labels: true
    http_sd_configs: [{url: %[2]q, refresh_interval: 5s}]
`, alertmanager.Addr, operators.url+"/targets", scaled(30*time.Second)),
		map[string][]byte{"chatstack.rules.yml": []byte(sites[0].exporter.Rules())})

	var table messageTable
	t.Run("incidents", func(t *testing.T) {
		for i, incident := range incidents {
			t.Run(incident.name, func(t *testing.T) {
				t.Parallel()
				s := sites[i]
				s.t, s.prometheus = t, prometheus
				s.suffer(incident, &table)
			})
		}
	})
	text := table.String()
	path := filepath.Join(t.ArtifactDir(), "messages.txt")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // it is to be read
		t.Error(err)
	}
	t.Logf("%s:\n%s", path, text)
}

// scaled is a time as the test has it.
func scaled(d time.Duration) time.Duration { return d / time.Duration(*messagesScale) }

// scaledSettings are the shipped settings of the alerts, and of how often targets are read.
func scaledSettings(t *testing.T, tree string) string {
	t.Helper()
	var file struct {
		Alerts map[string]any
	}
	if err := yaml.Unmarshal(readFile(t, tree, "exporter.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	var scale func(settings map[string]any)
	scale = func(settings map[string]any) {
		for key, value := range settings {
			switch value := value.(type) {
			case map[string]any:
				scale(value)
			case string:
				// What is left of a certificate's time is not scaled.
				if key != "under" {
					settings[key] = divided(value, *messagesScale)
				}
			}
		}
	}
	scale(file.Alerts)
	// Nothing stalls here, and the exporter's heartbeat keeps its pace.
	file.Alerts["poll_stalled"] = map[string]string{"after": "3m"}
	settings, err := yaml.Marshal(map[string]any{
		"alerts": file.Alerts,
		"poll": map[string]string{
			"interval": scaled(30 * time.Second).String(),
			"timeout":  max(time.Second, scaled(10*time.Second)).String(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(settings)
}

// countOf are the messages of a status to people: pages are calls, and posts are in the channel.
func countOf(messages []message, status string) (n messageCount) {
	for _, m := range messages {
		switch {
		case m.status != status:
		case m.way == call:
			n.pages++
		case m.way == email:
			n.mails++
		case m.way == post:
			n.chat++
		}
	}
	return n
}

// messageSite is a simulated stack with an exporter.
type messageSite struct {
	t          *testing.T
	env        string
	operators  *operators
	stack      *simstack.Stack
	exporter   *realstack.Exporter
	prometheus *realstack.Program
	volume     string
	// judged says that the messages are held to be as many as wanted.
	judged bool
	// titles are those of what the exporter has sent by itself.
	mu     sync.Mutex
	titles []string
}

const volumeSize = 16 << 20

// start starts a stack of which every service has a target, in a container that the target names.
func (s *messageSite) start(program, settings string) {
	s.t.Helper()
	s.stack = simstacktest.Start(s.t, simstack.Options{Coupled: true})
	s.volume = s.t.TempDir()
	if err := syscall.Mount("drill", s.volume, "tmpfs", 0, fmt.Sprintf("size=%d", volumeSize)); err != nil {
		s.t.Fatalf("mount a volume, which takes root: %v", err)
	}
	s.t.Cleanup(func() {
		if err := syscall.Unmount(s.volume, 0); err != nil {
			s.t.Errorf("unmount the volume: %v", err)
		}
	})
	s.exporter = realstack.StartExporter(s.t, program, settings+s.pager()+fmt.Sprintf(`
targets:
  - {kind: xmpp_status, container: xmpp}
  - {kind: xmpp_metrics, container: xmpp}
  - {kind: xmpp_rest, container: xmpp}
  - {kind: xmpp_c2s, container: xmpp, address: %q}
  - {kind: tls, name: xmpp_s2s, container: xmpp, address: %q, starttls: xmpp-server, domain: chat.test, ca_file: %q}
  - {kind: xmpp_proxy, container: xmpp-proxy}
  - {kind: irc_rpc, container: irc}
  - {kind: irc_tls, container: irc, address: %q, schedule: "@every %s"}
  - {kind: irc_services, container: irc-services}
  - {kind: plant_store, container: plant-store}
  - {kind: identity, container: identity}
  - {kind: docs_search, container: docs}
  - {kind: web_irc, container: web-irc, url: %q}
  - {kind: docker}
  - {kind: volume, name: data, path: %q}
`, s.stack.XMPPClientAddress(), s.stack.XMPPServerAddress(), s.stack.CAFile(), s.stack.IRCAddress(), scaled(time.Minute),
		s.stack.URL("web_irc"), s.volume), s.stack.Environ())
}

// pager is the configuration of a receiver of critical messages. Another tree may know none.
func (s *messageSite) pager() string {
	if !s.judged {
		return ""
	}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var m struct{ Title string }
		if err := json.NewDecoder(r.Body).Decode(&m); err != nil {
			s.t.Errorf("a message: %v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.titles = append(s.titles, m.Title)
	}))
	s.t.Cleanup(server.Close)
	return fmt.Sprintf("\nnotify:\n  - {name: pager, url: \"generic://%s/?disabletls=yes\", severity: critical}\n",
		strings.TrimPrefix(server.URL, "http://"))
}

// ownMessages counts what the exporter has sent by itself, and lists it.
func (s *messageSite) ownMessages() (n ownCount, titles []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, title := range s.titles {
		switch {
		case strings.HasPrefix(title, "[CRITICAL]"):
			n.calls++
		case strings.HasPrefix(title, "[RESOLVED]"):
			n.ends++
		}
	}
	return n, slices.Clone(s.titles)
}

func (s *messageSite) turn(service, fault string, on bool) {
	s.t.Helper()
	if err := s.stack.Switch(service, fault, on); err != nil {
		s.t.Fatal(err)
	}
}

// switchAll switches a fault of all services but the engine. All containers end with the services that stop.
func (s *messageSite) switchAll(fault string, on bool) {
	s.t.Helper()
	for _, service := range simstack.Services {
		if service != "docker" {
			s.turn(service, fault, on)
		}
	}
	bridge := s.stack.Engine().Container("bridge") // it has no service
	switch {
	case fault != "stopped":
	case on:
		bridge.Stop()
	default:
		bridge.Start()
		bridge.SetHealth("healthy")
	}
}

// hangXMPP has the XMPP server accept connections without an answer, on all its ports, or answer again.
func (s *messageSite) hangXMPP(on bool) {
	s.t.Helper()
	for _, service := range []string{"xmpp", "xmpp_c2s", "xmpp_s2s"} {
		s.turn(service, "hang", on)
	}
}

func (s *messageSite) fill() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.volume, "file"), make([]byte, volumeSize*98/100), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *messageSite) empty() {
	s.t.Helper()
	if err := os.Remove(filepath.Join(s.volume, "file")); err != nil {
		s.t.Fatal(err)
	}
}

// deployFive replaces five containers, one after the other. Their services are gone for 20 s each.
func (s *messageSite) deployFive() {
	s.t.Helper()
	for container, services := range map[string][]string{
		"docs": {"docs_search"}, "plant-store": {"plant_store"}, "identity": {"identity"}, "web-irc": {"web_irc"},
		"xmpp": {"xmpp", "xmpp_c2s", "xmpp_s2s"},
	} {
		s.stack.Engine().Container(container).Recreate(nil)
		for _, service := range services {
			s.turn(service, "not_http", true) // to stop it would stop the container
		}
		s.pass(20 * time.Second)
		for _, service := range services {
			s.turn(service, "not_http", false)
		}
		if container != "docs" {
			s.stack.Engine().Container(container).SetHealth("healthy")
		}
		s.pass(40 * time.Second)
	}
}

// pass lets a time pass, as it is where the test runs in full.
func (s *messageSite) pass(d time.Duration) {
	timer := time.NewTimer(scaled(d))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.t.Context().Done():
		s.t.FailNow()
	}
}

// quiet reports whether no alert of the site is pending or fires, and every notification was resolved.
func (s *messageSite) quiet() bool {
	result, err := s.prometheus.Query(s.t.Context(), fmt.Sprintf(`ALERTS{env=%q}`, s.env))
	if err != nil || len(result) > 0 {
		return false
	}
	return len(s.operators.unresolved(s.env)) == 0
}

func (s *messageSite) await(what string, within time.Duration, holds func() bool) {
	s.t.Helper()
	for range int(within / (10 * time.Second)) {
		if holds() {
			return
		}
		s.pass(10 * time.Second)
	}
	result, err := s.prometheus.Query(s.t.Context(), fmt.Sprintf(`ALERTS{env=%q}`, s.env))
	s.t.Errorf("%s: waited %s for %s; alerts: %v, %v", s.env, within, what, result, err)
}

// suffer lives through an incident and counts its messages.
func (s *messageSite) suffer(i incident, table *messageTable) {
	s.t.Helper()
	s.await("a scrape and nothing wrong", 30*time.Minute, func() bool {
		up, err := s.prometheus.Query(s.t.Context(), fmt.Sprintf(`chatstack_probe_success{env=%q} == 1`, s.env))
		return err == nil && len(up) == 15 && s.quiet()
	})
	s.pass(3 * time.Minute)
	if messages := s.operators.messagesSince(0, s.env); len(messages) > 0 {
		s.t.Fatalf("messages before anything happened:\n%s", timeline(messages, messages[0].at))
	}
	began := time.Now()
	i.cause(s)
	s.pass(15 * time.Minute)
	i.repair(s)
	over := time.Now()
	s.await("the end of everything", time.Hour, s.quiet)
	s.pass(max(10*time.Minute, 2*time.Minute*time.Duration(*messagesScale))) // the exporter's own times have no scale
	messages := s.operators.messagesSince(0, s.env)
	own, titles := s.ownMessages()
	row := messageRow{
		incident: i,
		sent:     own,
		firing:   countOf(messages, "firing"),
		ending:   countOf(messages, "resolved"),
		story:    timeline(messages, began),
	}
	s.t.Logf("repaired after %s\n%s", over.Sub(began).Round(time.Second), row.story)
	table.add(row)
	if s.judged && (row.firing != i.firing || row.ending != i.ending) {
		s.t.Errorf("%+v messages and %+v of the end, want %+v and %+v", row.firing, row.ending, i.firing, i.ending)
	}
	if s.judged && (own != i.own || len(titles) != own.calls+own.ends) {
		s.t.Errorf("by itself, the exporter sent %q, want %+v", titles, i.own)
	}
}

// timeline has the messages with the times since the fault began, as they would be with the shipped times.
func timeline(messages []message, began time.Time) string {
	var b strings.Builder
	for _, m := range messages {
		after := (m.at.Sub(began) * time.Duration(*messagesScale)).Round(time.Second)
		var alerts []string
		for _, a := range m.alerts {
			labels := []string{}
			for _, name := range []string{"container", "target", "of", "kind", "volume"} {
				if value := a.Labels[name]; value != "" {
					labels = append(labels, value)
				}
			}
			alerts = append(alerts, strings.Join(append([]string{a.Status, a.Labels["alertname"], a.Labels["severity"]}, labels...), " "))
		}
		slices.Sort(alerts)
		if m.way == whole {
			fmt.Fprintf(&b, "  %7s %s %s: %s\n", after, m.receiver, m.status, strings.Join(alerts, "; "))
		}
	}
	return b.String()
}

// messageRow is the result of an incident.
type messageRow struct {
	incident
	firing, ending messageCount
	sent           ownCount
	story          string
}

// messageTable has the results of all incidents. Its methods may be called at once.
type messageTable struct {
	mu   sync.Mutex
	rows []messageRow
}

func (m *messageTable) add(row messageRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = append(m.rows, row)
}

// String returns the table in the order of the incidents, then the timelines.
func (m *messageTable) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	order := func(r messageRow) int {
		return slices.IndexFunc(incidents, func(i incident) bool { return i.name == r.name })
	}
	slices.SortFunc(m.rows, func(a, b messageRow) int { return cmp.Compare(order(a), order(b)) })
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	//nolint:errcheck // a builder takes all
	fmt.Fprintln(w, "FAULT\tPAGES\tMAILS\tIN THE CHANNEL\tPAGES OF THE END\tMAILS OF THE END\tIN THE CHANNEL OF THE END\t"+
		"OWN CALLS\tOWN ENDS")
	for _, r := range m.rows {
		//nolint:errcheck // a builder takes all
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n",
			r.name, r.firing.pages, r.firing.mails, r.firing.chat, r.ending.pages, r.ending.mails, r.ending.chat, r.sent.calls, r.sent.ends)
	}
	if err := w.Flush(); err != nil {
		panic(err) // a builder takes all
	}
	for _, r := range m.rows {
		fmt.Fprintf(&b, "\n%s:\n%s", r.name, r.story)
	}
	return b.String()
}
