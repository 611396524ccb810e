//go:build realservers

package drill

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// rig is what all sites share: Prometheus, Alertmanager and the receivers.
type rig struct {
	report       report
	operators    *operators
	program      string
	prometheus   *realstack.Program
	alertmanager *realstack.Program
	containers   *realstack.Containers
	engine       string
	// begun is when Prometheus was started.
	begun time.Time
}

// settings are what every exporter's configuration begins with: everything is asked every second, and the alerts are
// those that are shipped, with shorter times. Numbers are the shipped ones.
const settings = `
poll:
  interval: 1s
  timeout: 1s
alerts:
  interval: 1s
  lookback: 5s
  slow_lookback: 10s
  container_unhealthy:
    warning: {for: 0s, keep_firing_for: 3s}
    critical: {after: 12s, keep_firing_for: 3s}
  xmpp_auth_failure_rate:
    window: 40s
    warning: {for: 5s, keep_firing_for: 3s}
    critical: {for: 5s, keep_firing_for: 3s}
  tls_certificate_expiry:
    warning: {keep_firing_for: 3s}
    critical: {keep_firing_for: 3s}
  data_volume_usage:
    warning: {for: 5s, keep_firing_for: 3s}
    critical: {for: 3s, keep_firing_for: 3s}
  data_volume_inodes:
    warning: {for: 5s, keep_firing_for: 3s}
    critical: {for: 3s, keep_firing_for: 3s}
  data_volume_read_only: {for: 5s, keep_firing_for: 3s}
  backup_old: {for: 5s}
  # Longer than an engine is away: of a restart that is older than the window, nobody is told.
  container_restarts: {window: 45s}
  container_oom_kill: {window: 60s}
  container_memory:
    warning: {for: 5s, keep_firing_for: 3s}
    critical: {for: 3s, keep_firing_for: 3s}
  container_down:
    warning: {for: 8s, keep_firing_for: 3s}
    critical: {for: 16s, keep_firing_for: 3s}
  target_down:
    warning: {for: 6s, keep_firing_for: 3s}
    critical: {for: 12s, keep_firing_for: 3s}
  target_unstable:
    # Of the readings of an hour, of which there are 3600.
    warning: {over: 1, keep_firing_for: 3s}
    critical: {over: 2, keep_firing_for: 3s}
  container_missing: {for: 5s}
  exporter_down:
    warning: {for: 8s}
    critical: {for: 6s}
    remember: 1h
  honor_labels_off: {for: 8s}
  clock_skew: {for: 8s, keep_firing_for: 3s}
  poll_stalled: {after: 25s}
  upstream_series_dropped: {for: 8s}
  xmpp_auth_source_missing: {for: 8s}
  plant_store_orphans: {for: 8s}
  tls_chain_invalid: {for: 6s, keep_firing_for: 5s}
  tls_served_not_renewed:
    warning: {for: 12s}
    critical: {for: 6s}
  config_reload_failed: {for: 5s}
  identity_cache_exhausted: {for: 0s, keep_firing_for: 3s}
  xmpp_module_problem: {for: 5s}
  xmpp_module_missing: {for: 5s}
  xmpp_component_disconnected: {for: 8s, keep_firing_for: 3s}
  irc_services_unlinked: {for: 8s, keep_firing_for: 3s}
  bridge_not_relaying: {keep_firing_for: 3s}
  bridge_slow: {for: 5s, keep_firing_for: 3s}
  bridge_duplicates: {for: 0s, keep_firing_for: 3s}
  relay_session_down: {for: 8s, keep_firing_for: 3s}
  # Longer than relay_session_down, as in what is shipped.
  relay_unwatched: {for: 24s}
  rules_out_of_date: {for: 8s}
  placeholder_credential: {for: 5s}
targets:
`

// drillDivisor divides the shipped waits of Alertmanager's routes.
const drillDivisor = 25

// sitesAtOnce is how many sites have their faults at the same time: with more, two cores and one engine answer late.
const sitesAtOnce = 8

// repository is where the shipped files are.
const repository = "../../.."

// TestRealFireDrill causes every fault that the rules know, and wants every notification, and no other.
func TestRealFireDrill(t *testing.T) {
	r := &rig{operators: startOperators(t), program: realstack.BuildExporter(t)}
	engine := realstack.StartDocker(t, realstack.DockerOptions{})
	r.engine, r.containers = engine.Host, engine.Containers()
	r.alertmanager = r.operators.startAlertmanager(t, repository, drillDivisor)
	// Without any exporter Prometheus would begin with an alert.
	quiet := r.openQuiet(t)
	rules := quiet.exporter.Rules()
	r.begun = time.Now()
	r.prometheus = realstack.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}
rule_files: [chatstack.rules.yml]
alerting:
  alertmanagers:
    - static_configs: [{targets: [%[1]q]}]
scrape_configs:
  - job_name: chatstack_exporter
    honor_labels: true
    http_sd_configs: [{url: "%[2]s/targets", refresh_interval: 1s}]
  # As somebody writes it who does not know what honor_labels is for.
  - job_name: dishonored
    http_sd_configs: [{url: "%[2]s/dishonored", refresh_interval: 1s}]
    relabel_configs:
      - {target_label: job, replacement: chatstack_exporter}
      - {target_label: host, replacement: node-7}
`, r.alertmanager.Addr, r.operators.url), map[string][]byte{"chatstack.rules.yml": []byte(rules)},
		// Prometheus sends ended alerts again after this time. If that is longer than Alertmanager's waits, it reports their end twice.
		"--rules.alert.resend-delay=4s")

	slots := make(chan struct{}, sitesAtOnce)
	t.Run("sites", func(t *testing.T) {
		for name, drill := range map[string]func(*testing.T){
			"quiet":        quiet.drillQuiet,
			"containers":   r.drillContainers,
			"stack":        r.drillStack,
			"resources":    r.drillResources,
			"logins":       r.drillLogins,
			"servers":      r.drillServers,
			"certificates": r.drillCertificates,
			"services":     r.drillServices,
			"settings":     r.drillSettings,
			"stalled":      r.drillStalled,
			"brown-out":    r.drillBrownOut,
			"bridge":       r.drillBridge,
			"dead-bridge":  r.drillDeadBridge,
			"slow-bridge":  r.drillSlowBridge,
			"chain":        r.drillChain,
			"engines":      r.drillEngines,
			"flapping":     r.drillFlapping,
			"pair":         r.drillPair,
			"copies":       r.drillCopies,
			"scrapes":      r.drillScrapes,
			"switch":       r.drillSwitch,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				if name != "quiet" { // it lasts from the first to the last of the others
					slots <- struct{}{}
					defer func() { <-slots }()
				}
				drill(t)
			})
		}
	})
	r.awaitHeartbeat(t)
	r.judge(t, rules)
}

// awaitHeartbeat holds that the heart beats to the end, and that nothing was said of what has no site.
func (r *rig) awaitHeartbeat(t *testing.T) {
	t.Helper()
	before := len(r.operators.heartbeats())
	if !exportertest.Eventually(usualPatience, lookEvery, func() bool { return len(r.operators.heartbeats()) > before }) {
		t.Errorf("no heartbeat any more after %d", before)
	}
	beats := r.operators.heartbeats()
	r.report.add(row{
		fault:    "none: it always fires",
		alert:    "Watchdog",
		severity: "none",
		metric:   -1,
		notified: beats[0].Sub(r.begun),
		resolved: -1,
		note:     fmt.Sprintf("(%d heartbeats)", len(beats)),
	})
	about, _ := r.operators.since(0, "")
	about = slices.DeleteFunc(about, func(n notification) bool {
		return n.Labels["alertname"] == "Watchdog" && n.Receiver == "heartbeat" && n.Status == "firing"
	})
	if len(about) > 0 {
		t.Errorf("notifications without a site: %s", list(about))
	}
}

// judge checks that a drill or a story covers every alert of the rules, and prints the table.
func (r *rig) judge(t *testing.T, rules string) {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert  string
				Labels map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(rules), &file); err != nil {
		t.Fatal(err)
	}
	var stories []byte
	scripts, err := filepath.Glob("../story/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		stories = append(stories, readFile(t, ".", script)...)
	}
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			severity := rule.Labels["severity"]
			if severity == "warning" && slices.Contains(neverWarned, rule.Alert) {
				continue // of a target that does not page, or of one exporter of a pair
			}
			if rule.Labels["drill"] == "true" {
				continue // the tests of the command drill raise it
			}
			if rule.Alert != "" && !r.report.has(rule.Alert, severity) && !bytes.Contains(stories, []byte(": "+rule.Alert+" "+severity)) {
				t.Errorf("no fault was caused that makes %s %s, and no story covers it", rule.Alert, severity)
			}
		}
	}
	for line := range strings.Lines(r.prometheus.Log() + r.alertmanager.Log()) {
		if strings.Contains(line, "level=error") || strings.Contains(line, "Evaluating rule failed") {
			t.Errorf("complaint: %s", line)
		}
	}
	table := r.report.String()
	path := filepath.Join(t.ArtifactDir(), "drill.txt")
	if err := os.WriteFile(path, []byte(table), 0o644); err != nil { //nolint:gosec // it is to be read
		t.Error(err)
	}
	t.Logf("%s:\n%s", path, strings.TrimRight(table, "\n"))
}
