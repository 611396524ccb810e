package app

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
	content := contentOf(t, path)
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
	content := contentOf(t, "../../deploy/many-hosts/docker-host.yaml")
	if n := strings.Count(string(content), ": docker-a"); n != 3 {
		t.Errorf("the host's name stands in %d places, the file says three", n)
	}
	for _, s := range host.Targets {
		if c := s.Common(); (c.Kind != "docker" && c.Kind != "volume") || !strings.HasPrefix(c.Name, "docker-a") {
			t.Errorf("the exporter of a host has the target %s of kind %s", c.Name, c.Kind)
		}
	}
	var listed []config.Peers
	content = contentOf(t, "../../deploy/many-hosts/exporters.json")
	must(t, json.Unmarshal(content, &listed))
	if diff := cmp.Diff(probes.Peers, listed, cmp.AllowUnexported(config.Secret{})); diff != "" {
		t.Errorf("the two lists of exporters differ (-peers +exporters.json):\n%s", diff)
	}
	for _, w := range append(Warnings(probes), Warnings(host)...) {
		t.Errorf("%s: %s", w.Target, w.Text)
	}
}

func TestExamplesForKubernetesAreValid(t *testing.T) {
	paths, err := filepath.Glob("../../deploy/kubernetes/*/exporter.yaml")
	must(t, err)
	overlays, err := filepath.Glob("../../deploy/kubernetes/overlays/*/exporter.yaml")
	must(t, err)
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
	stack := loadStack(t, "../../deploy/swarm/stack.yaml")
	probes := contentOf(t, "../../deploy/many-hosts/probes.yaml")
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

// stackFile is what the tests look at of a file for docker stack deploy.
type stackFile struct {
	Services map[string]struct {
		Image, User string
		Command     []string
		Entrypoint  []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
		Networks    []string
		Volumes     []any
		Ports       []struct{ Mode string }
		Logging     struct{ Options map[string]string }
		Configs     []struct{ Source, Target string }
		Secrets     []struct{ Source, Target string }
		Deploy      struct {
			Mode      string
			Resources struct {
				Limits struct {
					CPUs   string `yaml:"cpus"`
					Memory string
					Pids   int
				}
			}
		}
	}
	Networks map[string]struct{ Internal bool }
	Volumes  map[string]struct {
		DriverOpts map[string]string `yaml:"driver_opts"`
	}
	Configs map[string]struct{ File string }
	Secrets map[string]any
}

func loadStack(t *testing.T, path string) stackFile {
	t.Helper()
	content := contentOf(t, path)
	var stack stackFile
	must(t, yaml.Unmarshal(content, &stack))
	if len(stack.Services) == 0 {
		t.Fatalf("%s has no services", path)
	}
	return stack
}

// TestExampleForSwarmKeepsTheSocketFromTheExporter also holds that the proxy cannot be that of another node: they share a
// directory of the node, and no network.
func TestExampleForSwarmKeepsTheSocketFromTheExporter(t *testing.T) {
	stack := loadStack(t, "../../deploy/swarm/stack.yaml")
	const engine = "/var/run/docker.sock"
	for name, service := range stack.Services {
		mounts := fmt.Sprint(service.Volumes)
		if strings.Contains(mounts, engine) != (name == "socket-proxy") {
			t.Errorf("%s has mounts %s; the engine's socket is for the proxy alone", name, mounts)
		}
		if mode := service.Deploy.Mode; (mode == "global") != (name != "probes") {
			t.Errorf("%s is deployed in mode %q", name, mode)
		}
	}
	proxy, node := stack.Services["socket-proxy"], stack.Services["node"]
	if got := stack.Configs[proxy.Configs[0].Source].File; got != "../socket-proxy/nginx.conf" {
		t.Errorf("the proxy's configuration is %s", got)
	}
	if len(proxy.Ports) > 0 || len(proxy.Networks) != 1 || !stack.Networks[proxy.Networks[0]].Internal {
		t.Errorf("the proxy has ports %v, networks %v; want none, and one without a way out", proxy.Ports, proxy.Networks)
	}
	for _, network := range node.Networks {
		if network == proxy.Networks[0] {
			t.Errorf("proxy and exporter share the network %s, on which proxies of other nodes are", network)
		}
	}
	nginx := contentOf(t, "../../deploy/socket-proxy/nginx.conf")
	script := proxy.Entrypoint[len(proxy.Entrypoint)-1]
	m := regexp.MustCompile(`s#(listen \S+;)#listen unix:(\S+);#`).FindStringSubmatch(script)
	if m == nil || strings.Count(string(nginx), m[1]) != 1 {
		t.Fatalf("the proxy's script does not replace the one port of nginx.conf:\n%s", script)
	}
	if content, err := os.ReadFile("../../deploy/swarm/node.yaml"); err != nil ||
		!strings.Contains(string(content), "host: unix://"+m[2]+" ") {
		t.Errorf("the exporter does not ask at %s (%v)", m[2], err)
	}
	if got := stack.Volumes["socket"].DriverOpts["o"]; !strings.Contains(got, "uid=65532") || !strings.Contains(got, "mode=0700") {
		t.Errorf("the directory of the proxy's socket has options %q, want that of user 65532 alone", got)
	}
}

// TestExampleForSwarmIsRestricted holds what a stack can say; what it cannot, its page must.
func TestExampleForSwarmIsRestricted(t *testing.T) {
	stack := loadStack(t, "../../deploy/swarm/stack.yaml")
	for name, service := range stack.Services {
		limits := service.Deploy.Resources.Limits
		if limits.CPUs == "" || limits.Memory == "" || limits.Pids == 0 {
			t.Errorf("%s has limits %+v", name, limits)
		}
		if !service.ReadOnly || strings.Join(service.CapDrop, "") != "ALL" {
			t.Errorf("%s: read-only root %v, dropped capabilities %v", name, service.ReadOnly, service.CapDrop)
		}
		if !strings.HasPrefix(service.User, "65532:") {
			t.Errorf("%s runs as %q", name, service.User)
		}
		if o := service.Logging.Options; o["max-size"] == "" || o["max-file"] == "" {
			t.Errorf("%s has logs without end: %v", name, o)
		}
	}
	protected := loadStack(t, "../../deploy/swarm/stack.web-config.yaml")
	page := contentOf(t, "../../deploy/swarm/README.md")
	for name, service := range stack.Services {
		if len(service.Ports) == 0 {
			continue
		}
		want := append(slices.Clone(service.Command), "--web.config.file="+protected.Services[name].Configs[0].Target)
		if diff := cmp.Diff(want, protected.Services[name].Command); diff != "" {
			t.Errorf("%s with a password (-want +got):\n%s", name, diff)
		}
	}
	says(t, "the page", string(page), `"no-new-privileges": true`, "security_opt", "DOCKER-USER", "stack.web-config.yaml")
}
