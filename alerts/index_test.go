package alerts_test

import (
	"reflect"
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
	a.IRCServersSplit.Enabled = true
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
			t.Errorf("%s: the index has %q; say in thresholds (alerts/index.go) from when on it fires", alert, row)
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
	shipped, tried := indexRows(t, alerts.Defaults()), 0
	eachSetting(reflect.TypeFor[config.Alerts](), nil, func(path []int, name string) {
		alert, key, ok := strings.Cut(name, ".")
		// The window of a rate is how it is measured; the other two decide when an alert ends, and for which modules there is none.
		if !ok || strings.HasSuffix(name, "KeepFiringFor") || strings.HasSuffix(name, ".Ignore") || name == "XMPPAuthFailureRate.Window" {
			return
		}
		tried++
		a := alerts.Defaults()
		switch field := reflect.ValueOf(&a).Elem().FieldByIndex(path); {
		case field.Type() == reflect.TypeFor[config.Duration]():
			field.SetInt(field.Int() + int64(time.Second))
		case field.Kind() == reflect.Bool:
			field.SetBool(!field.Bool())
		case field.Kind() == reflect.Slice:
			field.Set(reflect.Append(field, reflect.ValueOf("other")))
		default:
			field.SetInt(field.Int() + 1)
		}
		for other, row := range indexRows(t, a) {
			if changed := !reflect.DeepEqual(row, shipped[other]); changed != (other == alert) {
				t.Errorf("%s: the row of %s is %q after a change of %s; see thresholds in alerts/index.go", name, other, row, key)
			}
		}
	})
	if tried < 30 {
		t.Errorf("tried %d settings, want all of them", tried)
	}
}
