package alerts

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentNamesWhatNeedsPrometheus of all alerts that somebody gets.
func TestDocumentNamesWhatNeedsPrometheus(t *testing.T) {
	const path = "../docs/notifications.md"
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(content), "## What needs Prometheus\n")
	section, _, _ = strings.Cut(section, "\n## ")
	words := strings.FieldsFunc(section, func(r rune) bool { return strings.ContainsRune(" ,.\n", r) })
	named := map[string]bool{}
	for _, word := range words {
		named[word] = true
	}
	for _, r := range rows {
		if needs := NeedsPrometheus(r.name) && !r.drill && r.none.summary == ""; needs != named[r.name] {
			t.Errorf("%s: %s needs Prometheus: %t, is named: %t", path, r.name, needs, named[r.name])
		}
	}
}
