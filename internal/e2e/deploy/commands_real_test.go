//go:build realservers

package deploy

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRealToolsKnowTheirOptions asks each tool of the documents for its help: every subcommand and option must be in it.
// Compose's are asked for in the walk-through, which has it.
func TestRealToolsKnowTheirOptions(t *testing.T) {
	programs := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", programs, "./cmd/chatstack_exporter")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH")+":/usr/sbin:/sbin")
	for _, tool := range slices.Sorted(maps.Keys(known.Tools)) {
		words := strings.Fields(tool)
		if known.Unasked[words[0]] != "" || strings.HasPrefix(tool, "docker compose") {
			continue
		}
		args := append(words[1:], "--help")
		if help, ok := known.HelpWords[tool]; ok {
			args = strings.Fields(help)
		}
		program := words[0]
		if tool == "docker top" { // its options are those of ps
			program, args = args[0], args[1:]
		}
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "COLUMNS=200")
		out, err := cmd.CombinedOutput() // some exit with 1 or 2 although they print their help
		if cmd.ProcessState == nil {
			t.Errorf("%s: %v; .ci/run installs it", tool, err)
			continue
		}
		wantInHelp(t, tool, out)
	}
}

// wantInHelp looks for a tool's options in its help.
func wantInHelp(t *testing.T, tool string, help []byte) {
	t.Helper()
	help = bytes.ReplaceAll(help, []byte("--[no-]"), []byte("--"))
	for o := range strings.FieldsSeq(known.Tools[tool]) {
		name := strings.TrimSuffix(o, ":")
		if known.Hidden[tool+" "+name] == "" &&
			!regexp.MustCompile(`(?m)(^|[\s,\[|(])`+regexp.QuoteMeta(name)+`($|[\s,=:\[\]|<)])`).Match(help) {
			t.Errorf("%s does not know %s:\n%s", tool, name, help)
		}
	}
	if strings.Contains(tool, " ") &&
		regexp.MustCompile(`(?i)unknown (docker )?(sub)?command|unknown help topic|invalid command|is not a .*command`).Match(help) {
		t.Errorf("%s: no such subcommand:\n%s", tool, help)
	}
}

// composeKnowsItsOptions is TestRealToolsKnowTheirOptions for Compose, which make builds for the walk-through.
func composeKnowsItsOptions(t *testing.T) {
	t.Helper()
	for _, tool := range slices.Sorted(maps.Keys(known.Tools)) {
		words := strings.Fields(tool)
		if len(words) < 2 || words[1] != "compose" {
			continue
		}
		// For a subcommand that it does not know, it prints the help of all.
		out, err := exec.CommandContext(t.Context(), root+"/bin/docker-compose", append(words[2:], "--help")...).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", tool, err, out)
		}
		if usage := "Usage:  docker compose " + strings.Join(words[2:], " "); !bytes.Contains(out, []byte(usage)) {
			t.Errorf("%s: its help does not begin with %q:\n%s", tool, usage, out)
		}
		wantInHelp(t, tool, out)
	}
}
