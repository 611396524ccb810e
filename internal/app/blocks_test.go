package app

import (
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/simstack"
)

// yamlBlock is a block of YAML in a document: the indented or fenced text of a mapping or of a list of mappings.
type yamlBlock struct {
	document string // its path from the root
	line     int
	text     string
}

// opening matches the line that begins a fenced block of YAML, or one without a language.
var opening = regexp.MustCompile("^ *```(ya?ml)?$")

// yamlBlocks returns the blocks of YAML in every document.
func yamlBlocks(t *testing.T) (blocks []yamlBlock) {
	t.Helper()
	const root = "../.."
	must(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && slices.Contains([]string{".git", "bin", "dist", "testdata"}, entry.Name()) { // bin has copies of documents
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		document, err := filepath.Rel(root, path)
		must(t, err)
		for _, b := range blocksOf(string(contentOf(t, path))) {
			for _, part := range b.yaml() {
				part.document = document
				blocks = append(blocks, part)
			}
		}
		return nil
	}))
	example := strings.ReplaceAll("\n"+commentedExample.FindString(string(contentOf(t, root+"/exporter.yaml"))), "\n#   ", "\n")
	return append(blocks, yamlBlock{document: "exporter.yaml", text: strings.TrimPrefix(example, "\n")})
}

// commentedExample is the minimal configuration in the comment of exporter.yaml.
var commentedExample = regexp.MustCompile(`(?m)^#   targets:\n(?:#   .*\n)+`)

// blocksOf returns all fenced and indented blocks of a document.
func blocksOf(text string) (blocks []yamlBlock) {
	var current *yamlBlock
	fenced, foreign := false, false
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		fence := strings.HasPrefix(strings.TrimLeft(line, " "), "```")
		switch {
		case fence && (fenced || foreign):
			fenced, foreign, current = false, false, nil
		case fence:
			if fenced = opening.MatchString(line); fenced {
				blocks = append(blocks, yamlBlock{line: i + 1})
				current = &blocks[len(blocks)-1]
			}
			foreign = !fenced
		case fenced:
			current.text += line + "\n"
		case foreign:
		case strings.HasPrefix(line, "    ") && (current != nil || i > 0 && lines[i-1] == ""):
			if current == nil {
				blocks = append(blocks, yamlBlock{line: i + 1})
				current = &blocks[len(blocks)-1]
			}
			current.text += strings.TrimPrefix(line, "    ") + "\n"
		case current != nil && line == "":
			current.text += "\n"
		default:
			current = nil
		}
	}
	return blocks
}

// yaml returns the block if it is YAML, else its paragraphs that are: one block may begin with a command.
func (b *yamlBlock) yaml() (parts []yamlBlock) {
	if isYAML(b.text) {
		return []yamlBlock{*b}
	}
	for paragraph := range strings.SplitSeq(b.text, "\n\n") {
		if isYAML(paragraph) {
			parts = append(parts, yamlBlock{line: b.line, text: paragraph})
		}
	}
	return parts
}

// isYAML reports whether a text is a mapping, or a list of mappings.
func isYAML(text string) bool {
	var node yaml.Node
	if yaml.Unmarshal([]byte(text), &node) != nil || len(node.Content) == 0 {
		return false
	}
	root := node.Content[0]
	if root.Kind == yaml.SequenceNode && len(root.Content) > 0 {
		root = root.Content[0]
	}
	return root.Kind == yaml.MappingNode && len(root.Content) > 0 && keyWord.MatchString(root.Content[0].Value)
}

// keyWord matches keys, but not the sentences of a picture.
var keyWord = regexp.MustCompile(`^\w+$`)

// place is where a kind's service of a test is, instead of where a document says.
type place struct {
	address string // host:port
	// ca signed its certificate, "" without TLS, and name is in it; secret is its credential.
	ca, name, secret string
}

// places are the services that stand in for those of documents, by kind.
type places struct {
	of map[string]place
	// domain is the XMPP server's virtual host, engine the Docker Engine's host.
	domain, engine string
}

// configuration returns a block with its hosts, ports, names and files replaced. What a user copies unchanged stays: kinds, schemes,
// paths and all other keys.
func (p *places) configuration(t *testing.T, b yamlBlock) string {
	t.Helper()
	var block map[string]any
	must(t, yaml.Unmarshal([]byte(strings.ReplaceAll(b.text, "chat.example.org", p.domain)), &block))
	dir := t.TempDir()
	if block["state_file"] != nil {
		block["state_file"] = filepath.Join(dir, "state.json")
	}
	targets, _ := block["targets"].([]any)
	for _, target := range targets {
		p.move(t, dir, target.(map[string]any)) //nolint:forcetypeassert // a target that is no mapping fails the test
	}
	content, err := yaml.Marshal(block)
	must(t, err)
	return string(content)
}

// move replaces where a target is.
func (p *places) move(t *testing.T, dir string, target map[string]any) {
	t.Helper()
	kind := target["kind"].(string) //nolint:forcetypeassert // a target without a kind fails the test
	switch kind {
	case "docker":
		target["host"], target["resources"] = p.engine, "none"
		return
	case "volume", "backup":
		target["path"] = dir
		return
	}
	here, ok := p.of[kind]
	if !ok {
		t.Fatalf("there is no service for kind %s", kind)
	}
	if address, ok := target["address"]; ok && address != "" {
		target["address"] = here.address
	}
	if raw, ok := target["url"].(string); ok {
		u, err := url.Parse(raw)
		must(t, err)
		u.Host = here.address
		target["url"] = u.String()
	}
	if _, ok := target["server_name"]; ok {
		target["server_name"] = here.name
	}
	if here.ca != "" {
		target["ca_file"] = here.ca
	}
	for _, key := range []string{"password", "token"} {
		if _, ok := target[key+"_file"]; ok {
			file := filepath.Join(dir, kind+"_"+key)
			rewrite(t, file, here.secret)
			target[key+"_file"] = file
		}
	}
}

// simulatedPlaces are the services of the simulated stack.
func simulatedPlaces(t *testing.T) *places {
	t.Helper()
	stack := startStack(t, simstack.Options{})
	env := stack.Environ()
	at := func(variable string) string {
		u, err := url.Parse(env[variable])
		must(t, err)
		return u.Host
	}
	return &places{
		domain: simstack.XMPPDomain, engine: env["DOCKER_HOST"],
		of: map[string]place{
			"xmpp_status": {address: at("XMPP_REST_URL")}, "xmpp_metrics": {address: at("XMPP_REST_URL")},
			"xmpp_c2s": {address: stack.XMPPClientAddress(), ca: stack.CAFile()},
			"irc_tls":  {address: stack.IRCAddress(), ca: stack.CAFile(), name: "irc.test"},
			"irc_rpc": {
				address: at("IRC_RPC_URL"),
				ca:      stack.CAFile(),
				name:    "irc.test",
				secret:  env["IRC_RPC_PASSWORD"],
			},
			"irc_services": {address: at("IRC_SERVICES_JSONRPC_URL")},
			"xmpp_proxy":   {address: at("XMPP_PROXY_URL"), ca: stack.CAFile()}, "docs_search": {address: at("DOCS_SEARCH_URL")},
			"plant_store": {address: at("PLANT_STORE_URL"), secret: env["PLANT_STORE_TOKEN"]},
			"identity":    {address: at("BRIDGE_IDENTITY_BASE_URL"), secret: env["BRIDGE_IDENTITY_TOKEN"]},
		},
	}
}

// mustBeGreen checks every target of a configuration by the command check.
func mustBeGreen(t *testing.T, content string) {
	t.Helper()
	o := options(nil, &logBuffer{}).with(content)
	o.Timeout = 0
	results := slices.DeleteFunc(check(t, o), func(r CheckResult) bool { return r.State == notConfigured })
	if !AllUp(results) || len(results) == 0 ||
		slices.ContainsFunc(results, func(r CheckResult) bool { return r.State != "up" || len(r.Impairments) > 0 }) {
		t.Errorf("not all is green:\n%s\nof\n%s", tableOf(t, results), content)
	}
}

// unprobed says why a block of YAML cannot be probed, by document and first line. "" means that it is probed.
var unprobed = map[string]string{
	"README.md: targets:":                       "",
	"exporter.yaml: targets:":                   "",
	"README.md: scrape_configs:":                "configures Prometheus",
	"SECURITY.md: scrape_configs:":              "configures Prometheus",
	"OPERATIONS.md: maintenance:":               "has no target; TestMaintenanceInDocumentsIsAccepted reads it",
	"CONFIGURATION.md: environment: production": "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"README.md: notify:":                        "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"docs/notifications.md: notify:":            "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"docs/notifications.md: pair: first":        "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"docs/notifications.md: heartbeat:":         "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"CONFIGURATION.md: heartbeat:":              "has no target; TestMessagesInDocumentsAreAccepted reads it",
	"deploy/many-hosts/README.md: tls_server_config:": "configures the exporter's port; " +
		"TestWebConfigurationsInDocumentsAreAccepted reads it",
	"deploy/alertmanager/README.md: - name: telegram":  sentThrough,
	"deploy/alertmanager/README.md: - name: discord":   sentThrough,
	"deploy/alertmanager/README.md: - name: slack":     sentThrough,
	"deploy/alertmanager/README.md: - name: pushover":  sentThrough,
	"deploy/alertmanager/README.md: - name: pagerduty": sentThrough,
	"deploy/alertmanager/README.md: - name: mail":      sentThrough,
}

const sentThrough = "configures Alertmanager; TestRealReceiversOfTheDocumentSendWhatServicesTake sends through it"

func TestConfigurationsInDocumentsAreGreen(t *testing.T) {
	left := maps.Clone(unprobed)
	for _, b := range yamlBlocks(t) {
		first, _, _ := strings.Cut(strings.TrimLeft(b.text, "\n"), "\n")
		row := b.document + ": " + first
		reason, listed := unprobed[row]
		delete(left, row)
		switch {
		case !listed:
			t.Errorf("%s:%d: the block %q is neither probed nor is there a reason in the table", b.document, b.line, first)
		case reason == "":
			t.Run(b.document, func(t *testing.T) {
				inSimulatedTime(t, func(t *testing.T) { mustBeGreen(t, simulatedPlaces(t).configuration(t, b)) })
			})
		case strings.Contains(b.text, "kind:") && !strings.HasPrefix(b.text, "maintenance:"):
			t.Errorf("%s:%d: the block has targets, so it can be probed", b.document, b.line)
		}
	}
	for row := range left {
		t.Errorf("the table has a block that no document has: %s", row)
	}
}
