package story

import "time"

// quiet are exporters that do not page about the target other, half is a pair of which only one does not.
var (
	quiet = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true, quiet: "other"}}
	half  = []exporterSpec{{name: "a", env: "prod", targets: true, containers: true, quiet: "other"}, {name: "b", env: "prod", targets: true, containers: true}}
)

// rootScenarios are about which problems page, and about one problem above many.
var rootScenarios = []scenario{
	{
		name: "a target that does not page is down for an hour", exporters: quiet, lasts: 70 * time.Minute,
		script: `
			1m other fails
			50m a shows: other TargetDown warning
			61m other answers
		`,
		told: `
			5m30s chat: TargetDown warning other
			1h5m30s chat: TargetDown warning other is over
		`,
	},
	{
		name: "one exporter of a pair says that the target pages", exporters: half, lasts: 10 * time.Minute,
		script: `
			1m other fails
			9m a shows: other TargetDown warning
			9m b shows: other TargetDown critical
		`,
		told: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
		`,
	},
}
