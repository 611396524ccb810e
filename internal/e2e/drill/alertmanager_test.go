//go:build realservers

package drill

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/chatstack-exporter/chatstack_exporter/internal/e2e/realstack"
)

// startAlertmanager starts one with the configuration of a checkout. Its routes, receivers and texts are the shipped ones, its
// times are divided, it is always daytime, and its messages come to the operators.
func (o *operators) startAlertmanager(t *testing.T, tree string, divisor int) *realstack.Program {
	t.Helper()
	file := map[string]any{}
	if err := yaml.Unmarshal(readFile(t, tree, "deploy/alertmanager/alertmanager.yml"), &file); err != nil {
		t.Fatal(err)
	}
	file["global"] = map[string]any{"smtp_smarthost": o.mail, "smtp_from": "alertmanager@example.org", "smtp_require_tls": false}
	fitRoute(file["route"].(map[string]any), divisor) //nolint:forcetypeassert // as it is shipped
	for _, receiver := range listOf(file, "receivers") {
		o.fitReceiver(receiver)
	}
	receivers, _ := file["receivers"].([]any)
	file["receivers"] = append(receivers, map[string]any{"name": night})
	config, err := yaml.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	return realstack.StartAlertmanager(t, string(config), map[string][]byte{
		"templates/chatstack.tmpl": readFile(t, tree, "deploy/alertmanager/templates/chatstack.tmpl"),
	})
}

// night is the receiver of what is sent only at night: nobody.
const night = "night"

func fitRoute(route map[string]any, divisor int) {
	for _, key := range []string{"group_wait", "group_interval", "repeat_interval"} {
		if text, given := route[key].(string); given {
			route[key] = divided(text, divisor)
		}
	}
	delete(route, "active_time_intervals")
	if route["mute_time_intervals"] != nil {
		route["receiver"] = night
		delete(route, "mute_time_intervals")
	}
	for _, below := range listOf(route, "routes") {
		fitRoute(below, divisor)
	}
}

// fitReceiver has a receiver's messages come to the operators, and once more with all labels.
func (o *operators) fitReceiver(receiver map[string]any) {
	name := receiver["name"].(string) //nolint:forcetypeassert // as it is shipped
	for _, hook := range listOf(receiver, "webhook_configs") {
		hook["url"] = o.url + "/" + call + "/" + name
		delete(hook, "http_config")
	}
	for _, channel := range listOf(receiver, "slack_configs") {
		channel["api_url"] = o.url + "/" + post + "/" + name
		// What else is in a post does not say whose it is.
		channel["pretext"] = "{{ .GroupLabels.env }} {{ .Status }}"
	}
	hooks, _ := receiver["webhook_configs"].([]any)
	receiver["webhook_configs"] = append(hooks, map[string]any{"url": o.url + "/" + whole + "/" + name})
}

// listOf are the entries of a list in a YAML file, each a mapping. One that two places share by an anchor is copied, so that
// each may be changed.
func listOf(from map[string]any, key string) (entries []map[string]any) {
	list, _ := from[key].([]any)
	own := make([]any, len(list))
	for i, entry := range list {
		copied := maps.Clone(entry.(map[string]any)) //nolint:forcetypeassert // as it is shipped
		own[i] = copied
		entries = append(entries, copied)
	}
	if len(own) > 0 {
		from[key] = own
	}
	return entries
}

var durationText = regexp.MustCompile(`^(\d+(ms|s|m|h))+$`)

// divided is a duration in YAML divided, and any other text as it is.
func divided(text string, divisor int) string {
	d, err := time.ParseDuration(text)
	if err != nil || !durationText.MatchString(text) {
		return text
	}
	return fmt.Sprintf("%dms", (d / time.Duration(divisor)).Milliseconds()) // Alertmanager takes no fractions
}

func readFile(t *testing.T, tree, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(tree, filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
