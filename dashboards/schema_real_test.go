//go:build realservers

package dashboards_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// validate holds a file against the schema that is made of the types that Grafana publishes.
func validate(t *testing.T, file string) (string, error) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "tool", "-modfile=../.ci/tools/jv/go.mod",
		"jv", "../.ci/tools/grafana-schema/schema.json", file).CombinedOutput()
	return string(out), err
}

// TestRealFilesMeetGrafanasTypes needs no server, but a program that is built first.
func TestRealFilesMeetGrafanasTypes(t *testing.T) {
	for _, b := range shipped(t) {
		if out, err := validate(t, b.file); err != nil {
			t.Errorf("%s: %v\n%s", b.file, err, out)
		}
	}
}

// TestRealSchemaRefuses what Grafana would silently ignore or choke on.
func TestRealSchemaRefuses(t *testing.T) {
	content, err := os.ReadFile("chatstack-irc.json")
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string][2]string{
		"a key of nobody's":           {`"graphTooltip": 1`, `"graphTooltip": 1, "surprise": 2`},
		"a value of no enumeration":   {`"colorMode": "background"`, `"colorMode": "loud"`},
		"a panel without an id":       {`"id": 2,`, ``},
		"a string where numbers are":  {`"lineWidth": 1`, `"lineWidth": "1"`},
		"an unknown kind of panel":    {`"type": "stat"`, `"type": "statistic"`},
		"a query without expression":  {`"expr": "max`, `"expression": "max`},
		"a threshold without colour":  {`"color": "green",`, ``},
		"a variable of another type":  {`"type": "textbox"`, `"type": "text"`},
		"a link that leads to a type": {`"type": "dashboards"`, `"type": "boards"`},
	} {
		t.Run(what, func(t *testing.T) {
			if !strings.Contains(string(content), change[0]) {
				t.Fatalf("the dashboard has no %s", change[0])
			}
			file := filepath.Join(t.TempDir(), "dashboard.json")
			if err := os.WriteFile(file, []byte(strings.Replace(string(content), change[0], change[1], 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if out, err := validate(t, file); err == nil {
				t.Errorf("the schema takes it\n%s", out)
			}
		})
	}
}
