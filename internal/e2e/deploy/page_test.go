package deploy

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
)

const deploy = "../../../deploy"

// blocks are the commands of the pages that tell how to deploy.
func blocks(t *testing.T) (found []string) {
	t.Helper()
	for _, b := range scripts(t) {
		if slices.Contains([]string{
			"deploy/README.md", "deploy/swarm/README.md", "deploy/kubernetes/README.md", "deploy/many-hosts/README.md",
		}, b.document) {
			found = append(found, b.text)
		}
	}
	return found
}

// read is a file of deploy/.
func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryCommandOfThePagesIsRunOrSaysWhyNot(t *testing.T) {
	begins := slices.Concat(known.Walked, slices.Collect(maps.Keys(known.NotWalked)))
	used := map[string]bool{}
	for _, block := range blocks(t) {
		i := slices.IndexFunc(begins, func(begin string) bool { return strings.HasPrefix(block, begin) })
		if i < 0 {
			t.Errorf("these commands are neither run by the walk-through nor listed:\n%s", block)
			continue
		}
		used[begins[i]] = true
	}
	for _, begin := range begins {
		if !used[begin] {
			t.Errorf("no page has commands that begin with %q", begin)
		}
	}
}

func TestCommandsNameServicesThatAreThere(t *testing.T) {
	services := composeFile(t, "compose.yaml").Services
	commands := regexp.MustCompile(`docker compose (?:restart|logs|build|exec(?: -T)?|kill --signal HUP) ([\w-]+)`).
		FindAllStringSubmatch(read(t, "README.md"), -1)
	if len(commands) < 6 {
		t.Errorf("the page has %d commands that name a service", len(commands))
	}
	for _, m := range commands {
		if _, ok := services[m[1]]; !ok {
			t.Errorf("%s: there is no such service", m[0])
		}
	}
}

type compose struct {
	Services map[string]struct {
		Environment map[string]string
		Volumes     []yaml.Node
	}
	Secrets map[string]struct{ File string }
}

func composeFile(t *testing.T, name string) compose {
	t.Helper()
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, name)), &c); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return c
}

// TestComposePassesOnEveryVariable compares with the table of CONFIGURATION.md, so that none is set in vain. The table has every variable
// that targets read.
func TestComposePassesOnEveryVariable(t *testing.T) {
	passed := composeFile(t, "compose.yaml").Services["chatstack-exporter"].Environment
	var names []string
	quoted := regexp.MustCompile("`([A-Z0-9_…]+)`")
	for line := range strings.Lines(read(t, "../CONFIGURATION.md")) {
		cell, _, row := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !row || !strings.HasPrefix(line, "| `") {
			continue
		}
		var whole, begins []string
		for _, m := range quoted.FindAllStringSubmatch(cell, -1) {
			switch begin, open := strings.CutSuffix(m[1], "…"); {
			case open:
				begins = append(begins, begin)
			case !strings.HasPrefix(m[1], "…"):
				whole = append(whole, m[1])
			}
		}
		if len(begins) == 0 {
			names = append(names, whole...)
		}
		for _, begin := range begins {
			for _, end := range whole {
				names = append(names, begin+end)
			}
		}
	}
	if len(names) < 35 {
		t.Fatalf("the table has %d variables: %v", len(names), names)
	}
	for _, name := range collectors.Variables() {
		if !slices.Contains(names, name) && !slices.Contains(names, strings.TrimSuffix(name, "_FILE")) {
			t.Errorf("CONFIGURATION.md: the table of environment variables lacks %s", name)
		}
	}
	for _, name := range names {
		// The engine is asked through the proxy, in clear, and a relay needs the file anyway, which can name its passwords' files.
		if strings.HasPrefix(name, "DOCKER_") || strings.HasPrefix(name, "RELAY_") {
			continue
		}
		if file := passed[name+"_FILE"]; strings.HasPrefix(file, "/run/secrets/") {
			continue
		}
		if got, want := passed[name], fmt.Sprintf("${%s:-}", name); got != want {
			t.Errorf("compose.yaml: %s is %q in the container, want %q", name, got, want)
		}
	}
}

// TestExampleOfEnvIsWhatComposeReads also compares values there with the defaults.
func TestExampleOfEnvIsWhatComposeReads(t *testing.T) {
	example := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([A-Z0-9_]+)=(.*)$`).FindAllStringSubmatch(read(t, ".env.example"), -1) {
		example[m[1]] = m[2]
	}
	unread := maps.Clone(example)
	delete(unread, "COMPOSE_FILE") // which compose itself reads
	for _, name := range []string{"compose.yaml", "compose.existing-prometheus.yaml", "compose.web-config.yaml"} {
		for _, m := range regexp.MustCompile(`\$\{([A-Z0-9_]+)(?::-([^${}]*)\})?`).FindAllStringSubmatch(read(t, name), -1) {
			value, ok := example[m[1]]
			if !ok {
				t.Errorf("%s reads %s, which .env.example has not", name, m[1])
			}
			if m[2] != value && m[2] != "" && value != "" {
				t.Errorf("%s is %q in %s and %q in .env.example", m[1], m[2], name, value)
			}
			delete(unread, m[1])
		}
	}
	for name := range unread {
		t.Errorf(".env.example has %s, which nothing reads", name)
	}
}

// TestMistypedPathsAreNoEmptyDirectories wants the long form of every mount from the machine, and what Docker makes by itself
// forbidden in it: an exporter whose configuration is an empty directory starts, and watches next to nothing.
func TestMistypedPathsAreNoEmptyDirectories(t *testing.T) {
	n := 0
	for _, name := range []string{"compose.yaml", "compose.existing-prometheus.yaml", "compose.web-config.yaml"} {
		for service, s := range composeFile(t, name).Services {
			for _, node := range s.Volumes {
				if node.Kind == yaml.ScalarNode {
					if source, _, _ := strings.Cut(node.Value, ":"); strings.ContainsAny(source, "./$~") {
						t.Errorf("%s: %s mounts %s by the short form", name, service, node.Value)
					}
					continue
				}
				var mount struct {
					Type, Source string
					ReadOnly     bool `yaml:"read_only"`
					Bind         struct {
						CreateHostPath *bool `yaml:"create_host_path"`
					}
				}
				if err := node.Decode(&mount); err != nil {
					t.Fatalf("%s: %s: %v", name, service, err)
				}
				n++
				if create := mount.Bind.CreateHostPath; mount.Type != "bind" || !mount.ReadOnly || create == nil || *create {
					t.Errorf("%s: %s mounts %s as %+v; want it to be there, and read-only", name, service, mount.Source, mount)
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("found %d mounts", n)
	}
}

// TestOnlySecretsOfThePageAreNeeded holds that step 2 makes every file that is mounted by default: one that is missing keeps a
// container from starting.
func TestOnlySecretsOfThePageAreNeeded(t *testing.T) {
	page := read(t, "README.md")
	n := 0
	for _, name := range []string{"compose.yaml", "compose.web-config.yaml"} {
		for secret, from := range composeFile(t, name).Secrets {
			n++
			usual := regexp.MustCompile(`^\$\{` + strings.ToUpper(secret) + `_FILE:-\./(.*)\}$`).FindStringSubmatch(from.File)
			switch {
			case usual == nil:
				t.Errorf("%s: the path of the secret %s is %s", name, secret, from.File)
			case usual[1] == "no-secret":
				if read(t, "no-secret") != "" {
					t.Error("no-secret is not empty")
				}
			case usual[1] != "secrets/"+secret || !regexp.MustCompile(`(>|touch )`+usual[1]+`\n`).MatchString(page):
				t.Errorf("%s mounts %s, which the page does not make", name, usual[1])
			}
		}
	}
	if n < 13 {
		t.Errorf("found %d secrets", n)
	}
}

// TestMemoryDoesForPagesOfTheDefaultSize wants 28 MiB, and twelve times limits.metrics_body, of every exporter: with less it
// refuses larger ones.
func TestMemoryDoesForPagesOfTheDefaultSize(t *testing.T) {
	const want = 28 + 12*16
	for name, limits := range map[string]*regexp.Regexp{
		"compose.yaml":     regexp.MustCompile(`(?s)\n  chatstack-exporter:\n.*?\n    mem_limit: (\d+)m\n`),
		"swarm/stack.yaml": regexp.MustCompile(`(?s)&exporter.*?memory: (\d+)M, .*?\n  probes:.*?memory: (\d+)M, `),
	} {
		found := limits.FindStringSubmatch(read(t, name))
		if found == nil {
			t.Errorf("%s limits no memory", name)
			continue
		}
		for _, megabytes := range found[1:] {
			if n, err := strconv.Atoi(megabytes); err != nil || n < want {
				t.Errorf("%s: an exporter has %s MiB (%v), want %d", name, megabytes, err, want)
			}
		}
	}
}

// TestConfigurationIsInstalledForNobodyElse holds the modes of what may get a password: the service reads the one by its
// group, systemd the other as root, and Compose the third as whoever calls it.
func TestConfigurationIsInstalledForNobodyElse(t *testing.T) {
	installs := regexp.MustCompile(`(?m)-m (\d{4})[^\n]*`)
	for file, want := range map[string]map[string]string{
		"../../../Makefile": {
			"/etc/chatstack_exporter/exporter.yaml$":          "0640",
			"/etc/chatstack_exporter/chatstack_exporter.env$": "0600",
		},
		"../../../deploy/README.md": {" .env$": "0600"},
		"../../../deploy/systemd/README.md": {
			"/etc/chatstack_exporter deploy/systemd/exporter.yaml$":          "0640",
			"/etc/chatstack_exporter deploy/systemd/chatstack_exporter.env$": "0600",
		},
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for what, mode := range want {
			found := false
			for _, m := range installs.FindAllStringSubmatch(string(content), -1) {
				if regexp.MustCompile(what).MatchString(m[0]) {
					found = true
					if m[1] != mode {
						t.Errorf("%s: %q, want mode %s", file, m[0], mode)
					}
				}
			}
			if !found {
				t.Errorf("%s installs nothing that ends in %s with a mode", file, what)
			}
		}
	}
}

// TestShippedFilesMountWhatTheirSourceReads holds that a file with resources: cgroup comes with the two mounts of the host.
func TestShippedFilesMountWhatTheirSourceReads(t *testing.T) {
	for settings, mounts := range map[string]string{"exporter/exporter.yaml": "compose.yaml", "swarm/node.yaml": "swarm/stack.yaml"} {
		if !strings.Contains(read(t, settings), "    resources: cgroup") {
			t.Errorf("%s does not set resources: cgroup", settings)
		}
		for _, mount := range []string{"/host/sys/fs/cgroup", "/host/proc"} {
			if !strings.Contains(read(t, mounts), mount) {
				t.Errorf("%s does not mount %s", mounts, mount)
			}
		}
	}
}
