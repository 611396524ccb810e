//go:build realservers

package realstack

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/exportertest"
)

// TestProsodyTakesTheCommandsOfTheRunbooks has the server's shell run every command that a runbook gives for it.
func TestProsodyTakesTheCommandsOfTheRunbooks(t *testing.T) {
	p := StartProsody(t, ProsodyOptions{Modules: []string{"admin_shell"}})
	commands := map[string]bool{}
	for _, name := range []string{
		"ContainerMemory", "TLSServedNotRenewed", "XMPPAuthSourceMissing", "XMPPComponentDisconnected", "XMPPModuleProblem",
	} {
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

// loadingTheModule is what deploy/prosody says of loading its module.
func loadingTheModule(t *testing.T) (page string, commands []string) {
	t.Helper()
	page = string(repositoryFile(t, "deploy/prosody/README.md"))
	for _, m := range regexp.MustCompile(`(?m)^ {4}prosodyctl shell (module load [^#\n]*)`).FindAllStringSubmatch(page, -1) {
		commands = append(commands, strings.TrimSpace(m[1]))
	}
	return page, commands
}

// withRooms gives a running server a component that names the module, as deploy/prosody says.
func withRooms(t *testing.T) (p *Prosody, lists func() bool) {
	t.Helper()
	p = StartProsody(t, ProsodyOptions{Modules: []string{"admin_shell", "measure_chatstack"}})
	p.Stop()
	p.include("Component \"rooms.chat.test\" \"muc\"\n\tmodules_enabled = { \"measure_chatstack\" }\n")
	p.Start()
	return p, func() bool {
		return strings.Contains(p.control("shell", "module", "list", "rooms.chat.test"), "measure_chatstack")
	}
}

// include adds configuration that the template has no option for, in a file of its own: of two settings in one file whose path
// is long, Prosody 0.12 fails to say the second one's line, and ends.
func (p *Prosody) include(text string) {
	p.tb.Helper()
	content, err := os.ReadFile(p.path("prosody.cfg.lua"))
	if err != nil {
		p.tb.Fatal(err)
	}
	p.write("more.cfg.lua", []byte(text))
	p.write("prosody.cfg.lua", append(content, "\nInclude \""+p.path("more.cfg.lua")+"\"\n"...))
}

// TestProsodyTakesTheModuleOnComponentsByName unloads the module everywhere and loads it again as deploy/prosody says.
func TestProsodyTakesTheModuleOnComponentsByName(t *testing.T) {
	p, listed := withRooms(t)
	if !listed() {
		t.Fatal("the component does not have the module that it names")
	}
	p.Module("unload", "measure_chatstack", "rooms.chat.test")
	p.Module("unload", "measure_chatstack")
	p.Module("load", "measure_chatstack")
	if listed() {
		t.Error("loading the module without naming a host loads it on components: deploy/prosody says otherwise")
	}
	_, commands := loadingTheModule(t)
	for _, command := range commands {
		p.control(append([]string{"shell"}, strings.Fields(strings.ReplaceAll(command, "rooms.example.org", "rooms.chat.test"))...)...)
	}
	if !listed() {
		t.Errorf("the component does not have the module after the commands of deploy/prosody: %q", commands)
	}
}

// TestProsodyTakesANewPluginPathAfterARestart moves the module to a directory that the running server does not know.
func TestProsodyTakesANewPluginPathAfterARestart(t *testing.T) {
	p := StartProsody(t, ProsodyOptions{Modules: []string{"admin_shell"}})
	p.mkdir("more")
	p.write("more/mod_measure_chatstack.lua", repositoryFile(t, "deploy/prosody/mod_measure_chatstack.lua"))
	if err := os.Remove(p.path("plugins/mod_measure_chatstack.lua")); err != nil {
		t.Fatal(err)
	}
	// The last setting counts.
	p.include("plugin_paths = { \"" + p.path("plugins") + "\", \"" + p.path("more") + "\" }\n")
	loads := func() bool {
		output, _ := p.tool("shell", "module", "load", "measure_chatstack", XMPPDomain) // a refusal may be an error of the program
		return strings.Contains(output, "OK: ")
	}
	p.control("shell", "config", "reload")
	if loads() {
		t.Error("the server takes a new plugin path without a restart: deploy/prosody says otherwise")
	}
	if page, _ := loadingTheModule(t); !strings.Contains(page, "A new directory in `plugin_paths` needs a restart") {
		t.Error("deploy/prosody does not say that a new directory in plugin_paths needs a restart")
	}
	p.Stop()
	p.Start()
	if !loads() {
		t.Error("the module cannot be loaded from its new directory after a restart")
	}
}

// TestProsodyTakesTheConfigurationOfDeploy starts a server with the block that deploy/prosody gives, but for its directory and
// address, and reads the page of metrics that it is for.
func TestProsodyTakesTheConfigurationOfDeploy(t *testing.T) {
	page, _ := loadingTheModule(t)
	block := regexp.MustCompile(`(?m)^ {4}plugin_paths = (?:.*\n)(?: {4}.*\n)+`).FindString(page)
	p := StartProsody(t, ProsodyOptions{NoStatistics: true})
	if p.mkdir("more"); strings.Count(block, `"/usr/local/lib/prosody/modules"`) != 1 || strings.Count(block, `"*"`) != 1 ||
		strings.Count(block, "172.16.0.0/12") != 1 {
		t.Fatalf("the block is not what this test knows:\n%s", block)
	}
	p.write("more/mod_measure_chatstack.lua", repositoryFile(t, "deploy/prosody/mod_measure_chatstack.lua"))
	if err := os.RemoveAll(p.path("plugins")); err != nil {
		t.Fatal(err)
	}
	p.Stop()
	p.include(strings.NewReplacer(
		"/usr/local/lib/prosody/modules", p.path("more"), `"*"`, `"127.0.0.1"`, "172.16.0.0/12", Loopback,
		`-- what there is, and`, `"saslauth"; "tls"; "posix"; "http";`).Replace(block))
	p.Start()
	body, err := exportertest.Fetch(t.Context(), readyWithin, p.URL()+"/metrics")
	if err != nil || !strings.Contains(string(body), "\nprosody_mod_measure_chatstack__c2s_auth_failure_total{") {
		t.Errorf("the page has no failed logins: %v\n%s", err, body)
	}
}
