package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// secretFile finds the secrets that an example has in files of its own.
var secretFile = regexp.MustCompile(`(?m)_file: (/\S*secrets\S*/(\w+))$`)

// loadExample reads an example configuration, with its secrets in a directory of the test.
func loadExample(t *testing.T, path string) *config.Config {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text, dir := strings.ReplaceAll(string(content), "{{ .Node.Hostname }}", "node-1"), t.TempDir()
	for _, m := range secretFile.FindAllStringSubmatch(text, -1) {
		rewrite(t, filepath.Join(dir, m[2]), "a-secret-of-its-own")
		text = strings.ReplaceAll(text, m[1], filepath.Join(dir, m[2]))
	}
	o := options(nil, &logBuffer{})
	o.ConfigFile, o.configContent = path, []byte(text)
	cfg, err := LoadConfig(o)
	if err != nil {
		t.Fatalf("%s:\n%v", path, err)
	}
	return cfg
}

// TestExamplesForManyHostsAreValid also holds that between them they ask each thing once, and say where.
func TestExamplesForManyHostsAreValid(t *testing.T) {
	probes := loadExample(t, "../../deploy/many-hosts/probes.yaml")
	host := loadExample(t, "../../deploy/many-hosts/docker-host.yaml")
	for _, s := range probes.Targets {
		if k := s.Common().Kind; k == "docker" || k == "volume" {
			t.Errorf("the exporter for the probes has the target %s of a host", s.Common().Name)
		}
	}
	content, err := os.ReadFile("../../deploy/many-hosts/docker-host.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(content), ": docker-a"); n != 3 {
		t.Errorf("the host's name stands in %d places, the file says three", n)
	}
	for _, s := range host.Targets {
		if c := s.Common(); (c.Kind != "docker" && c.Kind != "volume") || !strings.HasPrefix(c.Name, "docker-a") {
			t.Errorf("the exporter of a host has the target %s of kind %s", c.Name, c.Kind)
		}
	}
	var listed []config.Peers
	content, err = os.ReadFile("../../deploy/many-hosts/exporters.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &listed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(probes.Peers, listed); diff != "" {
		t.Errorf("the two lists of exporters differ (-peers +exporters.json):\n%s", diff)
	}
	for _, w := range append(Warnings(probes), Warnings(host)...) {
		t.Errorf("%s: %s", w.Target, w.Text)
	}
}

func TestExamplesForKubernetesAreValid(t *testing.T) {
	paths, err := filepath.Glob("../../deploy/kubernetes/*/exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	overlays, err := filepath.Glob("../../deploy/kubernetes/overlays/*/exporter.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if paths = append(paths, overlays...); len(paths) != 3 {
		t.Errorf("found %v, want three configurations", paths)
	}
	for _, path := range paths {
		cfg := loadExample(t, path)
		if len(cfg.Targets) < 9 {
			t.Errorf("%s: %d targets", path, len(cfg.Targets))
		}
		for _, w := range Warnings(cfg) {
			if cfg.Pair == config.PairOther && w.Target == "xmpp_metrics" {
				continue // which is told of in any case
			}
			t.Errorf("%s: %s: %s", path, w.Target, w.Text)
		}
	}
}

func TestExampleForSwarmIsValid(t *testing.T) {
	cfg := loadExample(t, "../../deploy/swarm/node.yaml")
	if len(cfg.Targets) != 1 || cfg.Targets[0].Common().Name != "node-1" || len(Warnings(cfg)) > 0 {
		t.Errorf("targets %v, warnings %v: want the engine of node-1, without any", cfg.Targets, Warnings(cfg))
	}
	content, err := os.ReadFile("../../deploy/swarm/stack.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var stack struct {
		Services map[string]struct {
			Configs []struct{ Source, Target string }
			Secrets []struct{ Source, Target string }
			Deploy  struct {
				Mode string
			}
		}
		Configs map[string]struct{ File string }
		Secrets map[string]any
	}
	if err := yaml.Unmarshal(content, &stack); err != nil {
		t.Fatal(err)
	}
	if got := stack.Services["node"].Deploy.Mode; got != "global" {
		t.Errorf("the exporter for the nodes is deployed in mode %q", got)
	}
	probes, err := os.ReadFile("../../deploy/many-hosts/probes.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mounted := map[string]bool{}
	for name, service := range stack.Services {
		if _, err := os.Stat(filepath.Join("../../deploy/swarm", stack.Configs[service.Configs[0].Source].File)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, s := range service.Secrets {
			if _, ok := stack.Secrets[s.Source]; !ok {
				t.Errorf("%s: secret %s is not declared", name, s.Source)
			}
			mounted[s.Target] = true
		}
	}
	for _, m := range secretFile.FindAllStringSubmatch(string(probes), -1) {
		if !mounted[m[1]] {
			t.Errorf("no secret is mounted at %s", m[1])
		}
	}
}
