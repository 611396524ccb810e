//go:build realservers

package realstack

import (
	"regexp"
	"strings"
	"testing"
)

// TestProsodyTakesTheCommandsOfTheRunbooks has the server's shell run every command that a runbook gives for it.
func TestProsodyTakesTheCommandsOfTheRunbooks(t *testing.T) {
	p := StartProsody(t, ProsodyOptions{Modules: []string{"admin_shell"}})
	commands := map[string]bool{}
	for _, name := range []string{"ContainerMemory", "TLSServedNotRenewed", "XMPPAuthSourceMissing", "XMPPComponentDisconnected", "XMPPModuleProblem"} {
		text := strings.ReplaceAll(string(repositoryFile(t, "alerts/runbooks/"+name+".md")), "\n   \"HOST", " \"HOST")
		for _, m := range regexp.MustCompile(`prosodyctl shell (?:'([^']+)'|([^\x60\n]+))`).FindAllStringSubmatch(text, -1) {
			commands[strings.NewReplacer("VIRTUALHOST", XMPPDomain, "HOST", XMPPDomain, "MODULE", "ping").Replace(m[1]+m[2])] = true
		}
	}
	if len(commands) < 6 {
		t.Errorf("only these commands were found: %v", commands)
	}
	if !commands[`> collectgarbage("collect")`] {
		t.Error("no runbook collects garbage, ContainerMemory speaks of it")
	}
	for command := range commands {
		args := []string{command}
		if !strings.ContainsAny(command, "(>") {
			args = strings.Fields(command)
		}
		output, err := p.tool(append([]string{"shell"}, args...)...)
		if err != nil || !strings.Contains(output, "OK: ") && !strings.Contains(output, "Result: ") {
			t.Errorf("%s: %v\n%s", command, err, output)
		}
	}
}
