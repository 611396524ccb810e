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
			12m45s page: TargetUnstable critical other
			2h14m45s page: TargetUnstable critical other
			4h16m45s page: TargetUnstable critical other
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
			12m15s page: TargetUnstable critical other
			1h50m30s chat: TargetDown warning other is over
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
		self:  "it has called for the brown-out, which lasts",
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
			12m45s page: TargetUnstable critical other
			36m30s chat: TargetDown warning other; TargetUnstable warning other
			36m45s page: TargetDown critical other; TargetUnstable critical other
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
			58m other is steady
			59m a restarts
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			12m45s page: TargetUnstable critical other
			46m15s page: ExporterDown critical
			1h1m0s chat: ExporterRestarts warning a
			1h21m30s chat: TargetUnstable warning other is over
			1h36m0s chat: ExporterRestarts warning a is over
		`,
	},
	{
		name:  "an exporter without a state restarts in a brown-out",
		self:  "without a state, it tells again what lasts",
		lasts: 70 * time.Minute,
		script: `
			1m other is flaky
			20m a restarts
			41m other is steady
		`,
		notifications: `
			11m30s chat: TargetUnstable warning other
			12m45s page: TargetUnstable critical other
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
		name:  "a target answers after 9 of 10 s for half an hour",
		lasts: 50 * time.Minute,
		script: `
			1m other is slow
			10m a shows: other TargetSlow pending
			13m a shows: other TargetSlow warning
			31m other is quick
			32m a shows:
		`,
		notifications: `
			13m30s chat: TargetSlow warning other
			38m30s chat: TargetSlow warning other is over
		`,
	},
	{
		name:  "6 of every 12 minutes fail",
		lasts: 150 * time.Minute,
		script: repeated("other fails", "other answers", 2*time.Hour, 12*time.Minute, 6*time.Minute) + `
			130m a shows: other TargetDown critical
			2h13m a shows:
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
			10m30s chat: TargetDown warning other is over
			17m30s chat: TargetDown warning other
			19m45s page: TargetDown critical other
			22m30s chat: TargetDown warning other is over
			28m45s page: TargetDown critical other
			29m30s chat: TargetDown warning other
			2h14m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:   "half of every 3 minutes fails",
		lasts:  2 * time.Hour,
		script: repeated("other fails", "other answers", 100*time.Minute, 3*time.Minute, 90*time.Second),
		notifications: `
			15m30s chat: TargetUnstable warning other
			1h0m45s page: TargetUnstable critical other
		`,
	},
	{
		name:   "a container stops for 6 of every 12 minutes",
		lasts:  150 * time.Minute,
		script: repeated("web stops", "web starts", 2*time.Hour, 12*time.Minute, 6*time.Minute),
		notifications: `
			4m0s chat: ContainerDown warning web
			7m15s page: ContainerDown critical web
			14m0s chat: ContainerDown warning web is over
			16m0s chat: ContainerDown warning web
			19m15s page: ContainerDown critical web
			26m0s chat: ContainerDown warning web is over
			27m15s page: ContainerDown critical web
			28m0s chat: ContainerDown warning web
			2h13m0s chat: ContainerDown warning web is over
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
