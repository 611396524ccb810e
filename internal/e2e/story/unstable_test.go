package story

import (
	"fmt"
	"strings"
	"time"
)

// repeated has something begin and end again and again from the first minute on, for a part of each period.
func repeated(begins, ends string, until, period, part time.Duration) string {
	var b strings.Builder
	for at := time.Minute; at < until; at += period {
		fmt.Fprintf(&b, "%s %s\n%s %s\n", at, begins, at+part, ends)
	}
	return b.String()
}

// unstableScenarios are those of targets that fail many of their readings without being down. A reading comes every 30 s.
var unstableScenarios = []scenario{
	{
		name:  "three readings of four fail for 6 hours",
		lasts: 7 * time.Hour,
		script: `
			1m other is flaky
			5h59m a shows: other TargetUnstable critical
			6h1m other is steady
			6h30m a shows:
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			42m45s page: TargetUnstable critical other
			2h44m45s page: TargetUnstable critical other
			4h46m45s page: TargetUnstable critical other
			6h21m30s chat: TargetUnstable warning other is over
		`,
	},
	{
		name: "30 s in every 10 minutes fail", lasts: 150 * time.Minute,
		script: repeated("other fails", "other answers", 150*time.Minute, 10*time.Minute, 30*time.Second),
	},
	{
		name:   "3 of every 4 minutes fail, which is too short for TargetDown to page",
		lasts:  2 * time.Hour,
		script: repeated("other fails", "other answers", 90*time.Minute, 4*time.Minute, 3*time.Minute),
		notifications: `
			5m30s chat: TargetDown warning other
			15m30s chat: TargetDown warning other is over
			17m30s chat: TargetDown warning other
			27m30s chat: TargetDown warning other is over
			29m30s chat: TargetDown warning other
			39m30s chat: TargetDown warning other is over
			41m30s chat: TargetDown warning other
			42m45s page: TargetUnstable critical other
			51m30s chat: TargetDown warning other is over
			53m30s chat: TargetDown warning other
			1h3m30s chat: TargetDown warning other is over
			1h5m30s chat: TargetDown warning other
			1h15m30s chat: TargetDown warning other is over
			1h17m30s chat: TargetDown warning other
			1h27m30s chat: TargetDown warning other is over
			1h29m30s chat: TargetDown warning other
			1h39m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:  "an outage of 20 minutes, and an hour after it",
		lasts: 80 * time.Minute,
		script: `
			1m other fails
			21m other answers
			21m30s a shows:
			21m40s other fails
			22m10s other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			25m30s chat: TargetDown warning other is over
		`,
	},
	{
		name: "a brown-out during maintenance", lasts: 110 * time.Minute,
		script: `
			30s other as a target is maintained
			1m other is flaky
			81m other is steady
			81m other as a target is released
			82m a shows:
		`,
	},
	{
		name:  "a brown-out becomes an outage",
		lasts: 80 * time.Minute,
		script: `
			1m other is flaky
			30m other fails
			35m a shows: other TargetDown critical
			50m other answers
			50m other is steady
			51m a shows:
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			35m45s page: TargetDown critical other
			36m30s chat: TargetDown warning other; TargetUnstable warning other
			51m30s chat: TargetDown warning other; TargetUnstable warning other is over
			56m30s chat: TargetDown warning other is over; TargetUnstable warning other is over
		`,
	},
	{
		name:      "an exporter restarts in a brown-out",
		exporters: keeping,
		lasts:     100 * time.Minute,
		script: `
			1m other is flaky
			20m a restarts
			40m a is killed
			43m a stops
			46m a starts
			60m other is steady
			61m a restarts
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			42m45s page: TargetUnstable critical other
			46m15s page: ExporterDown critical
			1h26m30s chat: TargetUnstable warning other is over
		`,
	},
	{
		name:  "an exporter without a state restarts in a brown-out",
		lasts: 70 * time.Minute,
		script: `
			1m other is flaky
			20m a restarts
			41m other is steady
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			1h6m30s chat: TargetUnstable warning other is over
		`,
	},
	{
		name:      "one exporter of a pair sees a brown-out",
		exporters: pair,
		lasts:     84 * time.Minute,
		script: repeated("a reaches nothing", "a reaches all", 61*time.Minute, 2*time.Minute, 90*time.Second) + `
			65m a shows:
		`,
		notifications: `
			11m0s chat: TargetUnstable warning web
			11m30s chat: TargetUnstable warning api
			11m30s chat: TargetUnstable warning other
			1h21m0s chat: TargetUnstable warning web is over
			1h21m30s chat: TargetUnstable warning api is over
			1h21m30s chat: TargetUnstable warning other is over
		`,
	},
	{
		name:   "a container stops again and again",
		lasts:  80 * time.Minute,
		script: repeated("web stops", "web starts", 61*time.Minute, 4*time.Minute, 50*time.Second),
		notifications: `
			4m0s chat: ContainerRestarts warning web
			1h9m0s chat: ContainerRestarts warning web is over
		`,
	},
}
