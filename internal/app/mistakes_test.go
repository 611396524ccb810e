package app

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestMistypedVariablesAreTold runs the binary, since only a process has all variables.
func TestMistypedVariablesAreTold(t *testing.T) {
	binary := buildBinary(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "exporter.yaml")
	rewrite(t, file,
		"targets:\n  - kind: irc_rpc\n    url: https://127.0.0.1:1/api\n  - kind: http\n    name: web\n    url: http://127.0.0.1:1/\n")
	meant := map[string]string{
		"IRC_RPC_PASS": "IRC_RPC_PASSWORD", "IRC_RPC_PWD": "IRC_RPC_PASSWORD", "IRC_RPC_PW": "IRC_RPC_PASSWORD",
		"IRC_RPC_PASSWORDFILE": "IRC_RPC_PASSWORD_FILE", "PLANTSTORE_URL": "PLANT_STORE_URL",
		"XMPP_REST_USER": "XMPP_REST_USERNAME", "BRIDGE_TOKEN": "BRIDGE_IDENTITY_TOKEN", "DOCS_URL": "DOCS_SEARCH_URL",
		"irc_rpc_url": "IRC_RPC_URL",
	}
	env := map[string]string{
		// The rest of the stack, Kubernetes and Docker have variables of their own.
		"XMPP_ADMINS": "a", "IRC_NETWORK": "b", "BRIDGE_DISCORD_GUILD": "c", "PLANT_STORE_SERVICE_HOST": "10.0.0.1",
		"PLANT_STORE_PORT_8000_TCP": "tcp://10.0.0.1:8000",
		"DOCKER_CONFIG":             "/d", "PATH": "/bin", "XMPP_DOMAIN": "chat.test", "IRC_RPC_USER": "exporter", "IRC_RPC_PASSWD": "",
	}
	for name := range meant {
		env[name] = "sesame"
	}
	for _, command := range []string{"check-config", "check", "serve"} {
		p := startProgram(t, binary, dir, env, command, "--config.file="+file, "--web.listen-address=127.0.0.1:0")
		if command == "serve" {
			e := exporterOf(t, p)
			stopsAtOnce(t, p, e)
		}
		code := p.ExitCode(t, patience)
		if want := map[string]int{"check": 1}[command]; code != want {
			t.Errorf("%s: exit code %d, want %d", command, code, want)
		}
		said := p.Stdout.String() + p.Stderr.String()
		for name, variable := range meant {
			if want := fmt.Sprintf("no target reads the variable %s; did you mean %s?", name, variable); strings.Count(said, want) != 1 {
				t.Errorf("%s lacks %q", command, want)
			}
		}
		if n := strings.Count(said, "no target reads the variable"); n != len(meant) || strings.Contains(said, "sesame") {
			t.Errorf("%s: %d warnings about variables, want %d, and no value:\n%s", command, n, len(meant), said)
		}
	}
}

// TestSecretCutByACommentIsTold has a password after which YAML takes the rest for a comment.
func TestSecretCutByACommentIsTold(t *testing.T) {
	for line, want := range map[string]bool{
		"password: abc #def": true, "password: #def": true, "password: abc # the exporter's own": false, "password: \"abc\" #def": false,
		"password: abc#def": false, "user: abc #def": false,
	} {
		o := options(nil, &logBuffer{}).with("targets:\n  - kind: irc_rpc\n    url: https://irc:8600/api\n    " + line + "\n")
		var b strings.Builder
		must(t, CheckConfig(&b, o))
		const warning = `warning: irc_rpc: exporter.yaml:4: targets[0].password: ends before " #", where YAML starts a comment`
		if got := strings.Contains(b.String(), warning); got != want || strings.Contains(b.String(), "def") {
			t.Errorf("%s: warning %v, want %v:\n%s", line, got, want, &b)
		}
	}
}
