//go:build realservers

package app

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// fencedCode is a block of code in Markdown: its indent, its language, what stands in it.
var fencedCode = regexp.MustCompile("(?ms)^( *)```(\\w+)\n(.*?)^ *```$")

func TestRealRunbooksSayWhatPrometheusAndTheShellUnderstand(t *testing.T) {
	paths, err := filepath.Glob("../../alerts/runbooks/*.md")
	must(t, err)
	type rule struct {
		Record string            `yaml:"record"`
		Expr   string            `yaml:"expr"`
		Labels map[string]string `yaml:"labels"`
	}
	var rules []rule
	scripts := 0
	for _, path := range paths {
		content := contentOf(t, path)
		for _, block := range fencedCode.FindAllStringSubmatch(string(content), -1) {
			switch language, code := block[2], block[3]; language {
			case "promql":
				for query := range strings.Lines(code) {
					rules = append(rules,
						rule{"runbook:query", strings.TrimSpace(query), map[string]string{"runbook": filepath.Base(path) + query}})
				}
			case "sh":
				scripts++
				cmd := exec.CommandContext(t.Context(), "bash", "-n")
				cmd.Stdin = strings.NewReader(code)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s\n%s", path, err, out, code)
				}
			default:
				t.Errorf("%s: code in %q, which nobody checks", path, language)
			}
		}
	}
	if len(rules) < 20 || scripts < 20 {
		t.Fatalf("%d queries and %d scripts were found, want those of all runbooks", len(rules), scripts)
	}
	file, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "runbooks", "rules": rules}}})
	must(t, err)
	name := filepath.Join(t.TempDir(), "queries.yml")
	must(t, os.WriteFile(name, file, 0o600))
	if out, err := exec.CommandContext(t.Context(), "promtool", "check", "rules", name).CombinedOutput(); err != nil {
		t.Errorf("%v; promtool is in Debian's package prometheus\n%s", err, out)
	}
}
