package config_test

import (
	"testing"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestDocumentsOfAVersion(t *testing.T) {
	const repository = "https://github.com/chatstack-exporter/chatstack_exporter/blob/"
	for version, want := range map[string]string{
		"1.2.3": "v1.2.3", "v1.2.3": "v1.2.3", "0.1.0-rc.2": "v0.1.0-rc.2",
		"": "main", "unknown": "main", "11ad4f4": "main", "v1.2.3-4-g11ad4f4": "main", "v1.2.3-dirty": "main", "1.2.3/../x": "main",
	} {
		if got := config.Documents(version); got != repository+want {
			t.Errorf("documents of %q: %s, want those of %s", version, got, want)
		}
	}
}
