package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestPeersAreReadAsTheyAreWritten(t *testing.T) {
	cfg, err := load(t, `pair: other
peers:
  - targets: [docker-a.example.org:9655, "[2001:db8::1]:9655"]
    labels: {part: containers, __scheme__: https}
  - targets: [probes:9655]
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []config.Peers{
		{Targets: []string{"docker-a.example.org:9655", "[2001:db8::1]:9655"}, Labels: map[string]string{"part": "containers", "__scheme__": "https"}},
		{Targets: []string{"probes:9655"}},
	}
	if diff := cmp.Diff(want, cfg.Peers); diff != "" {
		t.Errorf("peers (-want +got):\n%s", diff)
	}
	if cfg.Pair != config.PairOther {
		t.Errorf("pair = %q, want %q", cfg.Pair, config.PairOther)
	}
}
