package deploy

import (
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// blockLoaders name, for each block of configuration in a document, the test that gives it to the program that reads it. The
// key is the block's language, or how it begins.
var blockLoaders = map[string]string{
	"nginx":                "TestRealNginxServesThePageBelowAPath",
	"promql":               "TestRealRunbooksSayWhatPrometheusAndTheShellUnderstand",
	"maintenance:\n":       "TestMaintenanceInDocumentsIsAccepted",
	"tls_server_config:\n": "TestWebConfigurationsInDocumentsAreAccepted",
	"plugin_paths = {":     "TestProsodyTakesTheConfigurationOfDeploy",
	"rpc-class ":           "TestSnippetsForUnrealIRCdAreAccepted",
	"except ban ":          "TestSnippetsForUnrealIRCdAreAccepted",
	"scrape_configs:\n":    "TestRealPrometheusTakesTheSnippets",
}

// fileLoaders do the same for the files in deploy/, by path or directory; a script of CI may be the one that does.
var fileLoaders = map[string]string{
	".env.example":                     "TestRealNewcomerIsToldInTheChannel",
	"alertmanager":                     "TestRealNewcomerIsToldInTheChannel",
	"alertmanager/alertmanager.yml":    "TestRealAmtoolAcceptsTheConfiguration",
	"alertmanager/templates":           "TestRealTemplatesReadWell",
	"compose.existing-prometheus.yaml": "TestRealNewcomerIsToldInTheChannel",
	"compose.web-config.yaml":          "TestRealNewcomerIsToldInTheChannel",
	"compose.yaml":                     "TestRealNewcomerIsToldInTheChannel",
	"exporter":                         "TestRealNewcomerIsToldInTheChannel",
	"grafana":                          "TestGrafanaFindsTheDashboards", // which reads it as Grafana does: Debian has no Grafana
	"kubernetes":                       ".ci/tools/kubernetes",
	"many-hosts":                       "TestExamplesForManyHostsAreValid",
	"many-hosts/prometheus.yml":        "TestRealPrometheusDiscoversThePeers",
	"prometheus":                       "TestRealNewcomerIsToldInTheChannel",
	"prosody":                          "TestRealModuleCountsLoginsExactly",
	"socket-proxy":                     "TestRealNewcomerIsToldInTheChannel",
	"swarm":                            "TestExampleForSwarmIsValid",
	"systemd":                          ".ci/systemd-tests",
	"systemd/web.yml":                  "TestWebConfigurationsInDocumentsAreAccepted",
}

func TestEveryConfigurationIsLoadedByATest(t *testing.T) {
	tests := map[string]bool{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		content, err := os.ReadFile(filepath.Join(root, name))
		for line := range strings.Lines(string(content)) {
			if rest, ok := strings.CutPrefix(line, "func Test"); ok {
				function, _, _ := strings.Cut(rest, "(")
				tests["Test"+function] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, loader := range slices.Concat(slices.Collect(maps.Values(blockLoaders)), slices.Collect(maps.Values(fileLoaders))) {
		if _, err := os.Stat(filepath.Join(root, loader)); !tests[loader] && err != nil {
			t.Errorf("there is no test %s", loader)
		}
	}
	used := map[string]bool{}
	for _, d := range documents(t) {
		for _, b := range d.codeBlocks() {
			key := b.language
			for begin := range blockLoaders {
				if strings.HasPrefix(b.text, begin) {
					key = begin
				}
			}
			used[key] = true
			if b.language != "sh" && key == b.language && key != "" && blockLoaders[key] == "" {
				t.Errorf("%s: no test loads this %s:\n%s", d.name, b.language, b.text)
			}
		}
	}
	err = fs.WalkDir(os.DirFS(filepath.Join(root, "deploy")), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) == ".md" || name == ".gitignore" {
			return err
		}
		key := name
		for fileLoaders[key] == "" && key != "." {
			key = path.Dir(key)
		}
		if used["deploy/"+key] = true; key == "." {
			t.Errorf("no test loads deploy/%s", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for key := range blockLoaders {
		if !used[key] {
			t.Errorf("no document has a block %q", key)
		}
	}
	for key := range fileLoaders {
		if !used["deploy/"+key] {
			t.Errorf("there is no deploy/%s", key)
		}
	}
}
