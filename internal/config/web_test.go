package config

import "testing"

func TestRunbooksAreThoseOfTheVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.4.0": "v1.4.0", "v2.0.0-rc.1": "v2.0.0-rc.1", "": "main", "unknown": "main", "v1.4.0-3-gabcdef": "main", "v1.4.0-dirty": "main", "1a2b3c4": "main",
	} {
		if got, want := runbooksOf(version), "https://github.com/chatstack-exporter/chatstack_exporter/blob/"+want+"/alerts/runbooks"; got != want {
			t.Errorf("version %q: %q, want %q", version, got, want)
		}
	}
}
