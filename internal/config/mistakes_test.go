package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/collectors"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

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
