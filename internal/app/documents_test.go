package app

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maintenanceBlock is what documents tell people to add to exporter.yaml.
var maintenanceBlock = regexp.MustCompile("(?ms)^```yaml\n(maintenance:\n.*?)^```$")

func TestMaintenanceInDocumentsIsAccepted(t *testing.T) {
	paths, err := filepath.Glob("../../alerts/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range append(paths, "../../README.md") {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := maintenanceBlock.FindAllStringSubmatch(string(content), -1)
		if strings.Contains(string(content), "under maintenance, which") && len(blocks) == 0 {
			t.Errorf("%s: does not say what to write into exporter.yaml", path)
		}
		for _, m := range blocks {
			n++
			text := m[1] + "targets:\n"
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
		t.Errorf("%d blocks were found, want those of 17 documents", n)
	}
}
