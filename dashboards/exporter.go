package dashboards

import "fmt"

func (b *book) exporter() Dashboard {
	a := b.alerts
	const (
		perScrape = `{job=~"$job",instance=~"$instance"}`
		noScrape  = "Prometheus scrapes no exporter under this job"
	)
	age := "time() - " + each("min", "last_over_time("+sel("chatstack_poll_last_completed_timestamp_seconds")+"["+a.Lookback.Std().String()+"])")
	speed := func(counter string, drop ...string) string {
		return each("max", "rate("+sel(counter)+"[$__rate_interval])", drop...)
	}
	return b.dashboard(
		Exporter, "exporter", "The exporter itself: whether it is scraped, what its readings cost, and how fresh they are.", "now-6h", nil,
		section{"Now", []panel{
			b.guided(stat("Scraped", "Whether Prometheus got the last page of each exporter.", query{"up" + perScrape, "{{instance}}"}).limits(good()).maps(upDown()).none(noScrape), "ExporterDown"),
			b.guided(stat("Poll loop's heartbeat", "How long ago the poll loop last went round; it does every ten seconds.",
				query{age, "ago"}).unit("s").limits(critically(a.PollStalled.After.Std().Seconds())).none(noScrape), "PollStalled"),
			b.guided(stat("Configuration", "Whether the last attempt to load the configuration succeeded.",
				query{each("min", sel("chatstack_config_last_reload_successful")), "loaded"}).limits(steps([]string{warning, well}, 1)).maps(values(Mapped{Text: "refused", Color: warning}, Mapped{Text: "loaded", Color: well})).none(noScrape), "ConfigReloadFailed"),
			stat("Loaded", "When a configuration was last loaded with success.",
				query{each("max", sel("chatstack_config_last_reload_success_timestamp_seconds")) + " * 1000", "loaded"}).unit("dateTimeFromNow").none(noScrape),
			b.guided(stat("Placeholder secrets", "Targets whose secret is one that examples have.",
				query{"count(" + each("max", sel("chatstack_placeholder_credential")) + " == 1) or 0 * count(" + each("max", sel("chatstack_config_last_reload_successful")) + ")", "targets"}).
				limits(steps([]string{well, warning}, 1)).none(noScrape), "PlaceholderCredential"),
			stat("Version", "What runs.", query{"max by (version, goversion) (" + sel("chatstack_exporter_build_info") + ")", "{{version}}, {{goversion}}"}).none(noScrape),
		}},
		section{"Scrapes", []panel{
			chart("Scrape duration", "How long Prometheus took to get each page.", query{"scrape_duration_seconds" + perScrape, "{{instance}}"}).unit("s").none(noScrape),
			chart("Samples", "Samples of each page, and those taken over from other pages.",
				query{"scrape_samples_scraped" + perScrape, "{{instance}}, page"}, query{each("max", sel("chatstack_upstream_series")), "{{target}}, taken over"}).none(noScrape),
			b.guided(chart("Series left out", "Of other pages: doubled or taken names (clash), beyond a limit, or malformed.",
				query{each("max", sel("chatstack_upstream_dropped_series")), "{{target}}, {{reason}}"}).drawn(steps([]string{well, warning}, 1)).none("no metrics page of others is read"), "UpstreamSeriesDropped"),
			b.guided(stat("Rules out of date", "Whether the deployed rules differ from those of the exporter's configuration, if the alert says so.",
				query{`count(ALERTS{alertname="RulesOutOfDate"}) or 0 * count(ALERTS{alertname="Watchdog"})`, "exporters"}).limits(steps([]string{well, warning}, 1)).none(noRules).size(6, 8), "RulesOutOfDate"),
			b.guided(table("Rules", "The checksum of the rules that each exporter's configuration makes. The alert RulesOutOfDate compares it with that of the deployed rules.",
				[]column{{"instance", "Exporter"}, {"checksum", "Checksum"}}, query{sel("chatstack_rules_info"), ""}).none(noScrape).size(6, 8), "RulesOutOfDate"),
		}},
		section{"Readings", []panel{
			chart("Reading duration", "How long the last reading of each target took.", query{each("max", sel("chatstack_probe_duration_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Freshness", "How long ago each target's last successful reading ended. A target that fails grows old.",
				query{"time() - " + each("max", sel("chatstack_probe_last_success_timestamp_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Since the last attempt", "How long ago each target's last reading ended, whatever became of it.",
				query{"time() - " + each("max", sel("chatstack_probe_last_attempt_timestamp_seconds")), "{{target}}"}).unit("s").none(noScrape),
			chart("Attempts", "Readings that were begun, per second.", query{speed("chatstack_probe_attempts_total"), "{{target}}"}).unit("reqps").none(noScrape),
			chart("Failures by reason", "Readings that failed, per second.", query{"sum by (reason) (" + speed("chatstack_probe_failures_total") + ")", "{{reason}}"}).unit("reqps").none(noScrape),
			chart("Failed part", "Part of the readings of each last hour that failed, as recorded by chatstack.recording.yml.",
				query{"chatstack:probe_failures:ratio_rate1h", "{{target}}"}).unit("percentunit").upTo(1).none(noRecords),
			chart("Overruns", "Readings that were due while the one before was not over.",
				query{each("max", sel("chatstack_poll_overruns_total")), "{{target}}"}).none(noScrape),
			table("Last HTTP status", "Of every target that speaks HTTP.", []column{{"target", "Target"}, {"A", "Status"}},
				query{each("max", sel("chatstack_probe_http_status_code")), ""}).none("no HTTP answer").size(12, 8),
		}},
		section{"Process", []panel{
			chart("Memory", "Resident memory of the exporter.", query{"process_resident_memory_bytes" + perScrape, "{{instance}}"}).unit("bytes").none(noScrape).size(8, 8),
			chart("CPU", "Part of one processor that the exporter uses.",
				query{fmt.Sprintf("rate(process_cpu_seconds_total%s[$__rate_interval])", perScrape), "{{instance}}"}).unit("percentunit").none(noScrape).size(8, 8),
			chart("Goroutines", "Grows with readings that hang.", query{"go_goroutines" + perScrape, "{{instance}}"}).none(noScrape).size(8, 8),
		}},
	)
}
