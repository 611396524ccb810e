package config_test

import (
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestDurationsAreReadInBothSpellings(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "720h": 720 * time.Hour, "1.5h": 90 * time.Minute, "500ms": 500 * time.Millisecond, "0": 0,
	} {
		if got, err := config.ParseDuration(text); err != nil || got.Std() != want {
			t.Errorf("%s: got %s, %v; want %s", text, got.Std(), err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "5", "1d-12h"} {
		if got, err := config.ParseDuration(text); err == nil {
			t.Errorf("%q: got %s, want an error", text, got.Std())
		}
	}
}

func TestMaintenanceIsReadAsItIsWritten(t *testing.T) {
	cfg, err := load(t, `maintenance:
  - {kind: container, name: x, schedule: "0 3 1 1 *", duration: 30d}
  - {kind: container, name: y, from: 2026-05-01T22:00:00+02:00, until: 2026-05-02T00:00:00Z, reason: upgrade}
`, nil)
	if err != nil || cfg.Maintenance[0].Duration.Std() != 720*time.Hour || cfg.Maintenance[1].From.Std().UTC().Hour() != 20 {
		t.Errorf("got %v, %v; want 30 days, and one from 20:00 UTC on", cfg, err)
	}
}
