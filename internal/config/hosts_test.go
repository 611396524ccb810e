package config_test

import (
	"strings"
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

func TestPeersThatCannotBeScrapedAreFaults(t *testing.T) {
	for content, want := range map[string]string{
		"pair: second\n": `exporter.yaml:1: pair: is "second", must be first or other`,
		"peers:\n  - labels: {part: containers}\n":                           `exporter.yaml:2: peers[0]: names no targets`,
		"peers:\n  - targets: [docker-a]\n":                                  `exporter.yaml:2: peers[0].targets[0]: must be host:port`,
		"peers:\n  - targets: ['docker-a:0']\n":                              `peers[0].targets[0]: must be host:port`,
		"peers:\n  - targets: [':9655']\n":                                   `peers[0].targets[0]: must be host:port`,
		"peers:\n  - targets: ['a:9655', 'http://u:secret@docker-a:9655']\n": `peers[0].targets[1]: must be host:port`,
		"peers:\n  - targets: ['u:secret@docker-a:9655']\n":                  `peers[0].targets[0]: must be host:port`,
		"peers:\n  - targets: ['secret@docker-a:9655']\n":                    `peers[0].targets[0]: must be host:port`,
		"peers:\n  - {targets: ['a:9655'], labels: {docker-host: a}}\n":      `peers[0].labels.docker-host: is no name of a label`,
		"peers:\n  - {targets: ['a:9655'], labels: {__address__: b}}\n":      `peers[0].labels.__address__: is no name of a label`,
		"peers: docker-a:9655\n":                                             `peers: is "docker-a:9655", must be a list`,
	} {
		_, err := load(t, content, nil)
		if err == nil {
			t.Errorf("%s: no fault, want %q", content, want)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s: fault = %q, want %q in it and no password", content, got, want)
		}
	}
}
