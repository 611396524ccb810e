//go:build realservers

package app

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// scrapeBlock is a configuration for Prometheus in a document, indented by four columns.
var scrapeBlock = regexp.MustCompile(`(?m)^ {4}scrape_configs:\n(?:(?: {4}.*)?\n)+`)

func TestRealPrometheusTakesTheSnippets(t *testing.T) {
	rules, err := filepath.Abs("../../alerts")
	must(t, err)
	for _, document := range []string{"README.md", "SECURITY.md"} {
		content := contentOf(t, filepath.Join("../..", document))
		block := scrapeBlock.FindString(string(content))
		if block == "" {
			t.Errorf("%s has no scrape configuration", document)
			continue
		}
		dir := t.TempDir()
		// promtool wants them to be there
		for _, name := range []string{"server.crt", "prometheus.crt", "prometheus.key", "exporter.password"} {
			rewrite(t, filepath.Join(dir, name), "")
		}
		config := filepath.Join(dir, "prometheus.yml")
		rewrite(t, config, strings.ReplaceAll(block, "alerts/chatstack.", rules+"/chatstack."))
		out, err := exec.CommandContext(t.Context(), "promtool", "check", "config", config).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v; promtool is in Debian's package prometheus\n%s\n%s", document, err, block, out)
		}
	}
}
