package story

import (
	"fmt"
	"strings"
	"time"
)

// brownOut has something fail for a part of each period, from a moment to another one.
func brownOut(name string, from, until, period, part time.Duration) string {
	var b strings.Builder
	for at := from; at < until; at += period {
		fmt.Fprintf(&b, "%s %s fails\n%s %s answers\n", at, name, at+part, name)
	}
	return b.String()
}

// unstableScenarios are those of targets that fail many of their readings without being down. A reading comes every 30 s.
var unstableScenarios = []scenario{
	{
		name: "three readings of four fail for 6 hours", lasts: 7 * time.Hour,
		script: brownOut("other", time.Minute, time.Minute+6*time.Hour, 2*time.Minute, 90*time.Second) + `
			6h30m a shows:
		`,
		told: `
			11m30s chat: TargetUnstable warning other
			42m45s page: TargetUnstable critical other
			2h44m45s page: TargetUnstable critical other
			4h46m45s page: TargetUnstable critical other
			6h18m45s page: TargetUnstable critical other is over
			6h21m30s chat: TargetUnstable warning other is over
		`,
	},
	{
		name: "30 s in every 10 minutes fail", lasts: 150 * time.Minute,
		script: brownOut("other", time.Minute, 150*time.Minute, 10*time.Minute, 30*time.Second),
	},
	{
		name: "an outage of 20 minutes, and an hour after it", lasts: 80 * time.Minute,
		script: `
			1m other fails
			21m other answers
			21m30s a shows:
			21m40s other fails
			22m10s other answers
		`,
		told: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			25m30s chat: TargetDown warning other is over
			25m45s page: TargetDown critical other is over
		`,
	},
	{
		name: "a brown-out during maintenance", lasts: 110 * time.Minute,
		script: "30s other as a target is maintained\n" + brownOut("other", time.Minute, 80*time.Minute, 2*time.Minute, 90*time.Second) + `
			81m other as a target is released
			82m a shows:
		`,
	},
}
