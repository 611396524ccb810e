package alerts_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chatstack-exporter/chatstack_exporter/alerts"
	"github.com/chatstack-exporter/chatstack_exporter/internal/config"
)

// indexRows are the rows of the index: the cells by alert.
func indexRows(t *testing.T, a config.Alerts) map[string][]string {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(alerts.Index(a)) {
		cells := strings.Split(strings.Trim(line, "|\n "), " | ")
		if name, _, ok := strings.Cut(strings.TrimPrefix(cells[0], "["), "](runbooks/"); ok {
			if len(cells) != 4 || rows[name] != nil {
				t.Fatalf("not one row of four cells for %s: %q", name, line)
			}
			rows[name] = cells[1:]
		}
	}
	return rows
}

// allOn are the shipped settings with every alert.
func allOn() config.Alerts {
	a := alerts.Defaults()
	a.Of("irc_servers_split").Enabled = true
	return a
}

func TestIndexListsEveryAlert(t *testing.T) {
	rows, severities := indexRows(t, alerts.Defaults()), map[string][2]bool{}
	for _, r := range rulesFor(t, allOn()) {
		if r.Alert == "" {
			continue
		}
		s := severities[r.Alert]
		severities[r.Alert] = [2]bool{s[0] || r.Labels["severity"] != "critical", s[1] || r.Labels["severity"] == "critical"}
	}
	for alert, fires := range severities {
		row := rows[alert]
		if row == nil || row[0] == "" || row[1] == "" || row[2] == "" {
			t.Errorf("%s: the index has %q; say in its row from when on it fires", alert, row)
			continue
		}
		if got := [2]bool{row[0] != "never", row[1] != "never"}; got != fires {
			t.Errorf("%s: the index has %q, but the rules fire as warning, critical: %v", alert, row[:2], fires)
		}
		if !strings.HasSuffix(row[2], ".") {
			t.Errorf("%s: %q is no sentence", alert, row[2])
		}
	}
	if len(rows) != len(severities) {
		t.Errorf("%d rows for %d alerts", len(rows), len(severities))
	}
}

// TestIndexFollowsEverySetting changes each threshold in turn: the row of its alert, and no other, says so.
func TestIndexFollowsEverySetting(t *testing.T) {
	shipped, tried, defaults := indexRows(t, alerts.Defaults()), 0, alerts.Defaults()
	for name := range settingsOf(&defaults) {
		alert, key, ok := strings.Cut(name, ".")
		// The window of a rate is how it is measured; the other two decide when an alert ends, and for which modules there is none.
		if !ok || strings.HasSuffix(key, "keep_firing_for") || key == "ignore" || name == "xmpp_auth_failure_rate.window" {
			continue
		}
		tried++
		a := alerts.Defaults()
		switch value := settingsOf(&a)[name].(type) {
		case *config.Duration:
			*value += config.Duration(time.Second)
		case *bool:
			*value = !*value
		case *[]string:
			*value = append(slices.Clone(*value), "other")
		case *int64:
			*value++
		}
		for other, row := range indexRows(t, a) {
			if changed := !reflect.DeepEqual(row, shipped[other]); changed != strings.EqualFold(other, strings.ReplaceAll(alert, "_", "")) {
				t.Errorf("%s: the row of %s is %q after a change of %s", name, other, row, key)
			}
		}
	}
	if tried < 30 {
		t.Errorf("tried %d settings, want all of them", tried)
	}
}
