package app

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maintenanceWindow is what documents tell people to add under maintenance: in exporter.yaml, in a block or in a sentence.
var maintenanceWindow = regexp.MustCompile(`\{kind: (?:container|target), name: [^}\n]*\}`)

// commentedReceiver is the receiver in the comment of exporter.yaml.
var commentedReceiver = regexp.MustCompile(`(?m)^#   - name: phone.*\n(?:#     .*\n)+`)

// TestMessagesInDocumentsAreAccepted holds for receivers of messages and heartbeats, without the files of their secrets.
func TestMessagesInDocumentsAreAccepted(t *testing.T) {
	example := commentedReceiver.FindString(string(contentOf(t, "../../exporter.yaml")))
	blocks := append(yamlBlocks(t), yamlBlock{
		document: "exporter.yaml",
		text:     "notify:\n" + strings.ReplaceAll("\n"+example, "\n#", "\n"),
	})
	receivers, beats := 0, 0
	for _, b := range blocks {
		if !regexp.MustCompile(`(?m)^(notify|heartbeat):`).MatchString(b.text) {
			continue
		}
		o := options(nil, &logBuffer{}).with(b.text)
		o.WithoutSecrets = true
		cfg, err := LoadConfig(o)
		if err != nil {
			t.Errorf("%s:%d:\n%v\n%s", b.document, b.line, err, b.text)
			continue
		}
		receivers += len(cfg.Notify)
		if !cfg.Heartbeat.URL.IsZero() {
			beats++
		}
	}
	if receivers < 2 || beats < 1 {
		t.Errorf("%d receivers and %d heartbeats, want at least 2 and 1", receivers, beats)
	}
}

func TestMaintenanceInDocumentsIsAccepted(t *testing.T) {
	paths, err := filepath.Glob("../../alerts/runbooks/*.md")
	must(t, err)
	n := 0
	for _, path := range append(paths, "../../OPERATIONS.md") {
		content := contentOf(t, path)
		windows := maintenanceWindow.FindAllString(string(content), -1)
		if strings.Contains(string(content), "[under maintenance](") && len(windows) == 0 {
			t.Errorf("%s: does not say what to write into exporter.yaml", path)
		}
		for _, window := range windows {
			n++
			text := "maintenance:\n  - " + window + "\ntargets:\n"
			for _, kind := range []string{"identity", "plant_store", "xmpp_metrics", "xmpp_status"} {
				text += "  - {kind: " + kind + "}\n"
			}
			for _, name := range []string{"TARGET", "ENDPOINT", "VOLUME"} {
				text += "  - {kind: tcp, name: " + name + ", address: 'server.test:1'}\n"
			}
			o := options(nil, &logBuffer{})
			o.ConfigFile, o.configContent = filepath.Base(path), []byte(text)
			cfg, err := LoadConfig(o)
			if err != nil {
				t.Errorf("%s:\n%v", path, err)
				continue
			}
			if len(cfg.Maintenance) != 1 {
				t.Errorf("%s: %d windows, want one", path, len(cfg.Maintenance))
			}
		}
	}
	if n < 17 {
		t.Errorf("%d windows were found, want those of 17 documents", n)
	}
}

// webBlock is a web configuration in a document.
var webBlock = regexp.MustCompile("(?ms)^```yaml\n(tls_server_config:\n.*?)^```$")

func TestWebConfigurationsInDocumentsAreAccepted(t *testing.T) {
	read := func(path string) string {
		t.Helper()
		content := contentOf(t, path)
		return string(content)
	}
	const many = "../../deploy/many-hosts/README.md"
	block := webBlock.FindStringSubmatch(read(many))
	if block == nil {
		t.Fatalf("%s has no web configuration", many)
	}
	dir := webDirectory(t)
	for name, text := range map[string]string{many: block[1], "../../deploy/systemd/web.yml": read("../../deploy/systemd/web.yml")} {
		path := filepath.Join(dir, "web.yml")
		rewrite(t, path, strings.NewReplacer("/etc/chatstack_exporter/", "", "client_ca.crt", "other.crt",
			"$2y$10$...", ownPortBcrypt, "<bcrypt>", ownPortBcrypt).Replace(text))
		if faults := webFaults(path, false); len(faults) > 0 {
			t.Errorf("%s:\n%v", name, faults)
		}
		if err := checkWebConfig(path); err != nil {
			t.Errorf("%s: refused at the start: %v", name, err)
		}
	}
}
