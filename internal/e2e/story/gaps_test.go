package story

import "time"

// gapFaults happen to what Prometheus knows of an exporter, and to the network of its host.
var gapFaults = []fault[*exporter]{
	{
		"loses its network", // with the sessions of its check
		"has its network again",
		func(w *world, e *exporter) {
			e.offline.Store(true)
			for _, service := range []string{"irc_tls", "xmpp_c2s"} {
				must(w.T, e.site.chat.Switch(service, "stopped", true))
				must(w.T, e.site.chat.Switch(service, "stopped", false))
			}
		},
		func(_ *world, e *exporter) { e.offline.Store(false) },
	},
	{
		"reaches no receiver",
		"reaches its receivers",
		func(w *world, _ *exporter) { w.phone.refuses.Store(true) },
		func(w *world, _ *exporter) { w.phone.refuses.Store(false) },
	},
	{
		"is not found",
		"is found",
		func(w *world, e *exporter) { w.prometheus.lost[e.name] = true },
		func(w *world, e *exporter) { delete(w.prometheus.lost, e.name) },
	},
	{
		"is scraped each 5 minutes",
		"is scraped each 30 seconds",
		func(_ *world, e *exporter) { e.every = 10 },
		func(_ *world, e *exporter) { e.every = 1 },
	},
	{
		"is scraped each 2 minutes",
		"",
		func(_ *world, e *exporter) { e.every = 4 },
		nil,
	},
}

// clockFaults set the clock of Prometheus further than those that happen at random.
var clockFaults = []fault[*server]{
	{
		"is an hour ahead",
		"is an hour behind",
		func(w *world, _ *server) { w.setClock(time.Hour) },
		func(w *world, _ *server) { w.setClock(-time.Hour) },
	},
}

var (
	misnamed = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		misnamed:   "web",
	}}
	overwritten = []exporterSpec{{
		name:       "a",
		env:        "prod",
		targets:    true,
		containers: true,
		adds:       map[string]string{"container": "exporter", "endpoint": "metrics"},
	}}
)

// gapScenarios are about the monitoring itself.
var gapScenarios = []scenario{
	{
		name:      "one of two environments has no exporter any more",
		exporters: twoSites,
		lasts:     14 * time.Minute,
		script: `
			2m s is not found
			10m s is found
		`,
		notifications: `
			5m15s page: ExporterDown critical staging
			6m0s chat: ExporterDown critical staging
			11m0s chat: ExporterDown critical staging is over
		`,
	},
	{
		name:      "one of a pair is removed",
		exporters: pair,
		lasts:     20 * time.Minute,
		script: `
			2m a is not found
		`,
	},
	{
		name:      "a target names a container that there is not",
		exporters: misnamed,
		lasts:     24 * time.Minute,
		script: `
			10m a shows: web MonitoringGap pending
			20m a shows: web MonitoringGap warning
		`,
		notifications: `
			16m0s chat: MonitoringGap warning web no engine has its container web2
		`,
	},
	{
		name:      "a target names a container that there is not, and is maintained",
		exporters: misnamed,
		lasts:     24 * time.Minute,
		script: `
			10m web as a target is maintained
			20m a shows: web MonitoringGap pending, maintenance
		`,
	},
	{
		name:      "the engine cannot be read while a target names a container that there is not",
		exporters: misnamed,
		lasts:     24 * time.Minute,
		script: `
			20m engine hangs
			22m engine answers
		`,
		notifications: `
			16m0s chat: MonitoringGap warning web no engine has its container web2
		`,
	},
	{
		name: "a receiver refuses",
		self: "it cannot",
		script: `
			2m a reaches no receiver
			4m db stops
			40m a reaches its receivers
		`,
		lasts: time.Hour,
		notifications: `
			7m0s chat: ContainerDown warning db
			10m15s page: ContainerDown critical db
			23m0s chat: NotificationsFailing warning a
			28m0s chat: NotificationsFailing warning a; NotificationsFailing warning a
			43m0s chat: NotificationsFailing warning a; NotificationsFailing warning a is over
			48m0s chat: NotificationsFailing warning a is over; NotificationsFailing warning a is over
		`,
	},
	{
		name:      "labels are overwritten",
		exporters: overwritten,
		lasts:     20 * time.Minute,
		notifications: `
			16m0s chat: HonorLabelsOff warning ours exporter metrics a
		`,
	},
	{
		name:  "scrapes are 5 minutes apart",
		lasts: 50 * time.Minute,
		script: `
			2m a is scraped each 5 minutes
			35m a is scraped each 30 seconds
		`,
		notifications: `
			27m30s chat: ScrapedTooSeldom warning a
			37m30s chat: ScrapedTooSeldom warning a is over
		`,
	},
	{
		name: "scrapes are 2 minutes apart", lasts: 50 * time.Minute,
		script: `
			2m a is scraped each 2 minutes
		`,
	},
	{
		name:  "the clock of Prometheus is an hour ahead",
		lasts: 20 * time.Minute,
		script: `
			0s prometheus is an hour ahead
		`,
		notifications: `
			17m0s chat: ClockSkew warning a
		`,
	},
	{
		name:  "the clock of Prometheus is an hour behind",
		lasts: 20 * time.Minute,
		script: `
			0s prometheus is an hour behind
		`,
		notifications: `
			17m0s chat: ClockSkew warning a
		`,
	},
}
