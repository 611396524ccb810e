package dashboards

func (b *builder) exporter() Dashboard {
	const noScrape = "Prometheus scrapes no exporter under this job"
	// chosen selects a metric of the chosen exporters.
	chosen := func(metric string) string { return sel(metric, `job=~"$job"`, `instance=~"$instance"`) }
	age := "time() - " + combine("min", "last_over_time("+chosen("chatstack_poll_last_completed_timestamp_seconds")+"["+b.alerts.Lookback.Std().String()+"])")
	speed := func(counter string) string { return combine("max", "rate("+chosen(counter)+"[$__rate_interval])") }
	return b.dashboard(
		Exporter, "exporter", "The exporter itself: scrapes, probes, configuration and resources.", "now-6h", exporterVariables(),
		section{title: "Now", panels: []panel{
			stat("Scraped", "Whether the last scrape of each exporter succeeded.", query{chosen("up"), "{{instance}}"}).thresholds(goodAtOne()).valueTexts(upDown()).emptyText(noScrape),
			stat("Poll loop heartbeat", "Time since the poll loop last ran. It runs every ten seconds.",
				query{age, "ago"}).unit("s").limits(waitLimit).emptyText(noScrape),
			stat("Configuration", "Whether the last load of the configuration succeeded.",
				query{combine("min", chosen("chatstack_config_last_reload_successful")), "loaded"}).thresholds(steps([]string{warning, healthy}, 1)).valueTexts(values(Mapped{Text: "refused", Color: warning}, Mapped{Text: "loaded", Color: healthy})).emptyText(noScrape),
			stat("Configuration loaded", "When a configuration was last loaded successfully.",
				query{combine("max", chosen("chatstack_config_last_reload_success_timestamp_seconds")) + " * 1000", "loaded"}).unit("dateTimeFromNow").emptyText(noScrape),
			stat("Placeholder secrets", "Targets whose secret is a placeholder from an example.",
				query{perEnvironment("count", combine("max", chosen("chatstack_placeholder_credential"))+" == 1") + " or 0 * " + perEnvironment("count", chosen("chatstack_config_last_reload_successful")), "targets"}).
				thresholds(steps([]string{healthy, warning}, 1)).emptyText(noScrape),
			stat("Version", "Version of the exporter and of Go.", query{perEnvironment("max", chosen("chatstack_exporter_build_info"), "goversion", "version"), "{{version}}, {{goversion}}"}).emptyText(noScrape),
		}},
		section{title: "Scrapes", panels: []panel{
			chart("Scrape duration", "Duration of the last scrape of each exporter.", query{chosen("scrape_duration_seconds"), "{{instance}}"}).unit("s").emptyText(noScrape),
			chart("Samples", "Samples that each exporter serves, and series that it passes on from its targets.",
				query{chosen("scrape_samples_scraped"), "{{instance}}, scraped"}, query{combine("max", chosen("chatstack_upstream_series")), "{{target}}, passed on"}).emptyText(noScrape),
			chart("Dropped series", "Series of targets that the exporter drops: their names clash, they exceed a limit, they are malformed, or they hold a secret.",
				query{combine("max", chosen("chatstack_upstream_dropped_series")), "{{target}}, {{reason}}"}).thresholdLines(steps([]string{healthy, warning}, 1)).emptyText("the exporter passes on no metrics of targets").size(10, 8),
			stat("Rules out of date", "Exporters whose configuration does not match the deployed rules. Counts the alert RulesOutOfDate, also while it is pending.",
				query{perEnvironment("count", selAlerts(`alertname="RulesOutOfDate"`)) + " or 0 * " + perEnvironment("count", sel("chatstack:target_down_seconds:any")), "alerts"}).thresholds(steps([]string{healthy, warning}, 1)).emptyText(noRules).size(4, 8),
			stat("Clock skew", "Difference between the clocks of each exporter and Prometheus.",
				query{"abs(" + chosen("chatstack_exporter_time_seconds") + " - timestamp(" + chosen("chatstack_exporter_time_seconds") + "))", "{{instance}}"}).unit("s").
				limits(apartLimit).emptyText(noScrape).size(4, 8),
			table("Rules", "Checksum of the rules that each exporter's configuration generates. The alert RulesOutOfDate compares it with the deployed rules.",
				[]column{{"instance", "Exporter"}, {"checksum", "Checksum"}}, query{chosen("chatstack_rules_info"), ""}).emptyText(noScrape).size(6, 8),
		}},
		section{title: "Probes", panels: []panel{
			chart("Probe duration", "Duration of the last probe of each target.", query{combine("max", chosen("chatstack_probe_duration_seconds")), "{{target}}"}).unit("s").emptyText(noScrape),
			chart("Since the last success", "Time since the last successful probe of each target.",
				query{"time() - " + combine("max", chosen("chatstack_probe_last_success_timestamp_seconds")), "{{target}}"}).unit("s").emptyText(noScrape),
			chart("Since the last probe", "Time since the last probe of each target, successful or not.",
				query{"time() - " + combine("max", chosen("chatstack_probe_last_attempt_timestamp_seconds")), "{{target}}"}).unit("s").emptyText(noScrape),
			chart("Failures by reason", "Failed probes per second. Not counted: failures that TargetUnstable ignores, since they are excused or TargetDown reports them.",
				query{perEnvironment("sum", speed("chatstack_probe_failures_total"), "reason"), "{{reason}}"},
				query{perEnvironment("sum", speed("chatstack_probe_excused_failures_total")), "not counted"}).unit("reqps").emptyText(noScrape),
			chart("Share of failed probes", "Share of the probes in the last hour that failed.",
				query{combine("max", "sum without (reason) (rate("+chosen("chatstack_probe_failures_total")+"[1h])) / (rate("+chosen("chatstack_probe_attempts_total")+"[1h]) > 0)"), "{{target}}"}).unit("percentunit").upTo(1).emptyText(noScrape),
			chart("Overruns", "Probes in the last hour that were due while the previous one was still running.",
				query{combine("max", increaseLastHour(chosen("chatstack_poll_overruns_total"))), "{{target}}"}).emptyText("none in the last hour"),
		}},
		section{title: "Process", panels: []panel{
			chart("Memory", "Resident memory of the exporter.", query{chosen("process_resident_memory_bytes"), "{{instance}}"}).unit("bytes").emptyText(noScrape).size(8, 8),
			chart("CPU", "Share of one CPU core that the exporter uses.",
				query{"rate(" + chosen("process_cpu_seconds_total") + "[$__rate_interval])", "{{instance}}"}).unit("percentunit").emptyText(noScrape).size(8, 8),
			chart("Goroutines", "Number of goroutines. Probes that hang increase it.", query{chosen("go_goroutines"), "{{instance}}"}).emptyText(noScrape).size(8, 8),
		}}.folded(),
	)
}
