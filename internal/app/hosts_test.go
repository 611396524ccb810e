package app

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const pairOfTargets = `targets:
  - {kind: xmpp_metrics, url: http://127.0.0.1:1/metrics}
  - {kind: plant_store, url: http://127.0.0.1:1, mode: canary, token: a-token-of-its-own}
  - {kind: xmpp_status, url: http://127.0.0.1:1/status}
`

// TestPairSaysWhatOnlyOneMayDo holds both places that say it: the log at start, and check.
func TestPairSaysWhatOnlyOneMayDo(t *testing.T) {
	const (
		manual = `statistics_interval = "manual"`
		canary = "may run the canary alone"
	)
	for pair, want := range map[string][]string{"": nil, "first": nil, "other": {"plant_store " + canary, "xmpp_metrics " + manual}} {
		content := "state_file: " + t.TempDir() + "/state.json\npair: '" + pair + "'\n" + pairOfTargets
		var log bytes.Buffer
		o := options(nil, &log)
		o.ConfigFile, o.configContent = "exporter.yaml", []byte(content)
		a, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		a.close()
		var logged []string
		for line := range strings.Lines(log.String()) {
			for _, text := range []string{manual, canary} {
				if strings.Contains(line, "target=") && strings.Contains(line, "level=WARN") && strings.Contains(strings.ReplaceAll(line, `\"`, `"`), text) {
					_, target, _ := strings.Cut(line, "target=")
					logged = append(logged, strings.Fields(target)[0]+" "+text)
				}
			}
		}
		o.Log = slog.New(slog.DiscardHandler)
		results, err := Check(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var checked []string
		for _, r := range results {
			for _, text := range []string{manual, canary} {
				if strings.Contains(strings.Join(r.Warnings, "\n"), text) {
					checked = append(checked, r.Target+" "+text)
				}
			}
		}
		for place, got := range map[string][]string{"log": logged, "check": checked} {
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("pair %q: %s (-want +got):\n%s", pair, place, diff)
			}
		}
	}
}

func TestDiscoveryNamesThePeersOfTheConfigurationInForce(t *testing.T) {
	e, path := startWithFile(t, nil, "", nil)
	discover := func() any {
		t.Helper()
		r := e.get(t, "/api/v1/discovery", http.Header{})
		if got := r.header.Get("Content-Type"); r.status != http.StatusOK || got != "application/json" {
			t.Fatalf("status %d, content type %q: Prometheus takes only 200 and application/json", r.status, got)
		}
		var list any
		if err := json.Unmarshal(r.body, &list); err != nil {
			t.Fatal(err)
		}
		return list
	}
	if diff := cmp.Diff([]any{}, discover()); diff != "" {
		t.Errorf("without peers (-want +got):\n%s", diff)
	}
	rewrite(t, path, "peers:\n  - targets: [a:9655, b:9655]\n    labels: {part: containers}\n  - targets: [c:9655]\n")
	if err := e.app.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []any{
		map[string]any{"targets": []any{"a:9655", "b:9655"}, "labels": map[string]any{"part": "containers"}},
		map[string]any{"targets": []any{"c:9655"}},
	}
	if diff := cmp.Diff(want, discover()); diff != "" {
		t.Errorf("after a reload (-want +got):\n%s", diff)
	}
}

func TestRuleManifestHasTheThresholdsOfTheConfiguration(t *testing.T) {
	var log, manifest bytes.Buffer
	o := options(nil, &log)
	o.ConfigFile, o.configContent = "exporter.yaml", []byte("alerts: {container_down: {critical: {for: 7m}}}\n")
	if err := WriteRuleManifest(&manifest, o); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"kind: PrometheusRule\n", "for: 7m\n", "- name: chatstack\n", "- name: chatstack-ratios\n"} {
		if !strings.Contains(manifest.String(), want) {
			t.Errorf("the manifest lacks %q", want)
		}
	}
}
