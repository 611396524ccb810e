package story

import "time"

// quiet are exporters that do not page about the target other, half is a pair of which only one does not.
var (
	quiet = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		quiet:      "other",
	}}
	wide = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		saves:      true,
		wide:       true,
	}}
	wides = []exporterSpec{
		{
			name:       "a",
			env:        "prod",
			targets:    true,
			containers: true,
			wide:       true,
		},
		{
			name:       "b",
			env:        "prod",
			targets:    true,
			containers: true,
			wide:       true,
		},
	}
	half = []exporterSpec{
		{
			name:       "a",
			env:        "prod",
			targets:    true,
			containers: true,
			quiet:      "other",
		},
		{
			name:       "b",
			env:        "prod",
			targets:    true,
			containers: true,
		},
	}
)

// rootScenarios are about which problems page, and about one problem above many.
var rootScenarios = []scenario{
	{
		name:      "a target that does not page is down for an hour",
		exporters: quiet,
		lasts:     70 * time.Minute,
		script: `
			1m other fails
			50m a shows: other TargetDown warning
			61m other answers
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			1h5m30s chat: TargetDown warning other is over
		`,
	},
	{
		name:      "one exporter of a pair says that the target pages",
		exporters: half,
		lasts:     10 * time.Minute,
		script: `
			1m other fails
			9m a shows: other TargetDown warning
			9m b shows: other TargetDown critical
		`,
		notifications: `
			5m30s chat: TargetDown warning other
			7m45s page: TargetDown critical other
		`,
	},
	{
		name:      "everything stops",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m stack stops
			10m a shows: MostTargetsDown critical; api ContainerDown pending, dependency of db; api TargetDown pending, dependency of api; db ContainerDown critical; docs ContainerDown critical; irc ContainerDown critical; other ContainerDown critical; other TargetDown critical; web ContainerDown pending, dependency of api; web TargetDown pending, dependency of web; xmpp ContainerDown critical; xmpp1 TargetDown pending, container of xmpp; xmpp2 TargetDown pending, container of xmpp; xmpp3 TargetDown pending, container of xmpp; xmpp4 TargetDown pending, container of xmpp; xmpp5 TargetDown pending, container of xmpp
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: ContainerDown critical db; ContainerDown critical docs; ContainerDown critical irc; ContainerDown critical other; ContainerDown critical xmpp; MostTargetsDown critical; TargetDown critical other
		`,
	},
	{
		name:      "everything stops and is started again after 4 minutes: no page",
		exporters: wide,
		lasts:     16 * time.Minute,
		script: `
			1m stack stops
			5m stack starts
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			14m0s chat: MostTargetsDown warning is over
		`,
	},
	{
		name:      "the exporter is killed while everything is stopped",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m stack stops
			3m a is killed
			3m5s a shows: MostTargetsDown warning; api ContainerDown pending, dependency of db; api TargetDown pending, dependency of api; db ContainerDown warning; docs ContainerDown warning; irc ContainerDown warning; other ContainerDown warning; other TargetDown pending; web ContainerDown pending, dependency of api; web TargetDown pending, dependency of web; xmpp ContainerDown warning; xmpp1 TargetDown pending, container of xmpp; xmpp2 TargetDown pending, container of xmpp; xmpp3 TargetDown pending, container of xmpp; xmpp4 TargetDown pending, container of xmpp; xmpp5 TargetDown pending, container of xmpp
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: ContainerDown critical db; ContainerDown critical docs; ContainerDown critical irc; ContainerDown critical other; ContainerDown critical xmpp; MostTargetsDown critical; TargetDown critical other
		`,
	},
	{
		name:      "the XMPP server stops with five targets of nine",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m xmpp stops
			10m a shows: xmpp ContainerDown critical; xmpp1 TargetDown pending, container of xmpp; xmpp2 TargetDown pending, container of xmpp; xmpp3 TargetDown pending, container of xmpp; xmpp4 TargetDown pending, container of xmpp; xmpp5 TargetDown pending, container of xmpp
		`,
		notifications: `
			4m0s chat: ContainerDown warning xmpp
			7m15s page: ContainerDown critical xmpp
		`,
	},
	{
		name:      "the XMPP server stops for half a minute in every two",
		exporters: wide,
		lasts:     14 * time.Minute,
		script: `
			1m xmpp dies
			1m30s xmpp comes back
			3m xmpp dies
			3m30s xmpp comes back
			5m xmpp dies
			5m30s xmpp comes back
			7m xmpp dies
			7m30s xmpp comes back
			9m xmpp dies
			9m30s xmpp comes back
		`,
		notifications: `
			3m30s chat: ContainerRestarts warning xmpp
			8m45s page: ContainerRestarts critical xmpp
		`,
	},
	{
		name:      "most targets hang, and a container stops half an hour later: another page",
		exporters: wide,
		lasts:     42 * time.Minute,
		script: `
			1m xmpp fails
			31m db stops
		`,
		notifications: `
			4m30s chat: MostTargetsDown warning
			7m45s page: MostTargetsDown critical; TargetDown critical xmpp1; TargetDown critical xmpp2; TargetDown critical xmpp3; TargetDown critical xmpp4; TargetDown critical xmpp5
			37m15s page: ContainerDown critical db
		`,
	},
	{
		name:      "all services hang, and their containers run",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m stack hangs
			10m a shows: MostTargetsDown critical; api TargetDown critical; other TargetDown critical; web TargetDown critical; xmpp1 TargetDown critical; xmpp2 TargetDown critical; xmpp3 TargetDown critical; xmpp4 TargetDown critical; xmpp5 TargetDown critical
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: MostTargetsDown critical; TargetDown critical api; TargetDown critical other; TargetDown critical web; TargetDown critical xmpp1; TargetDown critical xmpp2; TargetDown critical xmpp3; TargetDown critical xmpp4; TargetDown critical xmpp5
		`,
	},
	{
		name:      "the engine does not answer, and all containers run",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m engine hangs
			10m a shows: docker TargetDown critical
		`,
		notifications: `
			5m30s chat: TargetDown warning docker
			7m45s page: TargetDown critical docker
		`,
	},
	{
		name:      "the engine is lost with all containers",
		exporters: wide,
		lasts:     14 * time.Minute,
		script: `
			1m engine stops
			6m a shows: MostTargetsDown warning; api TargetDown pending, dependency of docker; docker TargetDown warning; other TargetDown warning; web TargetDown pending, dependency of docker; xmpp1 TargetDown pending, dependency of docker; xmpp2 TargetDown pending, dependency of docker; xmpp3 TargetDown pending, dependency of docker; xmpp4 TargetDown pending, dependency of docker; xmpp5 TargetDown pending, dependency of docker
			10m a shows: MostTargetsDown critical; api TargetDown critical, also docker; docker TargetDown critical; other TargetDown critical; web TargetDown critical, also docker; xmpp1 TargetDown critical, also docker; xmpp2 TargetDown critical, also docker; xmpp3 TargetDown critical, also docker; xmpp4 TargetDown critical, also docker; xmpp5 TargetDown critical, also docker
			11m engine starts
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: MostTargetsDown critical; TargetDown critical api; TargetDown critical docker; TargetDown critical other; TargetDown critical web; TargetDown critical xmpp1; TargetDown critical xmpp2; TargetDown critical xmpp3; TargetDown critical xmpp4; TargetDown critical xmpp5
		`,
	},
	{
		name:  "the engine does not answer, and two services fail with it: one page once it excuses them no longer",
		lasts: 20 * time.Minute,
		script: `
			1m engine hangs
			1m api fails
			1m20s web fails
			6m a shows: api TargetDown pending, dependency of docker; docker TargetDown warning; web TargetDown pending, dependency of docker
			7m a shows: api TargetDown critical, also docker; docker TargetDown critical; web TargetDown critical, also docker
			12m engine answers
			13m api answers
			13m web answers
		`,
		notifications: `
			5m30s chat: TargetDown warning docker
			7m45s page: TargetDown critical api; TargetDown critical docker; TargetDown critical web
			10m30s chat: TargetDown warning api; TargetDown warning docker; TargetDown warning web
			15m30s chat: TargetDown warning api; TargetDown warning docker is over; TargetDown warning web
		`,
	},
	{
		name:  "the engine does not answer, and a service fails minutes later: its own page",
		lasts: 12 * time.Minute,
		script: `
			1m engine hangs
			3m30s api fails
			6m a shows: api TargetDown pending, also docker; docker TargetDown warning
			7m a shows: api TargetDown warning, also docker; docker TargetDown critical
		`,
		notifications: `
			5m30s chat: TargetDown warning docker
			7m45s page: TargetDown critical docker
			8m0s chat: TargetDown warning api
			10m15s page: TargetDown critical api
		`,
	},
	{
		name:      "the engine does not answer, and most services fail with it",
		exporters: wide,
		lasts:     12 * time.Minute,
		script: `
			1m engine hangs
			1m xmpp fails
			1m api fails
			1m web fails
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
			7m15s page: MostTargetsDown critical; TargetDown critical api; TargetDown critical docker; TargetDown critical web; TargetDown critical xmpp1; TargetDown critical xmpp2; TargetDown critical xmpp3; TargetDown critical xmpp4; TargetDown critical xmpp5
		`,
	},
	{
		name:  "what lies between a target and its root restarts during the outage: the root alone is reported",
		lasts: 24 * time.Minute,
		script: `
			1m db stops
			1m5s api fails
			1m5s web fails
			10m api restarts
			11m a shows: api TargetDown pending, dependency of api; db ContainerDown critical; web TargetDown pending, dependency of api
			12m web restarts
			14m a shows: api TargetDown pending, dependency of db; db ContainerDown critical; web TargetDown pending, dependency of web
			15m api stops
			16m api starts
			17m a shows: api TargetDown pending, dependency of api; db ContainerDown critical; web TargetDown pending, dependency of api
			18m db starts
			18m api answers
			18m web answers
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical db
			24m0s chat: ContainerDown warning db is over
		`,
	},
	{
		name:  "a target has a fault of its own while its root is down",
		lasts: 20 * time.Minute,
		script: `
			1m db stops
			1m5s api fails
			10m api refuses
			12m a shows: api TargetDown pending, dependency of db; db ContainerDown critical
			14m a shows: api TargetDown critical, also db; db ContainerDown critical
		`,
		notifications: `
			4m0s chat: ContainerDown warning db
			7m15s page: ContainerDown critical db
			13m45s page: TargetDown critical api
			14m30s chat: TargetDown warning api
		`,
	},
	{
		name:      "one exporter of a pair reaches nothing",
		exporters: wides,
		lasts:     12 * time.Minute,
		script: `
			1m a reaches nothing
			10m a shows: MostTargetsDown critical; api TargetDown critical; other TargetDown critical; web TargetDown critical; xmpp1 TargetDown critical; xmpp2 TargetDown critical; xmpp3 TargetDown critical; xmpp4 TargetDown critical; xmpp5 TargetDown critical
		`,
		notifications: `
			4m0s chat: MostTargetsDown warning
		`,
	},
}
