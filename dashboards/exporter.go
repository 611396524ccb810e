package dashboards

func (b *book) exporter() Dashboard {
	a := b.alerts
	const noScrape = "Prometheus scrapes no exporter under this job"
	// chosen is a metric of the chosen exporters.
	chosen := func(metric string) string { return sel(metric, `job=~"$job"`, `instance=~"$instance"`) }
	age := "time() - " + each("min", "last_over_time("+chosen("chatstack_poll_last_completed_timestamp_seconds")+"["+a.Lookback.Std().String()+"])")
	speed := func(counter string) string { return each("max", "rate("+chosen(counter)+"[$__rate_interval])") }
	return b.dashboard(
		Exporter, "exporter", "The exporter itself: whether it is scraped, what its readings cost, and how fresh they are.", "now-6h", exporterVariables(),
		section{title: "Now", panels: []panel{
			b.guided(stat("Scraped", "Whether Prometheus got the last page of each exporter.", query{chosen("up"), "{{instance}}"}).limits(good()).maps(upDown()).none(noScrape), "ExporterDown"),
			b.guided(stat("Poll loop's heartbeat", "How long ago the poll loop last went round; it does every ten seconds.",
				query{age, "ago"}).unit("s").limits(critically(a.PollStalled.After.Std().Seconds())).none(noScrape), "PollStalled"),
			b.guided(stat("Configuration", "Whether the last attempt to load the configuration succeeded.",
				query{each("min", chosen("chatstack_config_last_reload_successful")), "loaded"}).limits(steps([]string{warning, well}, 1)).maps(values(Mapped{Text: "refused", Color: warning}, Mapped{Text: "loaded", Color: well})).none(noScrape), "ConfigReloadFailed"),
			stat("Loaded", "When a configuration was last loaded with success.",
				query{each("max", chosen("chatstack_config_last_reload_success_timestamp_seconds")) + " * 1000", "loaded"}).unit("dateTimeFromNow").none(noScrape),
			b.guided(stat("Placeholder secrets", "Targets whose secret is one that examples have.",
				query{perEnvironment("count", each("max", chosen("chatstack_placeholder_credential"))+" == 1") + " or 0 * " + perEnvironment("count", chosen("chatstack_config_last_reload_successful")), "targets"}).
				limits(steps([]string{well, warning}, 1)).none(noScrape), "PlaceholderCredential"),
			stat("Version", "What runs.", query{perEnvironment("max", chosen("chatstack_exporter_build_info"), "goversion", "version"), "{{version}}, {{goversion}}"}).none(noScrape),
		}},
		section{title: "Scrapes", panels: []panel{
			chart("Scrape duration", "How long Prometheus took to get each page.", query{chosen("scrape_duration_seconds"), "{{instance}}"}).unit("s").none(noScrape),
			chart("Samples", "Samples of each page, and those taken over from other pages.",
				query{chosen("scrape_samples_scraped"), "{{instance}}, page"}, query{each("max", chosen("chatstack_upstream_series")), "{{target}}, taken over"}).none(noScrape),
			b.guided(chart("Series left out", "Of other pages: doubled or taken names (clash), beyond a limit, or malformed.",
				query{each("max", chosen("chatstack_upstream_dropped_series")), "{{target}}, {{reason}}"}).drawn(steps([]string{well, warning}, 1)).none("no metrics page of others is read").size(10, 8), "UpstreamSeriesDropped"),
			b.guided(stat("Rules out of date", "Whether the deployed rules differ from those of the exporters' configuration, by the alert on it, which need not fire yet.",
				query{perEnvironment("count", alerts(`alertname="RulesOutOfDate"`)) + " or 0 * " + perEnvironment("count", sel("chatstack:target_down_seconds:any")), "alerts"}).limits(steps([]string{well, warning}, 1)).none(noRules).size(4, 8), "RulesOutOfDate"),
			b.guided(stat("Clock", "How far the clock of each exporter is from that of Prometheus.",
				query{"abs(" + chosen("chatstack_exporter_time_seconds") + " - timestamp(" + chosen("chatstack_exporter_time_seconds") + "))", "{{instance}}"}).unit("s").
				limits(steps([]string{well, warning}, a.ClockSkew.Over.Std().Seconds())).none(noScrape).size(4, 8), "ClockSkew"),
			b.guided(table("Rules", "The checksum of the rules that each exporter's configuration makes. The alert RulesOutOfDate compares it with that of the deployed rules.",
				[]column{{"instance", "Exporter"}, {"checksum", "Checksum"}}, query{chosen("chatstack_rules_info"), ""}).none(noScrape).size(6, 8), "RulesOutOfDate"),
		}},
		section{title: "Readings", panels: []panel{
			chart("Reading duration", "How long the last reading of each target took.", query{each("max", chosen("chatstack_probe_duration_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Freshness", "How long ago each target's last successful reading ended. A target that fails grows old.",
				query{"time() - " + each("max", chosen("chatstack_probe_last_success_timestamp_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Since the last attempt", "How long ago each target's last reading ended, whatever became of it.",
				query{"time() - " + each("max", chosen("chatstack_probe_last_attempt_timestamp_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Failures by reason", "Readings that failed, per second; and those that do not count for TargetUnstable: something else explains them, or TargetDown has told of them.",
				query{perEnvironment("sum", speed("chatstack_probe_failures_total"), "reason"), "{{reason}}"},
				query{perEnvironment("sum", speed("chatstack_probe_excused_failures_total")), "explained or told"}).unit("reqps").none(noScrape),
			chart("Failed part", "Part of the readings of each last hour that failed.",
				query{each("max", "sum without (reason) (rate("+chosen("chatstack_probe_failures_total")+"[1h])) / (rate("+chosen("chatstack_probe_attempts_total")+"[1h]) > 0)"), "{{target}}"}).unit("percentunit").upTo(1).none(noScrape),
			chart("Overruns", "Readings of each last hour that were due while the one before was not over.",
				query{each("max", lastHour(chosen("chatstack_poll_overruns_total"))), "{{target}}"}).none("none in the last hour"),
		}},
		section{title: "Process", panels: []panel{
			chart("Memory", "Resident memory of the exporter.", query{chosen("process_resident_memory_bytes"), "{{instance}}"}).unit("bytes").none(noScrape).size(8, 8),
			chart("CPU", "Part of one processor that the exporter uses.",
				query{"rate(" + chosen("process_cpu_seconds_total") + "[$__rate_interval])", "{{instance}}"}).unit("percentunit").none(noScrape).size(8, 8),
			chart("Goroutines", "Grows with readings that hang.", query{chosen("go_goroutines"), "{{instance}}"}).none(noScrape).size(8, 8),
		}}.folded(),
	)
}
