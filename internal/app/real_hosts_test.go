//go:build realservers

package app

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// TestRealPrometheusDiscoversThePeers runs Prometheus with the example for many hosts, other addresses and intervals apart:
// it finds what the exporter names, keeps part on `up`, and takes it off the metrics.
func TestRealPrometheusDiscoversThePeers(t *testing.T) {
	stack := startStack(t, simstack.Options{})
	services := strings.TrimSuffix(stack.Environ()["IRC_SERVICES_JSONRPC_URL"], "jsonrpc")
	host, _ := startWithFile(t, nil, "targets:\n  - {kind: irc_services, name: on-host, url: "+services+"}\n", nil)
	hostAddress := strings.TrimPrefix(host.url, "http://")
	probes, path := startWithFile(t, nil, "peers:\n  - {targets: ['"+hostAddress+"'], labels: {part: docker-a}}\n"+
		"targets:\n  - {kind: irc_services, name: probed, url: "+services+"}\n", nil)
	replaced := 0
	conf := string(contentOf(t, "../../deploy/many-hosts/prometheus.yml"))
	for _, r := range [][2]string{
		{"probes.example.org:9655", strings.TrimPrefix(probes.url, "http://")},
		{"alertmanager.example.org:9093", "127.0.0.1:1"},
		{"scrape_interval: 30s", "scrape_interval: 1s"},
		{"scrape_timeout: 10s", "scrape_timeout: 1s"},
		{"refresh_interval: 1m", "refresh_interval: 1s"},
	} {
		replaced += strings.Count(conf, r[0])
		conf = strings.ReplaceAll(conf, r[0], r[1])
	}
	if replaced != 6 {
		t.Fatalf("replaced %d values in prometheus.yml, want 6", replaced)
	}
	files := map[string][]byte{}
	for _, name := range []string{"chatstack.rules.yml", "chatstack.recording.yml"} {
		files[name] = contentOf(t, "../../alerts/"+name)
	}
	s := &server{realstack.StartPrometheus(t, conf, files)}
	found := func(want map[string]float64) func() error {
		return func() error {
			if diff := cmp.Diff(want, s.query(t, `up{job="chatstack_exporter"}`)); diff != "" {
				return fmt.Errorf("exporters that are scraped (-want +got):\n%s", diff)
			}
			return nil
		}
	}
	untilNil(t, found(map[string]float64{`{__name__="up", part="docker-a"}`: 1, `{__name__="up", part="probes"}`: 1}))
	untilNil(t, func() error {
		want := map[string]float64{
			`{__name__="chatstack_probe_success", target="on-host"}`: 1,
			`{__name__="chatstack_probe_success", target="probed"}`:  1,
		}
		if diff := cmp.Diff(want, s.query(t, "chatstack_probe_success")); diff != "" {
			return fmt.Errorf("what they say (-want +got):\n%s", diff)
		}
		return nil
	})
	// Without peers the list is empty, and the exporter goes. What was scraped last is marked as ended.
	rewrite(t, path, "peers: []\n")
	must(t, probes.app.Reload(t.Context()))
	untilNil(t, found(map[string]float64{`{__name__="up", part="probes"}`: 1}))
}
