package app

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/promql/parser"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// selectors are the metrics that a rule file names, each with the labels that it selects by. Those that the rules have
// recorded themselves are left out.
func selectors(t *testing.T, content []byte) map[string][]string {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []struct {
				Record string
				Expr   string
			}
		}
	}
	must(t, yaml.Unmarshal(content, &file))
	named, recorded := map[string][]string{}, map[string]bool{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			recorded[r.Record] = true
			expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
			must(t, err)
			parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
				if s, ok := node.(*parser.VectorSelector); ok && !recorded[s.Name] {
					if _, known := named[s.Name]; !known {
						named[s.Name] = nil
					}
					for _, m := range s.LabelMatchers {
						if m.Name != "__name__" {
							named[s.Name] = append(named[s.Name], m.Name)
						}
					}
				}
				return nil
			})
		}
	}
	return named
}

// underMaintenance lists entries for targets, for an hour.
func underMaintenance(now time.Time, targets ...string) string {
	text := ""
	for _, name := range targets {
		text += fmt.Sprintf("  - {kind: target, name: %s, from: %s, until: %s}\n",
			name, now.Add(-time.Minute).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	}
	return text
}

// TestRulesNameOnlyWhatIsExported holds every metric that a rule names, and every label that it selects by, against the
// page of an exporter that watches the simulated stack, in which something of everything is wrong.
func TestRulesNameOnlyWhatIsExported(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		stack := startStack(t, simstack.Options{})
		must(t, stack.Switch("docker", "unhealthy", true))
		now := time.Now()
		e := startExporter(t, stack.Environ(), canaryMode+tlsPortBlocks(stack)+
			"  - {kind: tcp, name: gone, address: '127.0.0.1:1'}\n"+
			"  - {kind: volume, name: data, path: "+t.TempDir()+"}\n"+
			"  - {kind: http, name: placeholder, url: '"+stack.ControlURL()+"', token: change_me}\n"+
			"  - {kind: tls, name: served, address: '"+stack.IRCAddress()+"', ca_file: "+stack.CAFile()+", certificate_file: "+
			stack.CAFile()+"}\n"+
			"  - {kind: tls, name: file, certificate_file: "+stack.CAFile()+"}\n"+
			relayBlock(stack)+
			"state_file: "+filepath.Join(t.TempDir(), "state.json")+"\n"+
			"notify:\n  - {name: phone, url: 'generic://127.0.0.1:1/?disabletls=yes', hours: \"\"}\n"+
			"maintenance:\n"+underMaintenance(now, "gone", "data", "xmpp_metrics", "irc_rpc"))
		p := e.wait(t, "every target up", func(p page) bool { return allUp(p) && p.Verdict("gone") == "refused" })
		const left = "chatstack_target_left_to_first"
		p[left] = startExporter(t, nil, "pair: other\ntargets:\n"+relayBlock(stack)).scrape(t)[left]
		var rules, recording bytes.Buffer
		must(t, alerts.Write(&rules, alerts.Defaults()))
		must(t, alerts.WriteRecording(&recording, alerts.Defaults()))
		named := selectors(t, rules.Bytes())
		maps.Copy(named, selectors(t, recording.Bytes()))
		delete(named, "chatstack_exporter_time_seconds")             // has a label if it is on a page that the exporter reads
		delete(named, "up")                                          // is Prometheus' own
		delete(named, "ALERTS")                                      // is Prometheus' own
		delete(named, "prometheus_rule_group_rules")                 // is Prometheus' own
		delete(named, "prometheus_rule_group_interval_seconds")      // is Prometheus' own
		delete(named, "process_start_time_seconds")                  // has a job, and may have a target, by how it is scraped
		delete(named, "chatstack_container_calm_seconds")            // is there only while a container is up that flaps
		delete(named, "chatstack_target_calm_seconds")               // is there only while a target is up that flaps
		delete(named, "chatstack_container_removed_seconds")         // is there only while a container is removed
		delete(named, "chatstack_container_one_shot_failed_seconds") // is there only while a run has failed
		delete(named, "chatstack_drill")                             // TestDrillEndsByItself
		for _, name := range slices.Sorted(maps.Keys(named)) {
			family, ok := p[name]
			if !ok {
				t.Errorf("a rule names %s, which is not on the page", name)
				continue
			}
			for _, label := range named[name] {
				for _, m := range family.GetMetric() {
					if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == label }) {
						t.Errorf("a rule selects %s by %s, which it does not have", name, label)
						break
					}
				}
			}
		}
	})
}

// TestExporterSaysWhereItsPageIs holds that a reload changes the address, and leaves no other one.
func TestExporterSaysWhereItsPageIs(t *testing.T) {
	own := newOwnMetrics()
	for _, address := range []string{"https://a.example.org", "", "https://b.example.org/status"} {
		settings := alerts.Defaults()
		settings.ExternalURL = address
		own.describe(&config.Config{Alerts: settings})
		families, err := own.Gather()
		must(t, err)
		at := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "chatstack_exporter_info" })
		if at < 0 || len(families[at].GetMetric()) != 1 || exportertest.Label(families[at].GetMetric()[0], "external_url") != address {
			t.Errorf("%q: the metric is %v", address, families[max(at, 0)])
		}
	}
}

// TestExporterSaysWhichRulesAreItsOwn holds that the checksum on the page is the one in the rules that are printed.
func TestExporterSaysWhichRulesAreItsOwn(t *testing.T) {
	own := newOwnMetrics()
	changed := alerts.Defaults()
	changed.Of("container_memory").Critical.Over = 2_000_000_000
	for _, settings := range []config.Alerts{alerts.Defaults(), changed} {
		own.describe(&config.Config{Alerts: settings})
		families, err := own.Gather()
		must(t, err)
		p := page{}
		for _, f := range families {
			p[f.GetName()] = f
		}
		if _, ok := p.Value("chatstack_rules_info", "checksum", alerts.Checksum(settings)); !ok ||
			len(p["chatstack_rules_info"].GetMetric()) != 1 {
			t.Errorf("chatstack_rules_info is %v, want the checksum %s", p["chatstack_rules_info"], alerts.Checksum(settings))
		}
		var rules bytes.Buffer
		must(t, alerts.Write(&rules, settings))
		if !strings.Contains(rules.String(), fmt.Sprintf("checksum!=%q", alerts.Checksum(settings))) {
			t.Error("the rules do not compare their checksum")
		}
	}
}

func TestRulesArePrintedForTheConfiguration(t *testing.T) {
	o := options(nil, io.Discard)
	o.ConfigFile, o.configContent = "exporter.yaml", []byte("alerts:\n  container_memory:\n    critical: {over: 2000000000}\n"+
		"targets:\n  - kind: plant_store\n    url: http://plants\n    token_file: /is/elsewhere\n")
	var got, want, recording bytes.Buffer
	must(t, WriteRules(&got, o, false))
	changed := alerts.Defaults()
	changed.Of("container_memory").Critical.Over = 2_000_000_000
	must(t, alerts.Write(&want, changed))
	if diff := cmp.Diff(want.String(), got.String()); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	if err := WriteRules(&recording, o, true); err != nil || !strings.Contains(recording.String(), "record: chatstack:target_up") {
		t.Errorf("recording rules: %v\n%s", err, &recording)
	}
	o.configContent = []byte("alerts: {lookback: 1s}\n")
	if err := WriteRules(&got, o, false); err == nil || !strings.Contains(err.Error(), "exporter.yaml:1: alerts.lookback") {
		t.Errorf("of a configuration that is not valid: got %v, want the fault with its line", err)
	}
}

func TestServedIndexHasTheThresholdsOfTheConfiguration(t *testing.T) {
	inSimulatedTime(t, func(t *testing.T) {
		e := startExporter(t, nil, "alerts: {container_down: {critical: {for: 7m}}}\n")
		for path, want := range map[string]string{"/runbooks": "<td>after 7 minutes</td>", "/runbooks.md": "| after 7 minutes |"} {
			if r := e.get(t, path, http.Header{}); !strings.Contains(string(r.body), want) {
				t.Errorf("%s lacks %q: %s", path, want, r.body)
			}
		}
	})
}
