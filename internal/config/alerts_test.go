package config_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestShippedFileHasEveryThreshold(t *testing.T) {
	content, err := os.ReadFile("../../exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := load(t, string(content), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(config.DefaultAlerts(), shipped.Alerts, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the shipped file says other defaults than the code (-code +file):\n%s", diff)
	}
	var file struct {
		Alerts map[string]any `yaml:"alerts"`
	}
	if err := yaml.Unmarshal(content, &file); err != nil {
		t.Fatal(err)
	}
	for _, missing := range missingKeys(file.Alerts, reflect.TypeFor[config.Alerts](), "alerts") {
		t.Errorf("the shipped file does not explain %s", missing)
	}
}

// missingKeys are the keys of a struct that a mapping does not have.
func missingKeys(have map[string]any, t reflect.Type, path string) []string {
	var missing []string
	for field := range t.Fields() {
		key, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if options == "inline" {
			missing = append(missing, missingKeys(have, field.Type, path)...)
			continue
		}
		value, ok := have[key]
		if !ok {
			missing = append(missing, path+"."+key)
			continue
		}
		if field.Type.Kind() == reflect.Struct {
			inner, _ := value.(map[string]any)
			missing = append(missing, missingKeys(inner, field.Type, path+"."+key)...)
		}
	}
	return missing
}

func TestThresholdsComeFromTheFile(t *testing.T) {
	cfg, err := load(t, "alerts:\n  interval: 1s\n  lookback: 4s\n  container_memory:\n    warning: {over: 7}\n    critical: {for: 3s}\n"+
		"  container_unhealthy:\n    critical: {after: 9s}\n  xmpp_module_problem: {ignore: [mod_muc]}\n", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := config.DefaultAlerts()
	want.Interval, want.Lookback = config.Duration(time.Second), config.Duration(4*time.Second)
	want.ContainerMemory.Warning.Over = 7
	want.ContainerMemory.Critical.For = config.Duration(3 * time.Second)
	want.ContainerUnhealthy.Critical.After = config.Duration(9 * time.Second)
	want.XMPPModuleProblem.Ignore = []string{"mod_muc"}
	if diff := cmp.Diff(want, cfg.Alerts); diff != "" {
		t.Errorf("alerts (-want +got):\n%s", diff)
	}
}

func TestThresholdsThatMakeNoSenseAreTold(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"job":                {`job: 'a"b'`, `alerts.job: is "a\"b", must be the name of a scrape job`},
		"runbooks":           {"runbook_url: runbooks", "alerts.runbook_url: does not say how it is reached"},
		"interval":           {"interval: 500ms", "alerts.interval: is 500ms, must be at least 1s"},
		"lookback":           {"lookback: 119s", "alerts.lookback: is 1m59s, must be at least 2m0s: 4 times alerts.interval"},
		"slow lookback":      {"slow_lookback: 1m", "alerts.slow_lookback: is 1m0s, must be at least 2m0s"},
		"window of rates":    {"xmpp_auth_failure_rate: {window: 30s}", "alerts.xmpp_auth_failure_rate.window: is 30s, must be at least 2m0s"},
		"window of restarts": {"container_restarts: {window: 30s}", "alerts.container_restarts.window: is 30s, must be at least 2m0s"},
		"absence":            {"exporter_down: {absent: 30s}", "alerts.exporter_down.absent: is 30s, must be at least 2m0s"},
		"no time":            {"container_unhealthy: {critical: {after: 0s}}", "alerts.container_unhealthy.critical.after: is 0s, must be at least 30s"},
		"no remainder":       {"tls_certificate_expiry: {critical: {under: 0s}}", "alerts.tls_certificate_expiry.critical.under: is 0s, must be at least 1s"},
		"template":           {`runbook_url: "https://wiki/{{x}}"`, "must be a plain address, not a template"},
		"stall":              {"poll_stalled: {after: 2m}", "alerts.poll_stalled.after: is 2m0s, must be at least 2m20s: alerts.lookback and the 20s that the heartbeat on a page may be old"},
		"below zero":         {"container_restarts: {warning: {over: -1}}", "alerts.container_restarts.warning.over: is -1, must not be below 0"},
		"rates":              {"xmpp_auth_failure_rate: {critical: {over: 9}}", "alerts.xmpp_auth_failure_rate.critical.over: is 9, below the warning's 10"},
		"memory":             {"container_memory: {warning: {over: 2000000000}}", "alerts.container_memory.critical.over: is 1000000000, below the warning's 2000000000"},
		"percent":            {"data_volume_usage: {critical: {over: 100}}", "alerts.data_volume_usage.critical.over: is 100, must be at most 99"},
		"certificates":       {"tls_certificate_expiry: {warning: {under: 24h}}", "alerts.tls_certificate_expiry.critical.under: is 72h0m0s, longer than the warning's 24h0m0s"},
		"targets":            {"target_down: {critical: {for: 1m}}", "alerts.target_down.critical.for: is 1m0s, shorter than the warning's 2m0s"},
		"containers":         {"container_down: {warning: {for: 1h}}", "alerts.container_down.critical.for: is 5m0s, shorter than the warning's 1h0m0s"},
		"modules":            {`xmpp_module_problem: {ignore: [fine, 'a|b"']}`, `alerts.xmpp_module_problem.ignore: holds "a|b\"", must be names of modules`},
		"no such key":        {"target_dwon: {}", `alerts.target_dwon: unknown key; did you mean "target_down"?`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, "alerts:\n  "+c.content+"\n", nil)
			faults, ok := errors.AsType[config.Faults](err)
			if !ok {
				t.Fatalf("got %v, want faults", err)
			}
			if got := faults.Error(); !strings.Contains(got, c.want) || len(faults) != 1 {
				t.Errorf("got:\n%s\nwant one that says:\n%s", got, c.want)
			}
		})
	}
}
