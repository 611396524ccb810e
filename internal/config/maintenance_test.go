package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

func TestMaintenanceFaultsAreTold(t *testing.T) {
	const once = "from: 2026-05-01T22:00:00Z, until: 2026-05-02T00:00:00Z"
	for _, c := range []struct{ block, want string }{
		{"kind: stack, name: x, " + once, `maintenance[0].kind: is "stack", must be target or container`},
		{"name: x, " + once, `maintenance[0].kind: is "", must be target or container`},
		{"kind: target, " + once, "maintenance[0].name: is empty"},
		{"kind: target, name: irc_rcp, " + once, `maintenance[0].name: there is no target "irc_rcp"`},
		{"kind: container, name: a/b, " + once, `maintenance[0].name: is "a/b", which no container can be called`},
		{"kind: container, name: x", "maintenance[0]: until: is not set"},
		{"kind: container, name: x, until: 2026-05-02T00:00:00Z", "from: is not set"},
		{"kind: container, name: x, from: 2026-05-02T00:00:00Z, until: 2026-05-02T00:00:00Z", "until: is not after from"},
		{"kind: container, name: x, from: 2026-05-01T00:00:00Z, until: 2026-05-31T00:00:01Z", "until: is 720h0m1s after from"},
		{"kind: container, name: x, from: yesterday, until: 2026-05-02T00:00:00", `from: is "yesterday", must be a time with its zone`},
		{"kind: container, name: x, duration: 1h, " + once, "duration: is set without a schedule"},
		{`kind: container, name: x, schedule: "0 3 * * 0", duration: 1h, ` + once, "schedule: is set beside from or until"},
		{`kind: container, name: x, schedule: "0 3 * * 0"`, "duration: is 0s, must be at least 1s"},
		{`kind: container, name: x, schedule: "0 3 * *", duration: 1h`, "schedule: parse schedule"},
		{`kind: container, name: x, schedule: "0 3 * * 7", duration: 1h`, "where 0 is Sunday"},
		{`kind: container, name: x, schedule: "@every 3h", duration: 1h`, "which says how often, not when"},
		{`kind: container, name: x, schedule: "0 3 * * *", duration: 24h`, "would never end"},
		{`kind: container, name: x, schedule: "0 3 1 1 *", duration: 721h`, "at most 720h"},
		{"kind: container, name: x, reason: \"a\\nb\", " + once, "reason: must be one line"},
		{"kind: container, name: x, util: 1", `unknown key; did you mean "until"?`},
	} {
		_, err := load(t, "maintenance:\n  - {"+c.block+"}\n", nil)
		want := strings.Replace(c.want, "maintenance[0]: ", "maintenance[0].", 1)
		if err == nil || !strings.Contains(err.Error(), "exporter.yaml:2: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", c.block, err, want)
		}
	}
}

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
	cfg, err := load(t, "maintenance:\n  - {kind: container, name: x, schedule: \"0 3 1 1 *\", duration: 30d}\n", nil)
	if err != nil || cfg.Maintenance[0].Duration.Std() != 720*time.Hour {
		t.Errorf("got %v; want a maintenance of 30 days", err)
	}
}

func TestMaintenanceKnowsTargetsThatAreNotConfigured(t *testing.T) {
	cfg, err := load(t, `maintenance:
  - {kind: target, name: irc_rpc, schedule: "CRON_TZ=Europe/Berlin 0 3 * * 0", duration: 1h}
  - {kind: container, name: chat-xmpp-1, from: 2026-05-01T22:00:00+02:00, until: 2026-05-02T00:00:00Z, reason: upgrade}
targets:
  - {kind: http, name: shop, url: "http://shop/"}
`, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Maintenance) != 2 || cfg.Maintenance[1].From.Std().UTC().Hour() != 20 {
		t.Errorf("got %+v", cfg.Maintenance)
	}
}
