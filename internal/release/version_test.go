package main

import (
	"os"
	"regexp"
	"testing"
)

// TestVersionOfTheReadmeCanBeReleased holds that .ci/release makes the version that README.md tells a newcomer to make and install.
func TestVersionOfTheReadmeCanBeReleased(t *testing.T) {
	read := func(file string) string {
		content, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	readme := read("README.md")
	made := regexp.MustCompile(`(?m)^    make release VERSION=(\d+\.\d+\.\d+)$`).FindStringSubmatch(readme)
	if made == nil {
		t.Fatal("README.md makes no release")
	}
	version := regexp.QuoteMeta(made[1])
	for _, m := range regexp.MustCompile(`chatstack_exporter-(\d+\.\d+\.\d+)\.`).FindAllStringSubmatch(readme, -1) {
		if m[1] != made[1] {
			t.Errorf("README.md makes version %s and installs %s", made[1], m[1])
		}
	}
	for file, line := range map[string]string{
		"CHANGELOG.md": `^## ` + version + `( \([0-9-]+\))?$`,
		"deploy/helm/chatstack-exporter/Chart.yaml": `^appVersion: ` + version + `$`,
		"deploy/swarm/stack.yaml":                   `/chatstack_exporter:` + version + `\}$`,
		"deploy/kubernetes/README.md":               `make image VERSION=` + version + `$`,
	} {
		if !regexp.MustCompile(`(?m)` + line).MatchString(read(file)) {
			t.Errorf("%s has no line %s", file, line)
		}
	}
}
