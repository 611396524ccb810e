package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// TestMistakesOfBeginnersSayWhatToWrite has what people write who know other programs.
func TestMistakesOfBeginnersSayWhatToWrite(t *testing.T) {
	web := "targets:\n  - kind: http\n    name: web\n    url: https://web/\n"
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"a variable":         {"targets:\n  - kind: plant_store\n    url: http://p\n    token: ${PLANT_TOKEN}\n", "exporter.yaml:4: targets[0].token: is ${PLANT_TOKEN}, and no variable is replaced in this file; write the value itself"},
		"a default":          {"poll:\n  interval: ${EVERY:-30s}\n", "exporter.yaml:2: poll.interval: is ${EVERY}, and no variable is replaced"},
		"a variable in URL":  {"targets:\n  - kind: xmpp_proxy\n    url: http://${HOST}:1/\n", "exporter.yaml:3: targets[0].url: holds a ${...}, and no variable is replaced in this file; write the whole URL"},
		"target by its kind": {"targets:\n  irc_rpc:\n    url: https://irc/api\n", `exporter.yaml:2: targets: is a mapping, must be a list; begin each target with "- kind: irc_rpc"`},
		"one target":         {"targets:\n  kind: irc_rpc\n  url: https://irc/api\n", `begin each target with "- kind: irc_rpc"`},
		"kind as a key":      {"targets:\n  - irc_rpc:\n      url: https://irc/api\n", `exporter.yaml:2: targets[0]: has no kind; begin it with "kind: irc_rpc"`},
		"kind alone":         {"targets:\n  - irc_rpc\n", `must be a mapping; begin it with "kind: irc_rpc"`},
		"list for a mapping": {"poll:\n  - interval: 30s\n", "exporter.yaml:2: poll: is a list, must be a mapping of keys to values; take its dashes or brackets out"},
		"mapping for a list": {"maintenance:\n  kind: target\n", `exporter.yaml:2: maintenance: is a mapping, must be a list; begin each entry with "- "`},
		"Prosody":            {"targets:\n  - kind: prosody\n", `exporter.yaml:2: targets[0].kind: there is no kind "prosody"; what watches it is called xmpp_status, xmpp_metrics, xmpp_rest, xmpp_c2s`},
		"UnrealIRCd":         {"targets:\n  - kind: UnrealIRCd\n", "is called irc_rpc, irc_tls"},
		"the stem of kinds":  {"targets:\n  - kind: irc\n", "is called irc_rpc, irc_tls, irc_services"},
		"WebSocket":          {"targets:\n  - kind: web_irc\n    url: wss://irc.test/ws\n", `exporter.yaml:3: targets[0].url: begins with "wss://"; write https:// instead`},
		"WebSocket in clear": {"targets:\n  - kind: web_irc\n    url: ws://irc.test/ws\n", "write http:// instead"},
		"number with a unit": {"alerts:\n  container_memory:\n    critical: {over: 1GB}\n", `exporter.yaml:3: alerts.container_memory.critical.over: is "1GB", must be a whole number; write 1000000000`},
		"binary unit":        {"alerts:\n  container_memory:\n    critical: {over: 1GiB}\n", "; write 1073741824"},
		"percent":            {"alerts:\n  data_volume_usage:\n    critical: {over: 95%}\n", "; write 95"},
		"size":               {"limits:\n  body: 2MB\n", `is "2MB", must be a size such as 65536, 512KiB or 16MiB; write 2000000`},
		"duration without":   {"poll:\n  interval: 30\n", `is "30", must be a duration such as 500ms, 30s, 5m or 14d; write 30s`},
		"days without":       {"alerts:\n  tls_certificate_expiry:\n    critical: {under: 3}\n", `critical.under: is "3", must be a duration such as 500ms, 30s, 5m or 14d; write its unit: 3s, 3m, 3h or 3d`},
		"minutes without":    {"alerts:\n  target_down:\n    critical: {for: 5}\n", `; write its unit: 5s, 5m, 5h or 5d`},
		"no default":         {"targets:\n  - {kind: web_irc, url: \"http://w\", timeout: 10}\n", `; write its unit: 10s, 10m, 10h or 10d`},
		"duration in words":  {"poll:\n  interval: 2 minutes\n", "; write 2m"},
		"one status":         {web + "    expect_status: 200\n", `exporter.yaml:5: targets[0].expect_status: is "200", must be a list; write [200]`},
	} {
		if _, err := load(t, c.content, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v\nwant %s", name, err, c.want)
		}
	}
}

func TestNamedFileThatIsNotThereIsLookedForNearby(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "exporter.yml"), "poll: {}\n")
	for name, c := range map[string]struct{ file, want, not string }{
		"another ending":   {filepath.Join(dir, "exporter.yaml"), "did you mean --config.file=" + filepath.Join(dir, "exporter.yml") + "?", "mounted"},
		"nothing like it":  {filepath.Join(dir, "other.json"), "correct the path in --config.file; in a container, the file must be mounted there", "did you mean"},
		"made a directory": {dir, "--config.file must name a file; where Docker was told to mount one that did not exist", "did you mean"},
	} {
		_, err := config.Load(config.Source{File: c.file, Kinds: collectors.ConfigKinds()})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), c.not) || !strings.Contains(err.Error(), c.file) {
			t.Errorf("%s: got %v\nwant %s", name, err, c.want)
		}
	}
}

// TestVariableOfAnotherProgramIsNoMistake has a bridge's variable beside the exporter's own, in one .env.
func TestVariableOfAnotherProgramIsNoMistake(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		want int
	}{
		"ours is set":    {map[string]string{"IRC_PASSWORD": "sesame-bridge", "IRC_RPC_PASSWORD": "sesame-rpc"}, 0},
		"ours is a file": {map[string]string{"IRC_PASSWORD": "sesame-bridge", "IRC_RPC_PASSWORD_FILE": write(t, filepath.Join(t.TempDir(), "p"), "sesame-rpc")}, 0},
		"ours is unset":  {map[string]string{"IRC_PASSWORD": "sesame-bridge", "IRC_RPC_PASSWORD": ""}, 1},
	} {
		c.env["IRC_RPC_URL"] = "https://irc:8600/api"
		var all []string
		for variable, value := range c.env {
			all = append(all, variable+"="+value)
		}
		cfg, err := config.Load(config.Source{
			Kinds: collectors.ConfigKinds(), Environ: func() []string { return all },
			Lookup: func(variable string) (string, bool) { value, ok := c.env[variable]; return value, ok },
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(cfg.Doubts) != c.want {
			t.Errorf("%s: got %v, want %d", name, cfg.Doubts, c.want)
		}
	}
}
