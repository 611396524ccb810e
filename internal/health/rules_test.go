package health

import (
	_ "embed"
	"encoding/json"
	"time"
)

// shipped are the rules for the settings by default, which a test of the package alerts keeps up to date.
//
//go:embed testdata/rules.json
var shipped []byte

// shippedRules returns rules of its own to each test.
func shippedRules() (rules Rules) {
	if err := json.Unmarshal(shipped, &rules); err != nil {
		panic(err)
	}
	return rules
}

// waits changes how long an alert waits with both severities.
func (w *world) waits(alert string, hold time.Duration) {
	rule := w.judge.rule(alert)
	rule.Warning.Hold, rule.Critical.Hold = hold, hold
}
