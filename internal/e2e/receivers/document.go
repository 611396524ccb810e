package receivers

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// yamlBlock is a block of YAML in a document.
var yamlBlock = regexp.MustCompile("(?ms)^```yaml\n(- name: .*?)^```$")

// Configuration is that of an Alertmanager with the receivers of deploy/alertmanager/README.md, which all get each case, and the files
// beside it.
func (s *Services) Configuration(tb testing.TB, repository, mailAddress string) (config string, files map[string][]byte) {
	tb.Helper()
	read := func(path string) []byte {
		content, err := os.ReadFile(filepath.Join(repository, "deploy/alertmanager", path))
		if err != nil {
			tb.Fatal(err)
		}
		return content
	}
	files = map[string][]byte{
		"templates/chatstack.tmpl":      read("templates/chatstack.tmpl"),
		"secrets/chat_webhook_url":      []byte("https://hooks.slack.com/services/T/B/X"),
		"secrets/pagerduty_routing_key": []byte(strings.Repeat("k", 32)),
	}
	var blocks, routes strings.Builder
	for _, block := range yamlBlock.FindAllStringSubmatch(string(read("README.md")), -1) {
		blocks.WriteString(strings.ReplaceAll(block[1], "/etc/alertmanager/", ""))
	}
	for _, name := range Names() {
		if !strings.Contains(blocks.String(), "- name: "+name+"\n") {
			tb.Fatalf("the document has no receiver %s", name)
		}
		fmt.Fprintf(&routes, "    - {receiver: %s, continue: true}\n", name)
	}
	return fmt.Sprintf(`global:
  smtp_smarthost: %s
  smtp_from: alertmanager@example.org
  smtp_require_tls: false
  http_config: {proxy_url: %q, tls_config: {insecure_skip_verify: true}}
templates: [templates/*.tmpl]
route:
  receiver: mail
  group_by: [case]
  group_wait: 500ms
  group_interval: 1s
  routes:
%sreceivers:
%s`, mailAddress, s.Proxy, &routes, &blocks), files
}
